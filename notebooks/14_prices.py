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
# # What did buyers pay for what was asked?
#
# You will see, for each currency and asset:
#
# - what was requested beside what was paid, and the rate that follows from it,
# - how far rates of one pair were apart (spread), and how they moved before the confirm,
# - how old a quote was when it was confirmed, and how much of its time was left.

# %% tags=["parameters"]
SHORT_S = 60  # a quote with less time left than this was nearly lost

# %%
import pandas as pd
from charts import COLOURS, axes, draw_ecdf, draw_shares, mark, quantile, use_style
from data import load

use_style()
data = load("payments", "options", "confirmations")
print(data.source)

# %% [markdown]
# ## What is counted
#
# | Figure | Numerator | Denominator | Left out |
# | - | - | - | - |
# | Rate of a quote | what was requested | its price | assets of unknown decimals |
# | Middle rate | median rate of a pair's quotes | | |
# | Spread | highest rate of a pair less its lowest | its middle rate | |
# | Slippage | what was paid less the price, minor units | | unconfirmed payments |
# | Move | newest rate of the pair at the confirm less the quote's | the quote's | the same |
# | Age | time from the offer to the confirm | | the same |
# | Time left | time from the confirm to the quote's end | | and quotes without an end |
#
# Rates are whole units of a currency for a whole unit of an asset. Quotes of pegged tokens have no
# end.
# A pair is a currency and an asset. One basis point is a hundredth of a percent.

# %%
asked = data["payments"][["payment_id", "unit", "requested", "paid_minor"]]
quotes = data["options"].merge(asked, on="payment_id").dropna(subset=["price", "requested"])
quotes["rate"] = [
    wanted / price for wanted, price in zip(quotes.requested, quotes.price, strict=True)
]
sold = quotes.asset.str.rpartition(":")[2].str[-4:]
kind = quotes.asset.str.extract(r"/(\w+):")[0].replace("slip44", "coin")
quotes["pair"] = quotes.unit.str.removeprefix("iso4217/") + " in " + kind + " …" + sold
bought = quotes[quotes.chosen].merge(data["confirmations"], on=["payment_id", "option_id"])
quotes.groupby(["pair", "asset", "method"]).size().rename("quotes").to_frame()

# %% [markdown]
# ## Requested and paid
#
# Both axes are logarithmic, so that a rate is a line: look for points that leave the line of their
# pair. Pairs with one line for one cost the same.

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
# The table has the same in figures, of all quotes, whether they were confirmed or not. A spread
# above zero is a price that moved, or a fraction of a minor unit that was rounded up. In a
# simulation coins have fixed rates; elsewhere sources of prices tell them.

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
print(f"Pairs of which the rate moved, or was rounded: {', '.join(moving) or 'none'}.")
level = pairs.index[(pairs.lowest == 1) & (pairs.highest == 1)]
print(f"One for one, without any exception: {', '.join(level) or 'no pair'}.")

# %% [markdown]
# ## Slippage, and moves while the buyer decided
#
# A quote binds Florin: slippage is to be zero whatever the market did. What moved between the quote
# and its confirm is what the merchant gained (above zero: the asset became dearer) or lost by that.

# %%
newest = quotes.sort_values("offered_at")[["pair", "offered_at", "rate"]]
newest = newest.rename(columns={"offered_at": "confirmed_at", "rate": "rate_then"})
bought = pd.merge_asof(bought.sort_values("confirmed_at"), newest, on="confirmed_at", by="pair")
bought["slippage"] = bought.paid_minor - bought.price_minor
bought["move"] = 10_000 * (bought.rate_then / bought.rate - 1).astype(float)
moves = bought.groupby("pair").move
print(moves.agg(["size", "min", "median", "max"]).round(6).to_string())
moved = (bought.move.abs() >= 0.01).sum()
print(
    f"{moved:,} of {len(bought):,} confirmed quotes saw a move of a hundredth of a point or more."
)

# %% [markdown]
# ## How old a quote is when it is confirmed
#
# Look at where the curves of quotes that end come close to the line, the longest time that a quote
# was promised for: buyers beyond it would have had to ask again. Bands are 95 %.

# %%
bought["age"] = (bought.confirmed_at - bought.offered_at).dt.total_seconds()
bought["left"] = (bought.expires_at - bought.confirmed_at).dt.total_seconds()
ends = bought.expires_at.notna()
longest = (quotes.expires_at - quotes.offered_at).dt.total_seconds().max()
samples = {"quotes that end": bought.age[ends], "quotes that do not": bought.age[~ends]}
samples = {name: ages for name, ages in samples.items() if len(ages)}
chart = axes("Age of a quote at its confirm", "Age, s", "Share that is no older", data.source)
draw_ecdf(chart, samples)
if pd.notna(longest):
    chart.legend(loc="center right")
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
# Of quotes that end: how many were confirmed with little time left. Look at the upper ends of the
# error bars, which say how bad it could be with so few of them seen.

# %%
near = bought.left < SHORT_S
counts = {
    pair: (int(near[some.index].sum()), len(some)) for pair, some in bought[ends].groupby("pair")
}
counts["all"] = (int(near[ends].sum()), int(ends.sum()))
title = f"Confirmed with less than {SHORT_S} s left"
draw_shares(axes(title, "Share of the quotes that end", "", data.source), counts)

# %%
print(f"{counts['all'][0]:,} of {counts['all'][1]:,} were confirmed in their last {SHORT_S} s;")
print(f"the least time that was left is {bought.left.min():.1f} s.")

# %% [markdown]
# ## The totals reconcile

# %%
paid = data["payments"].dropna(subset=["paid_minor"])
assert len(quotes) == pairs.quotes.sum()
assert set(bought.payment_id) <= set(paid.payment_id)
assert (bought.slippage == 0).all(), bought[bought.slippage != 0].payment_id
assert (bought.age >= 0).all()
assert (bought.left.dropna() >= 0).all()
assert sum(len(ages) for ages in samples.values()) == len(bought) > 0
