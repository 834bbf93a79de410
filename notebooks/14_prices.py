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
# # What did buyers pay for the requested amounts?
#
# You will see, for each currency and asset:
#
# - requested amounts beside paid amounts, and the resulting rate,
# - how the rates of a pair moved (spread, volatility), and whether one jumped,
# - gains or losses of merchants because a quote stays valid while the market moves,
# - the age of a quote at its confirm, and its remaining time.

# %% tags=["parameters"]
# simulated daily move of native coins in percent, as a standard deviation
VOLATILITY, PAYMENTS, DAYS = 6.0, 240, 1
JUMP = 6  # a step that is this many times the usual step, or more, is a jump
ENOUGH = 20  # steps of a pair; with fewer, the usual step is unknown
APART_S = 60  # quotes of a pair that are closer show one state of the market
SHORT_S = 60  # a quote with less time left was nearly lost

# %%
import numpy as np
import pandas as pd
from charts import COLOURS, axes, draw_ecdf, draw_shares, mark, use_style
from data import load
from estimates import bound_sum, estimate_volatility, quantile
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

use_style()
simulated = {"payments": PAYMENTS, "days": DAYS, "volatility": VOLATILITY}
data = load("payments", "options", "confirmations", **simulated)
print(data.source)

# %% [markdown]
# ## Definitions
#
# | Figure | Numerator | Denominator | Left out |
# | - | - | - | - |
# | Rate of a quote | requested amount | its price | assets of unknown decimals |
# | Middle rate | median rate of a pair's quotes | | |
# | Spread | highest rate of a pair less its lowest | its middle rate | |
# | Step | logarithm of a rate less that of the quote a minute or more before | | level pairs |
# | Volatility | usual step, by the root of its time | a day | few steps |
# | Jump | a step far beyond the usual, and a basis point or more | | pairs of few steps |
# | Slippage | paid amount less the price, minor units | | unconfirmed payments |
# | Move | rate of the next quote after the confirm less its own | its own | none in an hour |
# | Gain | move times the requested amount | | as above |
# | Age | time from the offer to the confirm | | as above |
# | Time left | time from the confirm to the quote's end | | and quotes without an end |
#
# Rates are whole units of a currency per whole unit of an asset. Quotes of pegged tokens have no
# end. The usual step is derived from the median, as for a normal distribution: jumps do not widen
# it. A pair is a currency and an asset, and level if it never moved. One basis point is a hundredth
# of a percent. Bounds are those of 95 %; for a gain, those of its expected value, where moves that
# overlap in time are one.

# %%
amounts = data["payments"][["payment_id", "unit", "requested", "paid_minor"]]
quotes = data["options"].merge(amounts, on="payment_id").dropna(subset=["price", "requested"])
quotes["rate"] = [
    requested / price for requested, price in zip(quotes.requested, quotes.price, strict=True)
]
symbols = {asset: data.get_symbol(asset) for asset in quotes.asset.unique()}
quotes["pair"] = quotes.unit.map(data.get_symbol) + " in " + quotes.asset.map(symbols)
bought = quotes[quotes.chosen].merge(data["confirmations"], on=["payment_id", "option_id"])
quotes.groupby(["pair", "method"]).size().rename("quotes").to_frame()

# %% [markdown]
# ## Requested and paid
#
# Both axes are logarithmic, so that a rate is a line: look for points off the line of their pair.
# Pairs that share a line have equal prices.

# %%
chart = axes(
    "Every pair lies on its rate", "Requested, whole units", "Paid, whole units", data.source
)
for n, (pair, some) in enumerate(bought.groupby("pair")):
    look = {"marker": "osD^vXP"[n % 7], "color": COLOURS[n % 7], "alpha": 0.6, "s": 22}
    chart.scatter(some.requested.astype(float), some.price.astype(float), label=pair, **look)
chart.set(xscale="log", yscale="log")
chart.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
chart.margins(0.05)

# %% [markdown]
# The table has the figures of all quotes, confirmed or not. A spread above zero is a price that
# moved, or a fraction of a minor unit that was rounded up.

# %%
rates = quotes.groupby("pair").rate
pairs = pd.DataFrame({"quotes": rates.size(), "lowest": rates.min(), "highest": rates.max()})
middle = quotes.assign(rate=quotes.rate.astype(float)).groupby("pair").rate.median()
pairs["spread, basis points"] = 10_000 * (pairs.highest - pairs.lowest).astype(float) / middle
pairs["rate"] = middle.round(6)
pairs["confirmed"] = bought.groupby("pair").size().reindex(pairs.index, fill_value=0)
print(pairs[["quotes", "confirmed", "rate", "spread, basis points"]].round(9).to_string())

