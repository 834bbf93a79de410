"""Lists of payments: one page, and the totals of the whole list."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import NoReturn, Protocol

from florin_server.accounts.store import merchants
from florin_server.db.context import StorageContext
from florin_server.db.engine.columns import U256_MAX
from florin_server.db.engine.query import Op, operation
from florin_server.domain import cursor
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.caip import parse_asset, parse_chain
from florin_server.domain.errors import ApiError, ErrorCode, FieldIssue
from florin_server.domain.payments.payment import Merchant, PaymentStatus
from florin_server.domain.refusals import merchant_not_found_error
from florin_server.money.context import TotalsContext
from florin_server.money.payments.store.list_rows import PaymentListRow, list_rows
from florin_server.money.payments.store.listing import (
    PaymentListFilters,
    PaymentListOrder,
    PaymentPosition,
    PaymentTotals,
    count_by_status,
    get_totals,
    list_positions,
)
from florin_server.money.payments.store.phases import PaymentPhases, find_phases
from florin_server.rails.context import ChainContext


class _FilterContext(ChainContext, StorageContext, Protocol):
    """The parts of the application that filters need."""


class _Context(_FilterContext, TotalsContext, Protocol):
    """The parts of the application that this module uses."""


__all__ = [
    "PaymentListPage",
    "PaymentListQuery",
    "PaymentPhases",
    "count_statuses",
    "get_phases",
    "list_for_merchant",
    "list_for_partner",
    "list_for_partner_merchant",
]

_AMOUNT = re.compile(r"[0-9]{1,78}")
_UNIT_PREFIX = "caip19/"
# among a million payments, searching so few in the order of amounts takes as long as reading all
_COUNTED_MAX = 1000
_STATUSES_COUNTED_MAX = 10_000


@dataclass(frozen=True, slots=True)
class PaymentListQuery:
    """The caller's query, as written. Empty and None members are no filters."""

    order: PaymentListOrder
    limit: int
    cursor: str | None = None
    start_us: int | None = None
    end_us: int | None = None
    statuses: Sequence[PaymentStatus] = ()
    symbols: Sequence[str] = ()
    assets: Sequence[str] = ()
    networks: Sequence[str] = ()
    reference: str = ""


@dataclass(frozen=True, slots=True)
class PaymentListPage:
    """One page of a list. `totals` of later pages can be a minute old."""

    rows: list[PaymentListRow]
    next_cursor: str | None
    totals: PaymentTotals


async def list_for_partner(
    app: _Context, caller: Caller, query: PaymentListQuery, ids: Sequence[str]
) -> PaymentListPage:
    """Return payments of all merchants of the partner, or of the named ones."""
    return await _read_page(app, query, await _build_partner_filters(app, caller, query, ids))


async def count_statuses(
    app: _FilterContext, caller: Caller, query: PaymentListQuery, ids: Sequence[str]
) -> dict[PaymentStatus, int] | None:
    """Return how many payments of a partner's list have each status, whatever statuses it asks.

    None if more than 10,000 payments match: counting them would cost more than the list.
    """
    every = replace(query, statuses=())
    filters = await _build_partner_filters(app, caller, every, ids)
    return await app.store.scan_standby(
        count_by_status(filters, app.clock.now_us(), _STATUSES_COUNTED_MAX)
    )


async def _build_partner_filters(
    app: _FilterContext, caller: Caller, query: PaymentListQuery, ids: Sequence[str]
) -> PaymentListFilters:
    if not ids:
        return _build_filters(app, caller, query, None)
    named_merchants = await app.store.read(merchants.find_merchants(ids))
    # other partners' merchants can be named, but nothing is found there
    own = sorted(merchant.id for merchant in named_merchants.values() if _is_own(caller, merchant))
    return _build_filters(app, caller, query, tuple(own))


async def list_for_merchant(
    app: _Context, caller: Caller, query: PaymentListQuery
) -> PaymentListPage:
    """Return payments of the calling merchant."""
    if caller.merchant is None:
        raise RuntimeError("the access rule of a merchant call must ask for a merchant")
    return await _read_page(app, query, _build_filters(app, caller, query, (caller.merchant.id,)))


async def list_for_partner_merchant(
    app: _Context, caller: Caller, query: PaymentListQuery, merchant_id: str
) -> PaymentListPage:
    """Return payments of one merchant of the partner; the history of a deleted merchant stays."""
    merchant = await app.store.read(merchants.find_merchant(merchant_id))
    if merchant is None or not _is_own(caller, merchant):
        raise merchant_not_found_error(wcp_profile=caller.wcp_profile)
    return await _read_page(app, query, _build_filters(app, caller, query, (merchant.id,)))


async def get_phases(app: StorageContext, payment_ids: Sequence[str]) -> dict[str, PaymentPhases]:
    """Return when payments of a list were accepted and succeeded, by id."""
    return await app.store.scan_standby(find_phases(payment_ids))


def _is_own(caller: Caller, merchant: Merchant) -> bool:
    return merchant.partner_id == caller.partner_id and merchant.live is caller.live


