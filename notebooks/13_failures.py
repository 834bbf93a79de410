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
# # Why do payments fail, and who can prevent it?
#
# You will see payments that ended without money, on a day with a planted outage:
#
# - why they ended, and who could have prevented it,
# - their chains, methods and wallets,
# - when a chain stood still, derived from the data, and its cost,
# - the effect of replaced blocks on payments.

# %% tags=["parameters"]
SEED, PAYMENTS, DAYS = 7, 300, 1
OUTAGE_CHAIN, OUTAGE_MINUTES = "evm", 60  # the planted outage; no cell below uses it
REORGS = 0.08  # share of payments on EVM chains whose block is replaced
STUCK_S = 45  # a longer wait for the chain after the confirm counts as stuck
RUN = 2  # stuck payments in a row, on one chain, that count as an outage

# %%
import numpy as np
import pandas as pd
from charts import COLOURS, axes, draw_shares, stacked, use_style
from data import load
from estimates import compare, difference, estimate_share, holm, quantile
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

use_style()
tables = "payments", "events", "options", "confirmations", "transactions", "transaction_items"
planted = {"outage_chain": OUTAGE_CHAIN, "outage_minutes": OUTAGE_MINUTES, "reorgs": REORGS}
data = load(*tables, seed=SEED, payments=PAYMENTS, days=DAYS, **planted)
print(data.source)

# %% [markdown]
# ## Definitions
#
# | Figure | Numerator | Denominator | Left out |
# | - | - | - | - |
# | Lost | failed, expired or cancelled payments | payments that ended | open, simulated |
# | Lost after the confirm | failed payments that were confirmed | confirmed | as above |
# | Wait | time from the confirm to the end | | unconfirmed payments |
# | Stuck | waits longer than `STUCK_S`, or lapsed | confirmed | as above |
# | Outage | `RUN` or more payments of one chain in a row that are stuck | | |
# | Landed late | payments with more blocks after sending than the chain's median | landed | |
#
# | Cause | Criterion | Responsible | Remedy |
# | - | - | - | - |
# | never opened | expired, no option was offered | merchant | remind the buyer |
# | left at the options | expired, no actions to sign | merchant | more assets, a clearer page |
# | left at the signature | expired, actions were fetched | buyer | sign sooner |
# | left with actions | expired, options had actions | unknown | ask buyers; see below |
# | cancelled | `cancelled_reason` | buyer | create a new payment |
# | something else signed | event `confirm_mismatch` | wallet | submit the outputs of the actions |
# | declined | `failure_code`, or event `payer_declined` | buyer | use a different account |
# | lapsed in an outage | event `unspendable`, chain stood still | operator | use another node |
# | lapsed | event `unspendable`, at any other time | operator | check relayers' fees and funds |
#
# Options of some methods include the actions to sign, and a wallet fetches nothing. If such a
# payment expires, Florin cannot see whether the buyer looked at the options or refused to sign.
#
# Payments that one transaction of Florin settles succeed, wait and fail together. So intervals and
# tests count transactions as clusters; other payments are independent.

# %%
payments, events, options = (data[name] for name in tables[:3])
simulated = set(events.payment_id[events.cause.str.startswith("simulate_")])
still_open = payments.status.isin(["requires_action", "processing"])
left_out = set(payments.payment_id[still_open]) | simulated
ended = payments[~payments.payment_id.isin(left_out)].set_index("payment_id")
last = events.sort_values("version").groupby("payment_id").last().loc[ended.index]
ended = ended.assign(ended_at=last["at"], cause=last.cause, lost=ended.status != "succeeded")
print(f"{len(ended):,} payments ended, {ended.lost.sum():,} of them without money;")
print(f"left out: {still_open.sum():,} open and {len(simulated):,} simulated.")

# %% [markdown]
# Chain and method are those of the chosen option, or else of the option that was offered first. A
# payment that was never opened has neither.

# %%
first = options.sort_values(["offered_at", "option_id"]).groupby("payment_id").first()
chosen = options[options.chosen].set_index("payment_id")
place = chosen.combine_first(first).reindex(ended.index)
ended["chain"] = place.chain_id.str.split(":").str[0].fillna("none offered")
ended["chain_id"], ended["method"] = place.chain_id, place.method.fillna("none offered")
confirmed = data["confirmations"].set_index("payment_id").confirmed_at.reindex(ended.index)
accepted = confirmed.notna() & place.chain_id.notna() & (ended.cause != "confirm_mismatch")
ended["wait"] = (ended.ended_at - confirmed).dt.total_seconds().where(accepted)
ended["stuck"] = accepted & ((ended.wait > STUCK_S) | (ended.cause == "unspendable"))
print(f"{accepted.sum():,} were confirmed; {ended.stuck.sum():,} of these were stuck.")

