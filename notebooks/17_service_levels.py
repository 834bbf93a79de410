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
# # How fast does Florin answer, and how much can it take?
#
# You will see a short load run through the Python client:
#
# - how long each call takes, with how sure that is,
# - payments a second, and errors, while more and more buyers pay at once,
# - by Little's law, how many buyers at once that capacity is for.

# %% tags=["parameters"]
LEVELS = (1, 4, 12)  # buyers who pay at once
PAYMENTS = 36  # of each level

# %%
import asyncio
import time

import pandas as pd
from charts import COLOURS, axes, draw_ecdf, draw_shares, quantile, use_style
from florin_client import FlorinError
from lab import start

use_style()
# everybody has one address here, and would share what is allowed to one
NAMES = ("guard", "address", "app", "failure")
lab = await start(limits={f"{name}_per_minute": 0 for name in NAMES})

# %% [markdown]
# ## What is counted
#
# | Figure | Numerator | Denominator | Left out |
# | - | - | - | - |
# | Latency of a call | time from the call to its answer | | calls that failed |
# | Time of a payment | from its creation until it is confirmed | | signing, payments that failed |
# | Throughput | payments that were confirmed | time from the first call to the last | |
# | Error share | payments of which a call failed | payments that were begun | |
# | Buyers at work | payments under way, on average over the time | | |
#
# The client repeats calls that got no answer, or that were too many, so that those are slow rather
# than failed. Limits by address and app are off: all buyers share one. Unless FLORIN_TARGET names
# another Florin, one process does everything: buyers, wallets, server and test chains. A server of
# its own can take more.

# %% [markdown]
# ## The run
#
# One payment comes first and is left out: it loads what the others need. Each buyer pays one
# payment after the other, so their number is the load. The run ends after a number of payments,
# however slow they are.

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
# The median and the 95th percentile in milliseconds, each with the values between which the true
# one lies at 95 %. Where those are far apart, there were too few calls to tell.

# %%
calls["ms"] = 1000 * calls.s
for (level, call), some in calls.groupby(["level", "call"], sort=False):
    told = "; ".join(
        "p{:.0f} {:.0f} ({:.0f} to {:.0f})".format(100 * share, *quantile(some.ms, share))
        for share in (0.5, 0.95)
    )
    print(f"{level:>3} at once  {call:8} {told}")

# %% [markdown]
# Look at how far the curves move to the right with more buyers: that is time spent waiting for
# others. A curve that only gets a longer tail has few calls that wait.

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
# Little's law: buyers at work = throughput × time that each spends. Look at where the marks leave
# the dashed line, on which twice as many buyers would pay twice as much: from there on more buyers
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
chart = axes("Throughput", "Buyers who pay at once", "Payments a second", f"{len(good)} payments")
chart.plot(runs.index, runs.per_s, "o-", color=COLOURS[0], label="measured")
ideal = runs.index / runs.mean_s.iloc[0] / runs.index[0]
chart.plot(runs.index, ideal, "--", color=COLOURS[1], label="if nobody waited for anybody")
chart.set_ylim(0, runs.per_s.max() * 2)
chart.legend(loc="lower right")
chart.margins(0.05)

# %%
capacity, alone = runs.per_s.max(), runs.mean_s.iloc[0]
print(f"Capacity here: {capacity:.1f} payments a second, {capacity * 3600:,.0f} an hour.")
print(f"By Little's law {capacity * alone:.1f} buyers at once use it, if each is served within the")
print(f"{alone * 1000:.0f} ms of the first level, signing included. If more come, some wait.")

# %% [markdown]
# ## Errors
#
# Look at the ends of the error bars rather than at the bars: no error among few payments is not
# no errors.

# %%
failed = payments.error != ""
shares = {
    f"{level} at once": (int(failed[some.index].sum()), len(some))
    for level, some in payments.groupby("level")
}
draw_shares(axes("Payments of which a call failed", "Share of payments", "", ""), shares)

# %%
print(
    f"{failed.sum()} of {len(payments)} failed: {payments.error[failed].value_counts().to_dict()}"
)

# %% [markdown]
# ## All of them are paid
#
# Confirmed is not yet paid: each is followed until the chain has it for good.

# %%
final = [await lab.merchant.wait_final(one, timeout=60) for one in good.payment_id]
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
# Little's law holds for what was measured, and nobody was at work twice
assert (runs.at_work <= runs.index + 1e-9).all()
law = (payments.groupby("level").size() / (runs.ended - runs.began)) * runs.mean_s
assert ((law - runs.at_work).abs() < 1e-6).all()
