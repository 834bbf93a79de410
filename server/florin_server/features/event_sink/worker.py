"""Publishes queued events to the sink: in the order of each payment, and at least once.

One process at a time publishes, under a lease. What another process still sends after it lost the
lease are repetitions, because a place is recorded only after the broker's acknowledgement.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from florin_server.base.clock import sleep_remaining, wait_for_first
from florin_server.base.context import EventContext, MeterContext
from florin_server.base.topics import Topic
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import StoreError
from florin_server.domain.quarantine import QuarantinedItemKind
from florin_server.features.event_sink.service.broker import (
    BrokerUnavailable,
    ConnectBroker,
    EventBroker,
    EventEncoder,
    EventNotStored,
    EventRefused,
)
from florin_server.features.event_sink.service.message import build_messages
from florin_server.features.event_sink.store import destination, queue
from florin_server.features.event_sink.store.destination import LEASE_NAME, SinkDestination
from florin_server.features.event_sink.store.queue import PublishedPlace, QueuedPayment
from florin_server.money.outbox.store.outbox import EVENT_SINK_ID
from florin_server.operations.context import OperationsContext, QuarantineContext
from florin_server.operations.service.quarantine import is_unexpected
from florin_server.operations.store import leases
from florin_server.settings.context import SettingsContext


class _Context(
    EventContext,
    MeterContext,
    OperationsContext,
    QuarantineContext,
    SettingsContext,
    StorageContext,
    Protocol,
):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

_LEASE_US: Final = 30_000_000
_RENEW_US: Final = _LEASE_US // 3
# events without a notification to this process are found after this
_POLL_S: Final = 1.0
# and events that arrive meanwhile are published together
_PAUSE_S: Final = 0.01
# payments that are published at the same time, and events of one of them in one turn
_BATCH_SIZE: Final = 64
_EVENTS_MAX: Final = 16
# no event of a payment starts later in a turn, so that the lease lasts longer
_TURN_S: Final = 5.0
# pauses while no event is published double, up to a limit
_BACKOFF_S, _BACKOFF_MAX_S = 1.0, 15.0
# a payment whose event is not acknowledged waits as many seconds for each attempt, up to a limit
_RETRY_US, _RETRY_MAX_US = 5_000_000, 60_000_000
# an event that ends connections is found by publishing payments one by one
_LOSSES_MAX: Final = 2


@dataclass(frozen=True, slots=True)
class _PublishResult:
    """The place up to which a payment is published, after `count` events.

    `error` is why its next event is not published.
    """

    pending: QueuedPayment
    place: int
    count: int
    error: Exception | None = None


class EventPublisher:
    """Publishes for one process, while it has the lease."""

    def __init__(
        self,
        core: _Context,
        connect: ConnectBroker,
        encode_event: EventEncoder,
        own: SinkDestination,
        lease_owner: str,
    ) -> None:
        self._core = core
        self._connect = connect
        self._encode_event = encode_event
        self._own = own
        self._lease_owner = lease_owner
        self._due_event = asyncio.Event()
        for topic in (Topic.WEBHOOKS, Topic.PAYMENT, Topic.PAYOUT):
            core.notifier.subscribe(topic, self._due_event)
        self._broker: EventBroker | None = None
        self._epoch: int | None = None
        self._leased_us = 0
        # stuck turns in succession, and among them lost connections
        self._failures = 0
        self._losses = 0
        # why the broker did not store an event, until no postponed one waits
        self._not_stored = ""

    async def run(self) -> None:
        """Run until canceled; then the lease is free."""
        self._failures = self._losses = 0
        try:
            while True:
                self._due_event.clear()
                checked_us = self._core.clock.now_us()
                if not await self._run_turn():
                    await self._wait(checked_us)
                # this machine's time: every change of a payment requests it
                await asyncio.sleep(_PAUSE_S)
        finally:
            await self._stop()

    async def _wait(self, checked_us: int) -> None:
        """Return once another turn can publish more."""
        clock = self._core.clock
        if self._failures:
            pause_s = _BACKOFF_S * 2.0 ** min(self._failures - 1, 10)
            await clock.sleep(min(pause_s, _BACKOFF_MAX_S))
        elif self._broker is None:
            # events change nothing while another process has the lease
            await sleep_remaining(clock, _POLL_S, checked_us)
        else:
            await wait_for_first(
                self._due_event.wait(),
                self._broker.wait_lost(),
                sleep_remaining(clock, _POLL_S, checked_us),
            )

    async def _run_turn(self) -> bool:
        """Publish what is due, up to a batch; return whether there can be more at once."""
        if not await self._keep_lease():
            await self._disconnect()
            self._failures, self._not_stored = 0, ""
            self._core.event_sink_health.problem = ""
            return False
        results: Sequence[_PublishResult] = ()
        lost: Exception | None = None
        try:
            results = await self._publish_due()
        except BrokerUnavailable as error:
            lost = error
        for result in results:
            if isinstance(result.error, BrokerUnavailable):
                lost = result.error
        is_stuck = not any(result.count for result in results) and (
            lost is not None or any(isinstance(r.error, EventNotStored) for r in results)
        )
        self._failures = self._failures + 1 if is_stuck else 0
        if not is_stuck:
            self._losses = 0
        elif lost is not None:
            self._losses += 1
        await self._report_turn(lost)
        return bool(results) and not is_stuck

    async def _keep_lease(self) -> bool:
        """Acquire or renew the lease if that is due.

        False while another process has it, or while the installation has another event sink.
        """
        now_us, store, former = self._core.clock.now_us(), self._core.store, self._epoch
        if former is None or not 0 <= now_us - self._leased_us < _RENEW_US:
            steps = destination.acquire_lease(
                self._own, self._lease_owner, now_us, _LEASE_US, is_alone=store.is_exclusive
            )
            self._epoch, self._leased_us = await store.write(steps), now_us
            if self._epoch is None and former is not None:
                # processes with the installation's sink need not wait until it lapses
                await store.write(leases.release(LEASE_NAME, self._lease_owner, former))
        return self._epoch is not None

    async def _publish_due(self) -> list[_PublishResult]:
        """Do one turn with the lease; raise BrokerUnavailable if no host accepts a connection."""
        core, quarantine = self._core, self._core.quarantine
        if self._broker is not None and not self._broker.is_connected:
            await self._disconnect()
        if self._broker is None:
            # also without events: the operator learns of a wrong address at once
            self._broker = await self._connect()
        is_alone = self._losses >= _LOSSES_MAX
        size = 1 if is_alone else _BATCH_SIZE
        kind = QuarantinedItemKind.DELIVERY
        due = await core.store.read(
            queue.list_due(core.clock.now_us(), size + quarantine.count(kind, ""))
        )
        batch = quarantine.filter_active(kind, "", due, _get_subject)[:size]
        broker = self._broker
        results = await asyncio.gather(
            *(self._publish(broker, pending) for pending in batch), return_exceptions=True
        )
        done = [result for result in results if isinstance(result, _PublishResult)]
        await self._record(done)
        for each in done:
            await self._put_off(each, is_alone=is_alone)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return done

    async def _publish(self, broker: EventBroker, pending: QueuedPayment) -> _PublishResult:
        """Publish a payment's events in their order, up to the first that is not acknowledged."""
        place, count, began_s = pending.place, 0, time.monotonic()
        try:
            queued = await self._core.store.read(queue.get_queued_events(pending))
            messages = build_messages(
                self._encode_event, self._core.settings.event_sink.subject, queued
            )
            for message in messages:
                if count == _EVENTS_MAX or time.monotonic() - began_s > _TURN_S:
                    return _PublishResult(pending, place, count)
                await broker.publish(message.subject, message.body, message.headers)
                place, count = message.place, count + 1
        except (BrokerUnavailable, EventNotStored, EventRefused) as error:
            return _PublishResult(pending, place, count, error)
        except Exception as error:
            if not is_unexpected(error):
                raise
            return _PublishResult(pending, place, count, error)
        # the last events may be of types that are not sent
        return _PublishResult(pending, pending.newest, count)

    async def _record(self, results: Sequence[_PublishResult]) -> None:
        """Record what the broker acknowledged."""
        core = self._core
        places = [
            PublishedPlace(result.pending.payment_id, result.place)
            for result in results
            if result.place > result.pending.place
        ]
        if places:
            await core.store.write(queue.record_published(places, core.clock.now_us()))
        core.meters.record_sink_events("published", sum(result.count for result in results))
        failed = [result for result in results if result.error is not None]
        core.meters.record_sink_events("failed", len(failed))

    async def _put_off(self, result: _PublishResult, *, is_alone: bool) -> None:
        """Postpone or quarantine a payment that failed; its events before are recorded."""
        core, payment_id = self._core, result.pending.payment_id
        match result.error:
            case None:
                pass
            case BrokerUnavailable() if not is_alone:
                # another payment's event may have ended the connection
                pass
            case BrokerUnavailable() | EventNotStored():
                attempts = result.pending.attempts if not result.count else 0
                wait_us = min(_RETRY_US * (attempts + 1), _RETRY_MAX_US)
                next_us = core.clock.now_us() + wait_us
                await core.store.write(queue.postpone(payment_id, result.place, next_us))
                self._not_stored = f"the event sink does not store some events: {result.error}"
            case error:
                await core.quarantine.add(
                    QuarantinedItemKind.DELIVERY,
                    "",
                    _get_subject(result.pending),
                    "publish",
                    error,
                    queue.shelve(payment_id, result.place),
                )

    async def _report_turn(self, lost: Exception | None) -> None:
        """Report the newest problem."""
        if self._not_stored and not await self._core.store.read(queue.has_postponed()):
            self._not_stored = ""
        if lost is not None:
            await self._disconnect()
            self._report(f"the event sink cannot be reached: {lost}")
        else:
            self._report(self._not_stored)

    def _report(self, problem: str) -> None:
        health = self._core.event_sink_health
        if problem and not health.problem:
            _log.warning("%s; events are queued, and Florin publishes them later", problem)
        elif health.problem and not problem:
            _log.info("the event sink stores events again")
        health.problem = problem

    async def _disconnect(self) -> None:
        broker, self._broker = self._broker, None
        if broker is not None:
            await broker.close()

    async def _stop(self) -> None:
        epoch, self._epoch = self._epoch, None
        await self._disconnect()
        if epoch is not None:
            with suppress(StoreError):
                await self._core.store.write(leases.release(LEASE_NAME, self._lease_owner, epoch))


def _get_subject(pending: QueuedPayment) -> str:
    """Return the subject of a payment in the quarantine, as for deliveries to endpoints."""
    return f"{EVENT_SINK_ID}/{pending.payment_id}"
