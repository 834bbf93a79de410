"""What waits to be told: claimed by one process at a time, and concluded by nobody else.

A claim is a lease: who has not concluded when it lapses is taken for dead, and what it does later
counts no more than that the attempt is written down.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

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

from florin_server.domain.payments.payment import Option, Payment
from florin_server.domain.webhooks import schedule
from florin_server.domain.webhooks.endpoint import (
    BY_OWNER,
    Attempt,
    Endpoint,
    EndpointState,
    Waiting,
)
from florin_server.domain.webhooks.snapshot import PaymentEvent
from florin_server.store.engine.query import (
    Op,
    Row,
    Statement,
    any_of,
    columns,
    operation,
    param,
    record,
    upsert,
)
from florin_server.store.payments import payments
from florin_server.store.tables.tables import (
    partner,
    webhook_attempt,
    webhook_delivery,
    webhook_endpoint,
)
from florin_server.store.webhooks import endpoints, events
from florin_server.store.webhooks.endpoints import Secret

_end, _row = webhook_endpoint.c, webhook_delivery.c
_ENDPOINT = columns(webhook_endpoint, Endpoint)
_WAITING = columns(webhook_delivery, Waiting)
# of one endpoint, at a time
_TOGETHER = 4
_DAY_US = 86_400_000_000


def _is_due(row: Any) -> ColumnElement[bool]:
    """It may be tried now; or it waits for longer than the schedule has, by a clock of before."""
    due: ColumnElement[int] = row.next_at_us
    return and_(due.is_not(None), or_(due <= param("now_us"), due > param("far_us")))


_first = aliased(webhook_delivery)
_FIRST = (
    select(_first.c.payment_id)
    .where(_first.c.endpoint_id == _end.id, _is_due(_first.c))
    .order_by(_first.c.next_at_us)
    .limit(_TOGETHER)
    .correlate(webhook_endpoint)
)
_READY = (
    _end.state == EndpointState.ACTIVE,
    _end.url != "",
    or_(_end.retry_at_us <= param("now_us"), _end.retry_at_us > param("far_us")),
    ~any_of(_end.id, "busy"),
    ~any_of(_end.partner_id, "crowded"),
)
_DUE = Statement(
    select(*_ENDPOINT, *_WAITING)
    .join_from(webhook_endpoint, webhook_delivery, _row.endpoint_id == _end.id)
    .join(partner, and_(partner.c.id == _end.partner_id, partner.c.status == "active"))
    # that it is due is looked at again once it is locked
    .where(*_READY, _row.payment_id.in_(_FIRST), _is_due(_row))
    .order_by(_row.next_at_us)
    .limit(param("limit"))
    # what another process has just claimed is its own
    .with_for_update(of=webhook_delivery, skip_locked=True)
)
_ANY = Statement(
    select(_end.id)
    .join(partner, and_(partner.c.id == _end.partner_id, partner.c.status == "active"))
    .where(
        *_READY,
        select(_first.c.payment_id)
        .where(_first.c.endpoint_id == _end.id, _is_due(_first.c))
        .correlate(webhook_endpoint)
        .exists(),
    )
    .limit(1)
)
_OF_ONE = Statement(
    select(*_WAITING)
    .where(_row.endpoint_id == param("endpoint"), _is_due(_row))
    .order_by(_row.next_at_us)
    .limit(_TOGETHER)
    .with_for_update(skip_locked=True)
)
_HELD = Statement(
    select(*_WAITING)
    .where(
        _row.endpoint_id == param("endpoint"),
        _row.payment_id == param("payment"),
        _row.epoch == param("held"),
        _row.claimed == true(),
    )
    .with_for_update()
)
_CLAIM = Statement(
    update(webhook_delivery)
    .where(_row.endpoint_id == param("endpoint"), _row.payment_id == param("payment"))
    .values(claimed=true(), epoch=_row.epoch + 1, next_at_us=param("until"))
)
_OWN = (
    _row.endpoint_id == param("endpoint"),
    _row.payment_id == param("payment"),
    _row.epoch == param("held"),
    _row.claimed == true(),
)
_TOLD = Statement(
    update(webhook_delivery)
    .where(*_OWN)
    .values(
        told=param("version"),
        attempts=0,
        since_us=param("now_us"),
        next_at_us=param("now_us"),
        claimed=false(),
    )
    .returning(_row.newest)
)
_GONE = Statement(
    delete(webhook_delivery).where(
        _row.endpoint_id == param("endpoint"),
        _row.payment_id == param("payment"),
        _row.newest <= _row.told,
    )
)
_AGAIN = Statement(
    update(webhook_delivery)
    .where(*_OWN)
    .values(attempts=_row.attempts + 1, next_at_us=param("next_us"), claimed=false())
    .returning(_row.attempts)
)
_BACK = Statement(
    update(webhook_delivery).where(*_OWN).values(next_at_us=param("now_us"), claimed=false())
)
_SHELVE = Statement(
    update(webhook_delivery).where(*_OWN).values(next_at_us=null(), claimed=false())
)
_TAKE_UP = Statement(
    update(webhook_delivery)
    .where(
        _row.endpoint_id == param("endpoint"),
        _row.payment_id == param("payment"),
        _row.next_at_us.is_(None),
    )
    .values(next_at_us=param("now_us"), claimed=false())
)
_FREE = Statement(
    update(webhook_delivery)
    .where(_row.claimed == true(), _row.next_at_us.is_not(None))
    .values(next_at_us=param("now_us"), claimed=false())
)
_CLAIMED = Statement(select(_row.endpoint_id).where(_row.claimed == true()).limit(1))
_SUCCEEDED = Statement(
    update(webhook_endpoint)
    .where(_end.id == param("endpoint"))
    .values(
        failures=0,
        failing_since_us=None,
        retry_at_us=0,
        delivered_at_us=param("now_us"),
        attempts=_end.attempts + 1,
    )
    .returning(_end.attempts)
)
_FAILED = Statement(
    update(webhook_endpoint)
    .where(_end.id == param("endpoint"))
    .values(
        failures=_end.failures + 1,
        failing_since_us=func.coalesce(_end.failing_since_us, param("now_us")),
        attempts=_end.attempts + 1,
    )
    .returning(_end.attempts, _end.failures, _end.failing_since_us)
)
_REST = Statement(
    update(webhook_endpoint)
    .where(_end.id == param("endpoint"))
    .values(retry_at_us=param("rests_until"))
)
_ATTEMPT = Statement(upsert(webhook_attempt, "endpoint_id", "slot"))
_active = and_(_end.state == EndpointState.ACTIVE, _row.next_at_us.is_not(None))
_figures: Select[*tuple[Any, ...]] = select(
    func.min(case((_active, _row.since_us), else_=None)), func.count()
)
_FIGURES = Statement(
    _figures.join_from(webhook_delivery, webhook_endpoint, _row.endpoint_id == _end.id).where(
        _end.url != ""
    )
)
_PAUSED = Statement(
    select(_end.id).where(_end.state == EndpointState.PAUSED, _end.paused_reason != BY_OWNER)
)


@dataclass(frozen=True, slots=True)
class Claimed:
    """What one process tries now, and nobody else."""

    endpoint: Endpoint
    waiting: Waiting


@dataclass(frozen=True, slots=True)
class Work:
    """What it takes to send an endpoint events of a payment: `happened` are those that wait.

    The option is the one that the payment is bound to, None if there is none.
    """

    payment: Payment
    option: Option | None
    history: list[PaymentEvent]
    happened: list[PaymentEvent]
    secrets: list[Secret]


@dataclass(frozen=True, slots=True)
class Policy:
    """What becomes of failures: after how long they are given up, and how many are kept."""

    give_up_us: int
    attempts_kept: int


@operation
def is_due(now_us: int, busy: Collection[str], crowded: Collection[str] = ()) -> Op[bool]:
    """True if something may be claimed."""
    far_us = now_us + schedule.LONGEST_US
    rows = yield _ANY(now_us=now_us, far_us=far_us, busy=list(busy), crowded=list(crowded))
    return bool(rows)


@operation
def claim(
    now_us: int,
    lease_us: int,
    busy: Collection[str],
    limit: int,
    crowded: Collection[str] = (),
) -> Op[list[Claimed]]:
    """Claims what is due at endpoints that are not busy, of partners that are not crowded.

    Of an endpoint whose last attempt failed, or that never took anything, one is claimed: who
    hangs holds up no more than that.
    """
    rows = yield _DUE(
        now_us=now_us,
        far_us=now_us + schedule.LONGEST_US,
        busy=list(busy),
        crowded=list(crowded),
        limit=limit,
    )
    cut = len(_ENDPOINT)
    found: list[Claimed] = []
    tried: set[str] = set()
    for row in rows:
        endpoint = Endpoint(*row[:cut])
        if endpoint.id in tried and not endpoint.proven:
            continue
        tried.add(endpoint.id)
        found.append(Claimed(endpoint, Waiting(*row[cut:])))
    if found:
        yield _CLAIM.many([_claimed(one.waiting, now_us + lease_us) for one in found])
    return found


@operation
def claim_of(endpoint: Endpoint, now_us: int, lease_us: int) -> Op[list[Claimed]]:
    """Claims what is due at one endpoint, a few at a time."""
    if endpoint.state is EndpointState.PAUSED:
        return []
    far_us = now_us + schedule.LONGEST_US
    rows = yield _OF_ONE(endpoint=endpoint.id, now_us=now_us, far_us=far_us)
    found = [Claimed(endpoint, Waiting(*row)) for row in rows]
    if found:
        yield _CLAIM.many([_claimed(one.waiting, now_us + lease_us) for one in found])
    return found


@operation
def held(endpoint_id: str, payment_id: str, epoch: int) -> Op[Waiting | None]:
    """Part of an operation: what is claimed under an epoch; None if it is not any more."""
    rows = yield _HELD(endpoint=endpoint_id, payment=payment_id, held=epoch)
    return Waiting(*rows[0]) if rows else None


@operation
def work(one: Claimed, now_us: int) -> Op[Work | None]:
    """What it takes to tell it; None if the payment is not there."""
    waiting = one.waiting
    found = yield from payments.one(waiting.payment_id)
    if found is None:
        return None
    option = None
    if found.option_id is not None:
        option = yield from payments.option(found.id, found.option_id)
    history = yield from events.history(found)
    happened = [event for event in history if waiting.told < event.place <= waiting.newest]
    kept = yield from endpoints.secrets(one.endpoint.id, now_us)
    return Work(found, option, history, happened, kept)


@operation
def told(one: Claimed, version: int, now_us: int, attempt: Attempt | None, kept: int) -> Op[bool]:
    """A payment was told up to a version; without an attempt that was nothing it wanted to hear.

    Answers whether it was still its own.
    """
    waiting = one.waiting
    rows = yield _TOLD(**_own(waiting), version=version, now_us=now_us)
    if rows:
        yield _GONE(endpoint=waiting.endpoint_id, payment=waiting.payment_id)
    if attempt is not None:
        counted = yield _SUCCEEDED(endpoint=waiting.endpoint_id, now_us=now_us)
        yield from _write_down(attempt, counted, kept)
    return bool(rows)


@operation
def failed(
    one: Claimed,
    attempt: Attempt,
    now_us: int,
    policy: Policy,
    *,
    gone: bool = False,
    asked_us: int = 0,
) -> Op[EndpointState]:
    """An attempt failed: it is tried again later, or given up; the endpoint rests, or is paused.

    `gone` if the endpoint wants nothing any more, `asked_us` is what it asked to wait for, within
    the bounds of `schedule`. Answers how the endpoint stands.
    """
    waiting = one.waiting
    counted = yield _FAILED(endpoint=waiting.endpoint_id, now_us=now_us)
    given_up = now_us - waiting.since_us >= policy.give_up_us
    wait_us = max(asked_us, schedule.retry_after_us(waiting.attempts + 1, waiting.payment_id))
    yield _AGAIN(**_own(waiting), next_us=None if given_up else now_us + wait_us)
    if not counted:
        return EndpointState.PAUSED
    ((_, failures, since_us),) = counted
    yield from _write_down(attempt, counted, policy.attempts_kept)
    rest_us = schedule.rest_us(failures, asked_us)
    if rest_us:
        yield _REST(endpoint=waiting.endpoint_id, rests_until=now_us + rest_us)
    days = policy.give_up_us / _DAY_US
    if gone:
        yield from endpoints.pause(waiting.endpoint_id, "it answered 410: it is gone")
    elif now_us - since_us >= policy.give_up_us:
        yield from endpoints.pause(waiting.endpoint_id, f"every attempt failed for {days:g} days")
    else:
        return EndpointState.ACTIVE
    return EndpointState.PAUSED


@operation
def halt(one: Claimed, reason: str, now_us: int) -> Op[None]:
    """Nothing can be told to the endpoint until somebody has done something about it."""
    yield _BACK(**_own(one.waiting), now_us=now_us)
    yield from endpoints.pause(one.endpoint.id, reason)


@operation
def shelve(one: Claimed) -> Op[None]:
    """Leave what was claimed alone until the operator, or a new event, takes it up."""
    yield _SHELVE(**_own(one.waiting))


@operation
def take_up(endpoint_id: str, payment_id: str, now_us: int) -> Op[None]:
    """Part of an operation: deliver what was left alone."""
    yield _TAKE_UP(endpoint=endpoint_id, payment=payment_id, now_us=now_us)


@operation
def give_back(claims: Collection[Claimed], now_us: int) -> Op[None]:
    """What was claimed and not concluded is free again from a time on."""
    if claims:
        yield _BACK.many([{**_own(one.waiting), "now_us": now_us} for one in claims])


@operation
def any_claimed() -> Op[bool]:
    """True if something is claimed, by whomever."""
    return bool((yield _CLAIMED()))


@operation
def free(now_us: int) -> Op[None]:
    """Everything that was claimed is free, for a process that knows that it is alone."""
    yield _FREE(now_us=now_us)


@dataclass(frozen=True, slots=True)
class Figures:
    """What waits to be told, since when (None if nothing does), and how endpoints do.

    `paused` counts endpoints that we paused, not their owners.
    """

    waiting: int
    oldest_us: int | None
    paused: int


@operation
def figures() -> Op[Figures]:
    """What waits at all endpoints; the oldest is one that is tried still."""
    ((oldest_us, waiting),) = yield _FIGURES()
    return Figures(waiting, oldest_us, len((yield _PAUSED())))


def _own(waiting: Waiting) -> Mapping[str, object]:
    return {
        "endpoint": waiting.endpoint_id,
        "payment": waiting.payment_id,
        "held": waiting.epoch + 1,
    }


def _claimed(waiting: Waiting, until_us: int) -> Mapping[str, object]:
    return {
        "endpoint": waiting.endpoint_id,
        "payment": waiting.payment_id,
        "until": until_us,
    }


def _write_down(attempt: Attempt, counted: list[Row], kept: int) -> Op[None]:
    """Keeps an attempt in the place of an older one; nothing if the endpoint is gone."""
    if counted:
        n = counted[0][0]
        yield _ATTEMPT(**{**record(attempt), "n": n, "slot": n % kept})
