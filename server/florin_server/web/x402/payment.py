"""The link of a payment for programs: what it requires, and the signed transfer that pays it.

While a transfer is on its way the answer is 202 and never 402: a client that reads 402 signs again.
The payment's page answers programs in the same way. Programs in browsers of every origin can pay.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from grpc_rest_gateway.plain import PlainEvents, PlainHandler, PlainRequest, PlainResponse

from florin_server.base.context import EventContext, MeterContext
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.db.context import StorageContext
from florin_server.domain.addresses import get_peer_network
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import Payment, PaymentStatus
from florin_server.domain.x402.messages import (
    REQUIRED_HEADER,
    RESPONSE_HEADER,
    SIGNATURE_HEADER,
    InvalidX402Payment,
    SettlementAnswer,
    build_required,
    encode_header,
    parse_payment_header,
)
from florin_server.domain.x402.settlement import FacilitationState
from florin_server.limits.context import LimitContext
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.context import UsageContext
from florin_server.money.payments.service.checkout import find_checkout
from florin_server.money.x402.service import payment as service
from florin_server.money.x402.service.offers import X402Offer, list_offers, may_accept_x402
from florin_server.money.x402.service.transfers import get_address
from florin_server.money.x402.store import Facilitation
from florin_server.operations.context import WorkerContext
from florin_server.rails.context import ChainContext
from florin_server.settings.context import SettingsContext
from florin_server.web.handlers import Routes
from florin_server.web.refusal import check_page_rate, to_refused_error


class _Context(
    ArchiveContext,
    ChainContext,
    EventContext,
    LimitContext,
    MeterContext,
    ScreeningContext,
    SettingsContext,
    StorageContext,
    UsageContext,
    WorkerContext,
    Protocol,
):
    """The parts of the application that this module uses."""


_PATH: Final = "/x402/{payment_id}"
# not those of the facilitator, whose callers have an API key
CORS_PATHS: Final = ("/x402/pay_*",)
# beside the headers that browsers can read at every such path
_EXPOSED: Final = (
    b"access-control-expose-headers",
    f"{REQUIRED_HEADER}, {RESPONSE_HEADER}".encode(),
)
_PREFLIGHT: Final = (
    (b"access-control-allow-methods", b"GET, POST"),
    (b"access-control-allow-headers", f"accept, content-type, {SIGNATURE_HEADER}".encode()),
    (b"access-control-max-age", b"7200"),
)
_JSON: Final = b"application/json"
_PAGE: Final = b"text/html"
_RETRY_AFTER: Final = (b"retry-after", b"1")


def build_routes(app: _Context) -> Routes:
    """Return the handlers by method and path."""
    handler = _make_handler(app)
    return {
        ("GET", _PATH): handler,
        ("POST", _PATH): handler,
        ("OPTIONS", _PATH): _answer_preflight,
    }


def make_link_handler(app: _Context, show: PlainHandler) -> PlainHandler:
    """Return the handler of a payment's link: `show` for people, x402 for programs.

    A payment that programs cannot pay has its page for all.
    """

    async def answer(request: PlainRequest) -> PlainResponse | PlainEvents:
        if not _is_program(request):
            return await show(request)
        check_page_rate(app, request)
        checkout = await find_checkout(app, request.variables["payment_id"])
        if checkout is None:
            return await show(request)
        (payment, *_) = checkout
        is_open = payment.status is PaymentStatus.REQUIRES_ACTION
        if is_open and not await may_accept_x402(app, payment):
            return await show(request)
        try:
            return await _answer(app, request, payment)
        except ApiError as error:
            raise to_refused_error(error) from error

    return answer


def _is_program(request: PlainRequest) -> bool:
    """Return True for a signed request, and for one that accepts JSON and no page."""
    if request.get_header(SIGNATURE_HEADER.encode()):
        return True
    accepted = b",".join(request.list_header_values(b"accept")).lower()
    return _JSON in accepted and _PAGE not in accepted


async def _answer_preflight(_request: PlainRequest) -> PlainResponse:
    """Allow programs in browsers to send a signed payment."""
    return PlainResponse(204, headers=_PREFLIGHT)


def _make_handler(app: _Context) -> PlainHandler:
    async def answer(request: PlainRequest) -> PlainResponse:
        payment = await _get_payment(app, request)
        try:
            return await _answer(app, request, payment)
        except ApiError as error:
            raise to_refused_error(error) from error

    return answer


async def _get_payment(app: _Context, request: PlainRequest) -> Payment:
    """Return the payment in the path; RefusedError if unknown or above the rate limit."""
    check_page_rate(app, request)
    checkout = await find_checkout(app, request.variables["payment_id"])
    if checkout is None:
        raise to_refused_error(ApiError(ErrorCode.PAYMENT_NOT_FOUND))
    return checkout[0]


async def _answer(app: _Context, request: PlainRequest, payment: Payment) -> PlainResponse:
    transfer = await service.find_transfer(app, payment.id)
    if transfer is None and payment.status is PaymentStatus.REQUIRES_ACTION:
        offers = await list_offers(app, payment, get_peer_network(request.peer))
        header = request.get_header(SIGNATURE_HEADER.encode())
        if not header:
            return _require(app, payment, offers, "PAYMENT-SIGNATURE header is required")
        try:
            transfer = await service.submit(app, payment, parse_payment_header(header), offers)
        except InvalidX402Payment as error:
            # another transfer may have been bound meanwhile
            transfer = await service.find_transfer(app, payment.id)
            if transfer is None:
                return _require(app, payment, offers, error.reason.value)
    if transfer is not None:
        transfer = await service.wait_for_transfer(app, transfer)
        if transfer.reason is None:
            payment = await service.wait_for_payment(app, payment)
        elif payment.status is PaymentStatus.REQUIRES_ACTION:
            offers = await list_offers(app, payment, get_peer_network(request.peer))
            return _require(app, payment, offers, transfer.reason.value)
    return _report(payment, transfer)


def _require(app: _Context, payment: Payment, offers: list[X402Offer], error: str) -> PlainResponse:
    """Return 402 with the ways to pay, in the header and as the body."""
    accepts = [offer.requirements for offer in offers]
    url = app.links.get_x402_url(payment.id)
    message = build_required(url, f"Payment {payment.id}", accepts, error)
    headers = [(REQUIRED_HEADER.encode(), encode_header(message).encode()), _EXPOSED]
    response = PlainResponse.from_json(message, 402)
    return PlainResponse(402, response.body, headers=headers)


def _report(payment: Payment, transfer: Facilitation | None) -> PlainResponse:
    """Return the state of a payment that no program should sign for now."""
    body: dict[str, Any] = {"paymentId": payment.id, "status": payment.status.value}
    headers: list[tuple[bytes, bytes]] = []
    # a stranger's transaction can have made the transfer: it is named once that is known
    is_known = transfer is None or transfer.state.is_final
    if payment.status is PaymentStatus.SUCCEEDED and is_known:
        status = 200
        if transfer is not None and transfer.state is FacilitationState.SUCCEEDED:
            settled = SettlementAnswer(
                transfer.chain_id,
                get_address(transfer.payer),
                transfer.tx_hash or "",
                amount=transfer.value,
            )
            headers = [
                (RESPONSE_HEADER.encode(), encode_header(settled.to_json()).encode()),
                _EXPOSED,
            ]
    elif not payment.status.is_final or payment.status is PaymentStatus.SUCCEEDED:
        status, headers = 202, [_RETRY_AFTER]
    else:
        status = 410
    response = PlainResponse.from_json(body, status)
    return PlainResponse(status, response.body, headers=headers)
