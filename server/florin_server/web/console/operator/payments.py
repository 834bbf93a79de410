"""Payments of any partner: the table, and one payment with everything that is known of it."""

from __future__ import annotations

from urllib.parse import quote

from florin.v1 import ledger_pb2, listing_pb2, partner_pb2, trace_pb2
from florin_gateway.plain import PlainAnswer

from florin_server.web.console.listing import (
    FILE_ROWS_MAX,
    PAGE,
    ROWS_MAX,
    Asked,
    choices,
    live_rows,
    table,
)
from florin_server.web.console.site import Visit

PATH = "/console/payments"
ONE = "/console/payments/{payment_id}"
_LIST = "OperatorService.ListPartnerPayments"


async def show(visit: Visit) -> PlainAnswer:
    """A page of the table, of the first partner unless another one is asked for."""
    asked = Asked.of(visit)
    partners = await visit.ask("OperatorService.ListPartners", partner_pb2.ListPartnersRequest())
    if not asked.form.text("partner") and partners.partners:
        # the oldest: the one that most installations have
        asked = asked.of_partner(partners.partners[-1].id)
    request = _request(asked, PAGE)
    found = listing_pb2.ListPaymentsResponse()
    if request.partner_id:
        found = await visit.ask(_LIST, request)
    return visit.page(
        "payments",
        "Payments",
        asked=asked,
        found=found,
        merchants=(),
        partners=partners.partners,
        choices=choices(visit, live=request.live),
        path=PATH,
    )


async def rows(visit: Visit) -> PlainAnswer:
    """Where the payments of the page stand now, for its script."""
    found = await visit.ask(_LIST, _request(Asked.of(visit), PAGE))
    return PlainAnswer.json(live_rows(visit.site.show, found.data))


async def file(visit: Visit) -> PlainAnswer:
    """The same list as a file, page by page of the API."""
    request = _request(Asked.of(visit), ROWS_MAX)
    request.filter.ClearField("cursor")
    found: list[listing_pb2.PaymentRow] = []
    while True:
        page = await visit.ask(_LIST, request)
        found += page.data
        if not page.next_cursor or len(found) >= FILE_ROWS_MAX:
            return table(visit.site.show, found[:FILE_ROWS_MAX])
        request.filter.cursor = page.next_cursor


async def one(visit: Visit) -> PlainAnswer:
    """A payment with its timeline, its transaction and what was booked."""
    payment_id = visit.path("payment_id")
    request = trace_pb2.TracePaymentRequest(payment_id=payment_id)
    traced = await visit.ask("OperatorService.TracePayment", request)
    asked = ledger_pb2.ListEntriesRequest(payment_id=traced.payment.payment_id)
    booked = await visit.ask("OperatorService.ListEntries", asked)
    return visit.page(
        "operator/payment",
        f"Payment {visit.site.show.short(traced.payment.payment_id)}",
        payment=traced.payment,
        partner=traced.partner_id,
        events=traced.events,
        transactions=traced.transactions,
        entries=booked.entries,
    )


async def find(visit: Visit) -> PlainAnswer:
    """Looks for a payment by its id or link."""
    return visit.see(ONE.format(payment_id=quote(visit.query.get("id", "").strip(), "") or "none"))


def _request(asked: Asked, limit: int) -> listing_pb2.ListPartnerPaymentsRequest:
    return listing_pb2.ListPartnerPaymentsRequest(
        partner_id=asked.form.text("partner"),
        live=asked.form.text("live") == "1",
        filter=asked.request(limit),
    )
