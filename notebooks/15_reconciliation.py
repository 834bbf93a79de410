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
# # Does the ledger agree with the chains, to the unit?
#
# You will see the ledger of a state folder and its chains, each read separately:
#
# - the expected and the actual balance of every wallet of the installation,
# - every ledger amount beside the effect of its transaction, and the other way round,
# - every payment and refund beside its journal,
# - a list of mismatches, which must be empty.

# %% tags=["parameters"]
ROWS = 20  # rows to show of a list of mismatches

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
# ## Definitions
#
# | Figure | Numerator | Denominator | Left out |
# | - | - | - | - |
# | Balance | debits less credits of an account in an asset | | |
# | Total of an asset | its balances, added up | | |
# | Line | amount that a transaction's journals book on an account in an asset | | claims |
# | Matched lines | lines that agree with the chain | lines, booked or on a chain | claims |
# | Matched payments | payments whose journals book `paid_minor` | succeeded | simulated |
# | Matched refunds | refunds whose journals book `amount_minor` | succeeded | simulated |
#
# A journal counts with the sum of its postings. Claims (`merchant:`, `held:`, `income:`) are on no
# chain, only the other side of their postings is. Simulated outcomes (`test:` instead of a
# transaction) move nothing. For foreign accounts, the notebook reads only the booked transactions
# from the chain.
#
# A posting adds its amount to the account on its debit side and subtracts it from the other. Every
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
# ## Data of the chains
#
# The embedded chains are stored in the state folder. Copies of them answer the same calls as any
# node: the transactions, the effects and fees of each, and the balances.

# %%
OURS = {name.removeprefix("wallet:") for name in booked.account if name.startswith("wallet:")}
transactions, holdings = [], {}
async with resting(data.home) as chains:
    for chain in chains.values():
        here = {wallet for wallet in OURS if wallet.startswith(f"{chain.id}:")}
        named = ledger[ledger.asset.str.startswith(f"{chain.id}/")].tx_hash.dropna().unique()
        transactions += [
            (chain, transaction) for transaction in await chain.transactions(here, named)
        ]
        for account, asset in balances.index:
            if (wallet := account.removeprefix("wallet:")) in here:
                holdings[account, asset] = await chain.holds(wallet, asset)
print(f"{len(transactions):,} transactions on {', '.join(chains)}")
unread = sorted({asset for asset in totals.index if asset.partition("/")[0] not in chains})
print(f"assets on chains that were not read: {unread}")

# %% [markdown]
# ## Wallets
#
# Each wallet of the installation, relayer or treasury, in each asset: the balances of the ledger
# and the chain, in minor units.

# %%
wallets = pd.DataFrame({"booked": balances, "held": pd.Series(holdings, dtype=object)}).dropna()
wallets["difference"] = wallets.held - wallets.booked
wallets.sort_values("booked").rename(lambda name: f"{name[:24]}…{name[-6:]}")

# %% [markdown]
# ## Line by line
#
# A wallet can be right because of two errors that cancel out, so each transaction is checked
# separately. Journals without a transaction (openings, the operator's bookings) are one line per
# account: they must explain everything that no other journal explains.

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
for chain, transaction in transactions:
    name = transaction.hash if transaction.hash in hashes else ""
    moved = transaction.moved.copy()
    if transaction.payer in OURS:
        moved[transaction.payer, chain.coin] -= transaction.fee
        on_chain[name, "expense:gas", chain.coin] += transaction.fee
        on_chain[name, "expense:rent", chain.coin] += transaction.rent
    for (account, asset), minor in moved.items():
        if account in OURS:
            on_chain[name, f"wallet:{account}", asset] += minor
        elif (line := (name, f"external:{account}", asset)) in in_books:
            on_chain[line] += minor

# %% [markdown]
# ## Mismatches
#
# A mismatched line is listed with its journals: start with them to find the error. A line without a
# journal is money that moved without a posting.

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
# The amounts that merchants see must equal the booked amounts. A reversed journal takes back what
# it booked.

# %%
taken_back = ledger.journal.str.startswith("reverse:")
signed = ledger.amount_minor.where(~taken_back, -ledger.amount_minor)
stem = ledger.journal.str.removeprefix("reverse:").str.partition("#")[0]
per_journal = signed.groupby(stem).sum()


def differing(table, prefix, key, amount):
    done = table[(table.status == "succeeded") & ~table.tx_hash.str.startswith("test:", na=False)]
    journal_amounts = (prefix + done[key]).map(per_journal)
    print(
        f"{(journal_amounts == done[amount]).sum():,} of {len(done):,} {prefix[:-1]} journals match"
    )
    return done[journal_amounts != done[amount]]


wrong_payments = differing(payments, "settle:", "payment_id", "paid_minor")
wrong_refunds = differing(refunds, "refund:", "refund_id", "amount_minor")

# %% [markdown]
# ## Lines by day
#
# Look at the last part of the bars, mismatched lines, and for days without any line: a chain that
# was not read looks like a quiet day.

# %%
first = ledger.groupby("journal").agg(kind=("kind", "first"), at=("booked_at", "first"))
dated_lines = lines.assign(journal=lines.journals.str.partition(", ")[0]).join(first, on="journal")
matches = dated_lines.booked == dated_lines.chain
dated_lines["part"] = dated_lines.kind.fillna("not booked").where(matches, "does not match")
dated_lines["day"] = dated_lines["at"].dt.strftime("%a %d %b").fillna("unknown")
order = dated_lines.sort_values("at").day.unique()
counts = dated_lines.groupby(["day", "part"]).size().unstack(fill_value=0).reindex(order)
chart = axes("Ledger lines by day", "Day, UTC", "Lines", data.source)
stacked(chart, counts.index, {part: counts[part] for part in sorted(counts, key=len)})
chart.tick_params(axis="x", rotation=30)

# %%
most, fees = dated_lines.part.value_counts(), ledger[ledger.debit == "expense:gas"]
print(f"Most lines are of {most.index[0]} journals: {most.iloc[0]:,} of {len(dated_lines):,}.")
for asset, spent in fees.groupby("asset").amount.sum().items():
    print(f"Fees of Florin's transactions: {spent.normalize():f} of {asset}")

# %% [markdown]
# ## The totals reconcile

# %%
problems = [*unmatched.journals, *wrong_payments.payment_id, *wrong_refunds.refund_id]
assert not problems, f"what does not match: {'; '.join(dict.fromkeys(problems))}"
assert (totals == 0).all(), totals
assert not unread, f"not read: {unread}"
assert (wallets.difference == 0).all(), wallets[wallets.difference != 0]
assert len(wallets) == len(holdings) > 0
assert len(dated_lines) == len(lines) == most.sum() > 0
