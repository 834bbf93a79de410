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
# # How fast does Florin answer, and how much load can it carry?
#
# You will see a short load test through the Python client:
#
# - the latency of each call, with its uncertainty,
# - payments per second, and errors, while more and more buyers pay at once,
# - by Little's law, the number of concurrent buyers for that capacity.

# %% tags=["parameters"]
LEVELS = (1, 4, 12)  # buyers who pay at once
PAYMENTS = 36  # of each level

# %%
import asyncio
import time

import pandas as pd
from charts import COLOURS, axes, draw_ecdf, draw_shares, use_style
from estimates import quantile
from florin_client import FlorinError
from lab import start

use_style()
# all buyers have one address here, and would share its limits
NAMES = ("guard", "address", "app", "failure")
lab = await start(limits={f"{name}_per_minute": 0 for name in NAMES})

# %% [markdown]
# ## Definitions
#
# | Figure | Numerator | Denominator | Left out |
# | - | - | - | - |
# | Latency of a call | time from the call to its response | | calls that failed |
# | Time of a payment | from its creation until it is confirmed | | signing, payments that failed |
# | Throughput | payments that were confirmed | time from the first call to the last | |
# | Error share | payments with a failed call | payments that were started | |
# | Buyers at work | pending payments, on average over the time | | |
#
# The client retries calls that got no response, or exceeded a rate limit, so those are slow rather
# than failed. Limits by address and app are off: all buyers share them. Unless FLORIN_TARGET names
# another Florin, one process runs everything: buyers, wallets, server and test chains. A separate
# server can carry more.

# %% [markdown]
# ## The run
#
# The first payment is left out: it loads what later payments need. Each buyer pays one payment
# after the other, so their number is the load. The run ends after a number of payments, however
# slow they are.

# %%
calls, payments = [], []
chain_id = lab.env["FLORIN_EVM_CHAIN"]


async def timed(level, name, call):
    began = time.perf_counter()
    answer = await call
    calls.append((level, name, time.perf_counter() - began))
    return answer, calls[-1][-1]


# %%
async def pay(level, wallet):
    began, took, error, payment_id = time.perf_counter(), 0.0, "", ""
    try:
        call = lab.merchant.create_payment(amount=("iso4217/USD", 1250))
        created, took = await timed(level, "create", call)
        payment_id = created.payment_id
        call = lab.gateway.get_payment_options(payment_id, accounts=wallet.accounts(chain_id))
        offered, more = await timed(level, "options", call)
        chosen = offered.options[0]
        outputs = await asyncio.to_thread(wallet.execute, chosen.actions, option=chosen)
        option = {"option_id": chosen.id, "outputs": outputs}
        _, most = await timed(level, "confirm", lab.gateway.confirm_payment(payment_id, **option))
        took += more + most
    except FlorinError as failed:
        error = failed.code
    payments.append((level, payment_id, took, began, time.perf_counter(), error))


# %%
async def buyer(level, left, wallet):
    while left:
        left.pop()
        await pay(level, wallet)


# %%
await pay(0, lab.wallet())
calls.clear()
payments.clear()
for level in LEVELS:
    left = list(range(PAYMENTS))
    await asyncio.gather(*(buyer(level, left, lab.wallet()) for _ in range(level)))
columns = ["level", "payment_id", "took", "began", "ended", "error"]
payments = pd.DataFrame(payments, columns=columns)
calls = pd.DataFrame(calls, columns=["level", "call", "s"])
good = payments[payments.error == ""]
print(f"{len(payments):,} payments, {len(calls):,} calls, {len(good):,} payments confirmed")

# %% [markdown]
# ## Latency, call by call
#
# The median and the 95th percentile in milliseconds, each with the 95 % bounds of its true value.
# Where the bounds are far apart, there were too few calls.

# %%
calls["ms"] = 1000 * calls.s
for (level, call), some in calls.groupby(["level", "call"], sort=False):
    quantiles = "; ".join(
        "p{:.0f} {:.0f} ({:.0f} to {:.0f})".format(100 * share, *quantile(some.ms, share))
        for share in (0.5, 0.95)
    )
    print(f"{level:>3} at once  {call:8} {quantiles}")

