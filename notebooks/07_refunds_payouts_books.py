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
# # Where is the money of refunds, late payments and merchants without a destination?
#
# You will see money that moves without a successful payment, and the ledger after each step:
#
# - refunds that the treasury pays to the account that paid, in full and in parts,
# - native coin that arrives after the end of its payment, and native coin that pays a second time:
#   both are returned,
# - a payout to a merchant that had no destination,
# - the check that compares the ledger with the chain, to the unit.

# %% tags=["parameters"]
FEE_PERCENT = 1  # fee of the operator
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
# Only this machine can reach the operator's calls. So this notebook always starts its own Florin.
# It keeps the log of that Florin, to show it where it matters.

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
# ## Accounts of the ledger
#
# | Account | Meaning |
# |-|-|
# | `wallet:…` | holdings of the installation on a chain |
# | `merchant:…` | below zero: owed to a merchant; above zero: owed by the merchant |
# | `external:…` | payers, and accounts that are paid outside the installation |
# | `income:fee` | fees of payments, below zero |
# | `expense:gas` | fees of the installation's transactions |
#
# A balance is debits less credits, in minor units; all balances of an asset add up to zero. The
# notebook shows the changes of a step once no work is pending.


# %%
async def balances():
    amounts, request = {}, ListBalancesRequest()
    while True:
        page = await lab.operator(request)
        amounts |= {
            (balance.account, balance.asset): int(balance.amount) for balance in page.balances
        }
        if not page.next_cursor:
            return amounts
        request.cursor = page.next_cursor


async def settled():
    for _ in range(600):
        check = await lab.operator(CheckLedgerRequest())
        if {wallet.verdict for wallet in check.wallets} == {BALANCE_VERDICT_EXACT}:
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
# The demo merchant has its own destination, so only the fee goes to the treasury; the operator pays
# the gas.

# %%
ada = lab.wallet()
amount = ("iso4217/USD", 1250)
paid = await lab.merchant.create_payment(amount=amount)
await settled()
books = await balances()
await lab.pay(paid.payment_id, ada, asset="erc20:")
books, table = await changes(books)
table

# %% [markdown]
# ## A full refund
#
# The treasury pays the full amount to the account that paid. From then on, the merchant owes all of
# it; the operator keeps the fee.

# %%
held = await lab.balance(ada.evm.address)
await lab.merchant.create_refund(paid.payment_id)
refund = await lab.merchant.wait_refund_final(paid.payment_id, timeout=60)
came_back = await lab.balance(ada.evm.address) - held
print(RefundStatus.Name(refund.status), refund.tx_id)
print("on the chain the buyer got", came_back, "minor units back")
books, table = await changes(books)
table

# %% [markdown]
# ## Partial refunds
#
# A part is in the payment's currency or in the paid token. Each partial refund has its own state,
# reason and transaction; `refunded` has their sum and the rest.

# %%
broken = await lab.merchant.create_payment(amount=amount)
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
        "reason": refund.reason,
        "status": RefundStatus.Name(refund.status).removeprefix("REFUND_STATUS_").lower(),
        "cents": int(refund.payment_amount.value),
        "minor units": int(refund.amount.value),
    }
    for refund in in_parts.refunds
)

# %%
books, table = await changes(books)
print("refundable:", in_parts.refunded.payment_refundable.value, "cents")
table

# %% [markdown]
# ## A late buyer
#
# The wallet itself sends native coin, and Florin cannot stop a wallet. This wallet requested the
# option in time, and sends after the merchant has cancelled the payment. (After the quote has
# expired, the contract accepts no native coin: that transaction fails, and only costs gas.)


# %%
async def fetch_coin_actions(payment_id, wallet):
    offered = await lab.gateway.get_payment_options(payment_id, accounts=wallet.accounts(chain_id))
    (option,) = [option for option in offered.options if "slip44" in option.amount.unit]
    return await lab.gateway.executable_actions(payment_id, option), option


async def coin_of(wallet):
    return int(await lab.chain("eth_getBalance", wallet.evm.address, "latest"), 16)


bob = lab.wallet()
late = await lab.merchant.create_payment(amount=amount)
actions, option = await fetch_coin_actions(late.payment_id, bob)
await lab.merchant.cancel_payment(late.payment_id)
over = await lab.merchant.wait_final(late.payment_id, timeout=60)
await asyncio.to_thread(bob.execute, actions, option=option)
print(PaymentStatus.Name(over.status), "and then", option.amount.value, "wei were sent")

