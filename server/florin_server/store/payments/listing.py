"""Lists of payments, page by page, and their totals.

A page begins behind a position and not after a number of rows, so that the last page costs what
the first one does and nobody sees a row twice. Ids sort by the millisecond of creation (PostgreSQL
needs the collation "C"), so they are the order by date.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, and_, case, func, literal, or_, select, text

from florin_server.domain.ids import made_from
from florin_server.domain.payments.payment import Status
from florin_server.store.engine.columns import OneOf, by_size
from florin_server.store.engine.query import Op, Params, Statement, any_of, operation, param
from florin_server.store.engine.sums import Size, place_of, plain, total_of
from florin_server.store.tables.payments import PAYS
from florin_server.store.tables.tables import payment

# every payment id is between these
_LOWEST, _HIGHEST = "pay_", "pay`"
_UNIT_PREFIX = "caip19/"

Position = tuple[int, str]  # the amount that was asked for, and the id


@dataclass(frozen=True, slots=True)
class Filters:
    """Which payments; None where everything passes.

    `merchants` narrows to payments of merchants that are known to be the partner's, in its mode.
    `units` are `caip19/…` in lower case, `networks` CAIP-2.
    """

    partner_id: str
    live: bool
    merchants: tuple[str, ...] | None = None
    start_us: int | None = None
    end_us: int | None = None
    statuses: tuple[Status, ...] | None = None
    units: tuple[str, ...] | None = None
    networks: tuple[str, ...] | None = None
    reference: str | None = None

    @property
    def looks_at_rows(self) -> bool:
        """True if no index tells what passes, so that many rows may be read for a few."""
        return any(
            one is not None for one in (self.statuses, self.units, self.networks, self.reference)
        )


@dataclass(frozen=True, slots=True)
class Order:
    """By date, or by the amount that was asked for; ties by id, in the same direction."""

    by_amount: bool
    descending: bool


@dataclass(frozen=True, slots=True)
class Totals:
    """What all payments of a list come to. `revenue` is what succeeded, by unit."""

    payments: int
    payers: int
    revenue: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a statement looks like, without its values."""

    of_merchants: bool
    names: frozenset[str]

    @classmethod
    def of(cls, filters: Filters) -> _Shape:
        names = ("start_us", "end_us", "statuses", "units", "networks", "reference")
        return cls(
            filters.merchants is not None,
            frozenset(name for name in names if getattr(filters, name) is not None),
        )


# what a payment is: unconfirmed ones are over when their time is, whether that is noted or not
_STATUS_NOW = case(
    (
        and_(payment.c.status == Status.REQUIRES_ACTION, payment.c.expires_at <= param("now_s")),
        literal(Status.EXPIRED, OneOf(Status)),
    ),
    else_=payment.c.status,
)
# what is paid, or to be paid
_UNIT = func.coalesce(payment.c.option_unit, payment.c.unit)
_NAME = func.substr(_UNIT, len(_UNIT_PREFIX) + 1)
_CONDITIONS: dict[str, ColumnElement[bool]] = {
    "start_us": payment.c.created_at_us >= param("start_us"),
    "end_us": payment.c.created_at_us < param("end_us"),
    "statuses": any_of(_STATUS_NOW, "statuses"),
    "units": any_of(func.lower(_UNIT), "units"),
    "networks": any_of(func.substr(_NAME, 1, place_of(literal("/"), _NAME) - 1), "networks"),
    "reference": place_of(param("reference"), payment.c.reference_id) > 0,
}
_IN_TIME = (payment.c.id > param("after"), payment.c.id < param("before"))
_OF_PARTNER = (payment.c.partner_id == param("partner_id"), payment.c.live == param("live"))


def _conditions(shape: _Shape) -> list[ColumnElement[bool]]:
    return [condition for name, condition in _CONDITIONS.items() if name in shape.names]


