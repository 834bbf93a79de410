"""The merchants' table of payments, and its CSV file."""

from __future__ import annotations

from florin.v1 import account_pb2, listing_pb2
from grpc_rest_gateway.plain import PlainResponse

from florin_server.money.payments.service.search import find_partner_id
from florin_server.web.console.list_controls import build_controls, count_statuses
from florin_server.web.console.listing import (
    FILE_ROWS_MAX,
    ROWS_MAX,
    PaymentFilters,
    build_csv,
    list_filter_choices,
    list_row_states,
)
from florin_server.web.console.merchant import views
from florin_server.web.console.site import ConsoleRequest

PATH = "/console/payments"
_LIST = "MerchantService.ListPayments"
_MERCHANTS_SHOWN = 100


async def show(console_request: ConsoleRequest) -> PlainResponse:
    """Show a page of the table."""
    filters = PaymentFilters.from_request(console_request)
    request = filters.to_request()
    response = await console_request.call(_LIST, request)
    session = console_request.session
    partner_id = await find_partner_id(console_request.console.app, session.holder)
    counts = await count_statuses(console_request, partner_id, request, live=session.live)
    return console_request.render_page(
        "payments",
        console_request.texts.plain("nav.payments"),
        filters=filters,
        response=response,
        merchants=await list_merchants(console_request),
        partners=(),
        choices=list_filter_choices(console_request, live=console_request.session.live),
        path=PATH,
        **build_controls(console_request.texts, filters, counts),
        **await views.build_values(console_request, partner_id, filters),
    )


async def show_row_states(console_request: ConsoleRequest) -> PlainResponse:
    """Return the current status of the page's payments, for its script."""
    response = await console_request.call(
        _LIST, PaymentFilters.from_request(console_request).to_request()
    )
    return PlainResponse.from_json(list_row_states(console_request.formatter, response.data))


async def download_csv(console_request: ConsoleRequest) -> PlainResponse:
    """Return the list as a CSV file."""
    request = PaymentFilters.from_request(console_request).to_request(ROWS_MAX)
    request.ClearField("cursor")
    return build_csv(
        console_request.formatter,
        await list_first_rows(console_request, request, FILE_ROWS_MAX),
    )


async def list_first_rows(
    console_request: ConsoleRequest, request: listing_pb2.ListPaymentsRequest, limit: int
) -> list[listing_pb2.PaymentRow]:
    """Return the first rows of a list, at most `limit`."""
    payment_rows: list[listing_pb2.PaymentRow] = []
    while True:
        page = await console_request.call(_LIST, request)
        payment_rows += page.data
        if not page.next_cursor or len(payment_rows) >= limit:
            return payment_rows[:limit]
        request.cursor = page.next_cursor


async def list_merchants(console_request: ConsoleRequest) -> list[account_pb2.MerchantRecord]:
    """Return the newest merchants to choose from; older ones are entered by id."""
    request = account_pb2.ListMerchantsRequest(limit=_MERCHANTS_SHOWN)
    response = await console_request.call("AdminService.ListMerchants", request)
    return list(response.merchants)
