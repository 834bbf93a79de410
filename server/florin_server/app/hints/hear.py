"""Receives notifications of other processes, and lets this one check the changes.

Messages are only hints: processes re-read the database. Hints about what no caller here watches are
dropped, so no stranger can fill this process or make it read more than it would anyway.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from florin_server.app.hints.paced import Debouncer
from florin_server.app.hints.remembered import CacheRefresher
from florin_server.app.hints.tell import get_backoff_s
from florin_server.base.context import EventContext
from florin_server.db.context import StorageContext
from florin_server.db.engine.notices import NotificationChannel
from florin_server.db.engine.query import StoreError
from florin_server.operations.context import WorkerContext
from florin_server.rails.context import ChainContext


class _Context(ChainContext, EventContext, StorageContext, WorkerContext, Protocol):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

# watchers wait no longer than this behind a flood; workers may call nodes each time
_FEED_DEBOUNCE_S, _WORKER_DEBOUNCE_S = 0.002, 0.05


class BusListener:
    """Handling of the hints of other processes."""

    def __init__(
        self, app: _Context, notices: NotificationChannel, cache_refresher: CacheRefresher
    ) -> None:
        self._app = app
        self._notices = notices
        self._cache_refresher = cache_refresher
        # of items that are watched only here
        self._payments: dict[str, int] = {}
        self._payouts: set[str] = set()
        self._settle: set[str] = set()
        self._pay_out = self._resync_all = False
        self._payment_feed_job = Debouncer(self._notify_payment_feed, _FEED_DEBOUNCE_S)
        self._payout_feed_job = Debouncer(self._notify_payout_feed, _WORKER_DEBOUNCE_S)
        self._worker_job = Debouncer(self._wake_workers, _WORKER_DEBOUNCE_S)

    def get_jobs(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return its simultaneous jobs, by name."""
        return {
            "receive_hints": self._listen,
            "notify_watchers": self._payment_feed_job.run,
            "notify_followers": self._payout_feed_job.run,
            "wake_workers": self._worker_job.run,
        }

    async def _listen(self) -> None:
        failures = 0
        while True:
            try:
                await self._notices.listen(self._app.clock, self._resync, self._receive)
            except StoreError as error:
                failures = 0 if self._app.bus.is_listening else failures + 1
                if failures <= 1:
                    _log.warning(
                        "notifications of other processes do not arrive; Florin finds their "
                        "changes by sweeps: %s",
                        error,
                    )
            finally:
                self._app.bus.is_listening = False
            await self._app.clock.sleep(get_backoff_s(failures))

    def _resync(self) -> None:
        """Check everything, since missed hints are unknown."""
        self._app.bus.is_listening = self._resync_all = self._pay_out = True
        self._app.webhooks.delivery_event.set()
        self._settle |= self._app.settlers.keys()
        self._payouts |= self._app.payout_feed.followed_ids
        self._cache_refresher.invalidate()
        for debouncer in (self._payment_feed_job, self._payout_feed_job, self._worker_job):
            debouncer.trigger()

    def _receive(self, text: str) -> None:
        message = self._app.bus.receive(text)
        if message is None:
            return
        if message.payment_versions:
            self._app.webhooks.delivery_event.set()
        if behind := self._app.payment_feed.filter_unseen(message.payment_versions):
            self._payments |= behind
            self._payment_feed_job.trigger()
        if followed := message.payout_ids & self._app.payout_feed.followed_ids:
            self._payouts |= followed
            self._payout_feed_job.trigger()
        for chain_id in message.receiver_chains & self._app.chains.keys():
            self._app.chains[chain_id].has_new_receivers = True
        self._settle |= (
            message.settlement_chains | message.receiver_chains
        ) & self._app.settlers.keys()
        self._pay_out |= message.payouts_due
        if self._settle or self._pay_out:
            self._worker_job.trigger()
        if message.cache_invalidation:
            self._cache_refresher.trigger()

    async def _notify_payment_feed(self) -> None:
        everything, self._resync_all = self._resync_all, False
        report, self._payments = self._payments, {}
        if everything:
            await self._app.payment_feed.sweep_once()
        else:
            await self._app.payment_feed.refresh(report)

    async def _notify_payout_feed(self) -> None:
        ids, self._payouts = self._payouts, set()
        self._app.payout_feed.notify(*ids)

    async def _wake_workers(self) -> None:
        chains, self._settle = self._settle, set()
        for chain_id in chains:
            self._app.settlers[chain_id].wake()
        pay_out, self._pay_out = self._pay_out, False
        if pay_out:
            self._app.wake_local_payouts()
