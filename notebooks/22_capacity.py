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
# # What limits an installation first, and which step removes the limit?
#
# You will see, for 10, 100, 1,000 and 10,000 payments a second:
#
# - which resource is full first if there is one of each, and what to add,
# - the smallest installation that carries the busiest minute,
# - a simulated day of it, in which a chain has no blocks and the database fails over,
# - how late processes learn of each other's changes, and what vacuum needs,
# - when its disk is full, what it logs, and how many connections it needs.
#
# No Florin runs here. Costs of a payment are those of the benchmarks in `docs/performance.md`; all
# else is assumed. Change the parameters to those of your chains and machines.

# %% tags=["parameters"]
RATES = (10, 100, 1_000, 10_000)  # payments a second, on average over a day
SEED = 7
# of one payment: processor time (µs), gas, dry runs of a node (1/s), and bytes in PostgreSQL
COSTS = {
    "service_us": 5_067,
    "settle_us": 1_700,
    "database_us": 4_000,
    "gas": 68_424,
    "trials_per_s": 7_664,
    "stored_bytes": 7_700,
    "log_bytes": 11_892,
    "dead_rows": 4.2,
    "vacuum_cost": 27.4,  # as PostgreSQL counts it: 1 for a page in memory, 20 to change one
    "transaction_ids": 1.1,
    "changes": 2.2,  # of which other processes are notified
    # µs of one notification: PostgreSQL, and for each listener; a process that receives it
    "notify_us": 31,
    "listener_us": 17,
    "receive_us": 10,
}
CHAIN = {"block_s": 2, "block_gas": 60_000_000, "share": 0.1}  # the share that one caller can use
DISK = {"size_bytes": 4e12, "bytes_per_s": 500e6}  # of one PostgreSQL
VACUUM = {"cost_limit": 200, "delay_s": 0.002}  # of autovacuum, by default
SWEEP_S = 1.0  # processes find changes without notifications after that
CONNECTIONS_MAX = 100  # `max_connections` of PostgreSQL, by default
OUTAGE_S, FAILOVER_S = 1_800, 60  # of one chain in the evening, and of the database before

# %%
import numpy as np
import pandas as pd
from charts import COLOURS, QUIET, axes, mark, use_style
from florin_server.domain.capacity import model
from florin_server.domain.capacity.day import BACKLOG_STEP_S, simulate_day
from florin_server.domain.capacity.sizing import LOAD_MAX, plan_installation

use_style()
costs = model.Costs(**COSTS)
least = model.Installation(
    chain=model.Chain(**CHAIN), disk=model.Disk(**DISK), vacuum=model.Vacuum(**VACUUM)
)


def demand_of(rate):
    return model.Demand(rate, SEED, outage_s=OUTAGE_S, failover_s=FAILOVER_S)


plans = {rate: plan_installation(costs, demand_of(rate), least) for rate in RATES}

# %% [markdown]
# ## Definitions
#
# | Figure | Meaning | Left out |
# | - | - | - |
# | Rate | payments a second that arrive, averaged over a day | payments that are never confirmed |
# | Busiest minute | evenings have 1.6 times the rate, and four sales triple it | seasons |
# | Load | payments of the busiest minute, divided by what the resource carries | |
# | Full | a load above 70 % | |
# | Waiting time | from a payment's first call to its block | blocks until it is final |
# | Late | waited longer than a payment lasts | |
#
# Left out of all: Solana, payouts, refunds, buyers who poll, and machines between the processes.
# No buyer gives up: a call that is refused while the database fails over is repeated.

# %% [markdown]
# ## What one of each resource carries

# %%
carries = least.carries(costs)
for name, rate in sorted(carries.items(), key=lambda item: item[1]):
    print(f"one {name:<16} {rate:>10,.0f} payments/s")

# %% [markdown]
# Look at the order: a chain's gas is used up long before a processor, and a disk's speed much
# later. The lines are parallel, so this order is the same for every rate. Notifications are an
# exception: each further process makes all of them dearer. They have a chart of their own below.

# %%
names = sorted(carries, key=carries.get)
chart = axes(
    f"A {names[0]} is full first",
    "Payments a second, on average over a day",
    "Load in the busiest minute, one of each",
    "above the line, payments wait",
)
grid = np.geomspace(min(RATES) / 4, max(RATES), 60)
factor = plans[RATES[0]].demand.peak / RATES[0]
for name, color in zip([name for name in names if name != model.NOTICES], COLOURS, strict=True):
    chart.plot(grid, grid * factor / carries[name], color=color, label=name)
chart.axhline(LOAD_MAX, color=QUIET, linestyle="--")
chart.set(xscale="log", yscale="log")
_ = chart.legend()

# %% [markdown]
# ## What is full first, and the step that removes it