# %%
moving = pairs.index[pairs.lowest != pairs.highest]
print(f"Pairs whose rate moved, or was rounded: {'; '.join(moving) or 'none'}.")
level = pairs.index[(pairs.lowest == 1) & (pairs.highest == 1)]
print(f"Always one to one: {'; '.join(level) or 'no pair'}.")

# %% [markdown]
# ## Moves of rates
#
# Each quote shows the market at one time. Look for a step that is steeper than all others, in all
# pairs of one native coin at the same time: that is a market move, not rounding.

# %%
quotes = quotes.sort_values("offered_at").reset_index(drop=True)
quotes["log"] = np.log(quotes.rate.astype(float))
chart = axes("Quoted rates", "Time, UTC", "Move since the first quote, %", data.source)
drawn = quotes[quotes.pair.isin(moving)]
for n, (pair, some) in enumerate(drawn.groupby("pair")):
    far = 100 * np.expm1(some["log"] - some["log"].iloc[0])
    look = {"color": COLOURS[n % 7], "linestyle": ("-", "--", ":")[n % 3]}
    chart.plot(some.offered_at, far, marker=".", label=f"{pair} (n = {len(some)})", **look)
if len(drawn):
    chart.legend(loc="best")
locator = AutoDateLocator(maxticks=9)
chart.xaxis.set(major_locator=locator, major_formatter=ConciseDateFormatter(locator))

# %%
parts, usual = [], {}
for pair, some in drawn.groupby("pair"):
    days = (some.offered_at - some.offered_at.iloc[0]).dt.total_seconds() / 86_400
    estimate = estimate_volatility(days, some["log"], APART_S / 86_400)
    counted = some.iloc[list(estimate.places)]
    part = counted.assign(since=counted.offered_at.shift(), step=counted["log"].diff())
    parts.append(part.dropna(subset=["since"]))
    if estimate.steps < ENOUGH:
        print(f"{pair}: unknown, of {estimate.steps:,} steps")
        continue
    usual[pair] = estimate.sigma
    bounds = f"{100 * estimate.low:.1f} to {100 * estimate.high:.1f}"
    print(f"{pair}: {100 * estimate.sigma:.1f} % a day (95 %: {bounds}; {estimate.steps:,} steps)")

# %%
steps = pd.concat(parts) if parts else drawn.assign(since=drawn.offered_at, step=0.0)
scaled = steps.step.abs() / np.sqrt((steps.offered_at - steps.since).dt.total_seconds() / 86_400)
far = scaled >= JUMP * steps.pair.map(usual)
jumps = steps[far & (steps.step.abs() >= 1e-4)]
for row in jumps.itertuples():
    print(
        f"{row.pair} jumped by {100 * np.expm1(row.step):+.1f} %",
        f"between {row.since.isoformat()} and {row.offered_at.isoformat()}",
    )
print(f"Jumps: {len(jumps) or 'none'}.")

# %% [markdown]
# ## Slippage, and moves while the buyer decided
#
# A quote binds Florin: slippage should always be zero. The receiver of the asset gains (above zero:
# the asset became more expensive) or loses the market's move since the quote. The next quote of the
# pair is the first to show it. Look for points outside the dashed lines: 95 % lie between them if
# rates have no memory.

# %%
quoted = quotes[["pair", "offered_at", "rate"]]
newest = quoted.rename(columns={"offered_at": "next_at", "rate": "next_rate"})
bought = pd.merge_asof(
    bought.sort_values("confirmed_at"),
    newest,
    left_on="confirmed_at",
    right_on="next_at",
    by="pair",
    direction="forward",
    tolerance=pd.Timedelta("1h"),
)
bought["slippage"] = bought.paid_minor - bought.price_minor
market_moves = bought.dropna(subset=["next_rate"]).copy()
market_moves["move"] = (market_moves.next_rate / market_moves.rate - 1).astype(float)
market_moves["after"] = (market_moves.next_at - market_moves.offered_at).dt.total_seconds()

