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
# # How is money sent to addresses, and what is wrong with it?
#
# You will see, from the answers that a merchant's client gets:
#
# - the share of payments by way: with a wallet, at an address, or not at all,
# - how far the money at an address is from its price: too little, exact, too much,
# - the time from a deposit's sight to its end: paid, and final,
# - what was returned, and what is still at addresses.

# %% tags=["parameters"]
BUYERS = {  # what each buyer does, and how many there are
    "wallet": 4,  # pays as wallets do
    "exact": 5,  # sends the price
    "parts": 3,  # sends it in two transfers
    "over": 3,  # sends a tenth more
    "under": 3,  # sends nine tenths
    "nothing": 2,  # requests an address, and leaves
}
PRICE = 1250  # minor units: 12.50 USD
PAYMENTS_MAX = 500  # newest payments of the merchant that are read

# %%
import asyncio

import pandas as pd
from charts import axes, draw_ecdf, draw_shares, use_style
from florin.v1.payment_pb2 import PAYMENT_STATUS_SUCCEEDED
from florin_client.wallet import JsonRpc
from lab import start, units

use_style()
lab = await start()
chain_id, asset = lab.env["FLORIN_EVM_CHAIN"], lab.env["FLORIN_EVM_ASSET"]
token = asset.rpartition(":")[2]
nodes = JsonRpc({chain_id: lab.env["FLORIN_EVM_RPC_URL"]})

# %% [markdown]
# ## Buyers
#
# Each buyer has a wallet of its own. A transfer of a token is one call, and its sender knows
# nothing of Florin: `transfer(address,uint256)`.

# %%
SENDS = {"exact": (10,), "parts": (4, 6), "over": (11,), "under": (9,), "nothing": ()}


async def send(wallet, receiver, value):
    data = f"0xa9059cbb{receiver[2:].lower().rjust(64, '0')}{value:064x}"
    call = wallet.evm.transact(chain_id, to=bytes.fromhex(token[2:]), data=data)
    await asyncio.to_thread(nodes.run, call)


