"""The state of the installation."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from florin_server.base.context import EventContext, MeterContext
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import StoreError
from florin_server.domain.conditions import EXPECTED_CONDITIONS, Condition
from florin_server.domain.errors import ApiError
from florin_server.domain.health import ChainHealth, describe_conditions
from florin_server.features.monitoring.service import conditions
from florin_server.features.monitoring.service.conditions import ConditionsBySubject
from florin_server.features.monitoring.service.health import FULL_SCOPE, STORELESS_SCOPE, ProbeScope
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.context import UsageContext
from florin_server.money.payouts.service import held_money
from florin_server.money.settlement import service as gas_budgets
from florin_server.money.settlement.store import settlement_items
from florin_server.operations.context import OperationsContext, WorkerContext
from florin_server.rails.context import ChainContext
from florin_server.rails.types import NodeState
from florin_server.settings.context import SettingsContext


class _Context(
    ArchiveContext,
    ChainContext,
    EventContext,
    MeterContext,
    OperationsContext,
    SettingsContext,
    StorageContext,
    UsageContext,
    WorkerContext,
    Protocol,
):
    """The parts of the application that this module uses."""


T = TypeVar("T")
# Prometheus and `florin doctor` need an answer within ten seconds
_STORE_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class GasStatus:
    """Units of gas that relayers lost in this hour, and the payments that stand because of it.

    `paused_payments` wait for a budget, `abandoned_payments` are not sent any more.
    """

    failed_gas: int
    opening_gas: int
    paused_payer_payments: int
    paused_payments: int
    abandoned_payments: int


NO_GAS = GasStatus(0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class ChainStatus:
    """The state of one chain; `problem` is a text for people, empty without a problem.

    Work of another process on the chain is not a problem.

    `open_payments`, `cached_events` and `turn_count` are its settler's. `block_s` are the measured
    seconds between its blocks or slots, `settle_s` the median seconds from confirm to final of its
    newest payments; None before they are known.
    """

    chain_id: str
    head: int
    open_transactions: int
    relayer: str
    problem: str
    conditions: Sequence[Condition]
    nodes: Sequence[NodeState]
    gas: GasStatus
    open_payments: int
    cached_events: int
    turn_count: int
    block_s: float | None = None
    settle_s: float | None = None


@dataclass(frozen=True, slots=True)
class InstallationStatus:
    """The state of the installation.

    During an outage of the store it has the process's facts only.
    """

    chains: Sequence[ChainStatus]
    conditions: Sequence[Condition]
    processing_payments: int
    held_payments: int
    is_complete: bool


async def get_status(app: _Context) -> InstallationStatus:
    """Return how the installation is doing, also while its store is away."""
    status = await read_in_time(app, _get_status(app, FULL_SCOPE))
    return status or await _get_status(app, STORELESS_SCOPE)


async def read_in_time(app: OperationsContext, work: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of reads of the store; None if it does not answer within a few seconds.

    A read is not canceled, which would keep its connection from the next one: it ends in its own
    time.
    """
    if app.store_health.problem:
        work.close()
        return None
    reading = asyncio.create_task(work)
    try:
        done, _ = await asyncio.wait([reading], timeout=_STORE_TIMEOUT_S)
        return await reading if done else None
    except (StoreError, ApiError):
        return None
    finally:
        reading.add_done_callback(_discard_error)


async def _get_status(app: _Context, scope: ProbeScope) -> InstallationStatus:
    found_conditions = await conditions.list_conditions(app, scope)
    return InstallationStatus(
        await _list_chain_statuses(app, found_conditions, scope),
        found_conditions[conditions.INSTALLATION],
        await count_processing(app) if scope.includes_store else 0,
        await count_held_payments(app) if scope.includes_store else 0,
        scope.includes_store,
    )


async def _list_chain_statuses(
    app: _Context, by_subject: ConditionsBySubject, scope: ProbeScope
) -> list[ChainStatus]:
    chains = []
    for chain_id, rail in app.rails.items():
        settling = app.settlers[chain_id].health()
        stated = by_subject[chain_id]
        chains.append(
            ChainStatus(
                chain_id=chain_id,
                head=settling.head,
                open_transactions=settling.open_transactions,
                relayer=", ".join(rail.senders),
                problem=describe_conditions(
                    condition for condition in stated if condition.name not in EXPECTED_CONDITIONS
                ),
                conditions=stated,
                nodes=rail.nodes.list_states(),
                gas=await _get_gas_status(app, chain_id, settling)
                if scope.includes_store
                else NO_GAS,
                open_payments=settling.open_payments,
                cached_events=settling.remembered_events,
                turn_count=settling.turn_count,
                block_s=rail.pace.block_s,
                settle_s=app.chains[chain_id].settle_times.median_s,
            )
        )
    return chains


def _discard_error(task: asyncio.Task[Any]) -> None:
    """Retrieve the error of a read whose result is no longer needed."""
    if not task.cancelled():
        task.exception()


async def _get_gas_status(app: _Context, chain_id: str, health: ChainHealth) -> GasStatus:
    used = await gas_budgets.get_usage(app, chain_id)
    return GasStatus(
        used.total_failed_gas,
        used.total_opening_gas,
        len(used.payers),
        health.paused_payments,
        health.given_up_payments,
    )


async def count_processing(app: StorageContext) -> int:
    """Return how many payments wait for evidence."""
    return await app.store.read(settlement_items.count_unsettled())


async def count_held_payments(app: StorageContext) -> int:
    """Return how many payments of blocked payers wait for the operator's decision."""
    return await held_money.count_waiting(app)
