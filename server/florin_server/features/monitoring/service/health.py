"""The conditions of chains and of the installation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from florin_server.base.clock import Clock, SystemClock
from florin_server.base.context import EventContext
from florin_server.compliance.screening.service.check import (
    describe_lists_problem,
    get_lists_condition,
)
from florin_server.db.context import StorageContext
from florin_server.domain.accounts.destinations import AssetAccount
from florin_server.domain.conditions import (
    EXPECTED_CONDITIONS,
    NODE_CONDITIONS,
    STORE_CONDITIONS,
    Condition,
    ConditionName,
)
from florin_server.domain.health import ConditionTracker
from florin_server.features.monitoring.service import quarantine as items
from florin_server.features.monitoring.service import server_clock
from florin_server.features.webhooks.store import deliveries
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.payouts.service import held_money, payouts
from florin_server.operations.context import OperationsContext
from florin_server.rails.context import ChainContext
from florin_server.rails.protocol import Rail
from florin_server.rails.types import RailUnavailable, is_unfunded
from florin_server.settings.context import SettingsContext


class _Context(
    ArchiveContext,
    ChainContext,
    EventContext,
    OperationsContext,
    SettingsContext,
    StorageContext,
    Protocol,
):
    """The parts of the application that this module uses."""


# conditions that are checked on request, in addition to those of the workers
CHAIN_CONDITIONS = (
    ConditionName.CHAIN_UNUSABLE,
    ConditionName.CHAIN_STALLED,
    ConditionName.NODES_DISAGREE,
    ConditionName.PAYOUTS_WAITING,
    ConditionName.PAYMENTS_HELD,
    ConditionName.WALLET_SHORT,
    ConditionName.DESTINATION_RESERVED,
    ConditionName.PRICE_MISSING,
    ConditionName.ITEM_SET_ASIDE,
)
INSTALLATION_CONDITIONS = (
    ConditionName.STORE_UNREACHABLE,
    ConditionName.SCREENING_LISTS_STALE,
    ConditionName.SCREENING_LISTS_OLD,
    ConditionName.CERTIFICATE_EXPIRED,
    ConditionName.CERTIFICATE_EXPIRING,
    ConditionName.PAY_URL_LOCAL,
    ConditionName.STANDBY_BEHIND,
    ConditionName.PARTITIONS_MISSING,
    ConditionName.ROWS_UNPARTITIONED,
    ConditionName.MACHINE_CLOCK_OFF,
    ConditionName.CLOCK_WRONG,
    ConditionName.WEBHOOKS_PAUSED,
    ConditionName.EVENT_SINK_FAILING,
    ConditionName.ARCHIVE_FAILING,
    ConditionName.EVENT_SINK_DIFFERS,
    ConditionName.ITEM_SET_ASIDE,
    ConditionName.WORKER_FAILING,
)
_ORDER = list(ConditionName)
_CLOCK_OFFSET_MAX_US = 2_000_000


@dataclass(frozen=True, slots=True)
class ProbeScope:
    """The scope of a check: whether it calls nodes, and whether it reads the store.

    Conditions that need a node keep their latest result, those that need rows are left out.
    """

    includes_nodes: bool = True
    includes_store: bool = True

    def read_conditions(
        self, tracker: ConditionTracker, reasons: Mapping[ConditionName, Iterable[str]]
    ) -> list[Condition]:
        """Return the conditions of a board that can be seen."""
        hidden = STORE_CONDITIONS if not self.includes_store else frozenset()
        unknown = hidden | (NODE_CONDITIONS if not self.includes_nodes else frozenset())
        return [
            condition
            for condition in tracker.update(reasons, unknown=unknown)
            if condition.name not in hidden
        ]


FULL_SCOPE = ProbeScope()
# nodes are not called either: an answer must arrive in time
STORELESS_SCOPE = ProbeScope(includes_nodes=False, includes_store=False)


async def list_chain_conditions(
    app: _Context,
    rail: Rail,
    misdirected_accounts: Iterable[tuple[AssetAccount, str]],
    prices: Mapping[tuple[str, str], str],
    scope: ProbeScope = FULL_SCOPE,
) -> list[Condition]:
    """Return the conditions of a chain that the settler and the payout worker do not know.

    `misdirected_accounts` are places of merchants on any chain that nothing is paid to, `prices`
    what lacks a price in which currency on any chain, both with sentences.
    """
    chain_id = rail.chain_id
    state = app.chains[chain_id]
    wrong: dict[ConditionName, Iterable[str]] = {
        ConditionName.CHAIN_STALLED: [rail.nodes.stall_problem],
        ConditionName.NODES_DISAGREE: [rail.nodes.disagreement],
        ConditionName.WALLET_SHORT: [state.shortfall],
        ConditionName.PRICE_MISSING: [
            f"{asset} has no price in {currency}: {why}"
            for (asset, currency), why in prices.items()
            if asset in rail.assets
        ],
    }
    if scope.includes_nodes:
        wrong[ConditionName.CHAIN_UNUSABLE] = await rail.list_problems()
    if scope.includes_store:
        wrong |= {
            ConditionName.PAYOUTS_WAITING: await payouts.list_problems(app, chain_id),
            ConditionName.PAYMENTS_HELD: [await held_money.describe_problem(app, chain_id)],
            ConditionName.DESTINATION_RESERVED: [
                message for place, message in misdirected_accounts if place.chain_id == chain_id
            ],
            ConditionName.ITEM_SET_ASIDE: [await items.describe_problem(app, chain_id)],
        }
    return scope.read_conditions(state.conditions, wrong)


async def list_installation_conditions(
    app: _Context, scope: ProbeScope = FULL_SCOPE
) -> list[Condition]:
    """Return the conditions that concern no single chain."""
    wrong: dict[ConditionName, Iterable[str]] = {
        ConditionName.STORE_UNREACHABLE: [app.store_health.problem],
        ConditionName.STANDBY_BEHIND: [app.store.standby_problem or ""],
        ConditionName.PARTITIONS_MISSING: app.partition_health.missing,
        ConditionName.ROWS_UNPARTITIONED: app.partition_health.stray_rows,
        ConditionName.MACHINE_CLOCK_OFF: [describe_machine_clock(app.clock)],
        ConditionName.WORKER_FAILING: app.worker_failures.describe(app.clock.now_us()),
        ConditionName.EVENT_SINK_FAILING: [app.event_sink_health.problem],
        ConditionName.ARCHIVE_FAILING: [app.archive.write_problem, app.archive.read_problem],
        ConditionName.EVENT_SINK_DIFFERS: [app.event_sink_health.difference],
        **{name: [problem] for name, problem in app.check_exposure().items()},
    }
    if scope.includes_nodes:
        wrong[ConditionName.CLOCK_WRONG] = [await server_clock.describe(app)]
    if scope.includes_store:
        paused = (await app.store.scan(deliveries.get_stats())).paused_endpoints
        message = (
            f"{paused} webhook endpoints are paused because they accepted nothing" if paused else ""
        )
        stale = await app.store.read(describe_lists_problem(app.settings, app.clock.now_us()))
        wrong |= {
            get_lists_condition(app.settings): [stale],
            ConditionName.WEBHOOKS_PAUSED: [message],
            ConditionName.ITEM_SET_ASIDE: [await items.describe_problem(app, "")],
        }
    return scope.read_conditions(app.conditions, wrong)


def get_clock_offset_us(clock: Clock) -> int:
    """Return by how many µs the machine's clock is ahead of the database's; 0 without one."""
    return clock.machine_offset_us if isinstance(clock, SystemClock) else 0


def describe_machine_clock(clock: Clock) -> str:
    """Say by how much the machine's clock differs from the database's; empty if it is right."""
    ahead_us = get_clock_offset_us(clock)
    if abs(ahead_us) <= _CLOCK_OFFSET_MAX_US:
        return ""
    side = "ahead of" if ahead_us > 0 else "behind"
    return f"the machine's clock is {abs(ahead_us) // 1_000_000} s {side} the database's"


async def check_nodes(rail: Rail) -> dict[ConditionName, tuple[str, ...]]:
    """Return the faults of a chain according to its nodes alone, in sentences."""
    problems = await rail.list_problems()
    try:
        short = tuple(await rail.relay.list_shortages())
    except RailUnavailable as error:
        problems, short = problems or (str(error),), ()
    name = ConditionName.RELAYER_FUNDS_LOW
    if is_unfunded(short, len(rail.senders)):
        name = ConditionName.RELAYER_EMPTY
    return {
        ConditionName.CHAIN_UNUSABLE: tuple(problems),
        name: tuple(shortage.text for shortage in short),
        ConditionName.DURABLE_NONCES_MISSING: await _describe_unaffordable_nonces(rail),
    }


async def _describe_unaffordable_nonces(rail: Rail) -> tuple[str, ...]:
    """Say how many durable nonces the relayer cannot pay for; one sentence or none."""
    work = rail.durable_nonces
    if work is None or not work.addresses:
        return ()
    try:
        existing_accounts = (await work.get_values(work.addresses)).by_account
        problem = (await work.get_affordable(len(work.addresses) - len(existing_accounts))).problem
    except RailUnavailable:
        # the chain's own condition has the reason
        return ()
    return (problem,) if problem else ()


async def list_node_faults(rail: Rail) -> tuple[str, ...]:
    """Return the sentences of `check_nodes` about unexpected faults."""
    faults = await check_nodes(rail)
    return tuple(
        text for name, each in faults.items() if name not in EXPECTED_CONDITIONS for text in each
    )


def sort_conditions(conditions: Iterable[Condition]) -> list[Condition]:
    """Return the conditions in the order of reports."""
    return sorted(conditions, key=lambda condition: _ORDER.index(condition.name))
