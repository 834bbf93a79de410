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
from charts import axes, draw_ecdf, draw_funnel, draw_grid, draw_shares, mark, quantile, use_style
from data import load

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
# | fetched | payments whose actions to sign a wallet received | created | as above |
# | confirmed | payments that were `processing` | created | as above |
# | succeeded | payments that are `succeeded` | created | as above |
# | left | payments that were never `processing` | created; by chain: options seen | as above |
#
# A payment that reached a step has reached all steps before it. Some options include the actions to
# sign; for others, a wallet fetches them. A method is of the first kind if a payment was confirmed
# with it and never fetched. A buyer who saw such an option counts as having fetched.

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
ready = options[(options.fetches > 0) | options.method.isin(at_once)]
accepted = events[(events.status == "processing") & events.payment_id.isin(payments.index)]
reached = pd.DataFrame(index=payments.index)
reached["succeeded"] = payments.status == "succeeded"
reached["confirmed"] = reached.succeeded | reached.index.isin(accepted.payment_id)
reached["fetched"] = reached.confirmed | reached.index.isin(ready.payment_id)
reached["options seen"] = reached.fetched | reached.index.isin(options.payment_id)
reached["created"] = True
STEPS = ["created", "options seen", "fetched", "confirmed", "succeeded"]
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
# Look for bars whose bounds do not overlap: only these merchants differ.

# %%
payments["left"] = ~reached.confirmed


def by(keys: pd.Series) -> dict[str, tuple[int, int]]:
    """Return how many left, of how many, for each key, in the order of the keys."""
    grouped = payments.left.groupby(keys.reindex(payments.index), sort=True, observed=True)
    return {str(key): (int(some.sum()), len(some)) for key, some in grouped}


largest = payments.merchant_id.value_counts().index[:MERCHANTS]
ranks = {merchant_id: f"{n}. …{merchant_id[-6:]}" for n, merchant_id in enumerate(largest, 1)}
merchants = payments.merchant_id.map(ranks).fillna("others")
on = axes("Buyers who leave, by merchant", "share of payments that left", "largest first, id")
draw_shares(on, by(merchants))


# %%
def print_comparison(name: str, counts: dict[str, tuple[int, int]]) -> None:
    """Print whether the highest and the lowest share differ by more than chance."""
    shares = sorted((a / n, n, key) for key, (a, n) in counts.items() if n >= ENOUGH)
    if len(shares) < 2:
        print(f"By {name}: nothing to compare.")
        return
    (low, n, lowest), *_, (high, m, highest) = shares
    pooled = (low * n + high * m) / (n + m)
    sigmas = (high - low) / max(1e-9, np.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m)))
    verdict = "more than chance explains" if sigmas > 3 else "which may be chance"
    print(f"By {name}: {low:.0%} leave at {lowest} (n = {n:,}), {high:.0%} at {highest}")
    print(f"(n = {m:,}), {sigmas:.1f} standard errors apart: {verdict}.")


print_comparison("merchant", by(merchants))

# %% [markdown]
# The highest and the lowest of several shares are far apart even if all true shares are equal. So
# the sentence requires three standard errors.
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
# The sentence below the chart states whether the chains differ.
#
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
# The sentence states how far the extremes are apart; shares of few payments have wide bounds.
#
# ## Leaving by hour
#
# First, when payments are created at all. Look for dark fields: busy hours.

# %%
DAY_NAMES = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
hours, weekdays = payments.created_at.dt.hour, payments.created_at.dt.day_of_week
busy = pd.crosstab(weekdays, hours).reindex(index=range(7), columns=range(24), fill_value=0)
on = axes("When payments are created", "hour (UTC)", "")
draw_grid(on, busy, DAY_NAMES, [str(hour) for hour in range(24)], "payments")
on.tick_params(axis="x", labelsize=8)
print(f"The busiest hour of the week has {busy.to_numpy().max():,} payments.")

# %% [markdown]
# Then the share that leaves, by six parts of the day. Look for a part whose bounds do not overlap
# those of the others.

# %%
parts = by((hours // 4 * 4).map(lambda hour: f"{hour:02} to {hour + 4:02}"))
on = axes("Buyers who leave, by time of day", "share of payments that left", "hours (UTC)")
draw_shares(on, parts)
print_comparison("time of day", parts)

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
draw_ecdf(on, {"until options are seen": seen_s, "until the confirm": confirmed_s})
median, low, high = quantile(confirmed_s, 0.5)
mark(on, median, f"half confirm by {median:.0f} s")
late, late_low, late_high = quantile(confirmed_s, 0.95)

# %%
lasts_s = (payments.expires_at - payments.created_at).dt.total_seconds().median()
print(
    f"Half confirm within {median:.0f} s ({low:.0f} to {high:.0f}), 95 % within {late:.0f} s",
    f"({late_low:.0f} to {late_high:.0f}); a payment lasts {lasts_s:.0f} s.",
)
left = payments[payments.left]
after = seen_at.reindex(left.index)
print(
    f"Of {len(left):,} who left, {after.isna().sum():,} never saw options,",
    f"{(after.notna() & ~reached.fetched[left.index]).sum():,} saw them and fetched nothing,",
    f"{reached.fetched[left.index].sum():,} had actions to sign.",
)

# %% [markdown]
# ## The end of abandoned payments
#
# Look for `cancelled`: these buyers cancelled, all others just left.

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
for counted in (by(merchants), parts, amounts):
    assert sum(total for _, total in counted.values()) == steps["created"]
assert sum(total for _, total in chains.values()) == steps["options seen"]
final = events.sort_values("version").groupby("payment_id").status.last()
assert (final[payments.index] == payments.status).all()