# %%
STEPS = {
    model.GAS: "accept more chains, or chains with more gas, or Solana",
    model.SERVICE: "run more processes of `florin serve`, one for each core",
    model.DATABASE: "give PostgreSQL more cores; lists and exports go to a standby",
    model.KEY: "add relayers to each chain",
    model.NODE: "add nodes to each chain",
    model.DISK: "give each group of merchants an installation of its own",
    model.VACUUM: "raise `autovacuum_vacuum_cost_limit`",
    model.NOTICES: "run fewer processes on one PostgreSQL, or set `notify = false`",
}
for rate, plan in plans.items():
    full = {name: load for name, load in plan.first_loads.items() if load > LOAD_MAX}
    print(f"{rate:,} payments/s, {plan.demand.peak:,.0f}/s in the busiest minute")
    for name, load in full.items():
        print(f"  {name}: {load:,.1f} times what one carries; {STEPS[name]}")
    if not full:
        print("  one of each is enough")

# %% [markdown]
# ## The smallest installation for each rate

# %%
rows = {}
for rate, plan in plans.items():
    installation = plan.installation
    rows[rate] = {
        "service cores": installation.service_cores,
        "PostgreSQL cores": installation.database_cores,
        "PostgreSQL servers": installation.databases,
        "vacuum cost limit": installation.vacuum.cost_limit * installation.vacuum_limits,
        "nodes": installation.nodes,
        "chains": installation.chains,
        "keys of a chain": installation.keys,
        "connections": installation.connections(),
    }
sizes = pd.DataFrame(rows)
sizes.columns.name = "payments/s"
print(sizes.to_string())

# %% [markdown]
# PostgreSQL allows 100 connections by default. Each process opens up to 13, so few processes
# already need more: raise `max_connections`, or put a pooler that keeps sessions in front.

# %%
for rate, connections in sizes.loc["connections"].items():
    a_server = connections / sizes.loc["PostgreSQL servers", rate]
    step = "" if a_server <= CONNECTIONS_MAX else f", more than the default of {CONNECTIONS_MAX}"
    print(f"{rate:>6,} payments/s: {a_server:,.0f} connections to a server{step}")

# %% [markdown]
# ## Notifications between processes
#
# A process that commits a change notifies all others by `NOTIFY`. PostgreSQL sends notifications
# one after another, each to every process. A process has one on its way at a time, with all changes
# since the last. So a busy queue makes them late, and holds up no payment.

# %%
for rate, plan in plans.items():
    sent = plan.installation.notifications(costs, plan.demand.peak)
    print(
        f"{rate:>6,} payments/s: {sent.listeners:>3} on a server, {sent.per_s:>5,.0f} "
        f"notifications/s of {sent.changes_each:4.1f} changes, {sent.delay_s * 1e3:4.1f} ms late, "
        f"{sent.database_cores:.2f} PostgreSQL cores for them"
    )

# %% [markdown]
# Look at where the lines meet the one of the sweep: with so many processes, notifications arrive
# no sooner than changes are found without them. A line rises steeply where the queue gets busy all
# the time, and each process waits for its turn.

# %%
processes = np.arange(1, 401)
limit = costs.count_listeners(SWEEP_S)
chart = axes(
    f"With {limit} processes on one PostgreSQL, notifications gain nothing",
    "Processes on one PostgreSQL",
    "Delay of a change, s",
    "the line is the sweep that finds changes without notifications",
)
for rate, color in zip((10, 100, 1_000), COLOURS, strict=False):
    delays = [model.Notifications(costs, rate, int(count)).delay_s for count in processes]
    chart.plot(processes, delays, color=color, label=f"{rate:,} payments/s")
chart.axhline(SWEEP_S, color=QUIET, linestyle="--")
chart.set(yscale="log")
_ = chart.legend()

# %% [markdown]
# ## Vacuum
#
# All autovacuum workers of a PostgreSQL share one limit. If payments leave more than that, dead
# rows stay, and tables grow. PostgreSQL also vacuums tables because of their age, after 200 million
# transaction ids; a group of writes uses one.

# %%
for rate, plan in plans.items():
    installation, demand = plan.installation, plan.demand
    default = model.Installation(databases=installation.databases, vacuum=installation.vacuum)
    aged = model.Growth(costs, rate, demand.peak).hours_until_freeze(installation.databases)
    print(
        f"{rate:>6,} payments/s: {default.loads(costs, demand.peak)[model.VACUUM]:5.0%} of the "
        f"default in the busiest minute, so a cost limit of "
        f"{installation.vacuum.cost_limit * installation.vacuum_limits}; because of age after "
        f"{aged:,.0f} hours"
    )

# %% [markdown]
# ## A day with a failover and an outage
#
# At seven in the evening the database fails over, and takes nothing for a minute. At eight one of
# the chains has no blocks for half an hour.

