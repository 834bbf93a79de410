"""Lists of payments, page by page, and their totals.

A page begins after a position and not after a number of rows, so that the last page costs as much
as the first and no row appears twice. Ids sort by the millisecond of creation (PostgreSQL needs the
collation "C"), so they are the order by date.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, case, func, literal, or_, select, text

from florin_server.db.engine.columns import EnumText, sortable_amount
from florin_server.db.engine.query import Op, Params, Statement, is_in, operation, param
from florin_server.db.engine.sums import (
    SortableAmount,
    fast_sum_u256,
    text_position,
    without_index,
)
from florin_server.db.tables.payments import HAS_PAYER_PREDICATE
from florin_server.db.tables.tables import payment_table
from florin_server.domain.ids import get_payment_id_floor
from florin_server.domain.payments.payment import PaymentStatus

# every payment id is between these
_LOWEST, _HIGHEST = "pay_", "pay`"
_UNIT_PREFIX = "caip19/"

PaymentPosition = tuple[int, str]  # the requested amount, and the id


@dataclass(frozen=True, slots=True)
class PaymentListFilters:
    """Filters of a payment list; None matches all.

    `merchants` restricts the list to merchants that are known to be the partner's, in its mode.
    `units` are `caip19/…` in lower case, `networks` CAIP-2.
    """

    partner_id: str
    live: bool
    merchants: tuple[str, ...] | None = None
    start_us: int | None = None
    end_us: int | None = None
    statuses: tuple[PaymentStatus, ...] | None = None
    units: tuple[str, ...] | None = None
    networks: tuple[str, ...] | None = None
    reference: str | None = None

    @property
    def requires_row_scan(self) -> bool:
        """Return True if no index covers the filters, so that many rows may be read for a few."""
        return any(
            value is not None
            for value in (self.statuses, self.units, self.networks, self.reference)
        )


@dataclass(frozen=True, slots=True)
class PaymentListOrder:
    """By date, or by the requested amount; ties by id, in the same direction."""

    by_amount: bool
    descending: bool


@dataclass(frozen=True, slots=True)
class PaymentTotals:
    """The totals of a list; `revenue` is the total of succeeded payments, by unit."""

    payments: int
    payers: int
    revenue: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class _QueryShape:
    """The form of a statement, without its values."""

    for_merchants: bool
    names: frozenset[str]

    @classmethod
    def from_filters(cls, filters: PaymentListFilters) -> _QueryShape:
        names = ("start_us", "end_us", "statuses", "units", "networks", "reference")
        return cls(
            filters.merchants is not None,
            frozenset(name for name in names if getattr(filters, name) is not None),
        )


class _Position(NamedTuple):
    value: int
    id: str


class _Counts(NamedTuple):
    payments: int
    payers: int


class _StatusCount(NamedTuple):
    status: PaymentStatus
    payments: int


class _Revenue(NamedTuple):
    unit: str
    total: int


# the current status: unconfirmed payments expire at their time, recorded or not
_STATUS_NOW = case(
    (
        and_(
            payment_table.c.status == PaymentStatus.REQUIRES_ACTION,
            payment_table.c.expires_at <= param("now_s"),
        ),
        literal(PaymentStatus.EXPIRED, EnumText(PaymentStatus)),
    ),
    else_=payment_table.c.status,
)
# the unit that is paid, or to be paid
_UNIT = func.coalesce(payment_table.c.option_unit, payment_table.c.unit)
_NAME = func.substr(_UNIT, len(_UNIT_PREFIX) + 1)
_CONDITIONS: dict[str, ColumnElement[bool]] = {
    "start_us": payment_table.c.created_at_us >= param("start_us"),
    "end_us": payment_table.c.created_at_us < param("end_us"),
    "statuses": is_in(_STATUS_NOW, "statuses"),
    "units": is_in(func.lower(_UNIT), "units"),
    "networks": is_in(func.substr(_NAME, 1, text_position(literal("/"), _NAME) - 1), "networks"),
    "reference": text_position(param("reference"), payment_table.c.reference_id) > 0,
}
_IN_TIME = (payment_table.c.id > param("after"), payment_table.c.id < param("before"))
_OF_PARTNER = (
    payment_table.c.partner_id == param("partner_id"),
    payment_table.c.live == param("live"),
)


def _filter_conditions(shape: _QueryShape) -> list[ColumnElement[bool]]:
    return [condition for name, condition in _CONDITIONS.items() if name in shape.names]


@cache
def _select_by_date(shape: _QueryShape, descending: bool) -> Statement[_Position]:
    conditions = [*_scope_conditions(shape), *_IN_TIME, *_filter_conditions(shape)]
    return _select_positions(conditions, [payment_table.c.id], descending)


@cache
def _select_by_amount(shape: _QueryShape, descending: bool, segment: str) -> Statement[_Position]:
    """Select by amount; `segment` is "all", "tied" (equal to the position's) or "beyond" it."""
    size, by = sortable_amount(payment_table.c.value), payment_table.c.id
    keys = [size, by]
    conditions = [*_scope_conditions(shape), *_filter_conditions(shape)]
    if segment == "tied":
        keys = [by]
        conditions += [
            size == param("size", SortableAmount),
            _is_after_position(by, "tied_id", descending),
        ]
    elif segment == "beyond":
        conditions.append(_is_after_position(size, "size", descending, SortableAmount))
    return _select_positions(conditions, keys, descending)


@cache
def _select_sparse_by_amount(
    shape: _QueryShape, descending: bool, is_continued: bool
) -> Statement[_Position]:
    """Scan in date order, then sort by amount; the plus keeps planners from other indexes."""
    size, by = without_index(sortable_amount(payment_table.c.value)), payment_table.c.id
    conditions = [*_scope_conditions(shape), *_IN_TIME, *_filter_conditions(shape)]
    if is_continued:
        tied = and_(
            size == param("size", SortableAmount), _is_after_position(by, "tied_id", descending)
        )
        conditions.append(or_(_is_after_position(size, "size", descending, SortableAmount), tied))
    return _select_positions(conditions, [size, by], descending)


def _is_after_position(
    column: ColumnElement[Any], name: str, descending: bool, kind: Any = None
) -> ColumnElement[bool]:
    return column < param(name, kind) if descending else column > param(name, kind)


def _select_positions(
    conditions: Sequence[ColumnElement[bool]],
    keys: Sequence[ColumnElement[Any]],
    descending: bool,
) -> Statement[_Position]:
    return Statement(
        select(payment_table.c.value, payment_table.c.id)
        .where(*conditions)
        .order_by(*(key.desc() if descending else key for key in keys))
        .limit(param("limit")),
        _Position,
    )


def _scope_conditions(shape: _QueryShape) -> tuple[ColumnElement[bool], ...]:
    if shape.for_merchants:
        return (payment_table.c.merchant_id == param("merchant_id"),)
    return _OF_PARTNER


@cache
def _select_counts(shape: _QueryShape) -> Statement[_Counts]:
    payers = func.count(payment_table.c.payer.distinct()).label("payers")
    counts = select(func.count().label("payments"), payers)
    return Statement(counts.where(*_total_conditions(shape)), _Counts)


@cache
def _select_payer_count(for_merchant: bool) -> Statement[int]:
    """Count distinct payers from an index in which equal payers are adjacent."""
    scope = (payment_table.c.merchant_id == param("merchant_id"),) if for_merchant else _OF_PARTNER
    payers = (
        select(payment_table.c.payer).where(*scope, text(HAS_PAYER_PREDICATE)).distinct().subquery()
    )
    return Statement(select(func.count()).select_from(payers), int)


@cache
def _select_payment_count(for_merchant: bool) -> Statement[int]:
    scope = (payment_table.c.merchant_id == param("merchant_id"),) if for_merchant else _OF_PARTNER
    return Statement(select(func.count()).select_from(payment_table).where(*scope, *_IN_TIME), int)


@cache
def _select_revenue(shape: _QueryShape) -> Statement[_Revenue]:
    return Statement(
        select(payment_table.c.unit, fast_sum_u256(payment_table.c.value).label("total"))
        .where(*_total_conditions(shape), payment_table.c.status == PaymentStatus.SUCCEEDED)
        .group_by(payment_table.c.unit),
        _Revenue,
    )


@cache
def _select_status_counts(shape: _QueryShape) -> Statement[_StatusCount]:
    statuses = (
        select(_STATUS_NOW.label("status"))
        .where(*_total_conditions(shape))
        .limit(param("limit"))
        .subquery()
    )
    count = func.count().label("payments")
    counts = select(statuses.c.status, count).group_by(statuses.c.status)
    return Statement(counts, _StatusCount)


def _total_conditions(shape: _QueryShape) -> list[ColumnElement[bool]]:
    scope = (
        (is_in(payment_table.c.merchant_id, "merchants"),) if shape.for_merchants else _OF_PARTNER
    )
    # bounds of ids make the planner scan in row order, also without times
    return [*scope, *_IN_TIME, *_filter_conditions(shape)]


@operation
def list_positions(
    filters: PaymentListFilters,
    order: PaymentListOrder,
    limit: int,
    position: PaymentPosition | None,
    now_us: int,
    *,
    is_sparse: bool,
) -> Op[list[PaymentPosition]]:
    """Return the positions of the next payments after a position, in order, at most `limit`.

    With `is_sparse`, few payments match, so that finding and sorting them all costs less than a
    scan in the order of amounts; the result does not depend on it.
    """
    shape = _QueryShape.from_filters(filters)
    params = {**_to_params(filters, now_us), "limit": limit}
    positions: list[PaymentPosition] = []
    for merchant_id in filters.merchants if filters.merchants is not None else (None,):
        scope_params = {**params, "merchant_id": merchant_id}
        if order.by_amount and is_sparse:
            positions += yield from _list_sparse_scope(shape, order, scope_params, position)
        elif order.by_amount:
            positions += yield from _list_scope_by_amount(shape, order, scope_params, position)
        else:
            positions += yield from _list_scope_by_date(shape, order, scope_params, position)
    key = _to_amount_key if order.by_amount else _to_id_key
    return sorted(positions, key=key, reverse=order.descending)[:limit]


def _list_scope_by_date(
    shape: _QueryShape,
    order: PaymentListOrder,
    params: dict[str, Any],
    position: PaymentPosition | None,
) -> Op[list[_Position]]:
    if position is not None:
        bound, nearer = ("before", min) if order.descending else ("after", max)
        params[bound] = nearer(params[bound], position[1])
    return (yield from _select_by_date(shape, order.descending).all(**params))


def _list_scope_by_amount(
    shape: _QueryShape,
    order: PaymentListOrder,
    params: dict[str, Any],
    position: PaymentPosition | None,
) -> Op[list[_Position]]:
    if position is None:
        return (yield from _select_by_amount(shape, order.descending, "all").all(**params))
    # two reads that each begin at their first row, as ties may be many
    params["size"], params["tied_id"] = position
    positions = yield from _select_by_amount(shape, order.descending, "tied").all(**params)
    if missing := params["limit"] - len(positions):
        params["limit"] = missing
        positions += yield from _select_by_amount(shape, order.descending, "beyond").all(**params)
    return positions


def _list_sparse_scope(
    shape: _QueryShape,
    order: PaymentListOrder,
    params: dict[str, Any],
    position: PaymentPosition | None,
) -> Op[list[_Position]]:
    if position is not None:
        params["size"], params["tied_id"] = position
    select_page = _select_sparse_by_amount(shape, order.descending, position is not None)
    return (yield from select_page.all(**params))


def _to_amount_key(position: PaymentPosition) -> PaymentPosition:
    return position


def _to_id_key(position: PaymentPosition) -> str:
    return position[1]


@operation
def get_totals(filters: PaymentListFilters, now_us: int) -> Op[PaymentTotals]:
    """Return the totals of all payments of the list."""
    if filters.merchants == ():
        return PaymentTotals(0, 0, ())
    shape, params = _QueryShape.from_filters(filters), _to_params(filters, now_us)
    count, payers = yield from _count_payments_and_payers(filters, shape, params)
    revenue: Sequence[_Revenue] = ()
    if filters.statuses is None or PaymentStatus.SUCCEEDED in filters.statuses:
        revenue = yield from _select_revenue(shape).all(**params)
    return PaymentTotals(count, payers, tuple(sorted(revenue)))


@operation
def count_by_status(
    filters: PaymentListFilters, now_us: int, limit: int
) -> Op[dict[PaymentStatus, int] | None]:
    """Return the number of payments in each status, or None if more than `limit` match."""
    if filters.merchants == ():
        return {}
    shape = _QueryShape.from_filters(filters)
    params = {**_to_params(filters, now_us), "limit": limit + 1}
    counts = dict((yield from _select_status_counts(shape).all(**params)))
    return None if sum(counts.values()) > limit else counts


def _count_payments_and_payers(
    filters: PaymentListFilters, shape: _QueryShape, params: Params
) -> Op[tuple[int, int]]:
    """Return the number of payments, and of payers."""
    if shape.names or (filters.merchants is not None and len(filters.merchants) > 1):
        return (yield from _select_counts(shape).single(**params))
    # all payments of one merchant or partner, the most common query
    scope_params = {**params, "merchant_id": (filters.merchants or (None,))[0]}
    count = yield from _select_payment_count(shape.for_merchants).single(**scope_params)
    payers = yield from _select_payer_count(shape.for_merchants).single(**scope_params)
    return count, payers


def _to_params(filters: PaymentListFilters, now_us: int) -> Params:
    low = _LOWEST if filters.start_us is None else get_payment_id_floor(filters.start_us // 1000)
    high = _HIGHEST if filters.end_us is None else get_payment_id_floor(-(-filters.end_us // 1000))
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
