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
# # How long until a payment is final, and is that what was promised?
#
# You will see the time from the confirm until a payment has succeeded:
#
# - by chain, beside the promise (`etaS`) that came with the option,
# - by method, in phases: until it is sent, until it is in a block, until the block is final,
# - by depth, on chains that ask for more blocks,
# - which chains are slower than they promise, named.

# %% tags=["parameters"]
DEPTHS = (1, 5, 12)  # blocks that make a payment final, in simulations of their own
EACH = 24  # payments of each of those
SHARES = (0.5, 0.9, 0.95)  # the quantiles that are told

# %%
import os

import pandas as pd
from chains import resting
from charts import COLOURS, axes, band_quantile, draw_ecdf, ecdf, mark, stacked, use_style
from data import load

use_style()
TABLES = ("payments", "events", "options", "confirmations", "transactions", "transaction_items")
data = load(*TABLES)
print(data.source)

# %% [markdown]
# ## What is counted
#
# The API says of `etaS`: estimated seconds from confirm to final. Each option has its own.
# Promises follow what payments took: all are compared with the first one of their chain and method.
#
# | Figure | From | Until | Left out |
# | - | - | - | - |
# | Time to final | the confirm | the payment has succeeded | simulated outcomes |
# | To be sent | the confirm | our first transaction for it is signed | sent by the buyer: 0 |
# | To be mined | the same moment | the time of its block | chains that cannot be read |
# | To be final | the time of its block | the payment has succeeded | the same |
# | The chain's own time | our first transaction for it is signed | the payment has succeeded | |
#
# | Figure | Numerator | Denominator |
# | - | - | - |
# | Kept promises | payments whose time to final is `etaS` or less | payments that succeeded |
# | Depth | blocks that make a payment final, its own included | |
#
# Chains tell the time of a block in whole seconds, cut off: the phases before and after it are off
# by up to a second, their sum is not. Bounds are those of the band by Dvoretzky, Kiefer and
# Wolfowitz (DKW), which holds for all quantiles at once, at 95 %. ∞ says that there are too few.


# %%
def times(data) -> pd.DataFrame:
    """One row for each payment that went to its end on a chain, with seconds."""
    events, options, sent = data["events"], data["options"], data["transaction_items"]
    final = events[events.cause == "effect_final"].set_index("payment_id")["at"].rename("final")
    sent = sent.merge(data["transactions"], on="tx_id").groupby("payment_id").signed_at.min()
    chosen = options[options.chosen].set_index("payment_id")[["chain_id", "method", "eta"]]
    found = data["payments"].set_index("payment_id")[["status", "tx_hash"]].join([chosen, final])
    found = found.join(data["confirmations"].set_index("payment_id").confirmed_at).join(sent)
    found = found[(found.status == "succeeded") & found.final.notna()]
    found["sent"] = found.signed_at.fillna(found.confirmed_at)
    found["total"] = (found.final - found.confirmed_at).dt.total_seconds().round(3)
    found["own"] = (found.final - found.sent).dt.total_seconds().round(3)
    # promises follow what payments took: all are compared with the first one of their kind
    found = found.sort_values("confirmed_at")
    found["eta"] = found.groupby(["chain_id", "method"]).eta.transform("first")
    return found


paid = times(data)
print(f"{len(paid):,} payments that succeeded on {paid.chain_id.nunique()} chains")

# %% [markdown]
# ## By chain
#
# Look at where each curve crosses the promise of its chain: that share was final in time. A curve
# that is all to the left of its line keeps its promise; the band says how sure that is.

# %%
by_chain = dict(iter(paid.groupby("chain_id")))
chart = axes("Confirm to final", "Time to final, s", "Share of payments", data.source)
draw_ecdf(chart, {f"{chain[:24]}": some.total for chain, some in by_chain.items()})
chart.set_xlim(0, 1.05 * max(paid.total.max(), paid.eta.max()))
chart.legend(loc="best")
for promise in sorted(paid.eta.unique()):
    mark(chart, promise, f"promised: {promise} s")


# %%
def told(seconds) -> str:
    """Quantiles with their bounds."""
    each = []
    for share in SHARES:
        at, low, high = band_quantile(seconds, share)
        each.append(f"p{100 * share:.0f} {at:.1f} ({max(0, low):.1f} to {high:.1f}) s")
    return ", ".join(each).replace("inf", "∞")


