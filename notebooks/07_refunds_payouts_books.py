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
# # Where is the money when it goes back, comes late, or waits for its merchant?
#
# You will see money that moves without a payment succeeding, and the books after each step:
#
# - a refund, paid by the treasury to the account that had paid, in full and in parts,
# - coin that comes when its payment is over, and coin that pays a second time: both go back,
# - a payout to a merchant that had no destination,
# - the check that compares the books with the chain, to the unit.

# %% tags=["parameters"]
FEE_PERCENT = 1  # what the operator keeps
COIN_RATE = "2500.00"  # USD for one ether

# %%
import asyncio
import logging

import pandas as pd
from florin.v1.ledger_pb2 import (
    BALANCE_VERDICT_EXACT,
    BalanceVerdict,
    CheckLedgerRequest,
    ListBalancesRequest,
    ListEntriesRequest,
)
from florin.v1.payment_pb2 import PaymentStatus
from florin.v1.payout_pb2 import (
    PAYOUT_STATUS_DONE,
    CreatePayoutRequest,
    ListPayoutsRequest,
    PayoutKind,
)
from florin.v1.refund_pb2 import RefundStatus
from lab import start

# %% [markdown]
# The operator's calls are answered on its own machine only. So this notebook always starts a Florin
# of its own. What that one logs is kept, to be shown where it matters.

# %%
logged = []
handler = logging.Handler(logging.ERROR)
handler.emit = lambda record: logged.append(record.getMessage())
logging.getLogger("florin_server").addHandler(handler)

coin, asset = "eip155:31337/slip44:60", None
settings = {"fee_basis_points": FEE_PERCENT * 100, "rates": {coin: {"USD": COIN_RATE}}}
lab = await start(own=True, embedded={"block_interval_s": 0.2}, **settings)
asset, chain_id = lab.env["FLORIN_EVM_ASSET"], lab.env["FLORIN_EVM_CHAIN"]

# %% [markdown]
# ## What the books mean
#
# | Account | What it holds |
# |-|-|
# | `wallet:…` | what we hold on a chain |
# | `merchant:…` | what a merchant is owed, below zero, or owes, above zero |
# | `external:…` | who pays us, or is paid past us |
# | `income:fee` | fees of payments, below zero |
# | `expense:gas` | fees of our transactions |
#
# A balance is debits less credits, in minor units; all balances of an asset add up to zero. The
# changes of a step are told once nothing is under way any more.


# %%
async def balances():
    found, request = {}, ListBalancesRequest()
    while True:
        page = await lab.operator(request)
        found |= {(one.account, one.asset): int(one.amount) for one in page.balances}
        if not page.next_cursor:
            return found
        request.cursor = page.next_cursor


async def settled():
    for _ in range(600):
        check = await lab.operator(CheckLedgerRequest())
        if {one.verdict for one in check.wallets} == {BALANCE_VERDICT_EXACT}:
            break
        await asyncio.sleep(0.1)
    return check


async def changes(before):
    await settled()
    now = await balances()
    moved = {key: value - before.get(key, 0) for key, value in now.items()}
    rows = [(*key, f"{value:+d}") for key, value in moved.items() if value]
    return now, pd.DataFrame(rows, columns=["account", "asset", "minor units"])


# %% [markdown]
# ## A payment that succeeds
#
# The demo merchant has a destination of its own, so that only the fee comes to the treasury; gas is
# ours.

# %%
ada = lab.wallet()
wanted = ("iso4217/USD", 1250)
paid = await lab.merchant.create_payment(amount=wanted)
await settled()
books = await balances()
await lab.pay(paid.payment_id, ada, asset="erc20:")
books, table = await changes(books)
table

# %% [markdown]
# ## It is refunded
#
# In full, to the account that paid, out of the treasury. The merchant owes all of it from then on;
# the fee stays with the operator.

# %%
held = await lab.balance(ada.evm.address)
asked = await lab.merchant.create_refund(paid.payment_id)
refund = await lab.merchant.wait_refund_final(paid.payment_id, timeout=60)
came_back = await lab.balance(ada.evm.address) - held
print(RefundStatus.Name(refund.status), refund.tx_id)
print("the chain says that", came_back, "minor units came back to the buyer")
books, table = await changes(books)
table

