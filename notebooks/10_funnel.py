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
# # Where do buyers leave, and who are they?
#
# You will see payments on their way from created to succeeded:
#
# - how many reach each step, and how many leave after it,
# - the share that leaves by merchant, chain, amount and hour,
# - how long paying buyers take, and when the others were last seen.

# %% tags=["parameters"]
SEED, PAYMENTS, DAYS = 7, 400, 7
MERCHANTS = 8  # the largest merchants, shown separately; the others together
ENOUGH = 10  # payments; smaller groups are not compared

# %%
from itertools import pairwise

import numpy as np
import pandas as pd
from charts import axes, draw_ecdf, draw_funnel, draw_grid, draw_shares, mark, use_style
from data import load
from estimates import Share, compare, estimate_share, holm, quantile

use_style()
data = load("payments", "events", "options", seed=SEED, payments=PAYMENTS, days=DAYS)
print(data.source)

# %% [markdown]
# ## Definitions
#
# | Figure | Numerator | Denominator | Excluded |
# | - | - | - | - |
# | created | payments | – | payments that are still open, or have a simulated outcome |
# | options seen | payments with options for an account | created | as above |
# | confirmed | payments that were `processing` | created | as above |
# | succeeded | payments that are `succeeded` | created | as above |
# | left | payments that were never `processing` | created; by chain: options seen | as above |
#
# A payment that reached a step has reached all steps before it. Some options include the actions to
# sign; for others, a wallet fetches them. A fetch shows that a buyer went on to sign. For options
# with actions, Florin cannot see that, so fetches are no step of the funnel. A method has actions
# in its options if a payment was confirmed with it and never fetched.
#
# Payments of one buyer are not independent: a buyer who gives up often tries again. So intervals
# and tests count buyers as clusters; a buyer is the account that paid, or else the first account
# with options. A payment without options is its own cluster. "Worth n" at a bar is the effective
# sample size, the number of independent payments with the same information.

# %%
events, options = data["events"], data["options"]
simulated = set(events.payment_id[events.cause.str.startswith("simulate_")])
payments = data["payments"].set_index("payment_id")
still_open = payments.status.isin(["requires_action", "processing"])
left_out = set(payments.index[still_open]) | simulated
payments = payments[~payments.index.isin(left_out)].copy()
options = options[options.payment_id.isin(payments.index)]
print(f"{len(payments):,} payments; {still_open.sum():,} open and {len(simulated):,} simulated")

# %%
at_once = set(options.method[options.chosen & (options.fetches == 0)])
fetched = payments.index.isin(options.payment_id[options.fetches > 0])
inline = payments.index.isin(options.payment_id[options.method.isin(at_once)])
accepted = events[(events.status == "processing") & events.payment_id.isin(payments.index)]
reached = pd.DataFrame(index=payments.index)
reached["succeeded"] = payments.status == "succeeded"
reached["confirmed"] = reached.succeeded | reached.index.isin(accepted.payment_id)
reached["options seen"] = reached.confirmed | reached.index.isin(options.payment_id)
reached["created"] = True
STEPS = ["created", "options seen", "confirmed", "succeeded"]
steps = {step: int(reached[step].sum()) for step in STEPS}
print("options with actions to sign:", ", ".join(sorted(at_once)))

# %% [markdown]
# ## The funnel
#
# Look for the step that loses the largest share of the step before.

# %%
on = axes("How many payments reach each step", "payments", "", note=data.source)
draw_funnel(on, steps)

# %%
lost = {f"before {b}": steps[a] - steps[b] for a, b in pairwise(STEPS)}
worst = max(lost, key=lambda step: lost[step])
print(
    f"{steps['succeeded'] / steps['created']:.1%} of all payments succeed, and",
    f"{steps['succeeded'] / max(1, steps['confirmed']):.1%} of those that are confirmed.",
    f"Most leave {worst}: {lost[worst]:,} of {steps['created'] - steps['succeeded']:,}.",
)

# %% [markdown]
# ## Leaving by merchant
#
# Bounds of two merchants that overlap do not show that they are equal. The sentence below the chart
# has a test that all shares are equal, and the largest difference with its bounds.

# %%
payments["left"] = ~reached.confirmed
accounts = options.sort_values("offered_at").groupby("payment_id").account.first()
payments["buyer"] = payments.payer.fillna(accounts).fillna(payments.index.to_series())


def by(keys: pd.Series) -> dict[str, Share]:
    """Return the share that left for each key, in the order of the keys."""
    grouped = payments.groupby(keys.reindex(payments.index), sort=True, observed=True)
    return {str(key): estimate_share(some.left, list(some.buyer)) for key, some in grouped}


largest = payments.merchant_id.value_counts().index[:MERCHANTS]
ranks = {merchant_id: f"{n}. …{merchant_id[-6:]}" for n, merchant_id in enumerate(largest, 1)}
merchants = payments.merchant_id.map(ranks).fillna("others")
on = axes("Buyers who leave, by merchant", "share of payments that left", "largest first, id")
draw_shares(on, by(merchants))


# %%
tests = {}


def print_comparison(name: str, shares: dict[str, Share]) -> None:
    """Print the largest difference of two groups, and keep the test for the correction below."""
    result = compare(shares, ENOUGH)
    if result is None:
        print(f"By {name}: the groups are too small to compare.")
        return
    tests[name] = result.p
    high, low = shares[result.highest], shares[result.lowest]
    print(f"By {name}: {low.share:.0%} leave at {result.lowest} (n = {low.total:,}),")
    print(f"  {high.share:.0%} at {result.highest} (n = {high.total:,});")
    print(f"  {result.describe()}.")
    if result.left_out:
        print(f"  Too few payments: {', '.join(result.left_out)}.")


