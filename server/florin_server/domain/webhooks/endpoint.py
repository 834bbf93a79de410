"""Who is told of changes: endpoints, what they want to hear, and how they are doing."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from florin_server.domain.payments.payment import RefundStatus, Status
from florin_server.domain.payments.state import CREATED


class EndpointState(StrEnum):
    """Whether an endpoint is told anything at the moment; what it misses waits for it."""

    ACTIVE = "active"
    PAUSED = "paused"


# why an endpoint is paused whose owner wanted it so
BY_OWNER: Final = "you paused it"

# the version of the format of bodies: members may be added to it, and none may change
FORMAT: Final = "2026-05-18"
_CREATED: Final = "payment.created"
SETTLED: Final = "payment.settled"
# endpoints that name no types receive these
PAYMENT_TYPES: Final = (
    _CREATED,
    *(f"payment.{status}" for status in Status if status is not Status.REQUIRES_ACTION),
    SETTLED,
)
EVENT_TYPES: Final = (*PAYMENT_TYPES, *(f"refund.{status}" for status in RefundStatus))
# stands for all types, also for those that are added later
ALL_TYPES: Final = "*"


def type_of(cause: str, status: Status) -> str | None:
    """Return the type of a payment's event; None for one before anybody acted."""
    if cause == CREATED:
        return _CREATED
    return None if status is Status.REQUIRES_ACTION else f"payment.{status}"


def type_of_refund(status: RefundStatus) -> str:
    """Return the type of a refund's event."""
    return f"refund.{status}"


def expand_types(events: Collection[str]) -> frozenset[str]:
    """Return the types of EVENT_TYPES that a list of an endpoint stands for."""
    if ALL_TYPES in events:
        return frozenset(EVENT_TYPES)
    return frozenset(events or PAYMENT_TYPES)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One place of a merchant, or of a partner for all of its merchants.

    `events` are of EVENT_TYPES, or ALL_TYPES; none for PAYMENT_TYPES. `version` is that of the
    format of its bodies. One without `url` is asked for what waits instead of being told.
    `failures` counts attempts in a row, since `failing_since_us`; nothing is tried before
    `retry_at_us`. `attempts` counts all that there ever were.
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
        """The merchant whose payments it hears of, or the partner."""
        return self.merchant_id or self.partner_id

    @property
    def proven(self) -> bool:
        """True if it took what it was told last: who hangs or fails gets one attempt at a time."""
        return self.failures == 0 and self.delivered_at_us is not None

    def wants(self, event_type: str | None) -> bool:
        """Tells whether it is told of events of a type."""
        return event_type is not None and event_type in expand_types(self.events)


@dataclass(frozen=True, slots=True)
class Waiting:
    """What an endpoint is to be told of one payment: every event above `told`, up to `newest`.

    Both are places as in `snapshot`. `attempts` and `since_us` are of the next one. It is tried
    again at `next_at_us`; None if it was given up. `claimed` while somebody tries it, who is told
    from others by the `epoch`. Up to `only_to`, it was told all of them before, and is told those
    of the types in `only_types` again.
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

    def wants(self, place: int, event_type: str) -> bool:
        """Tells whether an event is among those that it waits for."""
        return place > self.only_to or event_type in self.only_types


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to tell an endpoint of a change. `n` counts the endpoint's, from 1.

    `version` is the event's place, as in `snapshot`. There was an HTTP `status`, or else a
    `fault` says why not. `answer` is the beginning of what was answered, as text.
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
    def succeeded(self) -> bool:
        """Only an answer from 200 to 299 says that the event was taken."""
        return self.status is not None and 200 <= self.status < 300