@cache
def _by_date(shape: _Shape, descending: bool) -> Statement:
    conditions = [*_lane(shape), *_IN_TIME, *_conditions(shape)]
    return _places(conditions, [payment.c.id], descending)


@cache
def _by_amount(shape: _Shape, descending: bool, part: str) -> Statement:
    """`part` is "all", "tied" (the same amount as the position) or "beyond" it."""
    size, by = by_size(payment.c.value), payment.c.id
    keys = [size, by]
    conditions = [*_lane(shape), *_conditions(shape)]
    if part == "tied":
        keys = [by]
        conditions += [size == param("size", Size), _behind(by, "tied_id", descending)]
    elif part == "beyond":
        conditions.append(_behind(size, "size", descending, Size))
    return _places(conditions, keys, descending)


@cache
def _by_amount_of_few(shape: _Shape, descending: bool, behind: bool) -> Statement:
    """Walks in the order of dates and sorts what it finds; the plus keeps planners from more."""
    size, by = plain(by_size(payment.c.value)), payment.c.id
    conditions = [*_lane(shape), *_IN_TIME, *_conditions(shape)]
    if behind:
        tied = and_(size == param("size", Size), _behind(by, "tied_id", descending))
        conditions.append(or_(_behind(size, "size", descending, Size), tied))
    return _places(conditions, [size, by], descending)


def _behind(
    column: ColumnElement[Any], name: str, descending: bool, kind: Any = None
) -> ColumnElement[bool]:
    return column < param(name, kind) if descending else column > param(name, kind)


def _places(
    conditions: Sequence[ColumnElement[bool]],
    keys: Sequence[ColumnElement[Any]],
    descending: bool,
) -> Statement:
    return Statement(
        select(payment.c.id, payment.c.value)
        .where(*conditions)
        .order_by(*(key.desc() if descending else key for key in keys))
        .limit(param("limit"))
    )


def _lane(shape: _Shape) -> tuple[ColumnElement[bool], ...]:
    if shape.of_merchants:
        return (payment.c.merchant_id == param("merchant_id"),)
    return _OF_PARTNER


@cache
def _counts(shape: _Shape) -> Statement:
    counts: tuple[ColumnElement[Any], ...] = (func.count(), func.count(payment.c.payer.distinct()))
    return Statement(select(*counts).where(*_everything(shape)))


@cache
def _payers(of_merchant: bool) -> Statement:
    """How many pay at all, read off an index in which equal ones are neighbours."""
    lane = (payment.c.merchant_id == param("merchant_id"),) if of_merchant else _OF_PARTNER
    each = select(payment.c.payer).where(*lane, text(PAYS)).distinct().subquery()
    return Statement(select(func.count()).select_from(each))


@cache
def _number(of_merchant: bool) -> Statement:
    lane = (payment.c.merchant_id == param("merchant_id"),) if of_merchant else _OF_PARTNER
    return Statement(select(func.count()).select_from(payment).where(*lane, *_IN_TIME))


@cache
def _sums(shape: _Shape) -> Statement:
    return Statement(
        select(payment.c.unit, total_of(payment.c.value))
        .where(*_everything(shape), payment.c.status == Status.SUCCEEDED)
        .group_by(payment.c.unit)
    )


def _everything(shape: _Shape) -> list[ColumnElement[bool]]:
    lanes = (any_of(payment.c.merchant_id, "merchants"),) if shape.of_merchants else _OF_PARTNER
    # the bounds of ids make the planner walk in the order in which rows lie, also without times
    return [*lanes, *_IN_TIME, *_conditions(shape)]