async def _read_page(
    app: _Context, query: PaymentListQuery, filters: PaymentListFilters
) -> PaymentListPage:
    binding = _get_binding(filters, query.order)
    position = _parse_cursor(query, binding)
    now_us = app.clock.now_us()
    cached_totals = app.totals_cache.get(filters, now_us) if position is not None else None
    op = _read(filters, query, position, now_us, cached_totals)
    # a query that only follows an index is done at once
    at_once = cached_totals is not None and _has_index(filters, query.order)
    rows, last_position, totals = await (
        app.store.read(op) if at_once else app.store.scan_standby(op)
    )
    if cached_totals is None:
        app.totals_cache.put(filters, totals, now_us)
    return PaymentListPage(rows, _format_cursor(query.order, last_position, binding), totals)


def _get_binding(filters: PaymentListFilters, order: PaymentListOrder) -> str:
    """Return the list that a cursor belongs to.

    Times are left out: callers send an end that moves with the clock, and a position among payments
    is the same place in every range of times.
    """
    scope = replace(filters, start_us=None, end_us=None)
    return json.dumps([*astuple(scope), *astuple(order)])


def _has_index(filters: PaymentListFilters, order: PaymentListOrder) -> bool:
    in_time = filters.start_us is not None or filters.end_us is not None
    return not filters.requires_row_scan and not (order.by_amount and in_time)


@operation
def _read(
    filters: PaymentListFilters,
    query: PaymentListQuery,
    position: PaymentPosition | None,
    now_us: int,
    cached_totals: PaymentTotals | None,
) -> Op[tuple[list[PaymentListRow], PaymentPosition | None, PaymentTotals]]:
    if cached_totals is None:
        cached_totals = yield from get_totals(filters, now_us)
    # one row more than the page says whether more rows follow
    limit, few = query.limit + 1, cached_totals.payments <= _COUNTED_MAX
    positions = yield from list_positions(
        filters, query.order, limit, position, now_us, is_sparse=few
    )
    page_positions = positions[: query.limit]
    rows = yield from list_rows([payment_id for _, payment_id in page_positions], now_us)
    last_position = page_positions[-1] if len(positions) > len(page_positions) else None
    return rows, last_position, cached_totals


def _parse_cursor(query: PaymentListQuery, binding: str) -> PaymentPosition | None:
    if query.cursor is None:
        return None
    if not query.order.by_amount:
        return (0, *cursor.decode_cursor(query.cursor, binding, str))
    value, last_id = cursor.decode_cursor(query.cursor, binding, str, str)
    if not _AMOUNT.fullmatch(value) or int(value) > U256_MAX:
        raise cursor.damaged_cursor_error()
    return int(value), last_id


def _format_cursor(
    order: PaymentListOrder, last_position: PaymentPosition | None, binding: str
) -> str | None:
    if last_position is None:
        return None
    value, last_id = last_position
    return cursor.encode_cursor((str(value), last_id) if order.by_amount else (last_id,), binding)


def _build_filters(
    app: ChainContext, caller: Caller, query: PaymentListQuery, merchant_ids: tuple[str, ...] | None
) -> PaymentListFilters:
    return PaymentListFilters(
        partner_id=caller.required_partner_id,
        live=caller.live,
        merchants=merchant_ids,
        start_us=query.start_us,
        end_us=query.end_us,
        statuses=tuple(sorted(set(query.statuses))) or None,
        units=_list_units(app, caller, query),
        networks=_parse_networks(query.networks),
        reference=query.reference or None,
    )


def _list_units(
    app: ChainContext, caller: Caller, query: PaymentListQuery
) -> tuple[str, ...] | None:
    """Return the assets that pass both filters, as units in lower case; None without a filter."""
    passing: set[str] | None = None
    if query.symbols:
        symbols = {symbol.lower() for symbol in query.symbols}
        registry = app.list_assets(live=caller.live).values()
        passing = {asset.id.lower() for _, asset in registry if asset.symbol.lower() in symbols}
    if query.assets:
        named = set(map(_normalize_asset, query.assets))
        passing = named if passing is None else passing & named
    if passing is None:
        return None
    return tuple(sorted(_UNIT_PREFIX + asset for asset in passing))


def _normalize_asset(text: str) -> str:
    name = text.removeprefix(_UNIT_PREFIX)
    try:
        parse_asset(name)
    except ValueError:
        _refuse("asset", "is not a CAIP-19 asset")
    return name.lower()


def _parse_networks(texts: Sequence[str]) -> tuple[str, ...] | None:
    for text in texts:
        try:
            parse_chain(text)
        except ValueError:
            _refuse("network", "is not a CAIP-2 chain id")
    return tuple(sorted(set(texts))) or None


def _refuse(field: str, reason: str) -> NoReturn:
    raise ApiError(
        ErrorCode.INVALID_PARAMS, f"{field} {reason}", issues=(FieldIssue(field, reason),)
    )
