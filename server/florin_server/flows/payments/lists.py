"""Lists of payments: one page, and what the whole list comes to."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import NoReturn

from florin_server.domain import cursor
from florin_server.domain.caip import parse_asset, parse_chain
from florin_server.domain.errors import Code, FlorinError, Issue
from florin_server.domain.payments.payment import Merchant, Status
from florin_server.domain.refusals import merchant_unknown
from florin_server.flows.app import App, Caller
from florin_server.store.accounts import merchants
from florin_server.store.engine.columns import U256_MAX
from florin_server.store.engine.query import Op, operation
from florin_server.store.payments.listed import Listed, listed
from florin_server.store.payments.listing import Filters, Order, Position, Totals, page, totals
from florin_server.store.payments.phases import Phases, phases

__all__ = [
    "Page",
    "Phases",
    "Wanted",
    "of_merchant",
    "of_merchant_in_path",
    "of_partner",
    "phases_of",
]

_AMOUNT = re.compile(r"[0-9]{1,78}")
_UNIT_PREFIX = "caip19/"
# among a million payments, looking for so few in the order of amounts takes as long as seeing all
_FEW = 1000


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a caller asks for, as it wrote it. Empty ones and None are not asked."""

    order: Order
    limit: int
    cursor: str | None = None
    start_us: int | None = None
    end_us: int | None = None
    statuses: Sequence[Status] = ()
    symbols: Sequence[str] = ()
    assets: Sequence[str] = ()
    networks: Sequence[str] = ()
    reference: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list. `totals` of later pages may be a minute old."""

    rows: list[Listed]
    next_cursor: str | None
    totals: Totals


async def of_partner(app: App, caller: Caller, wanted: Wanted, ids: Sequence[str]) -> Page:
    """Payments of all merchants of the partner, or of those of them that are named."""
    if not ids:
        return await _page(app, wanted, _filters(app, caller, wanted, None))
    found = await app.store.read(merchants.merchants(ids))
    # whoever else's merchants are named, nothing is found there
    own = sorted(one.id for one in found.values() if _is_own(caller, one))
    return await _page(app, wanted, _filters(app, caller, wanted, tuple(own)))


async def of_merchant(app: App, caller: Caller, wanted: Wanted) -> Page:
    """Payments of the merchant that calls."""
    if caller.merchant is None:
        raise RuntimeError("the access rule of a merchant call must ask for a merchant")
    return await _page(app, wanted, _filters(app, caller, wanted, (caller.merchant.id,)))


async def of_merchant_in_path(app: App, caller: Caller, wanted: Wanted, merchant_id: str) -> Page:
    """Payments of one merchant of the partner; the history of a deleted one stays."""
    merchant = await app.store.read(merchants.merchant(merchant_id))
    if merchant is None or not _is_own(caller, merchant):
        raise merchant_unknown(wcp_profile=caller.wcp_profile)
    return await _page(app, wanted, _filters(app, caller, wanted, (merchant.id,)))


async def phases_of(app: App, payment_ids: Sequence[str]) -> dict[str, Phases]:
    """Return when payments of a list were accepted and succeeded, by id."""
    return await app.store.survey(phases(payment_ids))


def _is_own(caller: Caller, merchant: Merchant) -> bool:
    return merchant.partner_id == caller.partner_id and merchant.live is caller.live


async def _page(app: App, wanted: Wanted, filters: Filters) -> Page:
    binding = _binding(filters, wanted.order)
    after = _position(wanted, binding)
    now_us = app.clock.now_us()
    known = app.totals.get(filters, now_us) if after is not None else None
    op = _read(filters, wanted, after, now_us, known)
    # what only follows an index is done at once
    at_once = known is not None and _follows_an_index(filters, wanted.order)
    rows, last, seen = await (app.store.read(op) if at_once else app.store.survey(op))
    if known is None:
        app.totals.keep(filters, seen, now_us)
    return Page(rows, _cursor(wanted.order, last, binding), seen)


def _binding(filters: Filters, order: Order) -> str:
    """The list that a cursor belongs to.

    Times are left out: callers send an end that moves with the clock, and a position among
    payments is the same place in every range of times.
    """
    scope = replace(filters, start_us=None, end_us=None)
    return json.dumps([*astuple(scope), *astuple(order)])


def _follows_an_index(filters: Filters, order: Order) -> bool:
    in_time = filters.start_us is not None or filters.end_us is not None
    return not filters.looks_at_rows and not (order.by_amount and in_time)


@operation
def _read(
    filters: Filters, wanted: Wanted, after: Position | None, now_us: int, known: Totals | None
) -> Op[tuple[list[Listed], Position | None, Totals]]:
    if known is None:
        known = yield from totals(filters, now_us)
    # one more than is told tells whether there is more
    limit, few = wanted.limit + 1, known.payments <= _FEW
    places = yield from page(filters, wanted.order, limit, after, now_us, few=few)
    told = places[: wanted.limit]
    rows = yield from listed([found for _, found in told], now_us)
    return rows, told[-1] if len(places) > len(told) else None, known


def _position(wanted: Wanted, binding: str) -> Position | None:
    if wanted.cursor is None:
        return None
    if not wanted.order.by_amount:
        return (0, *cursor.decode(wanted.cursor, binding, str))
    value, last = cursor.decode(wanted.cursor, binding, str, str)
    if not _AMOUNT.fullmatch(value) or int(value) > U256_MAX:
        raise cursor.damaged()
    return int(value), last


def _cursor(order: Order, last: Position | None, binding: str) -> str | None:
    if last is None:
        return None
    value, last_id = last
    return cursor.encode((str(value), last_id) if order.by_amount else (last_id,), binding)


def _filters(
    app: App, caller: Caller, wanted: Wanted, merchant_ids: tuple[str, ...] | None
) -> Filters:
    return Filters(
        partner_id=caller.partner,
        live=caller.live,
        merchants=merchant_ids,
        start_us=wanted.start_us,
        end_us=wanted.end_us,
        statuses=tuple(sorted(set(wanted.statuses))) or None,
        units=_units(app, caller, wanted),
        networks=_networks(wanted.networks),
        reference=wanted.reference or None,
    )


def _units(app: App, caller: Caller, wanted: Wanted) -> tuple[str, ...] | None:
    """The assets that pass both filters, as units in lower case; None without such a filter."""
    passing: set[str] | None = None
    if wanted.symbols:
        symbols = {symbol.lower() for symbol in wanted.symbols}
        registry = app.assets(live=caller.live).values()
        passing = {asset.id.lower() for _, asset in registry if asset.symbol.lower() in symbols}
    if wanted.assets:
        named = set(map(_asset, wanted.assets))
        passing = named if passing is None else passing & named
    if passing is None:
        return None
    return tuple(sorted(_UNIT_PREFIX + asset for asset in passing))


def _asset(text: str) -> str:
    name = text.removeprefix(_UNIT_PREFIX)
    try:
        parse_asset(name)
    except ValueError:
        _refuse("asset", "is no CAIP-19 asset")
    return name.lower()


def _networks(texts: Sequence[str]) -> tuple[str, ...] | None:
    for text in texts:
        try:
            parse_chain(text)
        except ValueError:
            _refuse("network", "is no CAIP-2 chain")
    return tuple(sorted(set(texts))) or None


def _refuse(field: str, why: str) -> NoReturn:
    raise FlorinError(Code.INVALID_PARAMS, f"{field} {why}", issues=(Issue(field, why),))
