"""A publisher of events with a store and a broker, and what consumers of the broker receive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from florin_server.app import event_sink, webhooks
from florin_server.app.app import build_core
from florin_server.app.core import Core
from florin_server.base.clock import TestClock
from florin_server.base.topics import Topic
from florin_server.db.engine.store import Store
from florin_server.domain.payments.payment import CancellationReason, Payment
from florin_server.features.event_sink.service.broker import ConnectBroker
from florin_server.features.event_sink.service.nats_broker import NatsBroker, NatsOptions
from florin_server.features.event_sink.store import queue
from florin_server.features.event_sink.store.destination import SinkDestination
from florin_server.features.event_sink.worker import EventPublisher
from florin_server.money.payments.store import payments
from florin_server.operations.worker import supervise
from florin_server.settings import Settings
from florin_server.settings.event_sink import EventSinkSettings
from nats.aio.msg import Msg

from tests.support.store_factories import NOW_US, make_payment
from tests.support.until import advance, wait_until

# an endpoint of NATS on this machine answers sooner
TIMEOUT_S = 1.0


class SinkHarness:
    """A store whose changes are queued for a sink, and one process that publishes them."""

    def __init__(
        self, store: Store, folder: Any, url: str, revision: int = 1, **options: Any
    ) -> None:
        self.store, self.clock = store, TestClock(NOW_US)
        settings = Settings(home=folder, event_sink=EventSinkSettings(url=url, revision=revision))
        self.core: Core = build_core(settings, store, self.clock, [])
        self.connect: ConnectBroker = partial(NatsBroker.connect, make_options(url, **options))

    @property
    def problem(self) -> str:
        return self.core.event_sink_health.problem

    @property
    def difference(self) -> str:
        return self.core.event_sink_health.difference

    @property
    def own(self) -> SinkDestination:
        return event_sink.build_destination(self.core.settings.event_sink)

    async def start(self) -> None:
        """Do what a process with workers does when it starts."""
        await event_sink.start_queue(self.core, runs_workers=True)

    @asynccontextmanager
    async def publish(self, owner: str = "here") -> AsyncIterator[asyncio.Task[None]]:
        """Start a process, and run its workers for the sink."""
        await self.start()
        encoder = webhooks.build_event_encoder()
        publisher = EventPublisher(self.core, self.connect, encoder, self.own, owner)
        watch = partial(event_sink.watch_installed, self.core)
        jobs = {"publish_events": publisher.run, "watch_event_sink": watch}
        tasks = [
            asyncio.create_task(supervise(self.core, name, work)) for name, work in jobs.items()
        ]
        try:
            yield tasks[0]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def create(self, **changes: Any) -> Payment:
        payment = await self.store.write(payments.create(make_payment(**changes)))
        self.core.notifier.publish(Topic.WEBHOOKS)
        return payment

    async def cancel(self, payment: Payment) -> None:
        await self.store.write(payments.cancel(payment.id, CancellationReason.BY_USER, NOW_US))
        self.core.notifier.publish(Topic.WEBHOOKS)

    async def count_waiting(self) -> int:
        return (await self.store.scan(queue.get_stats())).waiting_count

    async def wait_published(self) -> None:
        """Return once nothing waits; the clock passes the pauses of the worker."""
        await self.wait_waiting_below(1)

    async def wait_waiting_below(self, count: int) -> None:
        """Return once fewer payments wait."""

        async def is_below() -> bool:
            return await self.count_waiting() < count

        await wait_until(is_below, meanwhile=self.advance)

    async def wait_problem(self, text: str) -> None:
        await wait_until(lambda: text in self.problem, meanwhile=self.advance)

    async def advance(self) -> None:
        """Let the workers of the process take their turns."""
        await advance(self.clock, 5)


def make_options(url: str, **options: Any) -> NatsOptions:
    defaults: dict[str, Any] = {
        "hosts": [url],
        "stream": "florin_events",
        "subjects": "florin.events.>",
        "creates_stream": True,
        "timeout_s": TIMEOUT_S,
    }
    return NatsOptions(**{**defaults, **options})


def list_ids(messages: Sequence[Msg]) -> list[str]:
    """Return the ids of events, in the order of the stream."""
    return [message.headers["Nats-Msg-Id"] for message in messages]


def list_places(messages: Sequence[Msg]) -> dict[str, list[int]]:
    """Return the places of events by payment, in the order of the stream."""
    places: dict[str, list[int]] = {}
    for message in messages:
        payment_id = message.headers["Florin-Payment-Id"]
        places.setdefault(payment_id, []).append(int(message.headers["Florin-Sequence"]))
    return places
