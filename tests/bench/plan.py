"""Run `python -m tests.bench.plan [file]`: the capacity plan, from the figures of a run.

Values missing in the file, or all without a file, come from `DEFAULTS`, and the plan marks them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from florin_server.domain.capacity.day import EXPIRY_S, SimulatedDay, simulate_day
from florin_server.domain.capacity.model import (
    CHANGES_MAX,
    DATABASE,
    DISK,
    GAS,
    KEY,
    NODE,
    NOTICES,
    SERVICE,
    VACUUM,
    Chain,
    Costs,
    Demand,
    Disk,
    Growth,
    Installation,
)
from florin_server.domain.capacity.sizing import LOAD_MAX, InstallationPlan, plan_installation

from tests.bench import report
from tests.bench.report import Report

# from runs on two busy cores of a virtual machine; gas is the same everywhere
DEFAULTS = Costs(
    service_us=6_700, settle_us=2_400, database_us=4_000, gas=68_424, trials_per_s=6_200
)
# one fast disk of a database server
ASSUMED_DISK = Disk()
RATES, ALONE = (10, 100, 1_000, 10_000), (5, 10, 20, 40, 80)
# a typical chain, and a large chain of which Florin uses much
CHAIN, ROOMY = Chain(), Chain(block_gas=400_000_000, share=0.25)


class Sized(NamedTuple):
    """The installation for a rate, with its simulated day."""

    plan: InstallationPlan
    day: SimulatedDay


def costs_of(reported_report: Report | None) -> tuple[Costs, Mapping[str, str]]:
    """Return the costs, and the source of each: a figure or a default."""
    subjects = reported_report.subjects.values() if reported_report else ()
    figures = {
        each_figure.name: each_figure.value for each in subjects for each_figure in each.figures
    }
    # anvil's pace, since the embedded chain's is limited by Python
    rate, ratio = figures.get("verify_anvil_per_s"), figures.get("verify_anvil_vs_chain")
    if rate and ratio:
        figures["node"] = rate / ratio
    if settled_ms := figures.get("settle_batched_anvil_cpu_ms"):
        figures["settle"] = settled_ms * 1e3
    results = {
        "service_us": ("payment_us", "`payment_us`"),
        "settle_us": ("settle", "`settle_batched_anvil_cpu_ms`"),
        "database_us": ("payment_server_us", "`payment_server_us`"),
        "gas": ("gas_eip3009", "`gas_eip3009`"),
        "trials_per_s": ("node", "`verify_anvil_per_s` ÷ `verify_anvil_vs_chain`"),
        "stored_bytes": ("payment_stored_bytes", "`payment_stored_bytes`"),
        "log_bytes": ("payment_log_bytes", "`payment_log_bytes`"),
        "dead_rows": ("payment_dead_rows", "`payment_dead_rows`"),
        "vacuum_cost": ("payment_vacuum_cost", "`payment_vacuum_cost`"),
        "transaction_ids": ("payment_transaction_ids", "`payment_transaction_ids`"),
        "changes": ("payment_changes", "`payment_changes`"),
        "notify_us": ("notify_us", "`notify_us`"),
        "listener_us": ("notify_listener_us", "`notify_listener_us`"),
        "receive_us": ("notify_receive_us", "`notify_receive_us`"),
    }
    costs, sources = DEFAULTS, {}
    for name, (figure, source) in results.items():
        existing = figures.get(figure)
        sources[name] = source if existing else "default"
        costs = replace(costs, **{name: existing}) if existing else costs
    return costs, sources


def sized(costs: Costs, rate: float, chain: Chain, seed: int = 7) -> Sized:
    """Return the smallest installation that no minute of the day fills, with its simulated day."""
    demand = Demand(rate, seed)
    least = Installation(chain=chain, disk=ASSUMED_DISK)
    plan = plan_installation(costs, demand, least)
    return Sized(plan, simulate_day(costs, plan.installation, demand))


def carried(costs: Costs, sources: Mapping[str, str], chain: Chain) -> list[str]:
    """Return table lines: the capacity of one unit of each resource."""
    item = Installation(chain=chain, disk=ASSUMED_DISK).carries(costs)
    assumed = (
        f"blocks of {chain.block_s} s, {chain.block_gas / 1e6:.0f} M gas, {chain.share:.0%} of it"
    )
    how = {
        SERVICE: f"{costs.service_us:,.0f} µs per payment ({sources['service_us']})",
        DATABASE: f"{costs.database_us:,.0f} µs per payment ({sources['database_us']})",
        NODE: f"{costs.trials} of {costs.trials_per_s:,.0f} dry runs/s ({sources['trials_per_s']})",
        KEY: f"{chain.key_payments} payments in a block of {chain.block_s} s, and one core: "
        f"{costs.settle_us:,.0f} µs per payment ({sources['settle_us']})",
        GAS: f"{costs.gas:,.0f} gas per payment ({sources['gas']}); {assumed} (assumed)",
    }
    how[DISK] = (
        f"{ASSUMED_DISK.bytes_per_s / 1e6:.0f} MB/s (assumed), {costs.written_bytes:,.0f} B per "
        f"payment ({sources['stored_bytes']}, {sources['log_bytes']})"
    )
    how[NOTICES] = (
        f"{costs.changes:.1f} changes per payment ({sources['changes']}), at most {CHANGES_MAX} in "
        f"a notification; {costs.notify_us:.0f} µs each ({sources['notify_us']}), and "
        f"{costs.listener_us:.0f} µs for each process that listens ({sources['listener_us']})"
    )
    vacuum = Installation().vacuum
    how[VACUUM] = (
        f"a cost of {costs.vacuum_cost:.1f} per payment ({sources['vacuum_cost']}); "
        f"{vacuum.cost_limit} every {vacuum.delay_s * 1e3:.0f} ms (PostgreSQL's default)"
    )
    rows = [f"| one {name} | {item[name]:,.0f} | {how[name]} |" for name in item]
    return ["| Resource | Payments/s | Source |", "|-|-:|-|", *rows]


def needed(plans: Sequence[Sized]) -> list[str]:
    """The lines of a table: what is full first, and what was added."""
    cores = ("Service cores", "PostgreSQL cores", "Nodes", "Chains", "Keys per chain")
    lines = _head("Payments/s", "Busiest minute", "Load with one of each", *cores)
    for sized_plan in plans:
        demand, installation = sized_plan.plan.demand, sized_plan.plan.installation
        loads = sized_plan.plan.first_loads.items()
        full = [(name, load) for name, load in loads if load > LOAD_MAX][:3]
        first = ", ".join(f"{name} ({load:,.1f})" for name, load in full) or "none"
        database = f"{installation.database_cores:,}"
        if installation.databases > 1:
            database += f" in {installation.databases}"
        lines.append(
            f"| {demand.rate:,.0f} | {demand.peak:,.0f}/s | {first} | "
            f"{installation.service_cores:,} | {database} | {installation.nodes:,} | "
            f"{installation.chains:,} | "
            f"{installation.keys:,} |"
        )
    return lines


def grown(costs: Costs, plans: Sequence[Sized]) -> list[str]:
    """Return table lines: what each rate writes, and when it fills a disk."""
    volumes = ("Stored a day", "Log a day", "Disk busy in the busiest minute", "Disk full after")
    lines = _head("Payments/s", *volumes, "Row versions/s for vacuum", "Connections")
    for sized_plan in plans:
        demand, installation = sized_plan.plan.demand, sized_plan.plan.installation
        growth = Growth(costs, demand.rate, demand.peak)
        size_bytes = installation.databases * installation.disk.size_bytes
        load = installation.loads(costs, demand.peak)[DISK]
        lines.append(
            f"| {growth.rate:,.0f} | {growth.stored_bytes_a_day / 1e9:,.1f} GB | "
            f"{growth.log_bytes_a_day / 1e9:,.1f} GB | {load:.1%} | "
            f"{growth.days_until_full(size_bytes):,.1f} days | "
            f"{growth.dead_rows_per_s:,.0f} | {installation.connections():,} |"
        )
    return lines


def shared(costs: Costs, plans: Sequence[Sized]) -> list[str]:
    """Return table lines: notifications between processes in the busiest minute, and vacuum."""
    names = ("Processes on a PostgreSQL", "Notifications/s", "Changes in each", "Delay")
    vacuum = ("Vacuum cost limit", "Vacuum because of age after")
    lines = _head("Payments/s", *names, "PostgreSQL cores for them", *vacuum)
    for sized_plan in plans:
        demand, installation = sized_plan.plan.demand, sized_plan.plan.installation
        sent = installation.notifications(costs, demand.peak)
        hours = Growth(costs, demand.rate, demand.peak).hours_until_freeze(installation.databases)
        limit = installation.vacuum.cost_limit * installation.vacuum_limits
        lines.append(
            f"| {demand.rate:,.0f} | {sent.listeners:,} | {sent.per_s:,.0f} | "
            f"{sent.changes_each:,.1f} | {sent.delay_s * 1e3:,.1f} ms | "
            f"{sent.database_cores:.2f} | {limit:,} | {hours:,.0f} hours |"
        )
    return lines


def waited(plans: Sequence[Sized]) -> list[str]:
    """Return table lines: the simulated day of each installation."""
    busy_of = ("Busy: service", "PostgreSQL", "nodes")
    queue = "Longest queue for blocks"
    lines = _head("Payments/s", "Payments", "Waited p50", "p99", *busy_of, queue, "Late")
    for each_plan in plans:
        reported_day = each_plan.day
        busy = " | ".join(f"{reported_day.busy[name]:.0%}" for name in (SERVICE, DATABASE, NODE))
        lines.append(
            f"| {each_plan.plan.demand.rate:,.0f} | {reported_day.arrived:,} | "
            f"{reported_day.quantile_s(50)} s | "
            f"{reported_day.quantile_s(99):,} s | {busy} | {reported_day.longest[GAS]:,} | "
            f"{reported_day.late:,} |"
        )
    return lines


def alone(costs: Costs, chain: Chain) -> list[str]:
    """Return table lines: days of an installation with one of each resource."""
    names = ("Longest queue: service", "PostgreSQL", "nodes", "blocks")
    lines = _head("Payments/s", "Waited p50", "p99", *names, "Late", "Not settled")
    for rate in ALONE:
        reported_day = simulate_day(costs, Installation(chain=chain), Demand(rate))
        queues = " | ".join(
            f"{reported_day.longest[text]:,}" for text in (SERVICE, DATABASE, NODE, GAS)
        )
        lines.append(
            f"| {rate} | {reported_day.quantile_s(50):,} s | {reported_day.quantile_s(99):,} s | "
            f"{queues} | "
            f"{reported_day.late:,} | {reported_day.left:,} |"
        )
    return lines


def _head(*names: str) -> list[str]:
    return ["| " + " | ".join(names) + " |", "|-" + "|-" * (len(names) - 1) + "|"]


def plan(reported_report: Report | None) -> str:
    """Return the whole plan in Markdown."""
    costs, sources = costs_of(reported_report)
    plans = [sized(costs, rate, CHAIN) for rate in RATES]
    room = f"{ROOMY.block_gas / 1e6:.0f} M gas in a block, and {ROOMY.share:.0%} of it"
    demand = plans[0].plan.demand
    about = (
        f"One chain has no blocks for {demand.outage_s // 60} minutes at eight in the evening. "
        f"Waiting time runs from a payment's first call to its block. A payment that waits longer "
        f"than {EXPIRY_S // 60} minutes is late. The seed is {demand.seed}."
    )
    writes = (
        f"What that writes: {costs.stored_bytes:,.0f} B of a payment stay in the database "
        f"({sources['stored_bytes']}), {costs.log_bytes:,.0f} B are logged "
        f"({sources['log_bytes']}), and vacuum removes {costs.dead_rows:,.1f} row versions "
        f"({sources['dead_rows']}). Each PostgreSQL has a disk of "
        f"{ASSUMED_DISK.size_bytes / 1e12:.0f} TB that writes "
        f"{ASSUMED_DISK.bytes_per_s / 1e6:.0f} MB/s (assumed)."
    )
    notifies = (
        "Notifications between the processes of one PostgreSQL in the busiest minute, and what "
        "vacuum needs. A process sends one notification at a time, with all changes since the last:"
    )
    tables = (
        carried(costs, sources, CHAIN),
        ["Resources for each rate, with at most 70 % load in the busiest minute:"],
        needed(plans),
        [writes],
        grown(costs, plans),
        [notifies],
        shared(costs, plans),
        ["A day in each installation. " + about],
        waited(plans),
        ["The same day with one of each resource:"],
        alone(costs, CHAIN),
        [f"Resources if a chain has more room (assumed: {room}):"],
        needed([sized(costs, rate, ROOMY) for rate in RATES]),
    )
    return "\n\n".join("\n".join(lines) for lines in tables)


if __name__ == "__main__":
    file = Path(sys.argv[1] if len(sys.argv) > 1 else "build/bench.json")
    print(plan(report.load(file) if file.exists() else None))
