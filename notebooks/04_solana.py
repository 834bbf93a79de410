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
# # Who sends a payment on Solana, and who pays for it?
#
# The wallet signs, and Florin does the rest. You will see:
#
# - the content of a fetched transaction, instruction by instruction, before any signature,
# - the wallet's output: the same transaction in base64, signed by the buyer and not sent,
# - that the chain did not know it before the confirm, and what it contains afterwards.

# %% tags=["parameters"]
PRICE = "1250"  # minor units: 12.50 USD

# %%
import base64
import json

from florin.v1.payment_pb2 import PAYMENT_STATUS_SUCCEEDED
from florin_client import InvalidRequestError
from florin_client.wallet import steps_of
from lab import start, units
from solders.signature import Signature
from solders.transaction import VersionedTransaction

lab = await start()
chain_id = lab.env["FLORIN_SOLANA_CHAIN"]

# %% [markdown]
# ## Data read from the chain
#
# | | |
# |-|-|
# | tokens | balance of an owner's token accounts of a mint, in minor units; 0 without any |
# | native coin | lamports of the owner's own account; a fee or rent would show here |


# %%
async def tokens(owner, mint):
    where = [owner, {"mint": mint}, {"encoding": "jsonParsed"}]
    response = await lab.chain("getTokenAccountsByOwner", *where, solana=True)
    held = [
        token_account["account"]["data"]["parsed"]["info"]["tokenAmount"]
        for token_account in response["value"]
    ]
    return sum(int(balance["amount"]) for balance in held)


async def lamports(owner):
    return (await lab.chain("getBalance", owner, solana=True))["value"]


# %% [markdown]
# ## A payment, and an option on Solana
#
# The action is a `build`: a transaction contains a recent blockhash and expires after a minute or
# so. So Florin makes it once the buyer has chosen.

# %%
wallet = lab.wallet()
buyer = wallet.solana.address
created = await lab.merchant.create_payment(
    amount=("iso4217/USD", PRICE), reference_id="notebook-04"
)
payment_id = created.payment_id
accounts = wallet.accounts(chain_id)
offered = await lab.gateway.get_payment_options(payment_id, accounts=accounts)
for option in offered.options:
    display = option.amount.display
    print(units(option.amount.value, display.decimals), display.asset_name, option.actions[0])

# %%
asset = lab.env["FLORIN_SOLANA_ASSET"]
option = next(option for option in offered.options if option.amount.unit == f"caip19/{asset}")
mint, price = asset.rpartition(":")[2], int(option.amount.value)
merchant = lab.env["FLORIN_SOLANA_DESTINATION"].rpartition(":")[2]
before = {who: await tokens(who, mint) for who in (buyer, merchant)}
coin = await lamports(buyer)

# %% [markdown]
# ## The fetched transaction
#
# It comes in base64, inside the parameters of `solana_signTransaction`. It needs two signatures:
# the first signer pays the network fee.

# %%
fetched = await lab.gateway.fetch_action(
    payment_id, option_id=option.id, data=option.actions[0].build.data
)
(step,) = steps_of(fetched.actions)
issued = VersionedTransaction.from_bytes(base64.b64decode(step.params[0]["transaction"]))
signers = issued.message.account_keys[: issued.message.header.num_required_signatures]
names = {buyer: "the buyer", str(signers[0]): "Florin's relayer"}
print(step.method)
for key, signature in zip(signers, issued.signatures, strict=True):
    print(names[str(key)], key, "signed" if signature != Signature.default() else "has not signed")

# %% [markdown]
# Its instructions, each with its program and the number of bytes of its data. The transfer is the
# instruction of the token program; the memo links the transaction to the payment.

# %%
programs = {
    "ComputeBudget111111111111111111111111111111": "compute budget",
    "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL": "open a token account",
    "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA": "token: transfer",
    "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr": "memo",
}
keys = issued.message.account_keys
for instruction in issued.message.instructions:
    program = str(keys[instruction.program_id_index])
    print(f"{programs.get(program, program):22}{len(instruction.data):4} bytes")

# %% [markdown]
# ## The wallet signs, and does not send
#
# Its output is the output of the action: the whole transaction in base64. It has the buyer's
# signature, and lacks the relayer's: it cannot be sent yet.

# %%
(output,) = wallet.execute(fetched.actions, option=option)
signed = VersionedTransaction.from_bytes(base64.b64decode(output))
for key, signature in zip(signers, signed.signatures, strict=True):
    print(names[str(key)], "signed" if signature != Signature.default() else "has not signed")

print(output)

# %%
untouched = {who: await tokens(who, mint) for who in (buyer, merchant)}
print("moved on the chain:", before[buyer] - untouched[buyer], "minor units")

# %% [markdown]
# ## Without the buyer's signature
#
# Florin co-signs only what it issued and the buyer signed, with a wallet's own guards at most. Here
# the transaction comes back as fetched, and Florin refuses it. The payment stays payable.

# %%
unsigned = base64.b64encode(bytes(issued)).decode()
try:
    await lab.gateway.confirm_payment(payment_id, option_id=option.id, outputs=[unsigned])
except InvalidRequestError as error:
    refused = error
    print(error.code, json.dumps(dict(error.details)))

# %% [markdown]
# ## The confirm
#
# Florin adds the relayer's signature, pays the fee, sends the transaction and waits until it is
# final.

# %%
await lab.gateway.confirm_payment(payment_id, option_id=option.id, outputs=[output])
final = await lab.merchant.wait_final(payment_id, timeout=60)
print(final)

# %% [markdown]
# ## Balances on the chain
#
# The transaction with its fee, and the balances before and after, read from the chain.

# %%
how = {"encoding": "base64", "maxSupportedTransactionVersion": 0}
landed = await lab.chain("getTransaction", final.info.tx_id, how, solana=True)
after = {who: await tokens(who, mint) for who in (buyer, merchant)}
for who, name in ((buyer, "buyer"), (merchant, "merchant")):
    print(f"{name:9}", *(units(at[who], display.decimals) for at in (before, after)), sep="  ")

print("fee:", landed["meta"]["fee"], "lamports, paid by", names[str(signers[0])])
print("the buyer's native coin changed by", await lamports(buyer) - coin, "lamports")

# %% [markdown]
# ## The totals reconcile

# %%
assert final.status == PAYMENT_STATUS_SUCCEEDED
assert untouched == before
assert before[buyer] - after[buyer] == after[merchant] - before[merchant] == price
assert landed["meta"]["err"] is None
assert landed["meta"]["fee"] > 0
assert await lamports(buyer) == coin
# the transaction on chain is the one that the buyer signed, with the relayer's signature added
raw = base64.b64decode(landed["transaction"][0])
sent = VersionedTransaction.from_bytes(raw)
assert sent.message == signed.message == issued.message
assert sent.signatures[1] == signed.signatures[1]
assert refused.details["reason"] == "signature_mismatch"
await lab.close()
