"""Invalidates this process's caches after a change by another process or a command.

Each change of cached data raises a counter in the store. The counters are read twice a second, and
at once on a hint; only a counter that moved makes anything be read again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from florin_server.app.process_bus.debouncer import Debouncer
from florin_server.base.context import EventContext
from florin_server.base.topics import Topic
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.db import generations
from florin_server.db.context import StorageContext
from florin_server.db.generations import CacheKind
from florin_server.operations.context import QuarantineContext, WorkerContext
from florin_server.operations.store import executors


class _Context(
    EventContext, QuarantineContext, ScreeningContext, StorageContext, WorkerContext, Protocol
):
    """The parts of the application that this module uses."""


_POLL_S = 0.5
# hints can arrive faster than this
_PAUSE_S = 0.05


class CacheRefresher:
    """The caches of one process: accounts, screening lists, and which senders are paused."""

    def __init__(self, app: _Context) -> None:
        self._app = app
        # nothing: what was read at the start can have changed since
        self._versions: Mapping[str, int] | None = None
        self._refresh_job = Debouncer(self.refresh, _PAUSE_S)
        self._renewals: Mapping[CacheKind, Callable[[], Awaitable[None]]] = {
            CacheKind.ACCOUNTS: self._refresh_accounts,
            CacheKind.SCREENING: app.screening.reload,
            CacheKind.EXECUTORS: self._refresh_executors,
            CacheKind.QUARANTINE: self._refresh_quarantine,
        }

    def get_jobs(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return its simultaneous jobs, by name."""
        return {"read_changes": self._refresh_job.run, "look_for_changes": self._trigger_regularly}

    def trigger(self) -> None:
        """Request a read of the counters soon."""
        self._refresh_job.trigger()

    def invalidate(self) -> None:
        """Let everything be read again, for any counters."""
        self._versions = None
        self._refresh_job.trigger()

    async def refresh(self) -> None:
        """Read the counters, and then the data that changed."""
        known_versions = self._versions
        versions = await self._app.store.read(generations.get_versions())
        for kind, renew in self._renewals.items():
            if known_versions is None or versions.get(kind) != known_versions.get(kind):
                await renew()
        # a cache that was invalidated meanwhile stays so
        if self._versions is known_versions:
            self._versions = versions

    async def _trigger_regularly(self) -> None:
        while True:
            self._refresh_job.trigger()
            await self._app.clock.sleep(_POLL_S)

    async def _refresh_accounts(self) -> None:
        self._app.notifier.notify(Topic.ACCOUNTS)

    async def _refresh_quarantine(self) -> None:
        generation = self._app.quarantine.version
        await self._app.quarantine.reload()
        if self._app.quarantine.version != generation:
            # an item was returned: its worker checks now
            self._app.notifier.notify_all(Topic.SETTLEMENT)
            self._app.notifier.notify_all(Topic.PAYOUTS_DUE)

    async def _refresh_executors(self) -> None:
        paused = await self._app.store.read(executors.list_pauses())
        for account, sender in self._app.executors.items():
            if account in paused and not sender.is_paused:
                sender.pause()
            elif account not in paused and sender.is_paused:
                sender.resume()