# %% [markdown]
# ## Did a chain stand still?
#
# The cell sorts payments of one chain by their confirms: a run of stuck payments means that the
# chain accepted nothing. It stopped after the last proof before them, and before the first of them
# should have been final. It recovered after the last of them, and no later than the next payment
# that succeeded.


# %%
def list_outages(of: pd.DataFrame) -> list[dict]:
    """List the outages of one chain, from its confirmed payments in order."""
    usual, outages = pd.to_timedelta(of.wait[~of.stuck].quantile(0.95), unit="s"), []
    proofs = of.ended_at[of.cause == "effect_final"].sort_values()
    for _, some in of.groupby((of.stuck != of.stuck.shift()).cumsum()):
        if some.stuck.all() and len(some) >= RUN:
            began, ending = some.confirmed_at.iloc[0], some.confirmed_at.iloc[-1]
            before, after = proofs[proofs <= began], proofs[proofs > began]
            until = after.min() if len(after) else pd.NaT
            outage = {"stopped after": before.max(), "stopped by": began + usual}
            outage |= {"back after": min(ending, until) if len(after) else ending, "back by": until}
            outages.append(outage | {"stuck": len(some), "failed": int(some.lost.sum())})
    return outages


# %%
waited = ended[accepted].assign(confirmed_at=confirmed).sort_values("confirmed_at")
windows = [
    {"chain_id": chain_id, **outage}
    for chain_id, of in waited.groupby("chain_id")
    for outage in list_outages(of)
]
for window in windows:
    at = {
        name: f"{timestamp:%a %H:%M:%S}"
        for name, timestamp in window.items()
        if isinstance(timestamp, pd.Timestamp)
    }
    print(f"{window['chain_id']} stopped between {at.get('stopped after', 'the start')} and")
    print(f"  {at['stopped by']}, and was back between {at['back after']} and")
    print(
        f"  {at.get('back by', 'now')}: {window['stuck']} payments stuck,",
        f"{window['failed']} failed.",
    )
print(f"{len(windows)} outages found")

# %% [markdown]
# Each mark is a payment: look for marks far above the others, in a slope. A slope that falls to the
# right is an outage that ended for all at once; the shade is the time when the chain certainly
# stood still.

# %%
chart = axes("Time that the chain took", "Confirmed at, UTC", "Wait, s", data.source)
for n, (name, of) in enumerate(waited.groupby("chain")):
    look = {"marker": "os^D"[n % 4], "color": COLOURS[n % 7], "alpha": 0.6, "s": 22}
    chart.scatter(of.confirmed_at, of.wait.clip(lower=0.5), label=name, **look)
for window in windows:
    chart.axvspan(
        window["stopped by"], window["back after"], color="#333333", alpha=0.12, linewidth=0
    )
chart.axhline(STUCK_S, color="#333333", linewidth=1, linestyle=(0, (4, 3)))
chart.set_yscale("log")
chart.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
locator = AutoDateLocator(maxticks=9)
chart.xaxis.set(major_locator=locator, major_formatter=ConciseDateFormatter(locator))

# %%
items = data["transaction_items"].dropna(subset=["payment_id"])
batch = items.groupby("payment_id").tx_id.first().reindex(waited.index)
waited["batch"] = batch.fillna(waited.index.to_series())
for name, of in waited.groupby("chain"):
    middle, low, high = quantile(of.wait, 0.5, list(of.batch))
    _, most = estimate_share(of.stuck, list(of.batch)).get_bounds()
    print(f"{name}: half wait {middle:.0f} s at most (95 %: {low:.0f} to {high:.0f}), the longest")
    print(
        f"  {of.wait.max():,.0f} s; {of.stuck.sum():,} of {len(of):,} stuck (at most {most:.1%})."
    )

# %% [markdown]
# ## Causes of lost payments
#
# Each lost payment has one cause, the first that matches in the cell below. Look at the responsible
# side: the operator can only fix its own causes.

# %%
silent = pd.Series(False, index=ended.index)
for window in windows:
    until = window["back by"] if pd.notna(window["back by"]) else ended.ended_at.max()
    silent |= (ended.chain_id == window["chain_id"]) & confirmed.between(
        window["stopped after"], until
    )
