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
# # Which buyers return, and how much is refunded?
#
# You will see, by the day on which merchants and buyers first appeared:
#
# - how many of them returned, and how long that took,
# - the revenue of each merchant and the refunded part,
# - how long a refund took, from the request until it was final.

# %% tags=["parameters"]
PERIOD = "D"  # of cohorts: D for days, W for weeks; at least two periods are needed
HORIZON = 0.5  # part of the data's time after which returns and refunds are compared

# %%
import pandas as pd
from charts import axes, draw_ecdf, draw_grid, draw_incidence, draw_shares, use_style
from data import load
from estimates import compare, holm, incidence, quantile
from target import LabError

use_style()
data = load("payments", "refunds")
payments, refunds = data["payments"], data["refunds"]
print(f"{data.source}: {len(payments):,} payments, {len(refunds):,} refunds")

# %% [markdown]
# ## Definitions
#
# | Figure | Numerator | Denominator | Left out |
# | - | - | - | - |
# | Buyer | an account (CAIP-10) that paid a payment that succeeded | | accounts that never paid |
# | Cohort | buyers whose first payment is in one period (UTC) | | |
# | Retention | buyers of a cohort who paid in a later period | the cohort | incomplete periods |
# | Returned | buyers who paid again within a time of their first payment | buyers | |
# | Refunded | payments with a final refund within a time of their creation | succeeded ones | |
# | Time to refund | request of a refund until it was final | | refunds that are not final |
#
# A person with two wallets counts as two buyers: a payment gateway cannot see more.
#
# Buyers of yesterday had only a day to return. Counting returns so far makes young merchants look
# worse, and the median time of those who returned is too short. So shares are estimates by Kaplan
# and Meier: a buyer who has not returned counts until the end of the data. Groups are compared at
# one time after the start, the horizon, which is half the time of the data. The end of the data is
# the last change of a payment.

# %%
done = payments[payments.status == "succeeded"].sort_values("created_at")
done = done.assign(period=done.created_at.dt.tz_localize(None).dt.to_period(PERIOD))
paid = done.dropna(subset=["payer"])
WORD = {"D": "day", "W": "week"}[PERIOD]
if (seen_in := paid.period.nunique()) < 2:
    raise LabError(f"cohorts need succeeded payments in two {WORD}s; this data has {seen_in}")
until = max(payments.created_at.max(), payments.updated_at.max())
DAY_S = 86_400
span = (until - payments.created_at.min()).total_seconds() / DAY_S
horizon = HORIZON * span
print(f"The data ends at {until:%a %d %b %H:%M} UTC, after {span:.1f} days.")
print(f"Groups are compared {horizon:.1f} days after the start of each buyer or payment.")


# %%
first = paid.groupby("payer").period.transform("min")
since = (paid.period - first).map(lambda step: step.n)
seen = paid.assign(first=first, since=since).groupby(["first", "since"]).payer.nunique()
steps = range((paid.period.max() - paid.period.min()).n + 1)
cohorts = seen.unstack(fill_value=0).reindex(columns=steps, fill_value=0).astype(float)
last = until.tz_localize(None).to_period(PERIOD)
ends_at = last.end_time.tz_localize("UTC")
length = ends_at - last.start_time.tz_localize("UTC")
# the last hour of 24 is a small part of a period
whole = last if ends_at - until <= length / 24 else last - 1
for cohort in cohorts.index:
    # a future period is unknown, not zero, and a started one is too low
    cohorts.loc[cohort, cohorts.columns > max(0, (whole - cohort).n)] = float("nan")
sizes = cohorts[0].astype(int)
shares = cohorts.div(sizes, axis=0)


# %% [markdown]
# ## Buyers' cohorts
#
# A row is a cohort, a column is the number of periods since its first. The first column contains
# all buyers and is left out. Grey fields are periods that have not ended. Look for rows that stay
# dark to the right: cohorts that keep returning.

# %%
title = f"Buyers who paid again, by the {WORD} of their first payment"
chart = axes(title, f"{WORD.title()}s since the first payment", "Cohort", data.source)
rows = [f"{cohort} (n = {size})" for cohort, size in sizes.items()]
later = shares.columns[1:]
columns = [str(step) for step in later]
draw_grid(chart, shares[later], rows, columns, "Share of the cohort", percent=True)

