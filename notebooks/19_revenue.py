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
# # How much did merchants earn, net of fees and refunds?
#
# You will see, in one reporting currency:
#
# - revenue by day, by merchant and by requested currency,
# - fees, refunds, and the average order with its bounds,
# - how long it took from the confirm until money was final,
# - conversion by wallet, and the statement of each month, compared with `florin report --month`.

# %% tags=["parameters"]
REPORTING = "USD"  # a currency in which some quotes are made
SEED, PAYMENTS, DAYS = 7, 400, 7

# %%
from collections import Counter

import numpy as np
import pandas as pd
from charts import axes, draw_ecdf, draw_shares, stacked, use_style
from data import load
from estimates import bound_mean, compare, estimate_share, quantile
from florin_server.app.exports.report import open_report_source
from florin_server.domain.reports.period import parse_period
from florin_server.features.reports.store.scope import ReportScope
from florin_server.settings import Settings
from target import LabError

use_style()
TABLES = "payments", "events", "options", "confirmations", "refunds", "ledger", "transaction_items"
data = load(*TABLES, seed=SEED, payments=PAYMENTS, days=DAYS)
print(data.source)

# %% [markdown]
# ## Definitions
#
# | Figure | Meaning | Left out |
# | - | - | - |
# | Gross | requested amounts of payments that succeeded | simulated outcomes |
# | Fees | the operator's share of the paid amount, at the payment's own rate | as above |
# | Refunds | final refunds, at the rate of their payment | refunds that are not final |
# | Net | gross less fees and refunds | |
# | Average order | gross divided by payments | |
# | Settlement lag | time from the confirm until the payment is final | payments without a confirm |
# | Conversion by wallet | succeeded payments of confirmed ones | open payments |
#
# Amounts of other currencies count at the rate of their day. It is the median over the assets that
# were quoted in both currencies on that day, or else on the nearest day with such quotes. Days are
# those in UTC when a payment was final; a refund counts on the day of its payment. A wallet is
# known from its confirm on, so earlier losses belong to no wallet.

# %% [markdown]
# ## One reporting currency

# %%
payments = data["payments"].set_index("payment_id")
events, options = data["events"], data["options"]
quotes = options.merge(
    payments[["unit", "requested"]], left_on="payment_id", right_index=True
).dropna(subset=["price", "requested"])
quotes["rate"] = quotes.requested.astype(float) / quotes.price.astype(float)
quotes["day"] = quotes.offered_at.dt.floor("D")
rates = quotes.groupby(["day", "asset", "unit"]).rate.median().unstack("unit")
home = f"iso4217/{REPORTING}"
if home not in rates:
    raise LabError(f"no quote is in {REPORTING}: choose another REPORTING currency")
# units of the reporting currency for one of another
cross = rates.rdiv(rates[home], axis=0).groupby("day").median()
cross[home] = 1.0
days = pd.date_range(quotes.day.min(), max(quotes.day.max(), events["at"].max().floor("D")))
cross = cross.reindex(days).ffill().bfill()
for unit in cross.columns.drop(home):
    low, high = cross[unit].min(), cross[unit].max()
    print(f"One {data.get_symbol(unit)} was {low:.4f} to {high:.4f} {REPORTING}.")

# %%
final_at = events[events.status == "succeeded"].groupby("payment_id")["at"].max()
moved = ~payments.tx_hash.str.startswith("test:", na=False)
done = payments[(payments.status == "succeeded") & moved].copy()
done["day"] = final_at.reindex(done.index).dt.floor("D")
values = cross.stack().rename("value")
keys = pd.MultiIndex.from_arrays([done.day, done.unit])
done["value"] = values.reindex(keys).to_numpy()
unpriced = done[done.value.isna()]
print(f"{len(done):,} payments succeeded; {len(unpriced):,} have no rate and are listed here:")
print(unpriced.groupby("unit").requested.agg(["size", "sum"]).to_string() if len(unpriced) else "-")

# %%
priced = done[done.value.notna()].copy()
chosen = options[options.chosen].set_index("payment_id")
fee_share = (chosen.fee.astype(float) / chosen.price.astype(float)).reindex(priced.index).fillna(0)
refunds = data["refunds"]
final = refunds[refunds.status == "succeeded"]
given_back = final.groupby("payment_id").payment_amount.sum().reindex(priced.index).fillna(0)
priced["gross"] = priced.requested.astype(float) * priced.value
priced["fees"] = priced.gross * fee_share
priced["refunds"] = given_back.astype(float) * priced.value
priced["net"] = priced.gross - priced.fees - priced.refunds
FIGURES = ["gross", "fees", "refunds", "net"]

# %% [markdown]
# ## By day
#
# The bars are gross revenue: the part that merchants keep, refunds, and fees. Look for days that
# differ from the same day of the week before: a single large order makes a day.

# %%
by_day = priced.groupby("day")[FIGURES].sum().reindex(pd.date_range(days.min(), days.max()))
by_day = by_day.fillna(0.0)
chart = axes(f"Revenue by day, {REPORTING}", "Day, UTC", REPORTING, data.source)
parts = {name: by_day[name] for name in ("net", "refunds", "fees")}
stacked(chart, by_day.index.strftime("%d %b"), parts)
total = priced[FIGURES].sum()
print(
    f"Gross {total.gross:,.2f}, fees {total.fees:,.2f}, refunds {total.refunds:,.2f},",
    f"net {total.net:,.2f} {REPORTING}.",
)
largest = by_day.gross.idxmax()
print(f"The largest day is {largest:%a %d %b}: {by_day.gross.max():,.2f} {REPORTING}.")