# %%
days = {rate: simulate_day(costs, plan.installation, plan.demand) for rate, plan in plans.items()}
for rate, day in days.items():
    print(
        f"{rate:>6,} payments/s: {day.arrived:>11,} payments, waited p50 {day.quantile_s(50):,} s, "
        f"p99 {day.quantile_s(99):,} s, {day.late / day.arrived:.3%} late"
    )

# %% [markdown]
# Look at how soon a queue is gone. The installation has room even in its busiest minute, so what
# waited during a failover is settled soon after. What waits for the chain without blocks cannot go
# elsewhere: it is settled at the chain's own pace, and the more chains there are, the fewer
# payments it concerns.

# %%
largest = max(RATES)
hours = np.arange(len(days[largest].backlog)) * BACKLOG_STEP_S / model.HOUR_S
chart = axes(
    "A failover is over within minutes, an outage of a chain is not",
    "Hour of the day",
    "Payments that wait",
    f"{largest:,} payments a second",
)
for name, color in ((model.DATABASE, COLOURS[0]), (model.GAS, COLOURS[1])):
    waiting = [moment[name] for moment in days[largest].backlog]
    chart.plot(hours, waiting, color=color, label=f"for a {name}")
chart.set(xlim=(18.5, 21.5), yscale="symlog")
chart.set_ylim(bottom=0)
_ = chart.legend()
mark(chart, 19, "failover")
mark(chart, 20, "outage")

# %%
for rate, day in days.items():
    demand = plans[rate].demand
    waiting = [moment[model.DATABASE] for moment in day.backlog]
    start = demand.failover_at_s // BACKLOG_STEP_S
    normal = max(waiting[start - model.HOUR_S // BACKLOG_STEP_S : start])
    end = start + FAILOVER_S // BACKLOG_STEP_S
    steps = next(n for n, count in enumerate(waiting[end:]) if count <= normal)
    print(
        f"{rate:>6,} payments/s: {max(waiting[start : end + 1]):>9,} wait for the failover, "
        f"until {steps * BACKLOG_STEP_S} s after it"
    )

# %% [markdown]
# ## The disk
#
# Florin deletes no payment, so a database grows by the same amount every day. The log goes to each
# standby and to the archive from which you restore.

# %%
growth = {rate: model.Growth(costs, rate, plan.demand.peak) for rate, plan in plans.items()}
full_after = {}
for rate, each in growth.items():
    servers = plans[rate].installation.databases
    full_after[rate] = each.days_until_full(servers * least.disk.size_bytes)
    print(
        f"{rate:>6,} payments/s: {each.stored_bytes_a_day / 1e9:,.0f} GB stored and "
        f"{each.log_bytes_a_day / 1e9:,.0f} GB logged a day, {each.dead_rows_per_s:,.0f} row "
        f"versions/s for vacuum; {servers} x {least.disk.size_bytes / 1e12:.0f} TB are full after "
        f"{full_after[rate]:,.0f} days"
    )

# %%
chart = axes(
    f"At {largest:,} payments a second a disk is full after {full_after[largest]:,.0f} days",
    "Days",
    "Stored, TB for each PostgreSQL",
    f"the line is a disk of {least.disk.size_bytes / 1e12:.0f} TB",
)
days_shown = np.geomspace(1, 1_000, 50)
for (rate, each), color in zip(growth.items(), COLOURS, strict=False):
    stored = days_shown * each.stored_bytes_a_day / plans[rate].installation.databases / 1e12
    chart.plot(days_shown, stored, color=color, label=f"{rate:,} payments/s")
chart.axhline(least.disk.size_bytes / 1e12, color=QUIET, linestyle="--")
chart.set(xscale="log", yscale="log")
_ = chart.legend()

# %% [markdown]
# ## Proof
#
# The model adds all waiting twice, payment by payment and second by second, and fails if the sums
# differ or a resource did more than it can. Beyond that:

# %%
for rate, plan in plans.items():
    loads = plan.installation.loads(costs, plan.demand.peak)
    assert max(loads.values()) <= LOAD_MAX, f"too small for {rate}"
    day = days[rate]
    assert day.arrived == day.settled + day.left
    # only payments of the chain without blocks are late, and those behind them
    assert day.late <= 2 * OUTAGE_S * plan.demand.peak / plan.installation.chains
    assert set(plan.first_loads) == set(STEPS)
    sent = plan.installation.notifications(costs, plan.demand.peak)
    assert np.isclose(sent.per_s * sent.changes_each, sent.rate * costs.changes)
    assert sent.changes_each <= model.CHANGES_MAX
    assert sent.delay_s < SWEEP_S, "notifications arrive no sooner than changes are found"
assert plans[max(RATES)].bottleneck == min(carries, key=carries.get)