# %%
after = shares[later].mul(sizes, axis=0).sum() / shares[later].notna().mul(sizes, axis=0).sum()
for step, share in after.head(3).items():
    unit = WORD if step == 1 else f"{WORD}s"
    print(f"{share:.1%} of eligible buyers paid again {step} {unit} after their first payment.")

# %% [markdown]
# ## Merchants, from their first sale on
#
# There are few merchants, so each has its own row. Look for light fields at the end of a dark row:
# a merchant who sells less than before.

# %%
sales = paid.groupby(["merchant_id", "period"]).size().unstack(fill_value=0)
opened = paid.sort_values("created_at").groupby("merchant_id", sort=False).period.first()
sales = sales.loc[opened.index]
chart = axes(f"Payments that succeeded, by {WORD}", WORD.title(), "Merchant", data.source)
columns = [f"{period.start_time:%d %b}" for period in sales.columns]
draw_grid(chart, sales, [f"…{name[-6:]}" for name in sales.index], columns, "Payments")

# %%
stayed = (sales.iloc[:, -1] > 0).sum()
print(f"{stayed} of {len(sales)} merchants sold something in the last {WORD},")
print(f"{(opened == paid.period.min()).sum()} of all sold something in the first.")

# %% [markdown]
# ## Time until buyers return
#
# Look at the height of the curve at a time: the estimated share of buyers who return by then. The
# band has 95 % at each time, and becomes wide where few buyers were followed for so long.


# %%
def follow_buyers(rows: pd.DataFrame):
    """Estimate the time from a buyer's first payment to the second, in days."""
    orders = rows.sort_values("created_at").groupby("payer").created_at
    first_at, second_at = orders.nth(0), orders.nth(1)
    starts = first_at.set_axis(rows.loc[first_at.index, "payer"])
    returns = second_at.set_axis(rows.loc[second_at.index, "payer"])
    ends = returns.reindex(starts.index)
    days = (ends.fillna(until) - starts).dt.total_seconds() / DAY_S
    return incidence(days, ends.notna())


def describe_days(days: float) -> str:
    return "unknown" if days == float("inf") else f"{days:.1f}"


everywhere = follow_buyers(paid)
chart = axes("Buyers who return", "Days since the first payment", "Share of buyers", data.source)
draw_incidence(chart, {"at any merchant": everywhere}, span)

# %%
buyers, again = everywhere.total, everywhere.events
so_far = everywhere.get_share(horizon)
low, high = so_far.get_bounds()
print(f"{again:,} of {buyers:,} buyers have paid more than once so far.")
print(f"Within {horizon:.1f} days, {so_far.share:.1%} return (95 %: {low:.1%} to {high:.1%}).")
for share in (0.25, 0.5):
    at, low, high = (describe_days(days) for days in everywhere.get_quantile(share))
    print(f"{share:.0%} of buyers return by day {at} (95 %: {low} to {high}).")

# %% [markdown]
# ## Returns to merchants
#
# The share of a merchant's buyers who return to that merchant by the horizon. Overlapping error
# bars do not mean that merchants are equal: the sentence has a test, and the largest difference
# with bounds that hold for all pairs.


# %%
def shorten(merchant_id: str) -> str:
    return f"{sales.index.get_loc(merchant_id) + 1}. …{merchant_id[-6:]}"


def followed_to(group) -> bool:
    return bool((group.followed >= horizon).any())


groups = {name: follow_buyers(paid[paid.merchant_id == name]) for name in sales.index}
returned = {
    shorten(name): group.get_share(horizon) for name, group in groups.items() if followed_to(group)
}
title = f"Buyers who return within {horizon:.1f} days"
draw_shares(axes(title, "Estimated share of buyers", "Merchant", data.source), returned)

# %%
comparisons = {}


def print_comparison(name: str, groups) -> None:
    """Print the largest difference of two groups, and keep the test for the correction below."""
    result = compare(groups)
    if result is None:
        print(f"{name}: the groups are too small to compare.")
        return
    comparisons[name] = result
    print(f"{name}: {result.describe()}.")


print_comparison("returns", returned)

# %% [markdown]
# ## Refunded payments
#
# Payments with a succeeded refund, by merchant, by the horizon after their creation. A payment that
# can still be refunded counts until the end of the data. Several refunds of a payment count once.

# %%
final = refunds[refunds.status == "succeeded"]
refunded_at = final.groupby("payment_id").completed_at.min()


