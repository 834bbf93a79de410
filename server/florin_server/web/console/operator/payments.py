"""Payments of any partner: the table, and one payment with its full trace."""

from __future__ import annotations

from urllib.parse import quote

from florin.v1 import ledger_pb2, listing_pb2, partner_pb2, trace_pb2
from grpc_rest_gateway.plain import PlainResponse

from florin_server.web.console.list_controls import build_controls, count_statuses
from florin_server.web.console.listing import (
    FILE_ROWS_MAX,
    PAGE_ROWS,
    ROWS_MAX,
    PaymentFilters,
    build_csv,
    list_filter_choices,
    list_row_states,
)
from florin_server.web.console.notes import list_notes
from florin_server.web.console.payment_links import find_explorer_url
from florin_server.web.console.site import ConsoleRequest
from florin_server.web.console.timeline import (
    describe_duration,
    find_confirming,
    list_traced_steps,
)

PATH = "/console/payments"
PAYMENT_PATH = "/console/payments/{payment_id}"
_LIST = "OperatorService.ListPartnerPayments"


async def show(console_request: ConsoleRequest) -> PlainResponse:
    """Show a page of the table, of the first partner unless the query names one."""
    filters = PaymentFilters.from_request(console_request)
    partners = await console_request.call(
        "OperatorService.ListPartners", partner_pb2.ListPartnersRequest()
    )
    if not filters.query.text("partner") and partners.partners:
        # the oldest: most installations have one partner only
        filters = filters.with_partner(partners.partners[-1].id)
    request = _build_request(filters, PAGE_ROWS)
    response = listing_pb2.ListPaymentsResponse()
    if request.partner_id:
        response = await console_request.call(_LIST, request)
    counts = await count_statuses(
        console_request, request.partner_id, request.filter, live=request.live
    )
    return console_request.render_page(
        "payments",
        console_request.texts.plain("nav.payments"),
        filters=filters,
        response=response,
        merchants=(),
        partners=partners.partners,
        choices=list_filter_choices(console_request, live=request.live),
        path=PATH,
        **build_controls(console_request.texts, filters, counts),
    )


async def show_row_states(console_request: ConsoleRequest) -> PlainResponse:
    """Return the current status of the page's payments, for its script."""
    response = await console_request.call(
        _LIST, _build_request(PaymentFilters.from_request(console_request), PAGE_ROWS)
    )
    return PlainResponse.from_json(list_row_states(console_request.formatter, response.data))


async def download_csv(console_request: ConsoleRequest) -> PlainResponse:
    """Return the list as a CSV file."""
    request = _build_request(PaymentFilters.from_request(console_request), ROWS_MAX)
    request.filter.ClearField("cursor")
    payment_rows: list[listing_pb2.PaymentRow] = []
    while True:
        page = await console_request.call(_LIST, request)
        payment_rows += page.data
        if not page.next_cursor or len(payment_rows) >= FILE_ROWS_MAX:
            return build_csv(console_request.formatter, payment_rows[:FILE_ROWS_MAX])
        request.filter.cursor = page.next_cursor


async def show_payment(console_request: ConsoleRequest) -> PlainResponse:
    """Show a payment with its timeline, transaction and book entries."""
    payment_id = console_request.get_path_variable("payment_id")
    request = trace_pb2.TracePaymentRequest(payment_id=payment_id)
    traced = await console_request.call("OperatorService.TracePayment", request)
    list_entries_request = ledger_pb2.ListEntriesRequest(payment_id=traced.payment.payment_id)
    booked = await console_request.call("OperatorService.ListEntries", list_entries_request)
    return console_request.render_page(
        "operator/payment",
        console_request.texts.plain(
            "payment.title", id=console_request.formatter.short(traced.payment.payment_id)
        ),
        payment=traced.payment,
        partner=traced.partner_id,
        steps=list_traced_steps(console_request.formatter, traced.events, traced.payment.refunds),
        duration=describe_duration(
            console_request.formatter, [traced_event.event for traced_event in traced.events]
        ),
        confirming=await find_confirming(console_request, traced.payment),
        explorer=find_explorer_url(console_request, traced.payment),
        transactions=traced.transactions,
        notes=await list_notes(console_request, traced.payment.payment_id),
        path=PAYMENT_PATH.format(payment_id=quote(traced.payment.payment_id, "")),
        entries=booked.entries,
    )


def _build_request(filters: PaymentFilters, limit: int) -> listing_pb2.ListPartnerPaymentsRequest:
    return listing_pb2.ListPartnerPaymentsRequest(
        partner_id=filters.query.text("partner"),
        live=filters.query.text("live") == "1",
        filter=filters.to_request(limit),
    )
