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

# %%
import pandas as pd
from charts import axes, draw_ecdf, draw_grid, draw_shares, quantile, use_style
from data import load
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
# | Retention | buyers of a cohort who paid in a later period | the cohort | future periods |
# | Repeat share | buyers who paid more than once | buyers | |
# | Time to return | first payment to second | | buyers who paid once |
# | Refund share | payments with a succeeded refund | succeeded payments | |
# | Time to refund | request of a refund until it was final | | refunds that are not final |
#
# A person with two wallets counts as two buyers: a payment gateway cannot see more.

# %%
done = payments[payments.status == "succeeded"].sort_values("created_at")
done = done.assign(period=done.created_at.dt.tz_localize(None).dt.to_period(PERIOD))
paid = done.dropna(subset=["payer"])
WORD = {"D": "day", "W": "week"}[PERIOD]
if (seen_in := paid.period.nunique()) < 2:
    raise LabError(f"cohorts need succeeded payments in two {WORD}s; this data has {seen_in}")


# %%
first = paid.groupby("payer").period.transform("min")
since = (paid.period - first).map(lambda step: step.n)
seen = paid.assign(first=first, since=since).groupby(["first", "since"]).payer.nunique()
steps = range((paid.period.max() - paid.period.min()).n + 1)
cohorts = seen.unstack(fill_value=0).reindex(columns=steps, fill_value=0).astype(float)
for cohort in cohorts.index:
    # a future period is unknown, not zero
    cohorts.loc[cohort, cohorts.columns > (paid.period.max() - cohort).n] = float("nan")
sizes = cohorts[0].astype(int)
shares = cohorts.div(sizes, axis=0)


# %% [markdown]
# ## Buyers' cohorts
#
# A row is a cohort, a column is the number of periods since its first. The first column contains
# all buyers and is left out. Look for rows that stay dark to the right: cohorts that keep
# returning.

# %%
title = f"Buyers who paid again, by the {WORD} of their first payment"
chart = axes(title, f"{WORD.title()}s since the first payment", "Cohort", data.source)
rows = [f"{cohort} (n = {size})" for cohort, size in sizes.items()]
later = shares.columns[1:]
draw_grid(chart, shares[later], rows, [str(step) for step in later], "Share of the cohort")

# %%
after = shares[later].mul(sizes, axis=0).sum() / shares[later].notna().mul(sizes, axis=0).sum()
for step, share in after.head(3).items():
    print(f"{share:.1%} of all buyers who could paid again {step} {WORD}(s) after their first.")

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
draw_grid(chart, sales, sales.index, columns, "Payments")

# %%
stayed = (sales.iloc[:, -1] > 0).sum()
print(f"{stayed} of {len(sales)} merchants sold something in the last {WORD},")
print(f"{(opened == paid.period.min()).sum()} of all sold something in the first.")

# %% [markdown]
# ## Repeat buyers, by merchant
#
# Look at the width of the error bars first: where they overlap, the merchants may not differ.

# %%
orders = paid.groupby(["merchant_id", "payer"]).size()
repeat = {
    merchant_id: (int((orders[merchant_id] > 1).sum()), len(orders[merchant_id]))
    for merchant_id in sales.index
}
everywhere = paid.groupby("payer").size()
repeat["at any merchant"] = (int((everywhere > 1).sum()), len(everywhere))
draw_shares(axes("Buyers who paid more than once", "Share of buyers", "", data.source), repeat)

# %%
again, buyers = repeat["at any merchant"]
most = everywhere.max()
print(f"{again:,} of {buyers:,} buyers paid more than once; {most} times at most.")
gaps = paid.groupby("payer").created_at.apply(
    lambda at: at.iloc[1] - at.iloc[0] if len(at) > 1 else pd.NaT
)
hours = gaps.dropna().dt.total_seconds() / 3600
if len(hours):
    middle, low, high = quantile(hours, 0.5)
    print(f"Half of those came back within {middle:.0f} hours (95 %: {low:.0f} to {high:.0f}).")

# %% [markdown]
# ## Refunded payments
#
# Refunded payments among succeeded payments, by merchant. An error bar that reaches far beyond its
# bar means that there are too few payments.

# %%
final = refunds[refunds.status == "succeeded"]
back = done.assign(back=done.payment_id.isin(final.payment_id)).groupby("merchant_id").back
refunded = {
    merchant_id: (int(back.get_group(merchant_id).sum()), back.get_group(merchant_id).size)
    for merchant_id in sales.index
}
refunded["all"] = (len(final), len(done))
draw_shares(axes("Refunded payments", "Share of payments", "", data.source), refunded)

# %% [markdown]
# Amounts of different assets are not added up; for each asset, exact amounts in whole units:

# %%
volume = done.groupby("paid_unit").paid.agg(["size", "sum"])
volume["refunded"] = final.groupby("unit").amount.sum().reindex(volume.index).fillna(0)
volume["share"] = (volume.refunded.astype(float) / volume["sum"].astype(float)).round(4)
for unit, row in volume.iterrows():
    print(f"{row['sum'].normalize():f} in {row['size']} payments, {row.share:.2%} refunded: {unit}")

# %% [markdown]
# ## Duration of refunds
#
# From the merchant's request until the refund is final on the chain. Look at the step at which the
# curve leaves zero, the minimum of the chain, and at the length of its tail. The band is 95 %.

# %%
took = (final.completed_at - final.created_at).dt.total_seconds()
chain = final.unit.str.removeprefix("caip19/").str.split(":").str[0]
chart = axes("Time to refund", "Time from the request, s", "Share completed", data.source)
if len(took):
    draw_ecdf(chart, {name: took[some.index] for name, some in final.groupby(chain)})

# %%
open_refunds = refunds[~refunds.status.isin(["succeeded", "failed"])]
print(f"{len(final):,} refunds are final, {len(open_refunds):,} are pending.")
if len(took):
    print("median {:.1f} s (95 %: {:.1f} to {:.1f})".format(*quantile(took, 0.5)))
asked_after = final.merge(payments, on="payment_id", suffixes=("", "_paid"))
waited = (asked_after.created_at - asked_after.created_at_paid).dt.total_seconds() / 3600
if len(waited):
    print(f"Merchants requested them up to {waited.max():.1f} hours after the payment was created.")

# %% [markdown]
# ## The totals reconcile

# %%
assert sizes.sum() == buyers == paid.payer.nunique()
assert sales.to_numpy().sum() == len(paid)
assert sum(total for name, (_, total) in refunded.items() if name != "all") == len(done)
assert sum(count for name, (count, _) in refunded.items() if name != "all") == len(final)
assert final.payment_id.is_unique
assert (asked_after.amount_minor <= asked_after.paid_minor).all()
assert (took >= 0).all()