# %% [markdown]
# Look at how far the curves move to the right with more buyers: that is time spent waiting for
# others. If only the tail of a curve gets longer, few calls wait.

# %%
chart = axes("Latency of all calls", "Latency, ms", "Share of calls", "all calls")
draw_ecdf(chart, {f"{level} at once": some.ms for level, some in calls.groupby("level")})
chart.set_xscale("log")

# %%
middle = calls.groupby("level").ms.median()
for level, ms in middle.items():
    print(
        f"{level:>3} at once: median {ms:.1f} ms, {ms / middle.iloc[0]:.1f} times the first level's"
    )

# %% [markdown]
# ## Throughput, and Little's law
#
# Little's law: buyers at work = throughput × time of each buyer. Look at where the marks leave the
# dashed line, on which twice as many buyers would pay twice as much: from there on, more buyers
# only wait longer, and the throughput is the capacity.

# %%
runs = payments.groupby("level").agg(began=("began", "min"), ended=("ended", "max"))
runs["confirmed"] = good.groupby("level").size().reindex(runs.index, fill_value=0)
runs["per_s"] = runs.confirmed / (runs.ended - runs.began)
spent = (payments.ended - payments.began).groupby(payments.level)
runs["at_work"] = spent.sum() / (runs.ended - runs.began)
runs["mean_s"] = spent.mean()
runs[["confirmed", "per_s", "mean_s", "at_work"]].round(3)

# %%
chart = axes("Throughput", "Buyers who pay at once", "Payments per second", f"{len(good)} payments")
chart.plot(runs.index, runs.per_s, "o-", color=COLOURS[0], label="measured")
ideal = runs.index / runs.mean_s.iloc[0] / runs.index[0]
chart.plot(runs.index, ideal, "--", color=COLOURS[1], label="without any waiting")
chart.set_ylim(0, runs.per_s.max() * 2)
chart.legend(loc="lower right")
chart.margins(0.05)

# %%
capacity, alone = runs.per_s.max(), runs.mean_s.iloc[0]
print(f"Capacity here: {capacity:.1f} payments per second, {capacity * 3600:,.0f} per hour.")
print(f"By Little's law {capacity * alone:.1f} concurrent buyers use it, if each is served in the")
print(f"{alone * 1000:.0f} ms of the first level, signing included. If more come, some wait.")

# %% [markdown]
# ## Errors
#
# Look at the ends of the error bars rather than at the bars: no error among few payments does not
# mean no errors.

# %%
failed = payments.error != ""
shares = {
    f"{level} at once": (int(failed[some.index].sum()), len(some))
    for level, some in payments.groupby("level")
}
draw_shares(axes("Payments with a failed call", "Share of payments", "", ""), shares)

# %%
print(
    f"{failed.sum()} of {len(payments)} failed: {payments.error[failed].value_counts().to_dict()}"
)

# %% [markdown]
# ## All payments are paid
#
# A confirmed payment is not yet paid: the cell follows each payment until it is final.

# %%
final = [await lab.merchant.wait_final(payment_id, timeout=60) for payment_id in good.payment_id]
states = pd.Series([status.info.tx_id for status in final]).replace("", None)
print(f"{states.notna().sum()} of {len(final)} are paid, in {states.nunique()} transactions.")

# %% [markdown]
# ## The totals reconcile

# %%
await lab.close()
assert len(payments) == len(LEVELS) * PAYMENTS
assert good.payment_id.is_unique
assert states.notna().all()
assert len(calls) >= 3 * len(good)
# Little's law holds for the measurements, and no buyer worked twice at the same time
assert (runs.at_work <= runs.index + 1e-9).all()
law = (payments.groupby("level").size() / (runs.ended - runs.began)) * runs.mean_s
assert ((law - runs.at_work).abs() < 1e-6).all()