print_comparison("merchant", by(merchants))

# %% [markdown]
# The highest and the lowest of several shares are far apart even if all true shares are equal. So
# the bounds of the difference are those of all pairs together, and they are wide.
#
# ## Leaving by chain
#
# The chain is that of the first account with options. Payments without options have no chain, so
# the share is of payments with options.

# %%
first = options.sort_values("offered_at").groupby("payment_id").chain_id.first()
chains = by(first.str.split(":").str[0])
on = axes("Buyers who leave after seeing options, by chain", "share of payments that left", "chain")
draw_shares(on, chains)
print_comparison("chain", chains)

# %% [markdown]
# ## Leaving by amount
#
# Amounts are in whole units of the requested currency, all currencies together. Look for a share
# that rises from top to bottom.

# %%
BOUNDS = [0, 5, 20, 100, 500, np.inf]
NAMES = ["below 5", "5 to 20", "20 to 100", "100 to 500", "500 and more"]
requested = pd.to_numeric(payments.requested)
amounts = by(pd.cut(requested, BOUNDS, right=False, labels=NAMES))
on = axes("Buyers who leave, by amount", "share of payments that left", "requested whole units")
draw_shares(on, amounts)
print_comparison("amount", amounts)

# %% [markdown]
# ## Leaving by hour
#
# First, when payments are created at all. White fields have none; look for dark fields.

# %%
DAY_NAMES = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
hours, weekdays = payments.created_at.dt.hour, payments.created_at.dt.day_of_week
busy = pd.crosstab(weekdays, hours).reindex(index=range(7), columns=range(24), fill_value=0)
on = axes("When payments are created", "hour (UTC)", "")
draw_grid(on, busy, DAY_NAMES, [str(hour) for hour in range(24)], "payments")
print(f"The busiest hour of the week has {busy.to_numpy().max():,} payments.")

# %% [markdown]
# Then the share that leaves, by six parts of the day.

# %%
parts = by((hours // 4 * 4).map(lambda hour: f"{hour:02} to {hour + 4:02}"))
on = axes("Buyers who leave, by time of day", "share of payments that left", "hours (UTC)")
draw_shares(on, parts)
print_comparison("time of day", parts)

# %% [markdown]
# ## Which groups differ?
#
# Of several tests, one looks significant more often than one in twenty times. The p values below
# are corrected for the number of tests, by Holm's method. Groups differ if the value is below 5 %.

# %%
corrected = holm(tests)
for name, p in corrected.items():
    verdict = "the groups differ" if p < 0.05 else "the difference may be chance"
    print(f"By {name}: p = {p:.3f} of {len(tests)} tests, {verdict}.")

# %% [markdown]
# ## Time to options and to the confirm
#
# The time from creation until options are seen and until the confirm, for confirmed payments. Look
# at where the curves end, far from the lifetime of a payment.

# %%
seen_at = options.groupby("payment_id").offered_at.min()
seen_s = (seen_at - payments.created_at).dt.total_seconds()[reached.confirmed].dropna()
confirmed_at = accepted.groupby("payment_id")["at"].min()
confirmed_s = (confirmed_at - payments.created_at).dt.total_seconds().dropna()
on = axes("Time that paying buyers take", "seconds from creation", "share of payments")
samples = {"until options are seen": seen_s, "until the confirm": confirmed_s}
draw_ecdf(on, samples, {name: list(payments.buyer[times.index]) for name, times in samples.items()})
buyers = list(payments.buyer[confirmed_s.index])
median, low, high = quantile(confirmed_s, 0.5, buyers)
mark(on, median, f"half confirm by {median:.0f} s")
late, late_low, late_high = quantile(confirmed_s, 0.95, buyers)

# %%
lasts_s = (payments.expires_at - payments.created_at).dt.total_seconds().median()
print(
    f"Half confirm within {median:.0f} s ({low:.0f} to {high:.0f}), 95 % within {late:.0f} s",
    f"({late_low:.0f} to {late_high:.0f}); a payment lasts {lasts_s:.0f} s.",
)
left = payments[payments.left]
unseen = seen_at.reindex(left.index).isna().to_numpy()
signing, ready = fetched[payments.left], inline[payments.left]
SEEN = {
    "never saw options": unseen,
    "fetched the actions of an option": signing,
    "saw options with actions, and may have started to sign": ~signing & ready,
    "saw options without actions, and fetched none": ~signing & ~ready & ~unseen,
}
print(f"Of {len(left):,} who left:")
for words, which in SEEN.items():
    print(f"  {which.sum():>3} {words}")

# %% [markdown]
# ## The end of abandoned payments
#
# Buyers cancelled the payments that are `cancelled`. They let the others expire.

# %%
ends = {str(k): (int(n), len(left)) for k, n in left.status.value_counts().items()}
on = axes("End of payments that were never confirmed", "share of payments that left", "")
draw_shares(on, ends)
print("; ".join(f"{end}: {n:,} of {total:,}" for end, (n, total) in ends.items()))

# %% [markdown]
# ## The totals reconcile

# %%
counts = list(steps.values())
assert counts == sorted(counts, reverse=True)
assert steps["created"] + len(left_out) == len(data["payments"])
assert sum(n for n, _ in ends.values()) == len(left) == steps["created"] - steps["confirmed"]
assert sum(which.sum() for which in SEEN.values()) == len(left)
for shares in (by(merchants), parts, amounts):
    assert sum(share.total for share in shares.values()) == steps["created"]
    assert all(share.effective <= share.total for share in shares.values())
assert sum(share.total for share in chains.values()) == steps["options seen"]
assert all(corrected[name] >= p for name, p in tests.items())
final = events.sort_values("version").groupby("payment_id").status.last()
assert (final[payments.index] == payments.status).all()
