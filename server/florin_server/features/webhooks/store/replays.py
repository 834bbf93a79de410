"""Replays for an endpoint: the events of one payment, or those since a time.

Replayed events keep their ids. A replay proceeds by pages: the number of payments read, and of
deliveries waiting for an endpoint, is bounded whatever its size.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, Text, and_, case, false, func, literal, or_, select

from florin_server.db.engine.columns import WordSet
from florin_server.db.engine.query import (
    Command,
    Op,
    Params,
    Statement,
    insert,
    is_in,
    operation,
    param,
)
from florin_server.db.tables.tables import (
    deposit_event_table,
    payment_event_table,
    payment_settled_table,
    payment_table,
    refund_event_table,
    webhook_delivery_table,
)
from florin_server.domain.payments.state import CREATED_CAUSE
from florin_server.domain.webhooks.endpoint import (
    DEPOSIT_TYPES,
    SETTLED_TYPE,
    WebhookEndpoint,
)
from florin_server.money.outbox.store import events

# payments that one page reads, and the number of waiting deliveries at which none is added
PAGE = 200
WAITING_MAX = 1_000
_delivery = webhook_delivery_table.c
_again = insert(webhook_delivery_table)
_new = _again.excluded
# events that are due anyway are never filtered out; two different filters cancel each other
_filters = and_(
    _delivery.only_types != literal(frozenset(), WordSet), _delivery.only_to > events.PLACE
)
_differ = and_(_filters, _delivery.only_types != _new.only_types)


class _Place(NamedTuple):
    payment_id: str
    place: int


class _LaterChange(NamedTuple):
    at_us: int
    payment_id: str


_AGAIN = Command(
    _again.on_conflict_do_update(
        index_elements=["endpoint_id", "payment_id"],
        set_={
            "told": case((_delivery.told < _new.told, _delivery.told), else_=_new.told),
            # a later event may have been recorded meanwhile
            "newest": case((_delivery.newest > _new.newest, _delivery.newest), else_=_new.newest),
            "attempts": 0,
            "since_us": _new.since_us,
            "next_at_us": _new.next_at_us,
            "claimed": false(),
            # a process that tries it now can no longer conclude it
            "epoch": _delivery.epoch + 1,
            "only_types": case((_differ, literal(frozenset(), WordSet)), else_=_new.only_types),
            "only_to": case(
                (or_(_new.only_to < 0, _differ), -1),
                (_filters, _delivery.only_to),
                else_=events.PLACE,
            ),
        },
    )
)
_done = payment_settled_table.c
_PLACES: Select[Any] = select(
    payment_table.c.id.label("payment_id"), events.newest_place().label("place")
).outerjoin_from(payment_table, payment_settled_table, _done.payment_id == payment_table.c.id)
_PLACE = Statement(_PLACES.where(payment_table.c.id == param("payment_id")), _Place)
_OF_OWNER = (
    payment_table.c.partner_id == param("partner"),
    payment_table.c.live == param("is_live"),
    or_(param("merchant", Text) == "", payment_table.c.merchant_id == param("merchant", Text)),
)
_NEWEST = Statement(_PLACES.where(is_in(payment_table.c.id, "ids"), *_OF_OWNER), _Place)


def _page_statement(*owner: ColumnElement[bool]) -> Statement[str]:
    """Select an owner's payments above an id, by id, which is the order of creation."""
    return Statement(
        select(payment_table.c.id)
        .where(*owner, payment_table.c.id > param("after"))
        .order_by(payment_table.c.id)
        .limit(param("limit")),
        str,
    )


_OF_PARTNER = _page_statement(_OF_OWNER[0], _OF_OWNER[1])
_OF_MERCHANT = _page_statement(payment_table.c.merchant_id == param("merchant", Text))
_refund_event = refund_event_table.c
_deposit_event = deposit_event_table.c


def _later_statement(table: Any) -> Statement[_LaterChange]:
    """Select one page of changes of a partner's payments after their end."""
    return Statement(
        select(table.c.at_us, table.c.payment_id)
        .where(
            table.c.partner_id == param("partner"),
            table.c.live == param("is_live"),
            table.c.at_us >= param("from_us"),
            or_(table.c.at_us > param("from_us"), table.c.payment_id > param("after")),
        )
        .order_by(table.c.at_us, table.c.payment_id)
        .limit(param("limit")),
        _LaterChange,
    )


