"""What an endpoint is to be told once more: the events of one payment, or those since a time.

Whoever is told again hears under the ids of before. What is asked for grows by pages: so many
payments are looked at, and so many wait for an endpoint, however much is asked for.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, Text, and_, case, false, func, literal, or_, select

from florin_server.domain.payments.state import CREATED
from florin_server.domain.webhooks.endpoint import SETTLED, Endpoint
from florin_server.store.engine.columns import Words
from florin_server.store.engine.query import (
    Op,
    Params,
    Row,
    Statement,
    any_of,
    insert,
    operation,
    param,
)
from florin_server.store.tables.tables import (
    payment,
    payment_event,
    payment_settled,
    refund_event,
    webhook_delivery,
)
from florin_server.store.webhooks import events

# payments that one page looks at, and what waits for an endpoint when no more are added
PAGE = 200
WAITING_MAX = 1_000
_row = webhook_delivery.c
_again = insert(webhook_delivery)
_new = _again.excluded
# of what it waits for anyway nothing is left out; of two filters that differ neither holds
_filters = and_(_row.only_types != literal(frozenset(), Words), _row.only_to > _row.told)
_differ = and_(_filters, _row.only_types != _new.only_types)
_AGAIN = Statement(
    _again.on_conflict_do_update(
        index_elements=["endpoint_id", "payment_id"],
        set_={
            "told": case((_row.told < _new.told, _row.told), else_=_new.told),
            # a later event may have been written down meanwhile
            "newest": case((_row.newest > _new.newest, _row.newest), else_=_new.newest),
            "attempts": 0,
            "since_us": _new.since_us,
            "next_at_us": _new.next_at_us,
            "claimed": false(),
            # whoever tries it now no longer ends it
            "epoch": _row.epoch + 1,
            "only_types": case((_differ, literal(frozenset(), Words)), else_=_new.only_types),
            "only_to": case(
                (or_(_new.only_to < 0, _differ), -1), (_filters, _row.only_to), else_=_row.told
            ),
        },
    )
)
_done = payment_settled.c
_PLACES: Select[Row] = select(payment.c.id, events.newest_place()).outerjoin_from(
    payment, payment_settled, _done.payment_id == payment.c.id
)
_PLACE = Statement(_PLACES.where(payment.c.id == param("payment_id")))
_OF_OWNER = (
    payment.c.partner_id == param("partner"),
    payment.c.live == param("is_live"),
    or_(param("merchant", Text) == "", payment.c.merchant_id == param("merchant", Text)),
)
_NEWEST = Statement(_PLACES.where(any_of(payment.c.id, "ids"), *_OF_OWNER))


def _page(*owner: ColumnElement[bool]) -> Statement:
    """The payments of an owner above an id, by id, which is the order of their creation."""
    return Statement(
        select(payment.c.id)
        .where(*owner, payment.c.id > param("after"))
        .order_by(payment.c.id)
        .limit(param("limit"))
    )


_OF_PARTNER = _page(_OF_OWNER[0], _OF_OWNER[1])
_OF_MERCHANT = _page(payment.c.merchant_id == param("merchant", Text))
_back = refund_event.c


def _later(table: Any) -> Statement:
    """Select one page of what happened to payments of a partner that had ended."""
    return Statement(
        select(table.c.at_us, table.c.payment_id)
        .where(
            table.c.partner_id == param("partner"),
            table.c.live == param("is_live"),
            table.c.at_us >= param("from_us"),
            or_(table.c.at_us > param("from_us"), table.c.payment_id > param("after")),
        )
        .order_by(table.c.at_us, table.c.payment_id)
        .limit(param("limit"))
    )


_REFUNDED = _later(refund_event)
_SETTLED = _later(payment_settled)
_event = payment_event.c
_FIRST = Statement(
    select(_event.payment_id, func.min(_event.version))
    .where(
        any_of(_event.payment_id, "ids"),
        _event.at_us >= param("since_us"),
        or_(_event.cause == param("made"), any_of(_event.status, "statuses")),
    )
    .group_by(_event.payment_id)
)
_FIRST_OF_REFUND = Statement(
    select(_back.payment_id, func.min(events.place_of_refund_event()))
    .join_from(refund_event, payment, payment.c.id == _back.payment_id)
    .outerjoin(payment_settled, _done.payment_id == _back.payment_id)
    .where(
        any_of(_back.payment_id, "ids"),
        _back.at_us >= param("since_us"),
        any_of(_back.status, "statuses"),
    )
    .group_by(_back.payment_id)
)
_SETTLEMENT = Statement(
    select(_done.payment_id, events.place_of_settlement())
    .join_from(payment_settled, payment, payment.c.id == _done.payment_id)
    .where(any_of(_done.payment_id, "ids"), _done.at_us >= param("since_us"))
)
_WAITING = Statement(
    select(func.count()).select_from(
        select(_row.payment_id)
        .where(_row.endpoint_id == param("endpoint"))
        .limit(WAITING_MAX)
        .subquery("limited")
    )
)


@dataclass(frozen=True, slots=True)
class Asked:
    """Events since a time, of types of EVENT_TYPES, in pages.

    Payments above the id `oldest` are looked through, and older ones that were refunded or settled
    since.
    `narrow` if the endpoint hears of more types than these.
    """

    since_us: int
    types: frozenset[str]
    oldest: str
    narrow: bool


@dataclass(frozen=True, slots=True)
class Place:
    """How far the pages came: the last payment, and in the second part when it changed later."""

    payment_id: str
    later_us: int | None = None


@operation
def one(endpoint_id: str, payment_id: str, version: int, now_us: int) -> Op[int]:
    """Has an endpoint told a payment's events again from a place on; answers the newest one."""
    ((_, newest),) = yield _PLACE(payment_id=payment_id)
    told = min(version, newest) - 1
    nothing: frozenset[str] = frozenset()
    yield _AGAIN(**_waiting(endpoint_id, payment_id, (told, newest), now_us, nothing))
    return int(newest)


