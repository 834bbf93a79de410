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
# # How long until a payment is final, and does that match the estimate?
#
# You will see the time from the confirm until a payment has succeeded:
#
# - by chain, beside the estimate (`etaS`) of the option,
# - by method, in phases: until it is sent, until it is in a block, until the block is final,
# - by confirmation depth, on chains that need more blocks,
# - the chains that are slower than their estimates, by name.

# %% tags=["parameters"]
DEPTHS = (1, 5, 12)  # confirmation depths of separate simulations
EACH = 24  # payments of each depth
SHARES = (0.5, 0.9, 0.95)  # reported quantiles

# %%
import os

import pandas as pd
from chains import resting
from charts import COLOURS, axes, draw_ecdf, mark, stacked, use_style
from data import load
from estimates import band_quantile, ecdf, estimate_share

use_style()
TABLES = ("payments", "events", "options", "confirmations", "transactions", "transaction_items")
data = load(*TABLES)
print(data.source)

# %% [markdown]
# ## Definitions
#
# The API defines `etaS` as the estimated seconds from confirm to final. Each option has its own
# estimate. Estimates follow the duration of earlier payments: all payments are compared with the
# first estimate of their chain and method.
#
# | Figure | From | Until | Left out |
# | - | - | - | - |
# | Time to final | the confirm | the payment has succeeded | simulated outcomes |
# | To be sent | the confirm | our first transaction for it is signed | sent by the buyer: 0 |
# | To be mined | the same time | the time of its block | chains that cannot be read |
# | To be final | the time of its block | the payment has succeeded | as above |
# | The chain's own time | our first transaction for it is signed | the payment has succeeded | |
#
# | Figure | Numerator | Denominator |
# | - | - | - |
# | Kept estimates | payments whose time to final is `etaS` or less | payments that succeeded |
# | Depth | blocks until a payment is final, its own included | |
#
# Chains report the time of a block in truncated seconds: the phases before and after it are off by
# up to a second, their sum is not. Bounds are those of the band by Dvoretzky, Kiefer and Wolfowitz
# (DKW), which is valid for all quantiles at once, at 95 %. ∞ means that there are too few payments.
#
# Payments that share a transaction are final together. So a batch is a cluster, and the bounds are
# those of the effective sample size: "200 payments, worth 40" is as certain as 40 payments that
# were sent alone. Payments that buyers send themselves are batches of one.


# %%
def times(data) -> pd.DataFrame:
    """Return one row for each payment that ended on a chain, with seconds."""
    events, options, sent = data["events"], data["options"], data["transaction_items"]
    final = events[events.cause == "effect_final"].set_index("payment_id")["at"].rename("final")
    batch = sent.dropna(subset=["payment_id"]).groupby("payment_id").tx_id.last().rename("batch")
    sent = sent.merge(data["transactions"], on="tx_id").groupby("payment_id").signed_at.min()
    chosen = options[options.chosen].set_index("payment_id")[["chain_id", "method", "eta"]]
    payments = data["payments"].set_index("payment_id")[["status", "tx_hash"]].join([chosen, final])
    payments = payments.join(data["confirmations"].set_index("payment_id").confirmed_at).join(
        [sent, batch]
    )
    payments = payments[(payments.status == "succeeded") & payments.final.notna()]
    payments["batch"] = payments.batch.fillna(payments.index.to_series())
    payments["sent"] = payments.signed_at.fillna(payments.confirmed_at)
    payments["total"] = (payments.final - payments.confirmed_at).dt.total_seconds().round(3)
    payments["own"] = (payments.final - payments.sent).dt.total_seconds().round(3)
    # estimates follow earlier payments: compare all with the first estimate of their kind
    payments = payments.sort_values("confirmed_at")
    payments["eta"] = payments.groupby(["chain_id", "method"]).eta.transform("first")
    return payments


paid = times(data)
print(f"{len(paid):,} payments that succeeded on {paid.chain_id.nunique()} chains")

