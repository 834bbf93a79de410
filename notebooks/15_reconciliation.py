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
# # Do the books agree with the chains, to the unit?
#
# You will see a state folder's books and its chains, each read by itself:
#
# - what every wallet of ours should hold, and what it does hold,
# - every amount that was booked beside what its transaction moved, and the other way round,
# - every payment and refund beside its journal,
# - a list of what does not match, which has to be empty.

# %% tags=["parameters"]
ROWS = 20  # of a list of what does not match that are shown

# %%
from collections import Counter, defaultdict

import pandas as pd
from chains import resting
from charts import axes, stacked, use_style
from data import load

use_style()
pd.set_option("display.max_colwidth", None)
data = load("ledger", "payments", "refunds")
ledger, payments, refunds = data["ledger"], data["payments"], data["refunds"]
print(f"{data.source}: {len(ledger):,} postings in {ledger.journal.nunique():,} journals")

# %% [markdown]
# ## What is compared
#
# | Figure | Numerator | Denominator | Left out |
# | - | - | - | - |
# | Balance | debits less credits of an account in an asset | | |
# | Total of an asset | its balances, added up | | |
# | Line | what a transaction's journals book on an account in an asset | | claims |
# | Matched lines | those that are what the chain says | lines, booked or on a chain | claims |
# | Matched payments | those whose journals are `paid_minor` | succeeded ones | simulated |
# | Matched refunds | those whose journals are `amount_minor` | succeeded ones | simulated |
#
# Journals are what they book, added up. Claims (`merchant:`, `held:`, `income:`) are on no chain:
# the other side of a posting is. What is simulated (`test:` in place of a transaction) moves
# nothing. Of accounts that are not ours the chain is asked only for what is booked.
#
# A posting adds its amount to the account on its debit side and takes it from the other. Every
# amount is an integer of minor units; nothing is rounded.

# %%
sides = [
    ledger.assign(account=ledger[side], minor=ledger.amount_minor * sign)
    for side, sign in (("debit", 1), ("credit", -1))
]
booked = pd.concat(sides)
balances = booked.groupby(["account", "asset"]).minor.sum()
totals = balances.groupby("asset").sum()
for asset, total in totals.items():
    print(f"{total:>3} minor units in all of {asset}")

# %% [markdown]
# ## What the chains are asked
#
# The embedded chains rest in the state folder. Copies of them answer the questions that any node
# answers: which transactions there were, what each moved and cost, who holds how much.

# %%
OURS = {name.removeprefix("wallet:") for name in booked.account if name.startswith("wallet:")}
transactions, holdings = [], {}
async with resting(data.home) as chains:
    for chain in chains.values():
        here = {one for one in OURS if one.startswith(f"{chain.id}:")}
        named = ledger[ledger.asset.str.startswith(f"{chain.id}/")].tx_hash.dropna().unique()
        transactions += [(chain, one) for one in await chain.transactions(here, named)]
        for account, asset in balances.index:
            if (wallet := account.removeprefix("wallet:")) in here:
                holdings[account, asset] = await chain.holds(wallet, asset)
print(f"{len(transactions):,} transactions on {', '.join(chains)}")
unread = sorted({asset for asset in totals.index if asset.partition("/")[0] not in chains})
print(f"assets on chains that were not read: {unread}")

# %% [markdown]
# ## Wallets
#
# Each wallet of ours, relayer or treasury, in each asset: what the books say, what the chain says,
# in minor units.

# %%
wallets = pd.DataFrame({"booked": balances, "held": pd.Series(holdings, dtype=object)}).dropna()
wallets["difference"] = wallets.held - wallets.booked
wallets.sort_values("booked").rename(lambda name: f"{name[:24]}…{name[-6:]}")

# %% [markdown]
# ## Line by line
#
# A wallet may be right by two errors that cancel out, so each transaction is looked at by itself.
# Journals without a transaction (openings, the operator's bookings) are one line for each account:
# they have to explain everything that no other journal does.

# %%
in_books, journals = Counter(), defaultdict(set)
claims = booked.account.str.startswith(("merchant:", "held:", "income:"))
not_moved = booked.account.isin(["external:opening", "external:operator"])
for row in booked[~(claims | not_moved)].itertuples():
    line = (row.tx_hash if isinstance(row.tx_hash, str) else "", row.account, row.asset)
    in_books[line] += row.minor
    journals[line].add(row.journal)