at_once = set(options.method[options.chosen & (options.fetches == 0)])
fetched = ended.index.isin(options.payment_id[options.fetches > 0])
inline = ended.index.isin(options.payment_id[options.method.isin(at_once)])
offered = ended.index.isin(options.payment_id)
lapsed = ended.cause == "unspendable"
declined = (ended.cause == "payer_declined") | (ended.failure_code == "declined_user")

# %%
expired = ended.status == "expired"
CAUSES = {
    "never opened": ("merchant", expired & ~offered),
    "left at the signature": ("buyer", expired & fetched),
    "left with actions": ("unknown", expired & inline),
    "left at the options": ("merchant", expired & offered),
    "cancelled": ("buyer", ended.status == "cancelled"),
    "something else signed": ("wallet", ended.cause == "confirm_mismatch"),
    "declined": ("buyer", declined),
    "lapsed in an outage": ("operator", lapsed & silent),
    "lapsed": ("operator", lapsed),
    "other": ("operator", ended.lost),
}
ended["why"] = np.select([which for _, which in CAUSES.values()], list(CAUSES), "")
ended["who"] = ended.why.map({why: who for why, (who, _) in CAUSES.items()})

# %%
lost = ended[ended.lost]
causes = {str(k): (int(n), len(ended)) for k, n in lost.why.value_counts(sort=True).items()}
draw_shares(axes("Causes of lost payments", "Share of ended payments", "", data.source), causes)

# %%
print("; ".join(f"{who}: {n:,} of {len(lost):,}" for who, n in lost.who.value_counts().items()))
codes = lost.groupby(["status", "cause"]).failure_detail.first().fillna("").reset_index()
for row in codes.itertuples():
    n = ((lost.status == row.status) & (lost.cause == row.cause)).sum()
    print(f"{n:>4} {row.status} by {row.cause} {row.failure_detail and f'({row.failure_detail})'}")

# %% [markdown]
# ## Time of losses
#
# Look for hours with a color that the others do not have: a constant cause is normal, a cause of
# one hour is an incident.

# %%
span = ended.created_at.max() - ended.created_at.min()
# of steps that divide a day, the first with at most 30 bars
step = next((n for n in (1, 2, 3, 4, 6, 8, 12) if span <= pd.Timedelta(hours=30 * n)), 24)
bins = ended.created_at.dt.floor(f"{step}h")
counts = pd.crosstab(bins, ended.why.where(ended.lost))
counts = counts.reindex(pd.date_range(bins.min(), bins.max(), freq=f"{step}h"), fill_value=0)
form = "%H:%M" if span <= pd.Timedelta(days=1) else "%d %b" if step == 24 else "%d %b %H:%M"
chart = axes("When lost payments were created", f"UTC, steps of {step} h", "Payments", data.source)
stacked(chart, counts.index.strftime(form), {why: counts[why] for why in CAUSES if why in counts})
chart.tick_params(axis="x", rotation=30)

# %%
worst = counts.sum(axis=1).idxmax()
most = counts.loc[worst].idxmax()
print(
    f"Most were lost in the {step} h from {worst:%a %H:%M}: {counts.loc[worst].sum()},",
    f"{counts.loc[worst, most]} of them for one cause: {most}.",
)

# %% [markdown]
# ## Chains, methods and wallets
#
# First, losses after the confirm, where the buyer had done everything. The sentences below test
# whether the groups differ: overlapping bounds do not answer that.

# %%
sure = waited.assign(failed=waited.status == "failed")


def by(key: str):
    """Return the share that failed after the confirm, for each value of a column."""
    return {str(k): estimate_share(some.failed, list(some.batch)) for k, some in sure.groupby(key)}


shares = {f"{key} {k}": share for key in ("chain", "method") for k, share in by(key).items()}
draw_shares(axes("Lost after the confirm", "Share of confirmed payments", "", data.source), shares)

# %% [markdown]
# A wallet is known from its confirm on. The transactions of Florin show the kind of payer: a key,
# an account with code, or an account that does not exist yet. Payers with their own call send the
# transaction themselves.

# %%
kinds = items.dropna(subset=["payer_kind"]).groupby("payment_id").payer_kind.last()
sends = waited.method.map({"direct": "sends itself"}).fillna("unknown")
sure["payer"] = kinds.reindex(sure.index).fillna(sends)
for key in ("wallet", "payer"):
    for name, share in by(key).items():
        low, high = share.get_bounds()
        n = round(share.share * share.total)
        print(
            f"{key:7} {name:16} {n:>3} of {share.total:>3} failed (95 %: {low:.1%} to {high:.1%})"
        )