# %% [markdown]
# ## By chain
#
# A chain can have several estimates: a method that needs the buyer's own transaction takes a block
# more. So each curve is one chain and one estimate, with the methods that share it. Look at where a
# curve crosses its own line: that share was final in time. The band shows the uncertainty.

# %%
by_chain = dict(iter(paid.groupby("chain_id")))
curves = {
    f"{chain.partition(':')[0]}, {', '.join(sorted(some.method.unique()))}": some
    for (chain, _), some in paid.groupby(["chain_id", "eta"])
}
chart = axes("Confirm to final", "Time to final, s", "Share of payments", data.source)
draw_ecdf(
    chart,
    {name: some.total for name, some in curves.items()},
    {name: list(some.batch) for name, some in curves.items()},
)
chart.set_xlim(0, 1.05 * max(paid.total.max(), paid.eta.max()))
chart.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
promises = {eta: [] for eta in sorted(paid.eta.unique())}
for name, some in curves.items():
    promises[some.eta.iloc[0]].append(name)
for promise, names in promises.items():
    mark(chart, promise, f"estimate {promise} s: {'; '.join(names)}")


# %%
def format_quantiles(seconds, batches) -> str:
    """Format quantiles with their bounds."""
    quantiles = []
    for share in SHARES:
        at, low, high = band_quantile(seconds, share, list(batches))
        quantiles.append(f"p{100 * share:.0f} {at:.1f} ({max(0, low):.1f} to {high:.1f}) s")
    return ", ".join(quantiles).replace("inf", "∞")


for chain, some in by_chain.items():
    in_time = estimate_share(some.total <= some.eta, list(some.batch))
    low, high = in_time.get_bounds()
    print(
        f"{chain}: {(some.total <= some.eta).sum():,} of {len(some):,} kept their estimate",
        f"({in_time.share:.0%}, 95 %: {low:.0%} to {high:.0%}; {some.batch.nunique():,} batches,",
        f"worth {in_time.effective:,.0f} payments);\n  {format_quantiles(some.total, some.batch)}",
    )

# %% [markdown]
# ## Is a chain slow?
#
# An estimate is not exact, so one late payment proves nothing. A chain is slow if, at 95 %, fewer
# than half of its payments were final within their estimate, counted from when they were sent: the
# chain does not cause waits before that.

# %%
slow = []
for chain, some in by_chain.items():
    *_, half = ecdf(some.own, list(some.batch))
    within = (some.own <= some.eta).mean()
    if within + half < 0.5:
        slow.append(chain)
    print(f"{chain}: {within:.0%} ± {100 * half:.0f} points within the estimate once sent")
print(f"Slower than promised: {', '.join(slow) or 'no chain'}.")

# %% [markdown]
# ## By method, in phases
#
# The notebook reads the time of each payment's block from the chains. Look for the longest part of
# each bar: before sending, it is the buyer's approval or Florin's queue, then the wait for a block,
# then the confirmation depth.

# %%
mined = {}
async with resting(data.home) as chains:
    for chain in chains.values():
        hashes = paid.tx_hash[paid.chain_id == chain.id]
        mined |= {
            transaction.hash: transaction.at for transaction in await chain.transactions((), hashes)
        }
paid["mined"] = paid.tx_hash.map(mined)
unread = sorted(set(paid.chain_id[paid.mined.isna()]))
print(f"Payments on chains that cannot be read: {paid.mined.isna().sum():,} {unread or ''}")

# %%
PHASES = {"to be sent": "confirmed_at", "to be mined": "sent", "to be final": "mined"}
read = paid[paid.mined.notna()].copy()
# a truncated second can be before the event that led to the block
read["mined"] = read[["mined", "sent"]].max(axis=1)
read["mined"] = read[["mined", "final"]].min(axis=1)
ends = [*list(PHASES.values())[1:], "final"]
for (phase, begin), end in zip(PHASES.items(), ends, strict=True):
    read[phase] = (read[end] - read[begin]).dt.total_seconds()