def follow_refunds(rows: pd.DataFrame):
    """Estimate the time from a payment's creation to its first final refund, in days."""
    ends = refunded_at.reindex(rows.payment_id).set_axis(rows.index)
    days = (ends.fillna(until) - rows.created_at).dt.total_seconds() / DAY_S
    return incidence(days.clip(lower=0), ends.notna())


refund_groups = {name: follow_refunds(done[done.merchant_id == name]) for name in sales.index}
refunded = {
    shorten(name): group.get_share(horizon)
    for name, group in refund_groups.items()
    if followed_to(group)
}
all_refunds = follow_refunds(done)
refunded["all"] = all_refunds.get_share(horizon)
title = f"Payments refunded within {horizon:.1f} days"
draw_shares(axes(title, "Estimated share of payments", "Merchant", data.source), refunded)

# %%
print_comparison("refunds", {name: part for name, part in refunded.items() if name != "all"})
low, high = refunded["all"].get_bounds()
print(f"{all_refunds.events:,} of {all_refunds.total:,} payments have been refunded so far;")
print(f"within {horizon:.1f} days {refunded['all'].share:.1%} (95 %: {low:.1%} to {high:.1%}).")
for name, p in holm({name: result.p for name, result in comparisons.items()}).items():
    verdict = "merchants differ" if p < 0.05 else "the difference may be chance"
    print(f"Corrected for {len(comparisons)} tests (Holm), {name}: p = {p:.2f}, {verdict}.")

# %% [markdown]
# Amounts of different assets are not added up. The table has whole units; "so far" is the refunded
# part at the end of the data.

# %%
volume = done.groupby("paid_unit").paid.agg(["size", "sum"])
volume["refunded"] = final.groupby("unit").amount.sum().reindex(volume.index).fillna(0)
volume["share"] = (volume.refunded.astype(float) / volume["sum"].astype(float)).round(4)
for unit, row in volume.iterrows():
    name = data.get_symbol(unit)
    print(f"{name:32} {row['sum']:>14,.4f} in {row['size']:>4} payments, {row.share:.2%} so far")

# %% [markdown]
# ## Duration of refunds
#
# From the merchant's request until the refund is final on the chain. Look at the step at which the
# curve leaves zero, the minimum of the chain, and at the length of its tail. The band is 95 %;
# refunds that a merchant requested in one minute count as one cluster.

# %%
took = (final.completed_at - final.created_at).dt.total_seconds()
# a merchant refunds several payments at once: requests of one minute are a cluster
batches = final.payment_id.map(done.set_index("payment_id").merchant_id).astype(str)
batches = batches + final.created_at.dt.floor("min").astype(str)
chain = final.unit.str.removeprefix("caip19/").str.split(":").str[0]
chart = axes("Time to refund", "Time from the request, s", "Share completed", data.source)
if len(took):
    by_chain = dict(iter(final.groupby(chain)))
    draw_ecdf(
        chart,
        {name: took[some.index] for name, some in by_chain.items()},
        {name: list(batches[some.index]) for name, some in by_chain.items()},
    )

# %%
open_refunds = refunds[~refunds.status.isin(["succeeded", "failed"])]
print(f"{len(final):,} refunds are final, {len(open_refunds):,} are pending.")
if len(took):
    print("median {:.1f} s (95 %: {:.1f} to {:.1f})".format(*quantile(took, 0.5, list(batches))))
asked_after = final.merge(payments, on="payment_id", suffixes=("", "_paid"))
waited = (asked_after.created_at - asked_after.created_at_paid).dt.total_seconds() / 3600
if len(waited):
    print(f"Merchants requested them up to {waited.max():.1f} hours after the payment was created.")

# %% [markdown]
# ## The totals reconcile

# %%
assert sizes.sum() == buyers == paid.payer.nunique()
assert again == (paid.payer.value_counts() > 1).sum()
assert all((group.followed <= span).all() for group in groups.values())
assert sales.to_numpy().sum() == len(paid)
assert sum(group.total for group in refund_groups.values()) == len(done) == all_refunds.total
assert sum(group.events for group in refund_groups.values()) == final.payment_id.nunique()
refunded_minor = asked_after.groupby("payment_id").amount_minor.sum()
assert (refunded_minor <= asked_after.groupby("payment_id").paid_minor.first()).all()
assert (took >= 0).all()