for chain, some in by_chain.items():
    kept = (some.total <= some.eta).sum()
    print(f"{chain}: {kept:,} of {len(some):,} kept their promise; {told(some.total)}")

# %% [markdown]
# ## Is a chain slow?
#
# A promise is an estimate, so one late payment breaks nothing. A chain is named if, at 95 %, fewer
# than half of its payments were final within their promise, counted from when they were sent: what
# a payment waits for before that is not the chain's doing.

# %%
slow = []
for chain, some in by_chain.items():
    *_, half = ecdf(some.own)
    within = (some.own <= some.eta).mean()
    if within + half < 0.5:
        slow.append(chain)
    print(f"{chain}: {within:.0%} ± {100 * half:.0f} points within the promise once sent")
print(f"Slower than promised: {', '.join(slow) or 'no chain'}.")

# %% [markdown]
# ## By method, in phases
#
# The chains are asked when each payment's block came. Look for the longest part of each bar: before
# the transaction is sent it is the buyer's approval or our queue, then the wait for a block, then
# depth.

# %%
mined = {}
async with resting(data.home) as chains:
    for chain in chains.values():
        hashes = paid.tx_hash[paid.chain_id == chain.id]
        mined |= {one.hash: one.at for one in await chain.transactions((), hashes)}
paid["mined"] = paid.tx_hash.map(mined)
unread = sorted(set(paid.chain_id[paid.mined.isna()]))
print(f"Payments on chains that cannot be read: {paid.mined.isna().sum():,} {unread or ''}")

# %%
PHASES = {"to be sent": "confirmed_at", "to be mined": "sent", "to be final": "mined"}
read = paid[paid.mined.notna()].copy()
# a whole second that was cut off may lie before what led to the block
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
    promises = ", ".join(f"{one} s" for one in sorted(some.eta.unique()))
    print(f"{method} (n = {len(some):,}): {told(some.total)}")
    print(f"  longest phase: {longest}; promised: {promises}")

# %% [markdown]
# Some methods may be late on chains that are not: then the time goes by before anything is sent.
# Where the buyer's wallet sends an approval first that is a block more, and so is what is promised.

# %%
late = paid[~paid.chain_id.isin(slow) & (paid.total > paid.eta)]
for method, some in late.groupby("method"):
    before, of = (some.total - some.own).median(), (paid.method == method).sum()
    print(f"{method}: {len(some):,} of {of:,} late; in the middle {before:.1f} s before sending")
print(f"{len(late):,} late payments on chains that are not slow")

# %% [markdown]
# ## By depth
#
# More blocks are safer and slower. Simulations with other depths of the EVM chain, each with buyers
# of the same seed: look at whether the median keeps below the promise as depth grows. A state
# folder of one's own has one depth, so that nothing is drawn for it.

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
    medians = {depth: band_quantile(some.own, 0.5) for depth, some in deep.groupby("depth")}
    chart = axes("The price of depth", "Depth, blocks", "Sent to final, s", f"{len(deep)} payments")
    low, high = ([abs(at - one[n]) for at, *one in medians.values()] for n in (0, 1))
    middle = [at for at, *_ in medians.values()]
    chart.errorbar(list(medians), middle, [low, high], fmt="o-", capsize=4, label="median")
    # without the block of an approval, as the time is that from sent to final
    promises = deep.groupby("depth").eta.min()
    chart.plot(promises.index, promises, "s--", color=COLOURS[1], label="promised")
    chart.set(xlim=(0, None), ylim=(0, None))
    chart.legend(loc="upper left")

# %%
for depth, some in deep.groupby("depth"):
    kept = (some.own <= some.eta.min()).sum()
    print(f"{depth} blocks, promised {some.eta.min()} s: {told(some.own)}")
    print(f"  {kept} of {len(some)} within the promise once sent")

# %% [markdown]
# ## The totals reconcile

# %%
done = data["payments"][data["payments"].status == "succeeded"]
simulated = done.tx_hash.str.startswith("test:", na=False)
assert len(paid) == (~simulated).sum() > 0
assert paid.index.is_unique
assert sum(len(some) for some in by_chain.values()) == len(paid)
assert (paid.total >= 0).all()
assert (paid.own >= 0).all()
assert (read[list(PHASES)] >= 0).all(axis=None)
assert ((read[list(PHASES)].sum(axis=1) - read.total).abs() < 0.002).all()
assert len(read) + paid.mined.isna().sum() == len(paid)
