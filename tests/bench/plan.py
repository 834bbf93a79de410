"""`python -m tests.bench.plan [file]`: the capacity plan, from the figures of a run.

What is not in the file, or if there is none, is taken from `DEFAULTS`, and told as such.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.bench import report
from tests.bench.capacity import (
    DATABASE,
    EXPIRY_S,
    GAS,
    KEY,
    NODE,
    SERVICE,
    Chain,
    Costs,
    Day,
    Demand,
    Installation,
    day,
)
from tests.bench.report import Report

# of one run on two busy cores of a virtual machine; gas is the same everywhere
DEFAULTS = Costs(
    service_us=6_700, settle_us=2_400, database_us=4_000, gas=68_424, trials_per_s=6_200
)
RATES, ALONE = (10, 100, 1_000, 10_000), (5, 10, 20, 40, 80)
# a chain as most are, and one that is large and mostly ours
CHAIN, ROOMY = Chain(), Chain(block_gas=400_000_000, share=0.25)
# of what a resource can do, at most, in the busiest minute
FULL = 0.7
# what one PostgreSQL is given at most before there is a second installation
DATABASE_CORES = 64
_FIELDS = {
    SERVICE: "service_cores", DATABASE: "database_cores", NODE: "nodes", KEY: "keys", GAS: "chains",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sized:
    """An installation for a rate. `first` are the resources of the smallest one, fullest first."""

    demand: Demand
    first: Sequence[tuple[str, float]]
    given: Installation
    day: Day

    @property
    def databases(self) -> int:
        """How many PostgreSQL servers its cores are, each with an installation of its own."""
        return math.ceil(self.given.database_cores / DATABASE_CORES)


def costs_of(told: Report | None) -> tuple[Costs, Mapping[str, str]]:
    """Costs, and the figure or the default that each comes from."""
    subjects = told.subjects.values() if told else ()
    figures = {one.name: one.value for each in subjects for one in each.figures}
    # anvil's pace; the embedded chain's is Python's
    rate, ratio = figures.get("verify_anvil_per_s"), figures.get("verify_anvil_vs_chain")
    if rate and ratio:
        figures["node"] = rate / ratio
    if settled_ms := figures.get("settle_batched_anvil_cpu_ms"):
        figures["settle"] = settled_ms * 1e3
    found = {
        "service_us": ("payment_us", "`payment_us`"),
        "settle_us": ("settle", "`settle_batched_anvil_cpu_ms`"),
        "database_us": ("payment_server_us", "`payment_server_us`"),
        "gas": ("gas_eip3009", "`gas_eip3009`"),
        "trials_per_s": ("node", "`verify_anvil_per_s` ÷ `verify_anvil_vs_chain`"),
    }
    costs, sources = DEFAULTS, {}
    for name, (figure, source) in found.items():
        known = figures.get(figure)
        sources[name] = source if known else "default"
        costs = replace(costs, **{name: known}) if known else costs
    return costs, sources


def sized(costs: Costs, rate: float, chain: Chain, seed: int = 7) -> Sized:
    """The smallest installation that no minute of the day fills, and that day in it."""
    demand = Demand(rate, seed)
    peak, least = demand.peak, Installation(chain=chain)
    loads = least.loads(costs, peak)
    needed = {name: max(1, math.ceil(load / FULL)) for name, load in loads.items()}
    # every chain has keys of its own
    needed[KEY] = max(1, math.ceil(needed[KEY] / needed[GAS]))
    given = replace(least, **{_FIELDS[name]: count for name, count in needed.items()})
    first = sorted(loads.items(), key=lambda one: one[1], reverse=True)
    return Sized(demand, first, given, day(costs, given, demand))


def carried(costs: Costs, sources: Mapping[str, str], chain: Chain) -> list[str]:
    """The lines of a table: what one of each resource carries."""
    one = Installation(chain=chain).carries(costs)
    assumed = (
        f"blocks of {chain.block_s} s, {chain.block_gas / 1e6:.0f} M gas, {chain.share:.0%} of it"
    )
    how = {
        SERVICE: f"{costs.service_us:,.0f} µs a payment ({sources['service_us']})",
        DATABASE: f"{costs.database_us:,.0f} µs a payment ({sources['database_us']})",
        NODE: f"{costs.trials} of {costs.trials_per_s:,.0f} dry runs/s ({sources['trials_per_s']})",
        KEY: f"{chain.key_payments} payments in a block of {chain.block_s} s, and one core: "
        f"{costs.settle_us:,.0f} µs a payment ({sources['settle_us']})",
        GAS: f"{costs.gas:,.0f} gas a payment ({sources['gas']}); {assumed}, as assumed",
    }
    rows = [f"| one {name} | {one[name]:,.0f} | {how[name]} |" for name in one]
    return ["| Resource | Payments/s | From |", "|-|-:|-|", *rows]


def needed(plans: Sequence[Sized]) -> list[str]:
    """The lines of a table: what is full first, and what was added."""
    cores = ("Service cores", "PostgreSQL cores", "Nodes", "Chains", "Keys a chain")
    lines = _head("Payments/s", "Busiest minute", "Full first, of one each", *cores)
    for one in plans:
        given = one.given
        full = [(name, load) for name, load in one.first if load > FULL][:3]
        first = ", ".join(f"{name} ({load:,.1f})" for name, load in full) or "none"
        database = f"{given.database_cores:,}"
        if one.databases > 1:
            database += f" in {one.databases}"
        lines.append(
            f"| {one.demand.rate:,.0f} | {one.demand.peak:,.0f}/s | {first} | "
            f"{given.service_cores:,} | {database} | {given.nodes:,} | {given.chains:,} | "
            f"{given.keys:,} |"
        )
    return lines


def waited(plans: Sequence[Sized]) -> list[str]:
    """The lines of a table: the simulated day of each installation."""
    busy_of = ("Busy: service", "PostgreSQL", "nodes")
    queue = "Longest queue for blocks"
    lines = _head("Payments/s", "Payments", "Waited p50", "p99", *busy_of, queue, "Late")
    for one in plans:
        told = one.day
        busy = " | ".join(f"{told.busy[name]:.0%}" for name in (SERVICE, DATABASE, NODE))
        lines.append(
            f"| {one.demand.rate:,.0f} | {told.arrived:,} | {told.quantile_s(50)} s | "
            f"{told.quantile_s(99):,} s | {busy} | {told.longest[GAS]:,} | {told.late:,} |"
        )
    return lines


def alone(costs: Costs, chain: Chain) -> list[str]:
    """The lines of a table: days in an installation with one of each."""
    names = ("Longest queue: service", "PostgreSQL", "nodes", "blocks")
    lines = _head("Payments/s", "Waited p50", "p99", *names, "Late", "Not settled")
    for rate in ALONE:
        told = day(costs, Installation(chain=chain), Demand(rate))
        queues = " | ".join(f"{told.longest[one]:,}" for one in (SERVICE, DATABASE, NODE, GAS))
        lines.append(
            f"| {rate} | {told.quantile_s(50):,} s | {told.quantile_s(99):,} s | {queues} | "
            f"{told.late:,} | {told.left:,} |"
        )
    return lines


def _head(*names: str) -> list[str]:
    return ["| " + " | ".join(names) + " |", "|-" + "|-" * (len(names) - 1) + "|"]


def plan(told: Report | None) -> str:
    """The whole plan as markdown."""
    costs, sources = costs_of(told)
    plans = [sized(costs, rate, CHAIN) for rate in RATES]
    room = f"{ROOMY.block_gas / 1e6:.0f} M gas in a block, and {ROOMY.share:.0%} of it"
    demand = plans[0].demand
    about = (
        f"One chain has no blocks for {demand.outage_s // 60} minutes at eight in the evening. "
        f"Waiting is from a payment's first call to its block; who waited longer than "
        f"{EXPIRY_S // 60} minutes is late. The seed is {demand.seed}."
    )
    tables = (
        carried(costs, sources, CHAIN),
        ["What fits each rate, no resource fuller than 70 % in the busiest minute:"],
        needed(plans),
        ["The day in each of them. " + about],
        waited(plans),
        ["The same day with one of each:"],
        alone(costs, CHAIN),
        [f"What fits where a chain has more room ({room}), as assumed:"],
        needed([sized(costs, rate, ROOMY) for rate in RATES]),
    )
    return "\n\n".join("\n".join(lines) for lines in tables)


if __name__ == "__main__":
    file = Path(sys.argv[1] if len(sys.argv) > 1 else "build/bench.json")
    print(plan(report.load(file) if file.exists() else None))