@operation
def is_full(endpoint_id: str) -> Op[bool]:
    """True if so much waits for an endpoint that no more is added."""
    ((count,),) = yield _WAITING(endpoint=endpoint_id)
    return bool(count >= WAITING_MAX)


@operation
def page(
    endpoint: Endpoint, asked: Asked, after: Place, now_us: int
) -> Op[tuple[int, Place | None]]:
    """Has an endpoint told one page of events again: of how many payments, and where it ended.

    None once there are no more pages.
    """
    following: Place | None
    if after.later_us is None:
        ids, following = yield from _payments(endpoint, after)
    else:
        ids, following = yield from _changed_later(endpoint, asked, after)
    first = (yield from _first(ids, asked)) if ids else {}
    if not first:
        return 0, following
    rows = yield _NEWEST(ids=list(first), **_owner(endpoint))
    only = asked.types if asked.narrow else frozenset()
    again = [
        _waiting(endpoint.id, payment_id, (first[payment_id] - 1, newest), now_us, only)
        # whoever locks rows locks them in the same order
        for payment_id, newest in sorted(rows)
    ]
    if again:
        yield _AGAIN.many(again)
    return len(again), following


def _payments(endpoint: Endpoint, after: Place) -> Op[tuple[list[str], Place]]:
    if endpoint.merchant_id is None:
        found = yield _OF_PARTNER(
            partner=endpoint.partner_id,
            is_live=endpoint.live,
            after=after.payment_id,
            limit=PAGE,
        )
    else:
        found = yield _OF_MERCHANT(
            merchant=endpoint.merchant_id, after=after.payment_id, limit=PAGE
        )
    ids = [payment_id for (payment_id,) in found]
    return ids, Place(ids[-1]) if len(ids) == PAGE else Place("", 0)


def _changed_later(
    endpoint: Endpoint, asked: Asked, after: Place
) -> Op[tuple[list[str], Place | None]]:
    """Payments of the partner before the oldest that was looked through.

    A place holds the id of one: nobody may be told those of others.
    """
    from_us, after_id = after.later_us or 0, after.payment_id
    if from_us < asked.since_us:
        from_us, after_id = asked.since_us, ""
    page = {
        "partner": endpoint.partner_id,
        "is_live": endpoint.live,
        "from_us": from_us,
        "after": after_id,
        "limit": PAGE,
    }
    refunded = yield _REFUNDED(**page)
    settled = yield _SETTLED(**page)
    rows = sorted({*refunded, *settled})[:PAGE]
    ids = sorted({payment_id for _, payment_id in rows if payment_id <= asked.oldest})
    return ids, Place(rows[-1][1], rows[-1][0]) if len(rows) == PAGE else None


def _first(ids: Collection[str], asked: Asked) -> Op[dict[str, int]]:
    """Return the place of the first event since the time, of those payments that have one."""
    named: dict[str, list[str]] = {"payment": [], "refund": []}
    for one_ in asked.types:
        subject, _, status = one_.partition(".")
        named[subject].append(status)
    made = CREATED if CREATED in named["payment"] else ""
    since_us = asked.since_us
    rows = yield _FIRST(ids=ids, since_us=since_us, made=made, statuses=named["payment"])
    backs = yield _FIRST_OF_REFUND(ids=ids, since_us=since_us, statuses=named["refund"])
    wanted = SETTLED in asked.types
    settlements = (yield _SETTLEMENT(ids=ids, since_us=since_us)) if wanted else []
    first: dict[str, int] = {}
    for payment_id, place in (*rows, *backs, *settlements):
        first[payment_id] = min(place, first.get(payment_id, place))
    return first


def _owner(endpoint: Endpoint) -> Params:
    return {
        "partner": endpoint.partner_id,
        "is_live": endpoint.live,
        "merchant": endpoint.merchant_id or "",
    }


def _waiting(
    endpoint_id: str,
    payment_id: str,
    places: tuple[int, int],
    now_us: int,
    only: frozenset[str],
) -> Params:
    told, newest = places
    return {
        "endpoint_id": endpoint_id,
        "payment_id": payment_id,
        "told": told,
        "newest": newest,
        "attempts": 0,
        "since_us": now_us,
        "next_at_us": now_us,
        "claimed": False,
        "epoch": 0,
        "only_to": newest if only else -1,
        "only_types": only,
    }
