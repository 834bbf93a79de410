"""The background work of one process: settlement, payouts, the ledger and housekeeping."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Container, Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from florin_server.app import archive, event_sink, webhooks
from florin_server.app.core import App, Core
from florin_server.app.housekeeping.finish_upgrade import finish_upgrade
from florin_server.app.housekeeping.partitions import maintain_partitions
from florin_server.app.housekeeping.prices import follow_prices
from florin_server.app.housekeeping.quarantine import maintain_quarantine
from florin_server.app.housekeeping.records import store_last_records, store_records
from florin_server.app.housekeeping.store_time import follow_store_time
from florin_server.app.housekeeping.watch_store import watch_standby, watch_store
from florin_server.app.process_bus import jobs as process_bus
from florin_server.base import logs
from florin_server.db.engine.query import StoreError
from florin_server.domain.errors import ApiError
from florin_server.domain.settlement.lease import name_holder
from florin_server.features.icons.worker import delete_old_icons, fetch_icons
from florin_server.features.monitoring.worker.conditions import ConditionReportWorker
from florin_server.features.monitoring.worker.node_history import NodeHistoryWorker
from florin_server.features.webhooks.worker import WebhookDeliverer, delete_old_hours
from florin_server.money.archive.worker import ArchiveWorker
from florin_server.money.ledger.worker import BookKeeper
from florin_server.money.payments.worker import (
    delete_due_data,
    delete_lapsed_keys,
    delete_old_gas,
    delete_old_records,
    expire_payments,
)
from florin_server.money.payouts.store import payouts
from florin_server.money.payouts.worker.pay_out import PayoutWorker
from florin_server.money.settlement.worker.settle import ChainSettler
from florin_server.money.settlement.worker.signing_key import SigningKey
from florin_server.money.settlement.worker.standby_worker import StandbyWorker
from florin_server.operations.worker import supervise

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerSet:
    """The settlers and payout workers, one for each chain."""

    settlement_workers: list[ChainSettler | StandbyWorker]
    payout_workers: list[PayoutWorker | StandbyWorker]
    runs_workers: bool = True
    lease_owner: str = ""

    @classmethod
    def create(
        cls,
        core: Core,
        paused_keys: Container[str],
        *,
        runs_workers: bool = True,
        lease_owner: str = "",
        copied_at_us: int | None = None,
    ) -> Self:
        """Create them.

        `paused_keys` are the keys that send nothing new, `lease_owner` is the owner of the leases.
        `copied_at_us` is the time of the store's copy, if pauses are for that. Where other
        processes settle, stand-ins take the places.
        """
        lease_owner = lease_owner or name_holder(socket.gethostname(), core.randbytes(8))
        rails = core.rails.values()
        if not runs_workers:
            return cls(
                [StandbyWorker.for_settlement(core, rail) for rail in rails],
                [
                    StandbyWorker.for_payouts(core, rail, rail.payouts)
                    for rail in rails
                    if rail.payouts is not None
                ],
                runs_workers=False,
            )
        return cls(
            [ChainSettler(core, rail, lease_owner, paused_keys) for rail in rails],
            [
                PayoutWorker(
                    core, rail, rail.payouts, lease_owner, paused_keys, copied_at_us=copied_at_us
                )
                for rail in rails
                if rail.payouts is not None
            ],
            lease_owner=lease_owner,
        )

    def list_keys(self) -> Iterator[SigningKey]:
        """Return the keys with which this process signs."""
        for worker in (*self.settlement_workers, *self.payout_workers):
            if not isinstance(worker, StandbyWorker):
                yield from worker.executors


class BackgroundTasks:
    """The tasks of one process, which never end: a worker that fails is restarted."""

    def __init__(self, app: App, staff: WorkerSet) -> None:
        self.tasks = tuple(asyncio.create_task(job) for job in _build_jobs(app, staff))
        self._app = app
        self._worker_set = staff
        # files that start-up writes do not exist yet; callers wait for them
        self.is_starting = False
        self.is_stopping = False  # and no new ones should come

    async def wait_for_failure(self) -> None:
        """Return when one ends, and raise its error."""
        done, _ = await asyncio.wait(self.tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    async def find_problems(self) -> dict[str, str]:
        """Return what keeps the process from being ready: nothing while all of them work."""
        if self.is_stopping:
            return {"service": "ends"}
        if self.is_starting:
            return {"service": "starts"}
        if store := self._app.store_health.describe_unready(self._app.clock.steady_us()):
            return {"store": store}
        return {"workers": "ended"} if any(task.done() for task in self.tasks) else {}

    async def stop(self) -> None:
        """End them all; calls are still answered, and wait for work that no process does."""
        for task in self.tasks:
            task.cancel()
        for task in self.tasks:
            with suppress(asyncio.CancelledError):
                await task
        try:
            await store_last_records(self._app)
        except (StoreError, ApiError) as error:
            _log.warning("the last uses of API keys could not be stored: %s", error)
        for key in self._worker_set.list_keys():
            # otherwise other processes wait until it lapses
            try:
                await key.release_lease()
            except StoreError as error:
                _log.warning(
                    "the lease of %s could not be released and lapses automatically: %s",
                    key.account,
                    error,
                )
            except Exception:  # noqa: BLE001  (no lease keeps the rest from its end)
                _log.exception(
                    "the lease of %s could not be released and lapses automatically", key.account
                )


def _build_jobs(app: App, staff: WorkerSet) -> list[Coroutine[Any, Any, None]]:
    tidy = (
        (
            expire_payments,
            finish_upgrade,
            delete_lapsed_keys,
            delete_due_data,
            delete_old_gas,
            delete_old_icons,
            delete_old_records,
            delete_old_hours,
        )
        if staff.runs_workers
        else ()
    )
    steady: dict[str, Callable[[], Awaitable[None]]] = {
        **{work.__name__: partial(work, app) for work in tidy},
        "store_records": partial(store_records, app),
        "keep_quarantine": partial(maintain_quarantine, app),
        "follow_store_time": partial(follow_store_time, app),
        "watch_store": partial(watch_store, app),
        "report_conditions": ConditionReportWorker(app).run,
        "record_node_history": NodeHistoryWorker(app).run,
        "follow_payments": app.notifier.payments.sweep,
        "follow_payouts": partial(
            app.notifier.payouts.sweep,
            lambda ids: app.store.read(payouts.find_many(ids)),
            app.clock,
        ),
        **process_bus.get_jobs(app),
    }
    if app.store.standby_problem is not None:
        steady["watch_standby"] = partial(watch_standby, app)
    if app.store.can_partition:
        steady["maintain_partitions"] = partial(maintain_partitions, app, staff.lease_owner)
    if app.settings.fetch_icons:
        steady["fetch_icons"] = partial(fetch_icons, app)
    if staff.runs_workers:
        deliverer = WebhookDeliverer(
            app, webhooks.build_http_client(app), webhooks.build_event_encoder()
        )
        steady["deliver_webhooks"] = deliverer.run
    if staff.runs_workers and archive.is_on(app.settings):
        steady["archive_payments"] = ArchiveWorker(app, staff.lease_owner).run
    if event_sink.concerns(app.settings, runs_workers=staff.runs_workers):
        steady["watch_event_sink"] = partial(event_sink.watch_installed, app)
    if staff.runs_workers and app.settings.event_sink.url:
        steady["publish_events"] = event_sink.build_publisher(app, staff.lease_owner).run
    if app.settings.prices.pairs:
        steady["follow_prices"] = partial(follow_prices, app)
    keepers = [BookKeeper(app, rail) for rail in app.rails.values()] if staff.runs_workers else []
    on_chains: dict[str, Sequence[BookKeeper | ChainSettler | PayoutWorker | StandbyWorker]] = {
        "keep_books": keepers,
        "settle": staff.settlement_workers,
        "pay_out": staff.payout_workers,
    }
    return [
        *(supervise(app, name, work) for name, work in steady.items()),
        *(
            _run_on_chain(worker.chain_id, supervise(app, f"{name} {worker.chain_id}", worker.run))
            for name, workers in on_chains.items()
            for worker in workers
        ),
    ]


async def _run_on_chain(chain_id: str, work: Coroutine[Any, Any, None]) -> None:
    """Run on a chain, which the log lines then name."""
    logs.CHAIN.set(chain_id)
    await work
