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
# # What does a wallet sign, and what does it send?
#
# You will see the actions for a wallet on an EVM chain, and their effects on the chain:
#
# - for a token with signed transfers, and for one without: an approval and Permit2,
# - for the chain's native coin,
# - for an account with code, whether its code can sign or not.

# %% tags=["parameters"]
PRICE = 1250  # minor units of a currency: 12.50
COIN = 4 * 10**15  # wei: 0.004

# %%
import asyncio
import json

from florin.v1.payment_pb2 import PAYMENT_STATUS_SUCCEEDED
from florin_client.wallet import JsonRpc, steps_of
from lab import start, units

lab = await start()
chain_id = lab.env["FLORIN_EVM_CHAIN"]
nodes = JsonRpc({chain_id: lab.env["FLORIN_EVM_RPC_URL"]})

# %% [markdown]
# ## The ways to pay
#
# | Asset | Account | Actions | Sends the payment and pays for gas |
# |-|-|-|-|
# | token with EIP-3009 | a key | one signature | Florin |
# | any other token | a key | an approval for Permit2 unless it exists, and a signature | Florin |
# | native coin | any | one transaction | the wallet |
# | any token | has code that cannot sign | an approval and one transaction | the wallet |
# | any token | has code that can sign (ERC-1271) | as for a key | Florin |
#
# A wallet need not know these cases: it executes the actions of an option in their order.


# %%
async def offer(unit, value, wallet, kind="erc20"):
    created = await lab.merchant.create_payment(amount=(unit, value), reference_id="notebook-03")
    accounts = wallet.accounts(chain_id)
    offered = await lab.gateway.get_payment_options(created.payment_id, accounts=accounts)
    option = next(option for option in offered.options if kind in option.amount.unit)
    actions = await lab.gateway.executable_actions(created.payment_id, option)
    return created.payment_id, option, actions


# %%
ways = {}


async def pay(way, wallet, payment_id, option, actions):
    outputs = await asyncio.to_thread(wallet.execute, actions, option=option)
    await lab.gateway.confirm_payment(payment_id, option_id=option.id, outputs=outputs)
    final = await lab.gateway.wait_final(payment_id, timeout=60)
    settled = await lab.chain("eth_getTransactionByHash", final.info.tx_id)
    methods = [step.method for step in steps_of(actions)]
    ways[way] = final, methods, outputs, settled["from"] == wallet.evm.address.lower()
    print("sent by", "the wallet" if ways[way][-1] else "Florin", final.info.tx_id)


# %% [markdown]
# An action in short: the message of typed data, or the receiver of a transaction, its native coin,
# and the first bytes of its data, which select the called function.


# %%
def show(option, actions):
    display = option.amount.display
    print(units(option.amount.value, display.decimals), display.asset_symbol)
    for step in steps_of(actions):
        print("\n" + step.method)
        if step.method == "eth_sendTransaction":
            (call,) = step.params
            value = int(call.get("value", "0x0"), 16)
            print("to", call["to"], "with", value, "wei, calls", call["data"][:10])
        else:
            typed_data = json.loads(step.params[1])
            print(typed_data["primaryType"], json.dumps(typed_data["message"], indent=1))


# %% [markdown]
# ## A token with signed transfers
#
# One signature (EIP-3009). It contains payer, receiver (the settlement contract), amount and
# deadline; the nonce is a hash of the payment with its merchant and fee. The buyer needs no native
# coin.

# %%
wallet = lab.wallet()
dollars = await offer("iso4217/USD", PRICE, wallet)
show(*dollars[1:])

# %%
await pay("EIP-3009", wallet, *dollars)

# %% [markdown]
# ## A token without signed transfers: approve, then sign
#
# The first action is a transaction to the token, `approve` (`0x095ea7b3`) of exactly the price for
# Permit2. The second is a signature for Permit2; its nonce is also a hash of the payment. The
# wallet needs some native coin for the approval; Florin sends the payment itself.

# %%
euros = await offer("iso4217/EUR", PRICE, wallet)
show(*euros[1:])

# %%
await pay("Permit2 with approval", wallet, *euros)

# %% [markdown]
# ## An allowance that already exists
#
# The payment used up the approval above completely. Here the wallet sends an approval for an
# expensive payment, and then requests options for a cheap one: the allowance is sufficient, and
# only a signature is left.


# %%
async def mined(tx_hash):
    while True:
        receipt = await lab.chain("eth_getTransactionReceipt", tx_hash)
        if receipt:
            return receipt
        await asyncio.sleep(0.1)