async def buy(behavior):
    """Create a payment whose buyer behaves so; return its id."""
    created = await lab.merchant.create_payment(
        amount=("iso4217/USD", PRICE), reference_id=f"notebook-21-{behavior}"
    )
    payment_id, wallet = created.payment_id, lab.wallet()
    if behavior == "wallet":
        await lab.pay(payment_id, wallet, asset=asset)
        return payment_id
    # a test chain funds every account that requests options
    await lab.gateway.get_payment_options(payment_id, accounts=[wallet.account(chain_id)])
    opened = await lab.gateway.open_addresses(payment_id, assets=[asset])
    (address,) = opened.addresses
    price = int(address.route.value)
    for tenths in SENDS[behavior]:
        await send(wallet, address.address, price * tenths // 10)
    return payment_id


behaviors = [behavior for behavior, count in BUYERS.items() for _ in range(count)]
bought = dict(zip([await buy(behavior) for behavior in behaviors], behaviors, strict=True))
print(f"{len(bought)} payments")


# %%
async def is_settled(payment_id, behavior):
    """Return whether nothing more will happen to a payment for now."""
    payment = await lab.merchant.get_payment(payment_id)
    expected = len(SENDS.get(behavior, ()))
    is_final = len(payment.deposits) == expected and all(
        deposit.is_final for deposit in payment.deposits
    )
    is_paid = payment.status == PAYMENT_STATUS_SUCCEEDED
    return is_final and (is_paid or behavior in {"under", "nothing"})


async def wait_settled(payment_id, behavior):
    while True:
        if await is_settled(payment_id, behavior):
            return
        await asyncio.sleep(0.2)


await asyncio.gather(*(wait_settled(*each) for each in bought.items()))

# %% [markdown]
# ## Read them with the client
#
# From here on, all data is what any merchant gets: lists, details and events of its payments.
#
# | Figure | Meaning |
# | - | - |
# | Way | `address` if money came to an address, `wallet` if paid without one, otherwise `unpaid` |
# | Ratio | money that arrived at an address, divided by its price |
# | Seen | the first event `deposit_seen` of the payment |
# | Accepted, succeeded | the first event with that status |

# %%
rows, deposit_rows = [], []
async for listed in lab.merchant.list_merchant_payments():
    payment = await lab.merchant.get_payment(listed.payment_id)
    history = (await lab.merchant.list_payment_events(payment.payment_id)).events
    times = {}
    for event in history:
        for name in (event.cause, f"status {event.status}"):
            times.setdefault(name, event.at.ToMicroseconds() / 1e6)
    received = sum(int(address.received) for address in payment.addresses)
    price = next((int(address.route.value) for address in payment.addresses), None)
    is_paid = payment.status == PAYMENT_STATUS_SUCCEEDED
    rows.append(
        {
            "payment_id": payment.payment_id,
            "way": "address" if payment.deposits else "wallet" if is_paid else "unpaid",
            "is_paid": is_paid,
            "ratio": received / price if price else None,
            "seen": times.get("deposit_seen"),
            "accepted": times.get("seen_on_chain"),
            "succeeded": times.get(f"status {PAYMENT_STATUS_SUCCEEDED}"),
            "over": sum(int(address.over) for address in payment.addresses),
        }
    )
    deposit_rows += [
        {
            "payment_id": payment.payment_id,
            "value": int(deposit.amount),
            "is_known": bool(deposit.sender),
            "is_final": deposit.is_final,
            "is_returned": deposit.HasField("returned_by"),
        }
        for deposit in payment.deposits
    ]
    if len(rows) >= PAYMENTS_MAX:
        break
payments = pd.DataFrame(rows)
deposits = pd.DataFrame(deposit_rows)
print(f"{len(payments):,} payments, {len(deposits):,} deposits")
payments.way.value_counts()

# %% [markdown]
# ## Ways to pay
#
# Look at how many payments money was sent to, whether it was enough or not. Error bars are 95 %.

# %%
source = "payments of this merchant"
ways = payments.way.value_counts()
chart = axes("Payments by way", "Share of payments", "", source)
draw_shares(chart, {way: (int(count), len(payments)) for way, count in ways.items()})

# %% [markdown]
# ## Too little, too much
#
# A transfer cannot be refused. Money below the price waits for its rest, and goes back at the end.
# Money above the price goes back too.

# %%
sent_to = payments[payments.way == "address"]
kinds = {
    "too little": int((sent_to.ratio < 1).sum()),
    "exact": int((sent_to.ratio == 1).sum()),
    "too much": int((sent_to.ratio > 1).sum()),
}
chart = axes("Money at addresses, compared with the price", "Share of paid addresses", "", source)
draw_shares(chart, {kind: (count, len(sent_to)) for kind, count in kinds.items()})

# %%
parts = deposits.groupby("payment_id").value.count()
print(f"{(parts > 1).sum()} of {len(parts)} payments were sent in several transfers")
print("too much, in all:", units(int(payments.over.sum()), 6))

# %% [markdown]
# ## From sight to success
#
# Florin sees a deposit in its block, accepts the payment once it is enough, and forwards it. The
# payment succeeds when the forwarding transaction is final. The first part ends with the buyer's
# last transfer; the second depends on the chain alone.

# %%
paid = sent_to[sent_to.is_paid]
to_accepted = (paid.accepted - paid.seen).dropna()
to_success = (paid.succeeded - paid.accepted).dropna()
chart = axes("Waiting after the first deposit", "Seconds", "Share of payments", source)
draw_ecdf(
    chart,
    {
        "from the first deposit to enough": to_accepted.tolist(),
        "from enough to final": to_success.tolist(),
    },
)

# %% [markdown]
# ## What goes back
#
# An hour after the end of a payment, Florin sends home what is left at its address, and returns it
# to its sender, if it is worth the transaction. Money of unknown senders is held until the operator
# decides. Right after the purchases of this notebook nothing has gone back yet: run it against your
# own Florin (`FLORIN_TARGET`) to see more.

# %%
leftover = payments.set_index("payment_id").over
unpaid = deposits[~deposits.payment_id.map(payments.set_index("payment_id").is_paid)]
summary = pd.Series(
    {
        "deposits": len(deposits),
        "returned": int(deposits.is_returned.sum()),
        "of unknown senders": int((~deposits.is_known).sum()),
        "at addresses of unpaid payments": int((~unpaid.is_returned).sum()),
        "payments with too much": int((leftover > 0).sum()),
    }
)
summary

# %% [markdown]
# ## Proof

# %%
ours = payments[payments.payment_id.isin(bought)].set_index("payment_id")
ours["behavior"] = pd.Series(bought)
assert len(ours) == len(bought)
assert (ours[ours.behavior == "wallet"].way == "wallet").all()
assert (ours[ours.behavior == "nothing"].way == "unpaid").all()
for behavior in ("exact", "parts", "over"):
    assert ours[ours.behavior == behavior].is_paid.all(), behavior
assert not ours[ours.behavior == "under"].is_paid.any()
assert (ours[ours.behavior.isin(["exact", "parts"])].ratio == 1).all()
assert (ours[ours.behavior == "over"].ratio == 1.1).all()
assert (ours[ours.behavior == "under"].ratio == 0.9).all()
assert (to_accepted >= 0).all()
assert (to_success >= 0).all()
assert deposits[deposits.payment_id.isin(bought)].is_final.all()
await lab.close()
