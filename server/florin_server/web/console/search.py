"""The search of both consoles: one match opens its page, several are listed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from florin.v1 import account_pb2, listing_pb2, partner_pb2
from grpc_rest_gateway.plain import PlainResponse

from florin_server.api.payments.codec import PaymentCodec
from florin_server.api.payments.listing_codec import PaymentListCodec
from florin_server.money.payments.service.lists import PaymentListPage
from florin_server.money.payments.service.search import find_partner_id, search_payments
from florin_server.money.payments.store.list_rows import PaymentListRow
from florin_server.money.payments.store.listing import PaymentTotals
from florin_server.web.console.merchant.payment import build_path
from florin_server.web.console.paths import ROOT
from florin_server.web.console.site import ConsoleRequest

PATH: Final = f"{ROOT}/search"
# partners whose payments the operator searches, the newest first
_PARTNERS_MAX: Final = 50


async def search_own(console_request: ConsoleRequest) -> PlainResponse:
    """Search the payments of the partner whose key signed in."""
    # refuses a revoked key, and counts in its rate limit
    await console_request.call(
        "AdminService.ListMerchants", account_pb2.ListMerchantsRequest(limit=1)
    )
    session = console_request.session
    partner_id = await find_partner_id(console_request.console.app, session.holder)
    rows: Sequence[PaymentListRow] = ()
    if partner_id is not None:
        rows = await search_payments(
            console_request.console.app, partner_id, _get_text(console_request), live=session.live
        )
    if len(rows) == 1:
        payment = rows[0].payment
        return console_request.redirect_to(build_path(payment.merchant_id, payment.id))
    return _render(console_request, rows)


async def search_all(console_request: ConsoleRequest) -> PlainResponse:
    """Search the payments of all partners, in both modes."""
    listed = await console_request.call(
        "OperatorService.ListPartners", partner_pb2.ListPartnersRequest()
    )
    partners = listed.partners[:_PARTNERS_MAX]
    rows: list[PaymentListRow] = []
    for partner in partners:
        for live in (True, False):
            rows += await search_payments(
                console_request.console.app,
                partner.id,
                _get_text(console_request),
                live=live,
            )
    if len(rows) == 1:
        return console_request.redirect_to(f"{ROOT}/payments/{quote(rows[0].payment.id, '')}")
    return _render(console_request, rows)


def _get_text(console_request: ConsoleRequest) -> str:
    return console_request.query.get("q", "").strip()


def _render(console_request: ConsoleRequest, rows: Sequence[PaymentListRow]) -> PlainResponse:
    return console_request.render_page(
        "search",
        console_request.texts.plain("search.title"),
        text=_get_text(console_request),
        rows=_to_api_rows(console_request, rows),
    )


def _to_api_rows(
    console_request: ConsoleRequest, rows: Sequence[PaymentListRow]
) -> Sequence[listing_pb2.PaymentRow]:
    codec = PaymentListCodec(PaymentCodec(console_request.console.app))
    page = PaymentListPage(list(rows), None, PaymentTotals(0, 0, ()))
    return codec.to_list_response(page).data