# %% [markdown]
# The p values are corrected for the number of tests (Holm). Groups with fewer than five expected
# losses are left out.

# %%
tests = {key: compare(by(key)) for key in ("chain", "method", "wallet", "payer")}
corrected = holm({key: result.p for key, result in tests.items() if result})
for key, result in tests.items():
    if result is None:
        print(f"By {key}: the groups are too small to compare.")
        continue
    verdict = "the groups differ" if corrected[key] < 0.05 else "the difference may be chance"
    print(f"By {key}: {result.describe()}; corrected {corrected[key]:.3f}, {verdict}.")

# %% [markdown]
# ## Cost of the outage
#
# Payments with options of a chain, created while it stood still and at any other time. Look at the
# difference of the two bars of one chain, and at its bounds in the sentence below.

# %%
costs = {}
for window in windows:
    here = ended[ended.chain_id == window["chain_id"]]
    until = window["back by"] if pd.notna(window["back by"]) else ended.ended_at.max()
    during = here.created_at.between(window["stopped by"], until)
    name = f"{here.chain.iloc[0]} {window['stopped by']:%d %b %H:%M}"
    costs[f"{name}, in the outage"] = int(here.lost[during].sum()), int(during.sum())
    costs[f"{name}, otherwise"] = int(here.lost[~during].sum()), int((~during).sum())
if costs:
    draw_shares(axes("Lost in an outage", "Share lost", "", data.source), costs)

# %%
for (name, (bad, n)), (_, (usual, of)) in zip(
    list(costs.items())[::2], list(costs.items())[1::2], strict=True
):
    bars = [estimate_share(np.arange(size) < lost_of) for lost_of, size in ((bad, n), (usual, of))]
    gap, low, high = (100 * value for value in difference(*bars))
    expected = n * usual / max(1, of)
    more = bad - expected
    print(f"{name}: {bad} of {n} were lost; {expected:.1f} would have been at other times,")
    print(f"so the outage cost about {more:.0f} payments. The shares differ by {gap:.0f} points")
    print(f"(95 %: {low:.0f} to {high:.0f}).")
print(f"{len(windows)} outages; {lapsed.sum()} payments lapsed, {(lapsed & silent).sum()} in them.")

# %% [markdown]
# ## Effect of replaced blocks
#
# A transaction whose block is replaced lands in a later block. So does a transaction whose fee was
# too low, or that was sent while the chain stood still: the latter are left out. Look for a chain
# on which more payments land late than on others.

# %%
sent = data["transactions"].dropna(subset=["block_number", "sent_block"]).copy()
sent["blocks"] = (sent.block_number - sent.sent_block).astype(int)
sent["late"] = sent.blocks > sent.groupby("chain_id").blocks.transform("median")
landed = items.merge(sent[["tx_id", "late"]], on="tx_id").groupby("payment_id").late.max()
calm = waited[~silent[waited.index]].join(landed, how="inner")
late = {str(k): (int(some.sum()), len(some)) for k, some in calm.groupby("chain").late}
draw_shares(axes("Landed late", "Share of payments that Florin sent", "", data.source), late)

# %%
for was_late, some in calm.groupby("late"):
    words = "landed later" if was_late else "landed as usual"
    failed = (some.status == "failed").sum()
    print(f"{len(some):>4} {words}: {failed} failed, the longest waited {some.wait.max():.1f} s")
print(f"{(calm.late & ~calm.lost).sum()} of {calm.late.sum()} that landed late were paid.")

# %% [markdown]
# ## The totals reconcile

# %%
assert len(ended) + len(left_out) == len(payments)
assert (
    sum(n for n, _ in causes.values()) == len(lost) == ended.lost.sum() == counts.to_numpy().sum()
)
assert (lost.why != "other").all(), lost[lost.why == "other"].cause.unique()
assert (ended.why[~ended.lost] == "").all()
for key in ("chain", "method", "wallet", "payer"):
    assert sum(share.total for share in by(key).values()) == accepted.sum()
assert all(window["stopped after"] <= window["back after"] for window in windows)
assert ended.why[lapsed & ~declined].str.startswith("lapsed").all()
assert ended.stuck.sum() >= sum(window["stuck"] for window in windows)
assert sum(total for _, total in late.values()) == len(calm)
