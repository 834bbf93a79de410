# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # What happens when somebody pays?
#
# You will see one payment, over gRPC, from both sides:
#
# - a merchant asks for money and follows the payment's stream,
# - a wallet with a brand-new key finds an option, signs, confirms,
# - the stream tells every state until the chain has proven the payment,
# - the chain itself says who has how much, before and after.

# %% tags=["parameters"]
PRICE = "1250"  # minor units: 12.50 USD

# %%
import asyncio
import json

from eth_account import Account
from eth_account.messages import encode_typed_data
from florin.v1 import gateway_pb2, merchant_pb2, payment_pb2
from lab import start, units

lab = await start()

# %% [markdown]
# ## The merchant asks
#
# `unit` says what is asked for, `value` is in minor units. The answer holds the payment's id and
# the link that a buyer would open.

# %%
created = await lab.merchant.CreatePayment(
    merchant_pb2.CreatePaymentRequest(
        amount={"unit": "iso4217/USD", "value": PRICE}, reference_id="notebook-00"
    ),
    metadata=lab.merchant_credentials,
)
created

# %% [markdown]
# ## Somebody watches
#
# The stream begins with the state now, tells every change once, with a version that rises by one,
# and ends after the final state. It runs beside everything that follows.

# %%
seen = []


async def follow():
    request = payment_pb2.WatchPaymentRequest(payment_id=created.payment_id)
    async for update in lab.merchant.WatchPayment(request, metadata=lab.merchant_credentials):
        status = payment_pb2.PaymentStatus.Name(update.payment.status)
        seen.append(status.removeprefix("PAYMENT_STATUS_").lower())
        print(update.version, seen[-1])


following = asyncio.create_task(follow())

# %% [markdown]
# ## The wallet looks for a way to pay
#
# The key is made here and has never held anything; the test chain funds every account that asks.

# %%
wallet = Account.create()
account = f"{lab.env['FLORIN_EVM_CHAIN']}:{wallet.address}"
offered = await lab.gateway.GetPaymentOptions(
    gateway_pb2.GetPaymentOptionsRequest(payment_id=created.payment_id, accounts=[account]),
    metadata=lab.wallet_credentials,
)
option = offered.options[0]
display = option.amount.display
print(
    units(option.amount.value, display.decimals), display.asset_symbol, "on", display.network_name
)

# %% [markdown]
# ## It signs, and nothing else
#
# The action is a call that any wallet can execute: typed data that names the token, the amount, the
# deadline, and (hashed into the nonce) who gets the money. The buyer needs no coin for gas.

# %%
call = option.actions[0].wallet_rpc
signer, typed_data = json.loads(call.params_json)
signable = encode_typed_data(full_message=json.loads(typed_data))
signature = "0x" + bytes(wallet.sign_message(signable).signature).hex()
call.method, signature[:20] + "…"

# %%
merchant_address = lab.env["FLORIN_MERCHANT_DESTINATION"].rpartition(":")[2]
before = await lab.balance(wallet.address), await lab.balance(merchant_address)

confirmed = await lab.gateway.ConfirmPayment(
    gateway_pb2.ConfirmPaymentRequest(
        payment_id=created.payment_id,
        option_id=option.id,
        results=[
            gateway_pb2.ActionResult(
                type=gateway_pb2.ACTION_RESULT_TYPE_WALLET_RPC,
                output_json=[json.dumps(signature)],
            )
        ],
    ),
    metadata=lab.wallet_credentials,
)
await asyncio.wait_for(following, 30)

# %% [markdown]
# ## What the chain says
#
# Both balances are read from the chain, not from Florin.

# %%
after = await lab.balance(wallet.address), await lab.balance(merchant_address)
for who, then, now in zip(("buyer", "merchant"), before, after, strict=True):
    print(f"{who:9}", units(then, display.decimals), "→", units(now, display.decimals))

final = await lab.merchant.GetPaymentStatus(
    payment_pb2.GetPaymentStatusRequest(payment_id=created.payment_id),
    metadata=lab.merchant_credentials,
)
print("transaction", final.info.tx_id)

# %% [markdown]
# ## The totals reconcile

# %%
assert seen == ["requires_action", "processing", "succeeded"]
assert before[0] - after[0] == after[1] - before[1] == int(option.amount.value)
receipt = await lab.chain("eth_getTransactionReceipt", final.info.tx_id)
assert receipt["status"] == "0x1"
await lab.close()
