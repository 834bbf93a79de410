"""The health of endpoints: attempts by the hour, answer times and queues."""

from __future__ import annotations

from collections.abc import Collection
from statistics import median
from typing import Final, NamedTuple

from sqlalchemy import Integer, cast, delete, func, literal, select

from florin_server.db.engine.query import (
    Command,
    Op,
    Statement,
    insert,
    is_in,
    operation,
    param,
)
from florin_server.db.tables.tables import (
    webhook_attempt_table,
    webhook_delivery_table,
    webhook_hour_table,
)
from florin_server.domain.webhooks.endpoint import EndpointState, WebhookEndpoint
from florin_server.domain.webhooks.health import DAY_HOURS, WEEK_HOURS, WebhookHealth

# queued payments that are counted, and attempts whose time is read, of one endpoint
QUEUED_MAX: Final = 1_000
_TIMES_MAX: Final = 200
_HOUR_US: Final = 3600 * 1_000_000

_hour, _delivery, _attempt = (
    webhook_hour_table.c,
    webhook_delivery_table.c,
    webhook_attempt_table.c,
)


class _AttemptSums(NamedTuple):
    endpoint_id: str
    hour: int
    attempts: int
    successes: int


_new = insert(webhook_hour_table)
_ADD = Command(
    _new.on_conflict_do_update(
        index_elements=["endpoint_id", "hour"],
        set_={
            "attempts": _hour.attempts + _new.excluded.attempts,
            "successes": _hour.successes + _new.excluded.successes,
        },
    )
)
_LIST = Statement(
    select(webhook_hour_table).where(is_in(_hour.endpoint_id, "ids"), _hour.hour >= param("first")),
    _AttemptSums,
)
_TIMES = Statement(
    select(_attempt.took_ms)
    .where(_attempt.endpoint_id == param("id_"), _attempt.status.is_not(None))
    .order_by(_attempt.n.desc())
    .limit(param("limit")),
    int,
)
_queued = (
    select(literal(1).label("one"))
    .where(_delivery.endpoint_id == param("id_"))
    .limit(param("limit"))
    .subquery("limited")
)
_QUEUED = Statement(select(cast(func.count(), Integer).label("number")).select_from(_queued), int)
_NEXT = Statement(
    select(_delivery.next_at_us)
    .where(_delivery.endpoint_id == param("id_"), _delivery.next_at_us.is_not(None))
    .order_by(_delivery.next_at_us)
    .limit(1),
    int,
)
_FORGET = Statement(
    delete(webhook_hour_table)
    .where(
        _hour.endpoint_id.in_(
            select(_hour.endpoint_id)
            .where(_hour.hour < param("first"))
            .order_by(_hour.hour)
            .limit(param("limit"))
        ),
        _hour.hour < param("first"),
    )
    .returning(_hour.endpoint_id),
    str,
)


@operation
def record_attempt(endpoint_id: str, now_us: int, *, is_success: bool) -> Op[None]:
    """Count an attempt of an endpoint; part of an operation."""
    yield _ADD(
        endpoint_id=endpoint_id, hour=now_us // _HOUR_US, attempts=1, successes=int(is_success)
    )


@operation
def list_health(
    endpoints: Collection[WebhookEndpoint], now_us: int
) -> Op[dict[str, WebhookHealth]]:
    """Return the health of endpoints, by id."""
    hour = now_us // _HOUR_US
    sums = yield from _LIST.all(
        ids=[endpoint.id for endpoint in endpoints], first=hour - WEEK_HOURS + 1
    )
    result: dict[str, WebhookHealth] = {}
    for endpoint in endpoints:
        week = [row for row in sums if row.endpoint_id == endpoint.id]
        day = [row for row in week if row.hour > hour - DAY_HOURS]
        times = yield from _TIMES.all(id_=endpoint.id, limit=_TIMES_MAX)
        queued = yield from _QUEUED.single(id_=endpoint.id, limit=QUEUED_MAX + 1)
        next_us = None
        if endpoint.state is EndpointState.ACTIVE and endpoint.url:
            next_us = yield from _NEXT.first(id_=endpoint.id)
        result[endpoint.id] = WebhookHealth(
            attempts_day=sum(row.attempts for row in day),
            successes_day=sum(row.successes for row in day),
            attempts_week=sum(row.attempts for row in week),
            successes_week=sum(row.successes for row in week),
            median_ms=round(median(times)) if times and endpoint.url else None,
            queued_payments=min(queued, QUEUED_MAX),
            has_more_queued=queued > QUEUED_MAX,
            next_attempt_at_us=None if next_us is None else max(next_us, endpoint.retry_at_us),
        )
    return result


@operation
def forget_old(now_us: int, limit: int) -> Op[int]:
    """Delete hours of more than a week ago; return the least number of deleted rows."""
    first = now_us // _HOUR_US - WEEK_HOURS + 1
    return len((yield from _FORGET.all(first=first, limit=limit)))
