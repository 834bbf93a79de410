"""The state of the installation in numbers, which monitoring reads every few seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from florin_server.base.context import EventContext, MeterContext
from florin_server.db.context import StorageContext
from florin_server.domain.conditions import Condition
from florin_server.domain.settlement.runway import Runway
from florin_server.features.event_sink.store import queue
from florin_server.features.event_sink.store.queue import EventSinkStats
from florin_server.features.monitoring.service import health, runways, system
from florin_server.features.monitoring.service.system import ChainStatus
from florin_server.features.monitoring.store import backlog
from florin_server.features.monitoring.store.backlog import Backlog, BacklogGroup
from florin_server.features.webhooks.store import deliveries
from florin_server.features.webhooks.store.deliveries import DeliveryStats
from florin_server.limits.context import LimitContext
from florin_server.limits.service.shared_limits import LimitSync
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.context import UsageContext
from florin_server.operations.context import OperationsContext, WorkerContext
from florin_server.operations.service import executors
from florin_server.operations.service.executors import ExecutorStatus
from florin_server.rails.chain_state import WalletBalance
from florin_server.rails.context import ChainContext
from florin_server.settings.context import SettingsContext


class _Context(
    ArchiveContext,
    ChainContext,
    EventContext,
    LimitContext,
    MeterContext,
    OperationsContext,
    SettingsContext,
    StorageContext,
    UsageContext,
    WorkerContext,
    Protocol,
):
    """The parts of the application that this module uses."""


__all__ = [
    "Backlog",
    "BacklogGroup",
    "ChainReconciliation",
    "DeliveryStats",
    "InstallationSnapshot",
    "LimitSyncStatus",
    "read_snapshot",
]


@dataclass(frozen=True, slots=True)
class ChainReconciliation:
    """The latest comparison of a chain's wallets with the ledger, and their balances.

    `reconciled_at_us` is 0 without a comparison.
    """

    chain_id: str
    reconciled_at_us: int
    balances: Sequence[WalletBalance]


@dataclass(frozen=True, slots=True)
class LimitSyncStatus:
    """The synchronization of limits between processes, including this one.

    `budget_count` of this process are in the store; its last exchange was `age_us` ago.
    """

    process_count: int
    budget_count: int
    age_us: int


@dataclass(frozen=True, slots=True)
class InstallationSnapshot:
    """The numbers of one moment; counts of streams, calls and writes are this process's.

    `open_streams` counts open long polls and streams by kind of caller, `queued_writes` those
    writes that wait to be durable, `tasks` those of the event loop; `limit_sync` is empty where no
    other process can use the store. `is_listening` means that notifications of other processes
    arrive. Without `is_store_up` the values from the store are empty.
    """

    now_us: int
    chains: Sequence[ChainStatus]
    executors: Sequence[ExecutorStatus]
    backlog: Backlog
    blocked_accounts: int
    watched_payments: int
    watched_payouts: int
    keyed_calls: int
    queued_writes: int
    tasks: int
    is_listening: bool
    clock_offset_us: int
    open_streams: Mapping[str, int]
    conditions: Sequence[Condition]  # of no single chain
    webhooks: DeliveryStats
    event_sink: EventSinkStats
    reconciliations: Sequence[ChainReconciliation] = field(default_factory=tuple)
    limit_sync: Sequence[LimitSyncStatus] = field(default_factory=tuple)
    runways: Mapping[str, Runway] = field(default_factory=dict)  # by executor
    is_store_up: bool = True


async def read_snapshot(app: _Context, keyed_calls: int) -> InstallationSnapshot:
    """Read them within seconds, the store or not; `keyed_calls` are those that are under a key."""
    status = await system.get_status(app)
    stored = (
        await system.read_in_time(app, _read_store_snapshot(app)) if status.is_complete else None
    )
    return InstallationSnapshot(
        now_us=app.clock.now_us(),
        chains=status.chains,
        executors=stored.executors if stored else (),
        backlog=stored.backlog if stored else Backlog(0, (), ()),
        blocked_accounts=stored.blocked_accounts if stored else 0,
        watched_payments=app.notifier.payments.watcher_count,
        watched_payouts=app.notifier.payouts.follower_count,
        keyed_calls=keyed_calls,
        queued_writes=app.store.queued_count,
        tasks=len(asyncio.all_tasks()),
        is_listening=app.notifier.bus.is_listening,
        clock_offset_us=health.get_clock_offset_us(app.clock),
        open_streams={
            str(holder): count for holder, count in app.limits.streams.open_counts.items()
        },
        conditions=status.conditions,
        webhooks=stored.webhooks if stored else DeliveryStats(0, None, 0),
        event_sink=stored.event_sink if stored else EventSinkStats(0, None),
        reconciliations=[
            ChainReconciliation(chain_id, state.reconciled_at_us, state.balances)
            for chain_id, state in app.chains.items()
        ],
        limit_sync=()
        if app.limit_sync is None
        else (_get_limit_sync_status(app.limit_sync, app.clock.steady_us()),),
        runways=stored.runways if stored else {},
        is_store_up=stored is not None,
    )


class _StoreSnapshot(NamedTuple):
    executors: Sequence[ExecutorStatus]
    backlog: Backlog
    blocked_accounts: int
    webhooks: DeliveryStats
    event_sink: EventSinkStats
    runways: Mapping[str, Runway]


async def _read_store_snapshot(app: _Context) -> _StoreSnapshot:
    return _StoreSnapshot(
        executors=await executors.list_executors(app),
        # as many rows as there are open payments
        backlog=await app.store.scan(backlog.get_backlog()),
        blocked_accounts=await system.count_held_payments(app),
        webhooks=await app.store.scan(deliveries.get_stats()),
        event_sink=await app.store.scan(queue.get_stats()),
        runways=await runways.list_runways(app),
    )


def _get_limit_sync_status(limit_sync: LimitSync, now_us: int) -> LimitSyncStatus:
    return LimitSyncStatus(
        limit_sync.process_count, limit_sync.row_count, max(0, now_us - limit_sync.exchanged_at_us)
    )