phases = read.groupby("method")[list(PHASES)].mean()
chart = axes(
    "Where the time goes", "Method", "Mean time, s", f"{data.source}, {len(read):,} payments"
)
stacked(chart, phases.index, {phase: phases[phase] for phase in PHASES})

# %%
for method, some in paid.groupby("method"):
    longest = phases.loc[method].idxmax() if method in phases.index else "unknown"
    promises = ", ".join(f"{eta} s" for eta in sorted(some.eta.unique()))
    print(f"{method} (n = {len(some):,}): {format_quantiles(some.total, some.batch)}")
    print(f"  longest phase: {longest}; estimate: {promises}")

# %% [markdown]
# Some methods can be late on chains that are not slow: then the time passes before the payment is
# sent. If the buyer's wallet sends an approval first, that takes one block more, and so does the
# estimate.

# %%
late = paid[~paid.chain_id.isin(slow) & (paid.total > paid.eta)]
for method, some in late.groupby("method"):
    before, of = (some.total - some.own).median(), (paid.method == method).sum()
    print(f"{method}: {len(some):,} of {of:,} late; median {before:.1f} s before sending")
print(f"{len(late):,} late payments on chains that are not slow")

# %% [markdown]
# ## By depth
#
# More blocks are safer and slower. The chart shows simulations with other depths of the EVM chain,
# each with buyers of the same seed: look at whether the median stays below the estimate as depth
# grows. Your own state folder has a single depth, so nothing is drawn for it.

# %%
HERE = not os.environ.get("FLORIN_TARGET")
runs = [
    times(load(*TABLES, payments=EACH, days=1, confirmations=depth)).assign(depth=depth)
    for depth in (DEPTHS if HERE else ())
]
deep = pd.concat(runs) if runs else paid.head(0).assign(depth=[])
deep = deep[deep.chain_id.str.startswith("eip155:")]

# %%
if HERE:
    medians = {
        depth: band_quantile(some.own, 0.5, list(some.batch))
        for depth, some in deep.groupby("depth")
    }
    chart = axes("The price of depth", "Depth, blocks", "Sent to final, s", f"{len(deep)} payments")
    low, high = ([abs(at - bounds[n]) for at, *bounds in medians.values()] for n in (0, 1))
    middle = [at for at, *_ in medians.values()]
    chart.errorbar(list(medians), middle, [low, high], fmt="o-", capsize=4, label="median")
    # without the block of an approval, as the time is from sent to final
    promises = deep.groupby("depth").eta.min()
    chart.plot(promises.index, promises, "s--", color=COLOURS[1], label="estimate")
    chart.set(xlim=(0, None), ylim=(0, None))
    chart.legend(loc="upper left")

# %%
for depth, some in deep.groupby("depth"):
    in_time = (some.own <= some.eta.min()).sum()
    print(f"{depth} blocks, estimate {some.eta.min()} s: {format_quantiles(some.own, some.batch)}")
    print(f"  {in_time} of {len(some)} within the estimate once sent")

# %% [markdown]
# ## The totals reconcile

# %%
done = data["payments"][data["payments"].status == "succeeded"]
simulated = done.tx_hash.str.startswith("test:", na=False)
assert len(paid) == (~simulated).sum() > 0
assert paid.index.is_unique
assert sum(len(some) for some in by_chain.values()) == len(paid)
assert sum(len(some) for some in curves.values()) == len(paid)
assert all(some.eta.nunique() == 1 for some in curves.values())
assert (paid.total >= 0).all()
assert (paid.own >= 0).all()
assert (read[list(PHASES)] >= 0).all(axis=None)
assert ((read[list(PHASES)].sum(axis=1) - read.total).abs() < 0.002).all()
assert len(read) + paid.mined.isna().sum() == len(paid)
