"""Saved views: named filters of the list of payments, of a partner in one mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from florin.v1 import account_pb2
from grpc_rest_gateway.plain import PlainResponse

from florin_server.accounts.service.console_views import (
    NAME_CHARS_MAX,
    QUERY_CHARS_MAX,
    list_views,
    remove_view,
    save_view,
)
from florin_server.accounts.store.console_views import SavedView
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.money.payments.service.search import find_partner_id
from florin_server.web.console.fields import group_fields
from florin_server.web.console.listing import FILTER_NAMES, PaymentFilters
from florin_server.web.console.paths import ROOT
from florin_server.web.console.site import ConsoleRequest

PATH: Final = f"{ROOT}/payments/views"
REMOVE_PATH: Final = f"{PATH}/remove"
_PAYMENTS: Final = f"{ROOT}/payments"


async def build_values(
    console_request: ConsoleRequest, partner_id: str | None, filters: PaymentFilters
) -> dict[str, Any]:
    """Return the values of the template for the views above a list."""
    live = console_request.session.live
    app = console_request.console.app
    views: Sequence[SavedView] = ()
    if partner_id is not None:
        views = await list_views(app, partner_id, live=live)
    return {
        "views": views,
        "view_query": keep_filters(filters.address()),
        "view_name_chars": NAME_CHARS_MAX,
    }


async def save(console_request: ConsoleRequest) -> PlainResponse:
    """Save the filters of the page as a view."""
    form = console_request.form
    query = keep_filters(form.text("query"))
    # raises ApiError for filters that the list would refuse
    PaymentFilters(group_fields(parse_qsl(query))).to_request()
    await save_view(
        console_request.console.app,
        await _get_partner_id(console_request),
        SavedView(form.text("name"), query),
        live=console_request.session.live,
    )
    return console_request.redirect_to(f"{_PAYMENTS}?{query}")


async def remove(console_request: ConsoleRequest) -> PlainResponse:
    """Remove a view."""
    partner_id = await _get_partner_id(console_request)
    await remove_view(
        console_request.console.app,
        partner_id,
        console_request.form.text("name"),
        live=console_request.session.live,
    )
    return console_request.redirect_to(_PAYMENTS)


def keep_filters(query: str) -> str:
    """Return the filters of an address in one order, without the page; empty if it has none.

    A text too long for a view stays so, and is refused when it is saved.
    """
    if len(query) > QUERY_CHARS_MAX:
        return query
    pairs = [(name, value) for name, value in parse_qsl(query) if name in FILTER_NAMES and value]
    return urlencode(sorted(pairs, key=lambda pair: FILTER_NAMES.index(pair[0])))


async def _get_partner_id(console_request: ConsoleRequest) -> str:
    # refuses a revoked key, and counts in its rate limit
    await console_request.call(
        "AdminService.ListMerchants", account_pb2.ListMerchantsRequest(limit=1)
    )
    session = console_request.session
    partner_id = await find_partner_id(console_request.console.app, session.holder)
    if partner_id is None:
        raise ApiError(ErrorCode.NOT_FOUND)
    return partner_id