_REFUNDED = _later_statement(refund_event_table)
_SETTLED = _later_statement(payment_settled_table)
_DEPOSITED = _later_statement(deposit_event_table)
_event = payment_event_table.c
_FIRST = Statement(
    select(_event.payment_id, func.min(_event.version).label("place"))
    .where(
        is_in(_event.payment_id, "ids"),
        _event.at_us >= param("since_us"),
        or_(is_in(_event.cause, "causes"), is_in(_event.status, "statuses")),
    )
    .group_by(_event.payment_id),
    _Place,
)
_FIRST_OF_REFUND = Statement(
    select(_refund_event.payment_id, func.min(events.place_of_refund_event()).label("place"))
    .join_from(refund_event_table, payment_table, payment_table.c.id == _refund_event.payment_id)
    .outerjoin(payment_settled_table, _done.payment_id == _refund_event.payment_id)
    .where(
        is_in(_refund_event.payment_id, "ids"),
        _refund_event.at_us >= param("since_us"),
        is_in(_refund_event.status, "statuses"),
    )
    .group_by(_refund_event.payment_id),
    _Place,
)
_FIRST_OF_DEPOSIT = Statement(
    select(_deposit_event.payment_id, func.min(events.place_of_deposit_event()).label("place"))
    .join_from(deposit_event_table, payment_table, payment_table.c.id == _deposit_event.payment_id)
    .outerjoin(payment_settled_table, _done.payment_id == _deposit_event.payment_id)
    .where(
        is_in(_deposit_event.payment_id, "ids"),
        _deposit_event.at_us >= param("since_us"),
        _deposit_event.version.is_not(None),
        is_in(_deposit_event.cause, "causes"),
    )
    .group_by(_deposit_event.payment_id),
    _Place,
)
_SETTLEMENT = Statement(
    select(_done.payment_id, events.place_of_settlement().label("place"))
    .join_from(payment_settled_table, payment_table, payment_table.c.id == _done.payment_id)
    .where(is_in(_done.payment_id, "ids"), _done.at_us >= param("since_us")),
    _Place,
)
_WAITING = Statement(
    select(func.count()).select_from(
        select(_delivery.payment_id)
        .where(_delivery.endpoint_id == param("endpoint"))
        .limit(WAITING_MAX)
        .subquery("limited")
    ),
    int,
)


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """A replay of events since a time, of types of EVENT_TYPES, in pages.

    It reads payments above the id `oldest_payment_id`, and older payments that were refunded or
    settled since, or whose addresses received money. `is_filtered` is true if the endpoint receives
    more types than these.
    """

    since_us: int
    types: frozenset[str]
    oldest_payment_id: str
    is_filtered: bool


@dataclass(frozen=True, slots=True)
class ReplayPosition:
    """The progress of a replay: the last payment, and in the second part its change's time."""

    payment_id: str
    later_us: int | None = None


@operation
def replay_payment(endpoint_id: str, payment_id: str, version: int, now_us: int) -> Op[int]:
    """Queue a payment's events again from a place on; return the newest place."""
    newest = (yield from _PLACE.single(payment_id=payment_id)).place
    delivered_version = min(version, newest) - 1
    nothing: frozenset[str] = frozenset()
    yield _AGAIN(
        **_to_delivery_row(endpoint_id, payment_id, (delivered_version, newest), now_us, nothing)
    )
    return newest


@operation
def is_full(endpoint_id: str) -> Op[bool]:
    """Return True if so many deliveries wait for an endpoint that none is added."""
    return (yield from _WAITING.single(endpoint=endpoint_id)) >= WAITING_MAX


@operation
def replay_page(
    endpoint: WebhookEndpoint, request: ReplayRequest, after: ReplayPosition, now_us: int
) -> Op[tuple[int, ReplayPosition | None]]:
    """Queue one page of events again; return the number of payments, and the next position.

    The position is None after the last page.
    """
    following: ReplayPosition | None
    if after.later_us is None:
        ids, following = yield from _list_payments(endpoint, after)
    else:
        ids, following = yield from _list_changed_later(endpoint, request, after)
    first = (yield from _find_first_places(ids, request)) if ids else {}
    if not first:
        return 0, following
    places = yield from _NEWEST.all(ids=list(first), **_to_owner_params(endpoint))
    only = request.types if request.is_filtered else frozenset()
    again = [
        _to_delivery_row(endpoint.id, payment_id, (first[payment_id] - 1, newest), now_us, only)
        # all lockers lock rows in one order
        for payment_id, newest in sorted(places)
    ]
    if again:
        yield _AGAIN.bind_many(again)
    return len(again), following


