"""Results of claimed deliveries, and what is left to deliver.

Only the process that still has the claim concludes it. Of the later results of another process,
only the attempt is recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import (
    Select,
    and_,
    case,
    delete,
    false,
    func,
    null,
    select,
    update,
)

from florin_server.db.engine.query import (
    Command,
    Op,
    Query,
    Statement,
    operation,
    param,
    to_row_params,
    upsert,
)
from florin_server.db.tables.tables import (
    webhook_attempt_table,
    webhook_delivery_table,
    webhook_endpoint_table,
)
from florin_server.domain.payments.payment import Payment, PaymentOption
from florin_server.domain.webhooks import schedule
from florin_server.domain.webhooks.endpoint import (
    PAUSED_BY_OWNER,
    EndpointState,
    WebhookAttempt,
)
from florin_server.domain.webhooks.snapshot import PaymentEvent
from florin_server.features.webhooks.store import claims, endpoints, health
from florin_server.features.webhooks.store.claims import (
    OWN_CLAIM,
    WebhookDeliveryClaim,
    to_claim_key,
)
from florin_server.features.webhooks.store.endpoints import SigningSecret
from florin_server.money.outbox.store import events
from florin_server.money.payments.store import payments

_endpoint, _delivery = webhook_endpoint_table.c, webhook_delivery_table.c
_DAY_US = 86_400_000_000


class _FailureCount(NamedTuple):
    attempts: int
    failures: int
    failing_since_us: int


class _Pending(NamedTuple):
    oldest_us: int | None
    pending_count: int


_RECORD_DELIVERED = Statement(
    update(webhook_delivery_table)
    .where(*OWN_CLAIM)
    .values(
        told=param("place"),
        attempts=0,
        since_us=param("now_us"),
        next_at_us=param("now_us"),
        claimed=false(),
    )
    .returning(_delivery.newest),
    int,
)
_GONE = Command(
    delete(webhook_delivery_table).where(
        _delivery.endpoint_id == param("endpoint"),
        _delivery.payment_id == param("payment"),
        _delivery.newest <= _delivery.told,
    )
)
_AGAIN = Statement(
    update(webhook_delivery_table)
    .where(*OWN_CLAIM)
    .values(attempts=_delivery.attempts + 1, next_at_us=param("next_us"), claimed=false())
    .returning(_delivery.attempts),
    int,
)
_SHELVE = Command(
    update(webhook_delivery_table).where(*OWN_CLAIM).values(next_at_us=null(), claimed=false())
)
_TAKE_UP = Command(
    update(webhook_delivery_table)
    .where(
        _delivery.endpoint_id == param("endpoint"),
        _delivery.payment_id == param("payment"),
        _delivery.next_at_us.is_(None),
    )
    .values(next_at_us=param("now_us"), claimed=false())
)
_SUCCEEDED = Statement(
    update(webhook_endpoint_table)
    .where(_endpoint.id == param("endpoint"))
    .values(
        failures=0,
        failing_since_us=None,
        retry_at_us=0,
        delivered_at_us=param("now_us"),
        attempts=_endpoint.attempts + 1,
    )
    .returning(_endpoint.attempts),
    int,
)
_FAILED = Statement(
    update(webhook_endpoint_table)
    .where(_endpoint.id == param("endpoint"))
    .values(
        failures=_endpoint.failures + 1,
        failing_since_us=func.coalesce(_endpoint.failing_since_us, param("now_us")),
        attempts=_endpoint.attempts + 1,
    )
    .returning(_endpoint.attempts, _endpoint.failures, _endpoint.failing_since_us),
    _FailureCount,
)
_REST = Command(
    update(webhook_endpoint_table)
    .where(_endpoint.id == param("endpoint"))
    .values(retry_at_us=param("rests_until"))
)
_ATTEMPT = Command(upsert(webhook_attempt_table, "endpoint_id", "slot"))
_active = and_(_endpoint.state == EndpointState.ACTIVE, _delivery.next_at_us.is_not(None))
_figures: Select[*tuple[Any, ...]] = select(
    func.min(case((_active, _delivery.since_us), else_=None)).label("oldest_us"),
    func.count().label("pending_count"),
)
_FIGURES = Statement(
    _figures.join_from(
        webhook_delivery_table, webhook_endpoint_table, _delivery.endpoint_id == _endpoint.id
    ).where(_endpoint.url != ""),
    _Pending,
)
_PAUSED = Statement(
    select(_endpoint.id).where(
        _endpoint.state == EndpointState.PAUSED, _endpoint.paused_reason != PAUSED_BY_OWNER
    ),
    str,
)


@dataclass(frozen=True, slots=True)
class DeliveryData:
    """The data to send an endpoint a payment's events; `pending_events` are the undelivered events.

    `option` is the payment's bound option, None if it has none.
    """

    payment: Payment
    option: PaymentOption | None
    history: list[PaymentEvent]
    pending_events: list[PaymentEvent]
    secrets: list[SigningSecret]


@dataclass(frozen=True, slots=True)
class DeliveryPolicy:
    """The policy for failures: when a delivery is given up, and how many attempts are kept."""

    give_up_us: int
    attempt_log_size: int


@operation
def find_delivery_data(delivery: WebhookDeliveryClaim, now_us: int) -> Op[DeliveryData | None]:
    """Return the data to deliver it; None if the payment does not exist."""
    pending = delivery.pending
    payment = yield from payments.find(pending.payment_id)
    if payment is None:
        return None
    option = None
    if payment.option_id is not None:
        option = yield from payments.find_option(payment.id, payment.option_id)
    history = yield from events.list_events(payment)
    pending_events = [event for event in history if pending.told < event.place <= pending.newest]
    secrets = yield from endpoints.list_secrets(delivery.endpoint.id, now_us)
    return DeliveryData(payment, option, history, pending_events, secrets)


@operation
def record_delivered(
    delivery: WebhookDeliveryClaim,
    place: int,
    now_us: int,
    attempt: WebhookAttempt | None,
    attempt_log_size: int,
) -> Op[bool]:
    """Record a delivery up to a place; without an attempt the endpoint wanted no event of it.

    Return whether the claim was still valid.
    """
    pending = delivery.pending
    recorded = yield from _RECORD_DELIVERED.any(**to_claim_key(pending), place=place, now_us=now_us)
    if recorded:
        yield _GONE(endpoint=pending.endpoint_id, payment=pending.payment_id)
    if attempt is not None:
        attempts = yield from _SUCCEEDED.first(endpoint=pending.endpoint_id, now_us=now_us)
        if attempts is not None:
            yield _to_attempt_query(attempt, attempts, attempt_log_size)
            yield from health.record_attempt(pending.endpoint_id, now_us, is_success=True)
    return recorded


@operation
def record_failure(
    delivery: WebhookDeliveryClaim,
    attempt: WebhookAttempt,
    now_us: int,
    policy: DeliveryPolicy,
    *,
    is_gone: bool = False,
    requested_wait_us: int = 0,
) -> Op[EndpointState]:
    """Record a failed attempt: retry it later or give up, and rest or pause the endpoint.

    `is_gone` is true if the endpoint wants no events any more. `requested_wait_us` is the pause
    that it requested, within the bounds of `schedule`. Return the endpoint's state.
    """
    pending = delivery.pending
    counted = yield from _FAILED.first(endpoint=pending.endpoint_id, now_us=now_us)
    given_up = now_us - pending.since_us >= policy.give_up_us
    wait_us = max(
        requested_wait_us, schedule.get_retry_delay_us(pending.attempts + 1, pending.payment_id)
    )
    yield from _AGAIN.all(**to_claim_key(pending), next_us=None if given_up else now_us + wait_us)
    if counted is None:
        return EndpointState.PAUSED
    yield _to_attempt_query(attempt, counted.attempts, policy.attempt_log_size)
    yield from health.record_attempt(pending.endpoint_id, now_us, is_success=False)
    rest_us = schedule.get_pause_us(counted.failures, requested_wait_us)
    if rest_us:
        yield _REST(endpoint=pending.endpoint_id, rests_until=now_us + rest_us)
    days = policy.give_up_us / _DAY_US
    if is_gone:
        yield from endpoints.pause(pending.endpoint_id, "the endpoint answered HTTP 410 (gone)")
    elif now_us - counted.failing_since_us >= policy.give_up_us:
        yield from endpoints.pause(pending.endpoint_id, f"every attempt failed for {days:g} days")
    else:
        return EndpointState.ACTIVE
    return EndpointState.PAUSED


@operation
def halt(delivery: WebhookDeliveryClaim, reason: str, now_us: int) -> Op[None]:
    """Pause an endpoint that cannot receive anything until an operator acts; free the claim."""
    yield from claims.release([delivery], now_us)
    yield from endpoints.pause(delivery.endpoint.id, reason)


@operation
def shelve(delivery: WebhookDeliveryClaim) -> Op[None]:
    """Shelve a claimed delivery until the operator, or a new event, resumes it."""
    yield _SHELVE(**to_claim_key(delivery.pending))


@operation
def resume(endpoint_id: str, payment_id: str, now_us: int) -> Op[None]:
    """Resume a shelved delivery; part of an operation."""
    yield _TAKE_UP(endpoint=endpoint_id, payment=payment_id, now_us=now_us)


@dataclass(frozen=True, slots=True)
class DeliveryStats:
    """Undelivered events: their number, the time of the oldest (None if none), and the endpoints.

    `paused_endpoints` counts endpoints that Florin paused, not their owners.
    """

    pending_count: int
    oldest_us: int | None
    paused_endpoints: int


@operation
def get_stats() -> Op[DeliveryStats]:
    """Return the undelivered events of all endpoints; the oldest counts active deliveries only."""
    oldest_us, pending_count = yield from _FIGURES.single()
    return DeliveryStats(pending_count, oldest_us, len((yield from _PAUSED.all())))


def _to_attempt_query(attempt: WebhookAttempt, n: int, attempt_log_size: int) -> Query:
    """Return the command that stores the nth attempt in place of an older attempt."""
    return _ATTEMPT(**{**to_row_params(attempt), "n": n, "slot": n % attempt_log_size})