# %% [markdown]
# ## Another one goes back in parts
#
# A part is named in the payment's currency or in what was paid. Each is a refund of its own, with
# its state, its reason and its transaction; `refunded` has their sum and what is left.

# %%
broken = await lab.merchant.create_payment(amount=wanted)
await lab.pay(broken.payment_id, ada, asset="erc20:")
books, _ = await changes(books)
for cents, reason in ((500, "a broken cup"), (75, "too late")):
    part = await lab.merchant.create_refund(
        broken.payment_id, amount=("iso4217/USD", cents), reason=reason
    )
    await lab.merchant.wait_refund_final(broken.payment_id, refund_id=part.refund_id, timeout=60)
in_parts = await lab.merchant.get_payment(broken.payment_id)
pd.DataFrame(
    {
        "reason": one.reason,
        "status": RefundStatus.Name(one.status).removeprefix("REFUND_STATUS_").lower(),
        "cents": int(one.payment_amount.value),
        "minor units": int(one.amount.value),
    }
    for one in in_parts.refunds
)

# %%
books, table = await changes(books)
print("left to refund:", in_parts.refunded.payment_refundable.value, "cents")
table

# %% [markdown]
# ## A buyer who takes too long
#
# Coin is sent by the wallet itself, and nobody can stop a wallet. This one asked what to send in
# time, and sends when the merchant has called the payment off. (After its price has lapsed the
# contract takes no coin: that transaction fails, and costs gas only.)


# %%
async def told_to_send(payment_id, wallet):
    offered = await lab.gateway.get_payment_options(payment_id, accounts=wallet.accounts(chain_id))
    (option,) = [one for one in offered.options if "slip44" in one.amount.unit]
    return await lab.gateway.executable_actions(payment_id, option), option


async def coin_of(wallet):
    return int(await lab.chain("eth_getBalance", wallet.evm.address, "latest"), 16)


bob = lab.wallet()
late = await lab.merchant.create_payment(amount=wanted)
actions, option = await told_to_send(late.payment_id, bob)
await lab.merchant.cancel_payment(late.payment_id)
over = await lab.merchant.wait_final(late.payment_id, timeout=60)
await asyncio.to_thread(bob.execute, actions, option=option)
print(PaymentStatus.Name(over.status), "and then", option.amount.value, "wei were sent")

# %% [markdown]
# ## It goes back by itself
#
# Nothing changes for the payment. The money is booked for the merchant, an error is logged, and a
# payout of its own returns all of it, the fee included.


# %%
async def returned(payment_id):
    for _ in range(600):
        found = (await lab.operator(ListPayoutsRequest(all=True))).payouts
        done = [one for one in found if one.payment_id == payment_id]
        if done and done[0].status == PAYOUT_STATUS_DONE:
            return done[0]
        await asyncio.sleep(0.1)
    raise TimeoutError(payment_id)


back = await returned(late.payment_id)
still = await lab.merchant.get_payment_status(late.payment_id)
print(PayoutKind.Name(back.kind), back.amount, "wei to", back.account.rpartition(":")[2])
print("the payment is still", PaymentStatus.Name(still.status))
print("logged:", *logged, sep="\n  ")

# %% [markdown]
# ## Two who pay one payment
#
# A couple at a table: both wallets were told what to send, and both send. The first pays; the
# second gets back what it sent. What either has lost besides is gas.

# %%
first, second = lab.wallet(), lab.wallet()
double = await lab.merchant.create_payment(amount=wanted)
one, option = await told_to_send(double.payment_id, first)
price = int(option.amount.value)
two, other = await told_to_send(double.payment_id, second)
before = [await coin_of(first), await coin_of(second)]
await asyncio.to_thread(first.execute, one, option=option)
await lab.merchant.wait_final(double.payment_id, timeout=60)
await asyncio.to_thread(second.execute, two, option=other)
twice = await returned(double.payment_id)
lost = [then - await coin_of(one) for then, one in zip(before, (first, second), strict=True)]
for name, wei in zip(("first", "second"), lost, strict=True):
    print(f"{name:7} is short of {wei:>18} wei; the price was {price}")

