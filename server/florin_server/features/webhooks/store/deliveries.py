"""Deliveries: claimed by one process at a time, which alone can conclude its claim.

A claim is a lease: a process that has not concluded it when it expires counts as dead. Of its later
results, only the attempt is recorded.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    case,
    delete,
    false,
    func,
    null,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.orm import aliased

from florin_server.db.engine.query import (
    Command,
    Op,
    Query,
    Statement,
    columns,
    is_in,
    operation,
    param,
    to_row_params,
    upsert,
)
from florin_server.db.tables.tables import (
    partner,
    webhook_attempt,
    webhook_delivery,
    webhook_endpoint,
)
from florin_server.domain.payments.payment import Payment, PaymentOption
from florin_server.domain.webhooks import schedule
from florin_server.domain.webhooks.endpoint import (
    PAUSED_BY_OWNER,
    EndpointState,
    WebhookAttempt,
    WebhookDelivery,
    WebhookEndpoint,
)
from florin_server.domain.webhooks.snapshot import PaymentEvent
from florin_server.features.webhooks.store import endpoints
from florin_server.features.webhooks.store.endpoints import SigningSecret
from florin_server.money.outbox.store import events
from florin_server.money.payments.store import payments

_endpoint, _delivery = webhook_endpoint.c, webhook_delivery.c
_ENDPOINT = columns(webhook_endpoint, WebhookEndpoint)
_PENDING = columns(webhook_delivery, WebhookDelivery)
# of one endpoint, at a time
_TOGETHER = 4
_DAY_US = 86_400_000_000


def _is_due(row: Any) -> ColumnElement[bool]:
    """Return whether an attempt is due, or lies beyond the schedule because of an earlier clock."""
    due: ColumnElement[int] = row.next_at_us
    return and_(due.is_not(None), or_(due <= param("now_us"), due > param("far_us")))


_first = aliased(webhook_delivery)
_FIRST = (
    select(_first.c.payment_id)
    .where(_first.c.endpoint_id == _endpoint.id, _is_due(_first.c))
    .order_by(_first.c.next_at_us)
    .limit(_TOGETHER)
    .correlate(webhook_endpoint)
)
_READY = (
    _endpoint.state == EndpointState.ACTIVE,
    _endpoint.url != "",
    or_(_endpoint.retry_at_us <= param("now_us"), _endpoint.retry_at_us > param("far_us")),
    ~is_in(_endpoint.id, "busy"),
    ~is_in(_endpoint.partner_id, "crowded"),
)


class _FailureCount(NamedTuple):
    attempts: int
    failures: int
    failing_since_us: int


class _Pending(NamedTuple):
    oldest_us: int | None
    pending_count: int


@dataclass(frozen=True, slots=True)
class WebhookDeliveryClaim:
    """A delivery that one process tries now, exclusively."""

    endpoint: WebhookEndpoint
    pending: WebhookDelivery


_DUE = Statement(
    select(*_ENDPOINT, *_PENDING)
    .join_from(webhook_endpoint, webhook_delivery, _delivery.endpoint_id == _endpoint.id)
    .join(partner, and_(partner.c.id == _endpoint.partner_id, partner.c.status == "active"))
    # the due time is checked again once the row is locked
    .where(*_READY, _delivery.payment_id.in_(_FIRST), _is_due(_delivery))
    .order_by(_delivery.next_at_us)
    .limit(param("limit"))
    # deliveries that another process has just claimed are skipped
    .with_for_update(of=webhook_delivery, skip_locked=True),
    WebhookDeliveryClaim,
    endpoint=WebhookEndpoint,
    pending=WebhookDelivery,
)
_ANY = Statement(
    select(_endpoint.id)
    .join(partner, and_(partner.c.id == _endpoint.partner_id, partner.c.status == "active"))
    .where(
        *_READY,
        select(_first.c.payment_id)
        .where(_first.c.endpoint_id == _endpoint.id, _is_due(_first.c))
        .correlate(webhook_endpoint)
        .exists(),
    )
    .limit(1),
    str,
)
_DUE_OF_ENDPOINT = Statement(
    select(*_PENDING)
    .where(_delivery.endpoint_id == param("endpoint"), _is_due(_delivery))
    .order_by(_delivery.next_at_us)
    .limit(_TOGETHER)
    .with_for_update(skip_locked=True),
    WebhookDelivery,
)
_HELD = Statement(
    select(*_PENDING)
    .where(
        _delivery.endpoint_id == param("endpoint"),
        _delivery.payment_id == param("payment"),
        _delivery.epoch == param("held"),
        _delivery.claimed == true(),
    )
    .with_for_update(),
    WebhookDelivery,
)
_CLAIM = Command(
    update(webhook_delivery)
    .where(_delivery.endpoint_id == param("endpoint"), _delivery.payment_id == param("payment"))
    .values(claimed=true(), epoch=_delivery.epoch + 1, next_at_us=param("until"))
)
_OWN = (
    _delivery.endpoint_id == param("endpoint"),
    _delivery.payment_id == param("payment"),
    _delivery.epoch == param("held"),
    _delivery.claimed == true(),
)
_RECORD_DELIVERED = Statement(
    update(webhook_delivery)
    .where(*_OWN)
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
    delete(webhook_delivery).where(
        _delivery.endpoint_id == param("endpoint"),
        _delivery.payment_id == param("payment"),
        _delivery.newest <= _delivery.told,
    )
)
_AGAIN = Statement(
    update(webhook_delivery)
    .where(*_OWN)
    .values(attempts=_delivery.attempts + 1, next_at_us=param("next_us"), claimed=false())
    .returning(_delivery.attempts),
    int,
)
_BACK = Command(
    update(webhook_delivery).where(*_OWN).values(next_at_us=param("now_us"), claimed=false())
)
_SHELVE = Command(update(webhook_delivery).where(*_OWN).values(next_at_us=null(), claimed=false()))
_TAKE_UP = Command(
    update(webhook_delivery)
    .where(
        _delivery.endpoint_id == param("endpoint"),
        _delivery.payment_id == param("payment"),
        _delivery.next_at_us.is_(None),
    )
    .values(next_at_us=param("now_us"), claimed=false())
)
_FREE = Command(
    update(webhook_delivery)
    .where(_delivery.claimed == true(), _delivery.next_at_us.is_not(None))
    .values(next_at_us=param("now_us"), claimed=false())
)
_CLAIMED = Statement(select(_delivery.endpoint_id).where(_delivery.claimed == true()).limit(1), str)
_SUCCEEDED = Statement(
    update(webhook_endpoint)
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
    update(webhook_endpoint)
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
    update(webhook_endpoint)
    .where(_endpoint.id == param("endpoint"))
    .values(retry_at_us=param("rests_until"))
)
_ATTEMPT = Command(upsert(webhook_attempt, "endpoint_id", "slot"))
_active = and_(_endpoint.state == EndpointState.ACTIVE, _delivery.next_at_us.is_not(None))
_figures: Select[*tuple[Any, ...]] = select(
    func.min(case((_active, _delivery.since_us), else_=None)).label("oldest_us"),
    func.count().label("pending_count"),
)
_FIGURES = Statement(
    _figures.join_from(
        webhook_delivery, webhook_endpoint, _delivery.endpoint_id == _endpoint.id
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
def is_due(
    now_us: int, busy_endpoint_ids: Collection[str], crowded_partner_ids: Collection[str] = ()
) -> Op[bool]:
    """Return True if a delivery can be claimed."""
    far_us = now_us + schedule.DELAY_MAX_US
    return (
        yield from _ANY.any(
            now_us=now_us,
            far_us=far_us,
            busy=list(busy_endpoint_ids),
            crowded=list(crowded_partner_ids),
        )
    )


@operation
def claim(
    now_us: int,
    lease_us: int,
    busy_endpoint_ids: Collection[str],
    limit: int,
    crowded_partner_ids: Collection[str] = (),
) -> Op[list[WebhookDeliveryClaim]]:
    """Claim due deliveries at endpoints that are not busy, of partners that are not crowded.

    Only one delivery is claimed at an endpoint whose last attempt failed, or that never accepted
    any: an endpoint that hangs blocks no more than that.
    """
    due_deliveries = yield from _DUE.all(
        now_us=now_us,
        far_us=now_us + schedule.DELAY_MAX_US,
        busy=list(busy_endpoint_ids),
        crowded=list(crowded_partner_ids),
        limit=limit,
    )
    claimed_deliveries: list[WebhookDeliveryClaim] = []
    tried: set[str] = set()
    for delivery in due_deliveries:
        if delivery.endpoint.id in tried and not delivery.endpoint.is_proven:
            continue
        tried.add(delivery.endpoint.id)
        claimed_deliveries.append(delivery)
    if claimed_deliveries:
        yield _CLAIM.bind_many(
            [
                _to_claim_params(delivery.pending, now_us + lease_us)
                for delivery in claimed_deliveries
            ]
        )
    return claimed_deliveries


@operation
def claim_for_endpoint(
    endpoint: WebhookEndpoint, now_us: int, lease_us: int
) -> Op[list[WebhookDeliveryClaim]]:
    """Claim due deliveries at one endpoint, a few at a time."""
    if endpoint.state is EndpointState.PAUSED:
        return []
    far_us = now_us + schedule.DELAY_MAX_US
    due = yield from _DUE_OF_ENDPOINT.all(endpoint=endpoint.id, now_us=now_us, far_us=far_us)
    claimed_deliveries = [WebhookDeliveryClaim(endpoint, delivery) for delivery in due]
    if claimed_deliveries:
        yield _CLAIM.bind_many(
            [
                _to_claim_params(delivery.pending, now_us + lease_us)
                for delivery in claimed_deliveries
            ]
        )
    return claimed_deliveries


@operation
def lock_claimed(endpoint_id: str, payment_id: str, epoch: int) -> Op[WebhookDelivery | None]:
    """Return a delivery claimed under an epoch; None if it no longer is. Part of an operation."""
    return (yield from _HELD.first(endpoint=endpoint_id, payment=payment_id, held=epoch))


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
    recorded = yield from _RECORD_DELIVERED.any(
        **_to_claim_key(pending), place=place, now_us=now_us
    )
    if recorded:
        yield _GONE(endpoint=pending.endpoint_id, payment=pending.payment_id)
    if attempt is not None:
        attempts = yield from _SUCCEEDED.first(endpoint=pending.endpoint_id, now_us=now_us)
        if attempts is not None:
            yield _to_attempt_query(attempt, attempts, attempt_log_size)
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
    yield from _AGAIN.all(**_to_claim_key(pending), next_us=None if given_up else now_us + wait_us)
    if counted is None:
        return EndpointState.PAUSED
    yield _to_attempt_query(attempt, counted.attempts, policy.attempt_log_size)
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
    yield _BACK(**_to_claim_key(delivery.pending), now_us=now_us)
    yield from endpoints.pause(delivery.endpoint.id, reason)


@operation
def shelve(delivery: WebhookDeliveryClaim) -> Op[None]:
    """Shelve a claimed delivery until the operator, or a new event, resumes it."""
    yield _SHELVE(**_to_claim_key(delivery.pending))


@operation
def resume(endpoint_id: str, payment_id: str, now_us: int) -> Op[None]:
    """Resume a shelved delivery; part of an operation."""
    yield _TAKE_UP(endpoint=endpoint_id, payment=payment_id, now_us=now_us)


@operation
def release(claimed_deliveries: Collection[WebhookDeliveryClaim], now_us: int) -> Op[None]:
    """Release unconcluded claims from a time on."""
    if claimed_deliveries:
        yield _BACK.bind_many(
            [
                {**_to_claim_key(delivery.pending), "now_us": now_us}
                for delivery in claimed_deliveries
            ]
        )


@operation
def has_claims() -> Op[bool]:
    """Return True if any process has a claim."""
    return (yield from _CLAIMED.any())


@operation
def release_all(now_us: int) -> Op[None]:
    """Release all claims, for a process that knows that it is alone."""
    yield _FREE(now_us=now_us)


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


def _to_claim_key(pending: WebhookDelivery) -> Mapping[str, object]:
    return {
        "endpoint": pending.endpoint_id,
        "payment": pending.payment_id,
        "held": pending.epoch + 1,
    }


def _to_claim_params(pending: WebhookDelivery, until_us: int) -> Mapping[str, object]:
    return {
        "endpoint": pending.endpoint_id,
        "payment": pending.payment_id,
        "until": until_us,
    }


def _to_attempt_query(attempt: WebhookAttempt, n: int, attempt_log_size: int) -> Query:
    """Return the command that stores the nth attempt in place of an older attempt."""
    return _ATTEMPT(**{**to_row_params(attempt), "n": n, "slot": n % attempt_log_size})