# %%
_, _, dear = await offer("iso4217/EUR", 10 * PRICE, wallet)
(call,) = steps_of(dear[:1])[0].params
fields = {"to": bytes.fromhex(call["to"][2:]), "data": call["data"]}
approved = await asyncio.to_thread(nodes.run, wallet.evm.transact(chain_id, **fields))
await mined(approved)
cheap = await offer("iso4217/EUR", PRICE, wallet)
show(*cheap[1:])

# %%
await pay("Permit2 approved before", wallet, *cheap)

# %% [markdown]
# ## The chain's native coin
#
# A signature cannot transfer native coin: the wallet sends it to the settlement contract, which
# forwards it in the same transaction. The amount here is in native coin. A price in a currency
# works in the same way, at a rate that is valid for five minutes, if the settings have one.

# %%
coin = await offer(f"caip19/{chain_id}/slip44:60", COIN, wallet, "slip44")
show(*coin[1:])

# %%
await pay("coin", wallet, *coin)

# %% [markdown]
# ## An account with code
#
# A key can adopt the code of a contract (EIP-7702). From then on tokens ask the code whether a
# signature is valid. This wallet adopts an address without code: no signature is valid.


# %%
async def take_code(wallet, contract):
    # the sender of the transaction has used one nonce by then
    count = await lab.chain("eth_getTransactionCount", wallet.evm.address, "latest")
    word = wallet.evm.authorization(chain_id, contract, int(count, 16) + 1)
    fields = {"gas": 200_000, "to": b"\x11" * 20, "authorizationList": [word]}
    await mined(await asyncio.to_thread(nodes.run, wallet.evm.transact(chain_id, **fields)))
    print("code", await lab.chain("eth_getCode", wallet.evm.address, "latest"))


# %%
mute = lab.wallet()
await offer("iso4217/USD", PRICE, mute)  # accounts that request options get native coin for gas
await take_code(mute, "0x" + "de" * 20)

# %% [markdown]
# The token is the same as at the beginning, but the actions have no signature: an approval for the
# settlement contract, and a call of it that the account sends itself. The account pays for gas.

# %%
alone = await offer("iso4217/USD", PRICE, mute)
show(*alone[1:])

# %%
await pay("code that cannot sign", mute, *alone)

# %% [markdown]
# ## Code that can sign
#
# This contract answers according to ERC-1271: yes, if the account's own key signed. It does nothing
# else. A wallet that adopts it needs only one signature again.

# %%
recover = "6004355f5260a43560f81c6020526064356040526084356060526020608060805f60015afa50"
answer = "6080513014631626ba7e60e01b025f5260205ff3"
runtime = bytes.fromhex(recover + answer)
creation = b"\x61" + len(runtime).to_bytes(2, "big") + bytes.fromhex("80600a3d393df3") + runtime
sent = await asyncio.to_thread(nodes.run, wallet.evm.transact(chain_id, data=creation))
keeper = (await mined(sent))["contractAddress"]
await take_code(wallet, keeper)

# %%
signing = await offer("iso4217/USD", PRICE, wallet)
show(*signing[1:])

# %%
await pay("code that signs", wallet, *signing)

# %% [markdown]
# ## All ways side by side
#
# One line for each payment above: the calls that the wallet executed, and the sender of the
# payment.

# %%
for way, (_, methods, _, by_wallet) in ways.items():
    print(f"{way:24}{' + '.join(methods):46}{'wallet' if by_wallet else 'Florin'}")

# %% [markdown]
# ## The totals reconcile

# %%
sign, send = "eth_signTypedData_v4", "eth_sendTransaction"
calls_by_way = {way: (methods, by_wallet) for way, (_, methods, _, by_wallet) in ways.items()}
assert calls_by_way["EIP-3009"] == calls_by_way["code that signs"] == ([sign], False)
assert calls_by_way["Permit2 with approval"] == ([send, sign], False)
assert calls_by_way["Permit2 approved before"] == ([sign], False)
assert calls_by_way["coin"] == ([send], True)
assert calls_by_way["code that cannot sign"] == ([send, send], True)
for final, _, outputs, by_wallet in ways.values():
    assert final.status == PAYMENT_STATUS_SUCCEEDED
    assert (await mined(final.info.tx_id))["status"] == "0x1"
    assert (outputs[-1] == final.info.tx_id) == by_wallet
assert int(ways["coin"][0].info.option_amount.value) == COIN
await lab.close()