# %% [markdown]
# ## A merchant without a destination
#
# Its money waits in the treasury, and the books say to whom it belongs. Once the merchant has a
# destination, the operator pays it out (`florin payouts create`).

# %%
made = await lab.admin.create_merchant(
    merchant_name="Tea House", merchant_email="owner@tea-house.example"
)
tea, account = made.merchant.id, lab.wallet()
order = await lab.merchant.create_payment(amount=wanted, merchant_id=tea)
await settled()
books = await balances()
carol = lab.wallet()
offered = await lab.gateway.get_payment_options(order.payment_id, accounts=carol.accounts(chain_id))
(option,) = [one for one in offered.options if asset in one.amount.unit]
outputs = carol.execute(option.actions, option=option)
await lab.gateway.confirm_payment(order.payment_id, option_id=option.id, outputs=outputs)
await lab.gateway.wait_final(order.payment_id, timeout=60)
books, table = await changes(books)
table

# %%
owed = -books[f"merchant:{tea}", asset]
await lab.admin.create_crypto_settlements(tea, destinations={asset: account.account(chain_id)})
payout = await lab.operator(CreatePayoutRequest(merchant_id=tea, asset=asset))
for _ in range(600):
    found = (await lab.operator(ListPayoutsRequest(all=True))).payouts
    (payout,) = [one for one in found if one.payout_id == payout.payout_id]
    if payout.status == PAYOUT_STATUS_DONE:
        break
    await asyncio.sleep(0.1)
received = await lab.balance(account.evm.address)
print("owed", owed, "| the chain says that", received, "came |", payout.tx_id)
books, table = await changes(books)
table

# %% [markdown]
# ## Everything that was booked for one payment
#
# Each line moves an amount from the credit side to the debit side, once, and is never changed.

# %%
entries = (await lab.operator(ListEntriesRequest(payment_id=double.payment_id))).entries
pd.DataFrame(
    {"journal": e.journal.partition(":")[0], "debit": e.debit, "credit": e.credit, "wei": e.amount}
    for e in entries
)

# %% [markdown]
# ## The books and the chain
#
# `florin ledger check` compares what is booked with what each wallet holds, to the unit. *Exact* is
# the only verdict when nothing is under way.

# %%
check = await settled()
wallets = pd.DataFrame(
    {
        "wallet": one.account,
        "asset": one.asset.rpartition("/")[2],
        "booked": one.booked,
        "held": one.held,
        "verdict": BalanceVerdict.Name(one.verdict).removeprefix("BALANCE_VERDICT_").lower(),
    }
    for one in check.wallets
)
wallets

# %% [markdown]
# ## The totals reconcile

# %%
assert list(check.problems) == []
assert set(wallets["verdict"]) == {"exact"}
assert wallets["booked"].tolist() == wallets["held"].tolist()
# each asset adds up to zero
sums = pd.Series(books).groupby(level=1).sum()
assert (sums == 0).all()
assert came_back == int(refund.amount.value)
# parts and what is left are all that was paid
parts = [int(one.amount.value) for one in in_parts.refunds]
assert [int(one.payment_amount.value) for one in in_parts.refunds] == [500, 75]
assert sum(parts) == int(in_parts.refunded.amount.value)
left = int(in_parts.refunded.refundable.value)
assert sum(parts) + left == int(in_parts.info.option_amount.value)
assert int(back.amount) == int(twice.amount) == price
assert still.status == over.status
assert any(late.payment_id in line for line in logged)
# gas apart, which is far less than the price, the first has paid and the second has not
assert price < lost[0] < 2 * price
assert 0 < lost[1] < price
# the merchant got all of the price but the fee
assert received == owed == int(option.amount.value) * (100 - FEE_PERCENT) // 100
assert books.get((f"merchant:{tea}", asset), 0) == 0
await lab.close()