# %% [markdown]
# ## By merchant and by currency
#
# The average order has bounds at 95 %, by bootstrap of buyers: buyers with several orders stay
# together. Orders are skewed, so the bounds are not symmetric.


# %%
def bound_average(rows: pd.DataFrame) -> tuple[float, float, float]:
    """Return the average order with its bounds."""
    return bound_mean(rows.gross, list(rows.payer.fillna(rows.index.to_series())))


def print_table(keys: pd.Series) -> None:
    """Print money, payments and the average order of each group."""
    for name, rows in sorted(priced.groupby(keys), key=lambda pair: -pair[1].gross.sum()):
        sums, (mean, low, high) = rows[FIGURES].sum(), bound_average(rows)
        print(
            f"{name:12} {len(rows):>4} payments, gross {sums.gross:>12,.2f},",
            f"fees {sums.fees:>8,.2f}, refunds {sums.refunds:>8,.2f}, net {sums.net:>12,.2f};",
            f"average order {mean:,.2f} ({low:,.2f} to {high:,.2f})",
        )


print_table("…" + priced.merchant_id.str[-6:])

# %%
print_table(priced.unit.map(data.get_symbol))
mean, low, high = bound_average(priced)
print(f"All: average order {mean:,.2f} {REPORTING} (95 %: {low:,.2f} to {high:,.2f}).")

# %% [markdown]
# ## Settlement lag
#
# From the confirm until the payment is final. Payments of one transaction are final together, so
# batches are clusters. Money that goes to a merchant's own destination arrives at that time; the
# rest is a balance until its payout.

# %%
confirmed = data["confirmations"].set_index("payment_id").confirmed_at
lag = (final_at.reindex(priced.index) - confirmed.reindex(priced.index)).dt.total_seconds().dropna()
items = data["transaction_items"].dropna(subset=["payment_id"])
batch = items.groupby("payment_id").tx_id.last().reindex(lag.index)
batch = batch.fillna(batch.index.to_series())
chains = chosen.chain_id.reindex(lag.index).str.partition(":")[0]
groups = {name: lag[rows] for name, rows in lag.groupby(chains).groups.items()}
chart = axes("Settlement lag", "Seconds from the confirm", "Share of payments", data.source)
draw_ecdf(chart, groups, {name: list(batch[rows.index]) for name, rows in groups.items()})
for name, rows in groups.items():
    at, low, high = quantile(rows, 0.95, list(batch[rows.index]))
    print(f"{name}: 95 % are final within {at:.1f} s (95 %: {low:.1f} to {high:.1f})")
settled = priced.settled.notna().sum()
print(f"{settled:,} of {len(priced):,} payments went to the merchant's own destination.")

# %% [markdown]
# ## Conversion by wallet
#
# Buyers are clusters. The sentence tests whether wallets differ.

# %%
closed = payments[~payments.status.isin(["requires_action", "processing"]) & moved]
closed = closed[closed.index.isin(confirmed.index)].copy()
closed["buyer"] = closed.payer.fillna(closed.index.to_series())
wallets = {
    str(name): estimate_share(rows.status == "succeeded", list(rows.buyer))
    for name, rows in closed.groupby(closed.wallet.fillna("unknown"))
}
draw_shares(axes("Confirmed payments that succeed", "Share", "Wallet", data.source), wallets)
result = compare(wallets)
print(f"{result.describe()}." if result else "There are too few losses to compare wallets.")

# %% [markdown]
# ## Month-end statement
#
# The ledger has exact minor units. The lines are those of `florin report --month`, for all
# merchants of a mode, and must be equal to them.

# %%
ledger = data["ledger"]
base = ledger.kind.str.removeprefix("reverse_")
entries = ledger[base.isin(["settle", "refund"])].assign(kind=base)
sign = np.where(entries.journal.str.startswith("reverse:"), -1, 1)
entries["minor"] = entries.amount_minor * sign
entries["live"] = entries.payment_id.map(payments.live)
entries["month"] = entries.booked_at.dt.strftime("%Y-%m")
lines = Counter()
for row in entries.itertuples():
    parties = {row.debit, row.credit}
    has_fee = "income:fee" in parties
    # a fee that the merchant owes is no part of the money
    if not (has_fee and any(party.startswith("merchant:") for party in parties)):
        line, amount = ("payments", row.minor) if row.kind == "settle" else ("refunds", -row.minor)
        lines[row.month, row.live, row.asset, line] += amount
    if has_fee:
        lines[row.month, row.live, row.asset, "fees"] -= row.minor
periods = sorted({(month, live) for month, live, *_ in lines})

# %%
report = Counter()
with open_report_source(Settings(home=data.home)) as source:
    for month, live in periods:
        statement = source.read_statement(ReportScope(bool(live)), parse_period(month, "UTC"))
        for section in statement.sections:
            for line in section.lines:
                if line.key in {"payments", "fees", "refunds"}:
                    report[month, live, section.asset.id, line.key] += line.amount
for (month, live, asset, line), minor in sorted(lines.items()):
    mode = "live" if live else "test"
    decimals = data.find_asset(asset).decimals
    print(f"{month} {mode} {line:8} {minor / 10**decimals:>14,.4f} {data.get_symbol(asset)}")
differing = {key for key in {*lines, *report} if lines[key] != report[key]}
print(f"{len(differing)} lines differ from `florin report --month`.")

# %% [markdown]
# ## The totals reconcile

# %%
assert not differing, differing
assert len(priced) + len(unpriced) == len(done) > 0
assert np.isclose(by_day.net.sum(), priced.net.sum())
assert np.isclose(total.net, total.gross - total.fees - total.refunds)
assert (priced.net <= priced.gross + 1e-9).all()
assert (lag >= 0).all()
assert sum(share.total for share in wallets.values()) == len(closed)
