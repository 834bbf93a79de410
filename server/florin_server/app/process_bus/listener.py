"""Receives notifications of other processes, and notifies the subscribers of this one.

Messages are only hints: processes re-read the database. Hints about what no caller here watches are
dropped, so no stranger can fill this process or make it read more than it would anyway.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from florin_server.app.process_bus.cache_refresher import CacheRefresher
from florin_server.app.process_bus.debouncer import Debouncer
from florin_server.app.process_bus.sender import get_backoff_s
from florin_server.base.context import EventContext
from florin_server.base.notifier import Notifier
from florin_server.base.topics import Topic
from florin_server.db.context import StorageContext
from florin_server.db.engine.notices import NotificationChannel
from florin_server.db.engine.query import StoreError


class _Context(EventContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

# watchers wait no longer than this behind a flood; workers may call nodes each time
_WATCHER_DEBOUNCE_S, _WORKER_DEBOUNCE_S = 0.002, 0.05
_WORKER_TOPICS = (Topic.SETTLEMENT, Topic.RECEIVERS, Topic.PAYOUTS_DUE)


class _DebouncedTopics:
    """Notifications of a few topics, of subscribed keys only, which are kept for a moment."""

    def __init__(self, notifier: Notifier, *topics: Topic) -> None:
        self._notifier = notifier
        self._keys: dict[Topic, set[str]] = {topic: set() for topic in topics}
        self._job = Debouncer(self._notify, _WORKER_DEBOUNCE_S)
        self.run = self._job.run

    def add(self, topic: Topic, keys: Iterable[str]) -> None:
        """Notify the subscribers of the keys soon."""
        if topic in self._keys and (subscribed := self._notifier.filter_keys(topic, keys)):
            self._keys[topic] |= subscribed
            self._job.trigger()

    def add_all(self) -> None:
        """Notify all subscribers soon."""
        for topic in self._keys:
            self.add(topic, self._notifier.list_keys(topic))

    async def _notify(self) -> None:
        for topic, keys in self._keys.items():
            self._keys[topic] = set()
            for key in keys:
                self._notifier.notify(topic, key)


class BusListener:
    """Handling of the hints of other processes."""

    def __init__(
        self, app: _Context, channel: NotificationChannel, cache_refresher: CacheRefresher
    ) -> None:
        self._clock = app.clock
        self._notifier = app.notifier
        self._channel = channel
        self._cache_refresher = cache_refresher
        # versions of payments that are watched here, and whether all of them must be compared
        self._payments: dict[str, int] = {}
        self._resync_payments = False
        self._watchers_job = Debouncer(self._refresh_watchers, _WATCHER_DEBOUNCE_S)
        self._followers = _DebouncedTopics(app.notifier, Topic.PAYOUT)
        self._workers = _DebouncedTopics(app.notifier, *_WORKER_TOPICS)

    def get_jobs(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return its simultaneous jobs, by name."""
        return {
            "receive_hints": self._listen,
            "notify_watchers": self._watchers_job.run,
            "notify_followers": self._followers.run,
            "wake_workers": self._workers.run,
        }

    async def _listen(self) -> None:
        failures, bus = 0, self._notifier.bus
        while True:
            try:
                await self._channel.listen(self._clock, self._resync, self._receive)
            except StoreError as error:
                failures = 0 if bus.is_listening else failures + 1
                if failures <= 1:
                    _log.warning(
                        "notifications of other processes do not arrive; Florin finds their "
                        "changes by sweeps: %s",
                        error,
                    )
            finally:
                bus.is_listening = False
            await self._clock.sleep(get_backoff_s(failures))

    def _resync(self) -> None:
        """Check everything, since missed hints are unknown."""
        self._notifier.bus.is_listening = self._resync_payments = True
        self._notifier.notify(Topic.PAYMENT)
        self._watchers_job.trigger()
        self._followers.add_all()
        self._workers.add_all()
        self._cache_refresher.invalidate()

    def _receive(self, text: str) -> None:
        message = self._notifier.bus.receive(text)
        if message is None:
            return
        if message.payment_versions:
            self._notifier.notify(Topic.PAYMENT)
            if unseen := self._notifier.payments.filter_unseen(message.payment_versions):
                self._payments |= unseen
                self._watchers_job.trigger()
        for topic, keys in message.keys.items():
            self._followers.add(topic, keys)
            self._workers.add(topic, keys)
        if message.invalidates_caches:
            self._cache_refresher.trigger()

    async def _refresh_watchers(self) -> None:
        everything, self._resync_payments = self._resync_payments, False
        versions, self._payments = self._payments, {}
        if everything:
            await self._notifier.payments.sweep_once()
        else:
            await self._notifier.payments.refresh(versions)
