"""Webhook endpoints: their subscriptions and their state."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from florin_server.domain.payments.payment import PaymentStatus, RefundStatus
from florin_server.domain.payments.state import CREATED_CAUSE, DEPOSIT_CAUSES, PaymentStateEvent


class EndpointState(StrEnum):
    """The state of an endpoint; while it is paused, its deliveries are queued."""

    ACTIVE = "active"
    PAUSED = "paused"


# the reason of a pause by the owner
PAUSED_BY_OWNER: Final = "you paused it"

# the version of the format of bodies: releases can add members, and change none
BODY_FORMAT: Final = "2026-05-18"
_CREATED_TYPE: Final = "payment.created"
SETTLED_TYPE: Final = "payment.settled"
# endpoints that name no types receive these
PAYMENT_TYPES: Final = (
    _CREATED_TYPE,
    *(
        f"payment.{status}"
        for status in PaymentStatus
        if status is not PaymentStatus.REQUIRES_ACTION
    ),
    SETTLED_TYPE,
)
# only endpoints that name these types receive them: a buyer can send any number of deposits
DEPOSIT_TYPES: Final = (
    "payment.deposit_seen",
    "payment.deposit_returned",
    "payment.deposit_claimed",
)
EVENT_TYPES: Final = (
    *PAYMENT_TYPES,
    *(f"refund.{status}" for status in RefundStatus),
    *DEPOSIT_TYPES,
)
# means all types but DEPOSIT_TYPES, including types that are added later
ALL_TYPES: Final = "*"


def find_event_type(cause: str, status: PaymentStatus) -> str | None:
    """Return the type of a payment's event; None for an event before any action."""
    if cause == CREATED_CAUSE:
        return _CREATED_TYPE
    if cause in DEPOSIT_CAUSES:
        return get_deposit_event_type(PaymentStateEvent(cause))
    return None if status is PaymentStatus.REQUIRES_ACTION else f"payment.{status}"


def get_refund_event_type(status: RefundStatus) -> str:
    """Return the type of a refund's event."""
    return f"refund.{status}"


def get_deposit_event_type(cause: PaymentStateEvent) -> str:
    """Return the type of an event of a payment's address."""
    return f"payment.{cause}"


def expand_types(events: Collection[str]) -> frozenset[str]:
    """Return the types of EVENT_TYPES that the list of an endpoint means."""
    if ALL_TYPES not in events:
        return frozenset(events or PAYMENT_TYPES)
    return frozenset(EVENT_TYPES).difference(DEPOSIT_TYPES).union(events) - {ALL_TYPES}


@dataclass(frozen=True, slots=True)
class WebhookEndpoint:
    """One endpoint of a merchant, or of a partner for all of its merchants.

    `events` are of EVENT_TYPES, or ALL_TYPES; empty means PAYMENT_TYPES. `version` is that of the
    format of its bodies. An endpoint without `url` is polled. `failures` counts failed attempts in
    a row, since `failing_since_us`; the next attempt is not before `retry_at_us`. `attempts` counts
    all attempts.
    """

    id: str
    partner_id: str
    merchant_id: str | None
    live: bool
    url: str
    events: frozenset[str]
    description: str
    version: str
    state: EndpointState
    paused_reason: str | None
    created_at_us: int
    failures: int = 0
    failing_since_us: int | None = None
    retry_at_us: int = 0
    delivered_at_us: int | None = None
    attempts: int = 0

    @property
    def owner(self) -> str:
        """Return the merchant whose payments it receives, or the partner."""
        return self.merchant_id or self.partner_id

    @property
    def is_proven(self) -> bool:
        """Return True if it accepted the latest event.

        A failing endpoint gets one attempt at a time.
        """
        return self.failures == 0 and self.delivered_at_us is not None

    def is_subscribed(self, event_type: str | None) -> bool:
        """Return whether it receives events of a type."""
        return event_type is not None and event_type in expand_types(self.events)


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    """The events of one payment for an endpoint: every event above `told`, up to `newest`.

    Both are places as in `snapshot`. `attempts` and `since_us` are of the next event. It is retried
    at `next_at_us`; None if it was given up. It is `claimed` while a worker delivers it, and
    `epoch` identifies the claim. Events up to `only_to` were delivered before; those of the types
    in `only_types` are delivered again.
    """

    endpoint_id: str
    payment_id: str
    told: int
    newest: int
    attempts: int
    since_us: int
    next_at_us: int | None
    claimed: bool
    epoch: int
    only_to: int = -1
    only_types: frozenset[str] = frozenset()

    def includes_event(self, place: int, event_type: str) -> bool:
        """Return whether an event is among those that it waits for."""
        return place > self.only_to or event_type in self.only_types


@dataclass(frozen=True, slots=True)
class WebhookAttempt:
    """One attempt to deliver an event to an endpoint. `n` counts the endpoint's attempts, from 1.

    `version` is the event's place, as in `snapshot`. It has an HTTP `status`, or else a `fault`
    with the reason. `answer` is the beginning of the response, as text.
    """

    endpoint_id: str
    n: int
    payment_id: str
    version: int
    event_type: str
    at_us: int
    took_ms: int
    status: int | None
    fault: str | None
    answer: str

    @property
    def is_success(self) -> bool:
        """Return whether the event was accepted: only a response from 200 to 299 says so."""
        return self.status is not None and 200 <= self.status < 300