def _list_payments(
    endpoint: WebhookEndpoint, after: ReplayPosition
) -> Op[tuple[list[str], ReplayPosition]]:
    if endpoint.merchant_id is None:
        ids = yield from _OF_PARTNER.all(
            partner=endpoint.partner_id,
            is_live=endpoint.live,
            after=after.payment_id,
            limit=PAGE,
        )
    else:
        ids = yield from _OF_MERCHANT.all(
            merchant=endpoint.merchant_id, after=after.payment_id, limit=PAGE
        )
    return ids, ReplayPosition(ids[-1]) if len(ids) == PAGE else ReplayPosition("", 0)


def _list_changed_later(
    endpoint: WebhookEndpoint, request: ReplayRequest, after: ReplayPosition
) -> Op[tuple[list[str], ReplayPosition | None]]:
    """Return later-changed payments of the partner from before the oldest payment read.

    A position contains a payment's id, so it must not reveal payments of other partners.
    """
    from_us, after_id = after.later_us or 0, after.payment_id
    if from_us < request.since_us:
        from_us, after_id = request.since_us, ""
    page = {
        "partner": endpoint.partner_id,
        "is_live": endpoint.live,
        "from_us": from_us,
        "after": after_id,
        "limit": PAGE,
    }
    refunded = yield from _REFUNDED.all(**page)
    settled = yield from _SETTLED.all(**page)
    deposited = yield from _DEPOSITED.all(**page)
    changes = sorted({*refunded, *settled, *deposited})[:PAGE]
    ids = {change.payment_id for change in changes}
    older_ids = sorted(payment_id for payment_id in ids if payment_id <= request.oldest_payment_id)
    if len(changes) < PAGE:
        return older_ids, None
    return older_ids, ReplayPosition(changes[-1].payment_id, changes[-1].at_us)


def _find_first_places(ids: Collection[str], request: ReplayRequest) -> Op[dict[str, int]]:
    """Return the place of the first event since the time, for payments that have such an event."""
    named: dict[str, list[str]] = {"payment": [], "refund": []}
    for event_type in request.types:
        subject, _, status = event_type.partition(".")
        named[subject].append(status)
    causes = [
        cause
        for cause in named["payment"]
        if cause == CREATED_CAUSE or f"payment.{cause}" in DEPOSIT_TYPES
    ]
    since_us = request.since_us
    places = yield from _FIRST.all(
        ids=ids, since_us=since_us, causes=causes, statuses=named["payment"]
    )
    refund_places = yield from _FIRST_OF_REFUND.all(
        ids=ids, since_us=since_us, statuses=named["refund"]
    )
    deposit_places = yield from _FIRST_OF_DEPOSIT.all(ids=ids, since_us=since_us, causes=causes)
    has_settled = SETTLED_TYPE in request.types
    settlements = (yield from _SETTLEMENT.all(ids=ids, since_us=since_us)) if has_settled else []
    first: dict[str, int] = {}
    for payment_id, place in (*places, *refund_places, *deposit_places, *settlements):
        first[payment_id] = min(place, first.get(payment_id, place))
    return first


def _to_owner_params(endpoint: WebhookEndpoint) -> Params:
    return {
        "partner": endpoint.partner_id,
        "is_live": endpoint.live,
        "merchant": endpoint.merchant_id or "",
    }


def _to_delivery_row(
    endpoint_id: str,
    payment_id: str,
    places: tuple[int, int],
    now_us: int,
    only: frozenset[str],
) -> Params:
    delivered_version, newest = places
    return {
        "endpoint_id": endpoint_id,
        "payment_id": payment_id,
        "told": delivered_version,
        "newest": newest,
        "attempts": 0,
        "since_us": now_us,
        "next_at_us": now_us,
        "claimed": False,
        "epoch": 0,
        "only_to": newest if only else -1,
        "only_types": only,
    }
