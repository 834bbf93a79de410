"""Payments with events that are not published yet, and up to where each is published.

A place only ever rises, whichever process records it: an acknowledged event needs no lease.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Integer, and_, cast, delete, func, null, or_, select, update

from florin_server.db.engine.query import Command, Op, Statement, operation, param
from florin_server.db.tables.tables import webhook_delivery_table
from florin_server.domain.payments.payment import Payment, PaymentOption
from florin_server.domain.webhooks import schedule
from florin_server.domain.webhooks.snapshot import PaymentEvent
from florin_server.money.outbox.store import events
from florin_server.money.outbox.store.outbox import EVENT_SINK_ID
from florin_server.money.payments.store import payments

_delivery = webhook_delivery_table.c
_OF_SINK = _delivery.endpoint_id == EVENT_SINK_ID
# as it was read: another process has not published more of it
_UNCHANGED = (_OF_SINK, _delivery.payment_id == param("payment"), param("from_") == events.PLACE)


class QueuedPayment(NamedTuple):
    """A payment with unpublished events: those above `place`, up to `newest`."""

    payment_id: str
    place: int
    newest: int
    attempts: int


_DUE = Statement(
    select(_delivery.payment_id, events.PLACE.label("place"), _delivery.newest, _delivery.attempts)
    .where(
        _OF_SINK,
        _delivery.next_at_us.is_not(None),
        or_(_delivery.next_at_us <= param("now_us"), _delivery.next_at_us > param("far_us")),
    )
    .order_by(_delivery.next_at_us, _delivery.payment_id)
    .limit(param("limit")),
    QueuedPayment,
)
_ADVANCE = Command(
    update(webhook_delivery_table)
    .where(_OF_SINK, _delivery.payment_id == param("payment"), param("place") > events.PLACE)
    .values(
        {
            events.PLACE: param("place"),
            "attempts": 0,
            "since_us": param("now_us"),
            "next_at_us": param("now_us"),
        }
    )
)
_DELETE = Command(
    delete(webhook_delivery_table).where(
        _OF_SINK,
        _delivery.payment_id == param("payment"),
        _delivery.newest <= events.PLACE,
    )
)
_POSTPONE = Command(
    update(webhook_delivery_table)
    .where(*_UNCHANGED, _delivery.next_at_us.is_not(None))
    .values(attempts=_delivery.attempts + 1, next_at_us=param("next_us"))
)
_SHELVE = Command(update(webhook_delivery_table).where(*_UNCHANGED).values(next_at_us=null()))


class EventSinkStats(NamedTuple):
    """Payments with unpublished events, and the time of the oldest; None without any.

    Quarantined payments are excluded.
    """

    waiting_count: int
    oldest_us: int | None


_POSTPONED = Statement(
    select(_delivery.payment_id)
    .where(_OF_SINK, _delivery.next_at_us.is_not(None), _delivery.attempts > 0)
    .limit(1),
    str,
)
_STATS = Statement(
    select(
        cast(func.count(), Integer).label("waiting_count"),
        func.min(_delivery.since_us).label("oldest_us"),
    ).where(and_(_OF_SINK, _delivery.next_at_us.is_not(None))),
    EventSinkStats,
)


@dataclass(frozen=True, slots=True)
class QueuedEvents:
    """The data to publish a payment's events; `pending_events` are the unpublished events.

    `option` is the payment's bound option, None if it has none.
    """

    payment: Payment
    option: PaymentOption | None
    history: list[PaymentEvent]
    pending_events: list[PaymentEvent]


@dataclass(frozen=True, slots=True)
class PublishedPlace:
    """The place up to which a payment's events are published."""

    payment_id: str
    place: int


@operation
def list_due(now_us: int, limit: int) -> Op[list[QueuedPayment]]:
    """Return payments whose events are due, those first that wait longest."""
    far_us = now_us + schedule.DELAY_MAX_US
    return (yield from _DUE.all(now_us=now_us, far_us=far_us, limit=limit))


@operation
def get_queued_events(pending: QueuedPayment) -> Op[QueuedEvents]:
    """Return the data to publish a payment's events. ValueError if the payment does not exist."""
    payment = yield from payments.find(pending.payment_id)
    if payment is None:
        raise ValueError(f"payment {pending.payment_id} does not exist")
    option = None
    if payment.option_id is not None:
        option = yield from payments.find_option(payment.id, payment.option_id)
    history = yield from events.list_events(payment)
    pending_events = [event for event in history if pending.place < event.place <= pending.newest]
    return QueuedEvents(payment, option, history, pending_events)


@operation
def record_published(places: Collection[PublishedPlace], now_us: int) -> Op[None]:
    """Record up to where payments are published; nothing stays queued of those that are done."""
    if not places:
        return
    ordered = sorted(places, key=lambda place: place.payment_id)
    yield _ADVANCE.bind_many(
        [{"payment": each.payment_id, "place": each.place, "now_us": now_us} for each in ordered]
    )
    yield _DELETE.bind_many([{"payment": each.payment_id} for each in ordered])


@operation
def postpone(payment_id: str, place: int, next_us: int) -> Op[None]:
    """Retry the event after a place later, unless another process has published it."""
    yield _POSTPONE(payment=payment_id, from_=place, next_us=next_us)


@operation
def has_postponed() -> Op[bool]:
    """Return True if a postponed payment waits for its retry."""
    return (yield from _POSTPONED.any())


@operation
def shelve(payment_id: str, place: int) -> Op[None]:
    """Shelve a payment that is published up to a place.

    The operator, or a new event, resumes it.
    """
    yield _SHELVE(payment=payment_id, from_=place)


@operation
def get_stats() -> Op[EventSinkStats]:
    """Return the unpublished events of the sink."""
    return (yield from _STATS.single())