# %% [markdown]
# ## Florin returns the money
#
# The payment does not change. Florin books the money for the merchant, logs an error, and returns
# all of it, fee included, with a separate payout.


# %%
async def returned(payment_id):
    for _ in range(600):
        payouts = (await lab.operator(ListPayoutsRequest(all=True))).payouts
        done = [payout for payout in payouts if payout.payment_id == payment_id]
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
# ## Two buyers pay one payment
#
# Two buyers share a table: both wallets got the option, and both send. The first transaction pays;
# the second buyer gets the money back. Apart from that, each only loses gas.

# %%
first, second = lab.wallet(), lab.wallet()
double = await lab.merchant.create_payment(amount=amount)
first_actions, option = await fetch_coin_actions(double.payment_id, first)
price = int(option.amount.value)
second_actions, second_option = await fetch_coin_actions(double.payment_id, second)
before = [await coin_of(first), await coin_of(second)]
await asyncio.to_thread(first.execute, first_actions, option=option)
await lab.merchant.wait_final(double.payment_id, timeout=60)
await asyncio.to_thread(second.execute, second_actions, option=second_option)
twice = await returned(double.payment_id)
lost = [then - await coin_of(buyer) for then, buyer in zip(before, (first, second), strict=True)]
for name, wei in zip(("first", "second"), lost, strict=True):
    print(f"{name:7} paid {wei:>18} wei in total; the price was {price}")

# %% [markdown]
# ## A merchant without a destination
#
# Its money stays in the treasury, and the ledger records its owner. Once the merchant has a
# destination, the operator pays it out (`florin payouts create`).

# %%
response = await lab.admin.create_merchant(
    merchant_name="Tea House", merchant_email="owner@tea-house.example"
)
tea, account = response.merchant.id, lab.wallet()
order = await lab.merchant.create_payment(amount=amount, merchant_id=tea)
await settled()
books = await balances()
carol = lab.wallet()
offered = await lab.gateway.get_payment_options(order.payment_id, accounts=carol.accounts(chain_id))
(option,) = [option for option in offered.options if asset in option.amount.unit]
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
    payouts = (await lab.operator(ListPayoutsRequest(all=True))).payouts
    (payout,) = [row for row in payouts if row.payout_id == payout.payout_id]
    if payout.status == PAYOUT_STATUS_DONE:
        break
    await asyncio.sleep(0.1)
received = await lab.balance(account.evm.address)
print("owed", owed, "| arrived on the chain:", received, "|", payout.tx_id)
books, table = await changes(books)
table

# %% [markdown]
# ## All ledger entries of one payment
#
# Each line moves an amount from the credit side to the debit side, once, and never changes.

# %%
entries = (await lab.operator(ListEntriesRequest(payment_id=double.payment_id))).entries
pd.DataFrame(
    {"journal": e.journal.partition(":")[0], "debit": e.debit, "credit": e.credit, "wei": e.amount}
    for e in entries
)

# %% [markdown]
# ## The ledger and the chain
#
# `florin ledger check` compares the ledger with the balance of each wallet, to the unit. Without
# pending work, *exact* is the only verdict.

# %%
check = await settled()
wallets = pd.DataFrame(
    {
        "wallet": wallet.account,
        "asset": wallet.asset.rpartition("/")[2],
        "booked": wallet.booked,
        "held": wallet.held,
        "verdict": BalanceVerdict.Name(wallet.verdict).removeprefix("BALANCE_VERDICT_").lower(),
    }
    for wallet in check.wallets
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
# the parts and the rest equal the paid amount
parts = [int(refund.amount.value) for refund in in_parts.refunds]
assert [int(refund.payment_amount.value) for refund in in_parts.refunds] == [500, 75]
assert sum(parts) == int(in_parts.refunded.amount.value)
left = int(in_parts.refunded.refundable.value)
assert sum(parts) + left == int(in_parts.info.option_amount.value)
assert int(back.amount) == int(twice.amount) == price
assert still.status == over.status
assert any(late.payment_id in line for line in logged)
# apart from gas, which is far below the price, the first buyer has paid and the second has not
assert price < lost[0] < 2 * price
assert 0 < lost[1] < price
# the merchant got the price less the fee
assert received == owed == int(option.amount.value) * (100 - FEE_PERCENT) // 100
assert books.get((f"merchant:{tea}", asset), 0) == 0
await lab.close()