print(f"{len(in_books):,} lines; {claims.sum():,} sides of postings are claims, on no chain")

# %%
on_chain, hashes = Counter(), set(ledger.tx_hash.dropna())
for chain, one in transactions:
    name = one.hash if one.hash in hashes else ""
    moved = one.moved.copy()
    if one.payer in OURS:
        moved[one.payer, chain.coin] -= one.fee
        on_chain[name, "expense:gas", chain.coin] += one.fee
        on_chain[name, "expense:rent", chain.coin] += one.rent
    for (account, asset), minor in moved.items():
        if account in OURS:
            on_chain[name, f"wallet:{account}", asset] += minor
        elif (line := (name, f"external:{account}", asset)) in in_books:
            on_chain[line] += minor

# %% [markdown]
# ## What does not match
#
# A line that differs is told with its journals: whoever looks for the error begins with them. A
# line without a journal is money that moved and was not booked.

# %%
lines = pd.DataFrame(
    [
        (*line, in_books[line], on_chain[line], ", ".join(sorted(journals[line])))
        for line in sorted({*in_books, *on_chain})
        if in_books[line] or on_chain[line]
    ],
    columns=["transaction", "account", "asset", "booked", "chain", "journals"],
)
unmatched = lines[lines.booked != lines.chain]
print(f"{len(lines) - len(unmatched):,} of {len(lines):,} lines match")
for row in unmatched.head(ROWS).itertuples():
    print(f"{row.journals or 'no journal'}: {row.account} has {row.booked} of {row.asset} in the")
    print(f"  books and {row.chain} on the chain, transaction {row.transaction or 'not named'}")

# %% [markdown]
# ## Payments and refunds
#
# What merchants are told has to be what is booked. A journal that was reversed takes back what it
# booked.

# %%
taken_back = ledger.journal.str.startswith("reverse:")
signed = ledger.amount_minor.where(~taken_back, -ledger.amount_minor)
stem = ledger.journal.str.removeprefix("reverse:").str.partition("#")[0]
per_journal = signed.groupby(stem).sum()


def differing(table, prefix, key, amount):
    done = table[(table.status == "succeeded") & ~table.tx_hash.str.startswith("test:", na=False)]
    found = (prefix + done[key]).map(per_journal)
    print(f"{(found == done[amount]).sum():,} of {len(done):,} {prefix[:-1]} journals match")
    return done[found != done[amount]]


wrong_payments = differing(payments, "settle:", "payment_id", "paid_minor")
wrong_refunds = differing(refunds, "refund:", "refund_id", "amount_minor")

# %% [markdown]
# ## What came and went
#
# Look for the last part of the bars, lines that do not match, and for days without any line at all:
# a chain that was not read looks like a quiet day.

# %%
first = ledger.groupby("journal").agg(kind=("kind", "first"), at=("booked_at", "first"))
told = lines.assign(journal=lines.journals.str.partition(", ")[0]).join(first, on="journal")
matches = told.booked == told.chain
told["part"] = told.kind.fillna("not booked").where(matches, "does not match")
told["day"] = told["at"].dt.strftime("%a %d %b").fillna("unknown")
order = told.sort_values("at").day.unique()
counts = told.groupby(["day", "part"]).size().unstack(fill_value=0).reindex(order)
chart = axes("Lines of the books by day", "Day, UTC", "Lines", data.source)
stacked(chart, counts.index, {part: counts[part] for part in sorted(counts, key=len)})
chart.tick_params(axis="x", rotation=30)

# %%
most, fees = told.part.value_counts(), ledger[ledger.debit == "expense:gas"]
print(f"Most lines are of {most.index[0]} journals: {most.iloc[0]:,} of {len(told):,}.")
for asset, spent in fees.groupby("asset").amount.sum().items():
    print(f"Fees of our transactions: {spent.normalize():f} of {asset}")

# %% [markdown]
# ## The totals reconcile

# %%
problems = [*unmatched.journals, *wrong_payments.payment_id, *wrong_refunds.refund_id]
assert not problems, f"what does not match: {'; '.join(dict.fromkeys(problems))}"
assert (totals == 0).all(), totals
assert not unread, f"not read: {unread}"
assert (wallets.difference == 0).all(), wallets[wallets.difference != 0]
assert len(wallets) == len(holdings) > 0
assert len(told) == len(lines) == most.sum() > 0
