"""Claims of deliveries: one process at a time has the claim, and it alone can conclude it.

A claim is a lease: a process that has not concluded it when it expires counts as dead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, false, or_, select, true, update
from sqlalchemy.orm import aliased

from florin_server.db.engine.query import Command, Op, Statement, columns, is_in, operation, param
from florin_server.db.tables.tables import (
    partner_table,
    webhook_delivery_table,
    webhook_endpoint_table,
)
from florin_server.domain.webhooks import schedule
from florin_server.domain.webhooks.endpoint import EndpointState, WebhookDelivery, WebhookEndpoint

_endpoint, _delivery = webhook_endpoint_table.c, webhook_delivery_table.c
_ENDPOINT = columns(webhook_endpoint_table, WebhookEndpoint)
_PENDING = columns(webhook_delivery_table, WebhookDelivery)
# of one endpoint, at a time
_TOGETHER = 4


def _is_due(row: Any) -> ColumnElement[bool]:
    """Return whether an attempt is due, or lies beyond the schedule because of an earlier clock."""
    due: ColumnElement[int] = row.next_at_us
    return and_(due.is_not(None), or_(due <= param("now_us"), due > param("far_us")))


_first = aliased(webhook_delivery_table)
_FIRST = (
    select(_first.c.payment_id)
    .where(_first.c.endpoint_id == _endpoint.id, _is_due(_first.c))
    .order_by(_first.c.next_at_us)
    .limit(_TOGETHER)
    .correlate(webhook_endpoint_table)
)
_READY = (
    _endpoint.state == EndpointState.ACTIVE,
    _endpoint.url != "",
    or_(_endpoint.retry_at_us <= param("now_us"), _endpoint.retry_at_us > param("far_us")),
    ~is_in(_endpoint.id, "busy"),
    ~is_in(_endpoint.partner_id, "crowded"),
)
OWN_CLAIM = (
    _delivery.endpoint_id == param("endpoint"),
    _delivery.payment_id == param("payment"),
    _delivery.epoch == param("held"),
    _delivery.claimed == true(),
)


@dataclass(frozen=True, slots=True)
class WebhookDeliveryClaim:
    """A delivery that one process tries now, exclusively."""

    endpoint: WebhookEndpoint
    pending: WebhookDelivery


_DUE = Statement(
    select(*_ENDPOINT, *_PENDING)
    .join_from(
        webhook_endpoint_table, webhook_delivery_table, _delivery.endpoint_id == _endpoint.id
    )
    .join(
        partner_table,
        and_(partner_table.c.id == _endpoint.partner_id, partner_table.c.status == "active"),
    )
    # the due time is checked again once the row is locked
    .where(*_READY, _delivery.payment_id.in_(_FIRST), _is_due(_delivery))
    .order_by(_delivery.next_at_us)
    .limit(param("limit"))
    # deliveries that another process has just claimed are skipped
    .with_for_update(of=webhook_delivery_table, skip_locked=True),
    WebhookDeliveryClaim,
    endpoint=WebhookEndpoint,
    pending=WebhookDelivery,
)
_ANY = Statement(
    select(_endpoint.id)
    .join(
        partner_table,
        and_(partner_table.c.id == _endpoint.partner_id, partner_table.c.status == "active"),
    )
    .where(
        *_READY,
        select(_first.c.payment_id)
        .where(_first.c.endpoint_id == _endpoint.id, _is_due(_first.c))
        .correlate(webhook_endpoint_table)
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
    update(webhook_delivery_table)
    .where(_delivery.endpoint_id == param("endpoint"), _delivery.payment_id == param("payment"))
    .values(claimed=true(), epoch=_delivery.epoch + 1, next_at_us=param("until"))
)
_BACK = Command(
    update(webhook_delivery_table)
    .where(*OWN_CLAIM)
    .values(next_at_us=param("now_us"), claimed=false())
)
_FREE = Command(
    update(webhook_delivery_table)
    .where(_delivery.claimed == true(), _delivery.next_at_us.is_not(None))
    .values(next_at_us=param("now_us"), claimed=false())
)
_CLAIMED = Statement(select(_delivery.endpoint_id).where(_delivery.claimed == true()).limit(1), str)


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
def release(claimed_deliveries: Collection[WebhookDeliveryClaim], now_us: int) -> Op[None]:
    """Release unconcluded claims from a time on."""
    if claimed_deliveries:
        yield _BACK.bind_many(
            [
                {**to_claim_key(delivery.pending), "now_us": now_us}
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


def to_claim_key(pending: WebhookDelivery) -> Mapping[str, object]:
    """Return the values of `OWN_CLAIM` for a claimed delivery."""
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