# %%
chart = axes(
    "Moves of the market", "Quote to next quote, minutes", "Move, basis points", data.source
)
for n, (pair, some) in enumerate(market_moves[market_moves.pair.isin(moving)].groupby("pair")):
    look = {"marker": "osD^vXP"[n % 7], "color": COLOURS[n % 7]}
    chart.plot(some.after / 60, 10_000 * some.move, linestyle="none", label=pair, **look)
    chart.legend(loc="best")
minutes = np.linspace(0, max(1, market_moves.after[market_moves.pair.isin(moving)].max() / 60), 100)
for side in (-1, 1) if usual else ():
    wide = 1.96 * np.median(list(usual.values())) * np.sqrt(minutes / 1_440) * 10_000
    chart.plot(minutes, side * wide, color="#333333", linewidth=1, linestyle="--")

# %%
other = (bought.slippage != 0).sum()
print(f"Slippage: {other:,} of {len(bought):,} paid another price than quoted.")
market_moves["gain"] = market_moves.move * market_moves.requested.astype(float)
by_offer = market_moves[market_moves.pair.isin(moving)].sort_values("offered_at")
for (pair, unit), some in by_offer.groupby(["pair", "unit"]):
    apart = some.offered_at > some.next_at.cummax().shift()
    gain, low, high = bound_sum(some.gain, apart.cumsum())
    bounds = f"95 %: {low:+,.2f} to {high:+,.2f}" if apart.any() else "one move, no bounds"
    print(
        f"{pair}: {len(some):,} moves, gain {gain:+,.2f} of {some.requested.sum():,.2f}",
        f"{unit.removeprefix('iso4217/')} ({bounds})",
    )
moved = market_moves.move.abs() >= 1e-6
print(
    f"{moved.sum():,} of {len(market_moves):,} confirmed quotes saw a move",
    "of a hundredth of a point.",
)

# %% [markdown]
# ## Age of a quote at its confirm
#
# Look at where the curves of quotes with an end come close to the line, the longest validity of a
# quote: later buyers would have needed a new quote. Bands are 95 %.

# %%
bought["age"] = (bought.confirmed_at - bought.offered_at).dt.total_seconds()
bought["left"] = (bought.expires_at - bought.confirmed_at).dt.total_seconds()
ends = bought.expires_at.notna()
longest = (quotes.expires_at - quotes.offered_at).dt.total_seconds().max()
samples = {"quotes with an end": bought.age[ends], "quotes without an end": bought.age[~ends]}
samples = {name: ages for name, ages in samples.items() if len(ages)}
chart = axes("Age of a quote at its confirm", "Age, s", "Share of this age or less", data.source)
draw_ecdf(chart, samples)
if pd.notna(longest):
    chart.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    mark(chart, longest, f"the longest quote: {longest:.0f} s")

# %%
for name, ages in samples.items():
    for share in (0.5, 0.95):
        at, low, high = quantile(ages, share)
        print(
            f"{name}: {share:.0%} are confirmed within {at:.1f} s (95 %: {low:.1f} to {high:.1f})"
        )

# %% [markdown]
# ## Nearly too late
#
# Quotes with an end that were confirmed shortly before it. Look at the upper ends of the error
# bars, which show the worst case for such small samples.

# %%
near = bought.left < SHORT_S
counts = {
    pair: (int(near[some.index].sum()), len(some)) for pair, some in bought[ends].groupby("pair")
}
counts["all"] = (int(near[ends].sum()), int(ends.sum()))
title = f"Confirmed with less than {SHORT_S} s left"
draw_shares(axes(title, "Share of quotes with an end", "", data.source), counts)

# %%
print(f"{counts['all'][0]:,} of {counts['all'][1]:,} were confirmed in their last {SHORT_S} s;")
print(f"the shortest remaining time is {bought.left.min():.1f} s.")

# %% [markdown]
# ## The totals reconcile

# %%
paid = data["payments"].dropna(subset=["paid_minor"])
assert len(quotes) == pairs.quotes.sum()
assert set(bought.payment_id) <= set(paid.payment_id)
assert len(bought) == len(market_moves) + bought.next_rate.isna().sum()
assert (market_moves.after > 0).all()
assert (steps.offered_at - steps.since >= pd.Timedelta(APART_S, "s")).all()
assert (bought.slippage == 0).all(), bought[bought.slippage != 0].payment_id
assert (bought.age >= 0).all()
assert (bought.left.dropna() >= 0).all()
assert sum(len(ages) for ages in samples.values()) == len(bought) > 0