@operation
def page(
    filters: Filters, order: Order, limit: int, after: Position | None, now_us: int, *, few: bool
) -> Op[list[Position]]:
    """The places of the next payments behind `after`, in order, at most `limit`.

    `few` tells that few payments pass, so that finding and sorting them all costs less than
    looking for them in the order of amounts; it changes no answer.
    """
    shape = _Shape.of(filters)
    values = {**_values(filters, now_us), "limit": limit}
    found: list[Position] = []
    for merchant_id in filters.merchants if filters.merchants is not None else (None,):
        lane = {**values, "merchant_id": merchant_id}
        if order.by_amount and few:
            found += yield from _lane_of_few(shape, order, lane, after)
        elif order.by_amount:
            found += yield from _lane_by_amount(shape, order, lane, after)
        else:
            found += yield from _lane_by_date(shape, order, lane, after)
    key = _amount_and_id if order.by_amount else _id_only
    return sorted(found, key=key, reverse=order.descending)[:limit]


def _lane_by_date(
    shape: _Shape, order: Order, values: dict[str, Any], after: Position | None
) -> Op[list[Position]]:
    if after is not None:
        bound, nearer = ("before", min) if order.descending else ("after", max)
        values[bound] = nearer(values[bound], after[1])
    rows = yield _by_date(shape, order.descending)(**values)
    return [(value, found) for found, value in rows]


def _lane_by_amount(
    shape: _Shape, order: Order, values: dict[str, Any], after: Position | None
) -> Op[list[Position]]:
    if after is None:
        rows = yield _by_amount(shape, order.descending, "all")(**values)
    else:
        # two reads that each begin at their first row: ties may be many
        values["size"], values["tied_id"] = after
        rows = yield _by_amount(shape, order.descending, "tied")(**values)
        if missing := values["limit"] - len(rows):
            values["limit"] = missing
            rows = rows + (yield _by_amount(shape, order.descending, "beyond")(**values))
    return [(value, found) for found, value in rows]


def _lane_of_few(
    shape: _Shape, order: Order, values: dict[str, Any], after: Position | None
) -> Op[list[Position]]:
    if after is not None:
        values["size"], values["tied_id"] = after
    rows = yield _by_amount_of_few(shape, order.descending, after is not None)(**values)
    return [(value, found) for found, value in rows]


def _amount_and_id(place: Position) -> Position:
    return place


def _id_only(place: Position) -> str:
    return place[1]


@operation
def totals(filters: Filters, now_us: int) -> Op[Totals]:
    """What all payments of the list come to."""
    if filters.merchants == ():
        return Totals(0, 0, ())
    shape, values = _Shape.of(filters), _values(filters, now_us)
    count, payers = yield from _how_many(filters, shape, values)
    revenue: Sequence[Any] = ()
    if filters.statuses is None or Status.SUCCEEDED in filters.statuses:
        revenue = yield _sums(shape)(**values)
    return Totals(count, payers, tuple(sorted((unit, total) for unit, total in revenue)))


def _how_many(filters: Filters, shape: _Shape, values: Params) -> Op[tuple[int, int]]:
    """The number of payments, and of payers."""
    if shape.names or (filters.merchants is not None and len(filters.merchants) > 1):
        ((count, payers),) = yield _counts(shape)(**values)
        return count, payers
    # everything of one lane, which is what is asked for most
    lane = {**values, "merchant_id": (filters.merchants or (None,))[0]}
    ((count,),) = yield _number(shape.of_merchants)(**lane)
    ((payers,),) = yield _payers(shape.of_merchants)(**lane)
    return count, payers


def _values(filters: Filters, now_us: int) -> Params:
    low = _LOWEST if filters.start_us is None else made_from(filters.start_us // 1000)
    high = _HIGHEST if filters.end_us is None else made_from(-(-filters.end_us // 1000))
    return {
        "partner_id": filters.partner_id,
        "live": filters.live,
        "merchants": filters.merchants,
        "start_us": filters.start_us,
        "end_us": filters.end_us,
        "statuses": filters.statuses,
        "units": filters.units,
        "networks": filters.networks,
        "reference": filters.reference,
        "after": low,
        "before": high,
        "now_s": now_us // 1_000_000,
    }
