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
# # What happens when a buyer pays?
#
# You will see one payment, over gRPC, from both sides:
#
# - a merchant requests a payment and follows its stream,
# - a wallet with a brand-new key finds an option, signs, confirms,
# - the stream reports its status until the chain has proven the payment,
# - the chain shows the balances before and after.

# %% tags=["parameters"]
PRICE = "1250"  # minor units: 12.50 USD

# %%
import asyncio
import json

from florin.v1.payment_pb2 import PaymentStatus
from florin_client.wallet import Wallet
from lab import start, units

lab = await start()

# %% [markdown]
# ## The merchant requests a payment
#
# `unit` is the unit of the requested amount, `value` is in minor units. The response contains the
# payment's id and the link for the buyer.

# %%
created = await lab.merchant.create_payment(
    amount=("iso4217/USD", PRICE), reference_id="notebook-00"
)
created

# %% [markdown]
# ## The merchant watches
#
# The stream starts with the current status, sends the newest status after each change, and ends
# after the final status. The version increases by one with every change: a gap is a status that
# changed before it could be sent. The stream runs beside the cells that follow.

# %%
seen = []


async def follow():
    async for update in lab.merchant.watch_payment(created.payment_id):
        status = PaymentStatus.Name(update.payment.status)
        seen.append(status.removeprefix("PAYMENT_STATUS_").lower())
        print(update.version, seen[-1])


following = asyncio.create_task(follow())

# %% [markdown]
# ## The wallet looks for a way to pay
#
# The key is new and its account is empty; the test chain funds every account that requests options.

# %%
chain_id = lab.env["FLORIN_EVM_CHAIN"]
wallet = Wallet.create(rpc_urls={chain_id: lab.env["FLORIN_EVM_RPC_URL"]})
offered = await lab.gateway.get_payment_options(
    created.payment_id, accounts=wallet.accounts(chain_id)
)
option = offered.options[0]
display = option.amount.display
print(
    units(option.amount.value, display.decimals), display.asset_symbol, "on", display.network_name
)

# %% [markdown]
# ## The wallet only signs
#
# The action is a call that any wallet can execute: typed data with the token, the amount, the
# deadline, and (hashed into the nonce) the receiver. The buyer needs no native coin for gas.

# %%
call = option.actions[0].wallet_rpc
signer, typed_data = json.loads(call.params_json)
(signature,) = wallet.execute(option.actions, option=option)
call.method, json.loads(typed_data)["message"], signature[:20] + "…"

# %%
merchant_address = lab.env["FLORIN_MERCHANT_DESTINATION"].rpartition(":")[2]
buyer_address = wallet.evm.address
before = await lab.balance(buyer_address), await lab.balance(merchant_address)

await lab.gateway.confirm_payment(created.payment_id, option_id=option.id, outputs=[signature])
await asyncio.wait_for(following, 30)

# %% [markdown]
# ## Balances on the chain
#
# Both balances are read from the chain, not from Florin.

# %%
after = await lab.balance(buyer_address), await lab.balance(merchant_address)
for who, then, now in zip(("buyer", "merchant"), before, after, strict=True):
    print(f"{who:9}", units(then, display.decimals), "→", units(now, display.decimals))

final = await lab.merchant.get_payment_status(created.payment_id)
print("transaction", final.info.tx_id)

# %% [markdown]
# ## The totals reconcile

# %%
expected_states = iter(["requires_action", "processing", "succeeded"])
assert all(state in expected_states for state in seen), "in this order, each at most once"
assert seen[-1] == "succeeded"
assert before[0] - after[0] == after[1] - before[1] == int(option.amount.value)
receipt = await lab.chain("eth_getTransactionReceipt", final.info.tx_id)
assert receipt["status"] == "0x1"
await lab.close()
