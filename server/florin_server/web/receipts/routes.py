"""Routes of receipts on the pay host: the buyer's page, the signed receipt, and the keys.

With the payment link alone, the page shows no more than the checkout page. Callers who also name
the account that paid get the public receipt. It contains only what the chain shows anyway: anyone
can follow the transaction to that account. No public answer contains data of the merchant alone.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Protocol

from grpc_rest_gateway.plain import PlainHandler, PlainRequest, PlainResponse

from florin_server.api.payments.codec import PaymentCodec
from florin_server.base.context import EventContext
from florin_server.db.context import StorageContext
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.money import format_minor_units
from florin_server.domain.payments.payment import Merchant, Payment, PaymentStatus
from florin_server.domain.receipts.keys import CACHE_S
from florin_server.domain.receipts.receipt import Receipt, ReceiptRefund
from florin_server.domain.receipts.signature import MEDIA_TYPE
from florin_server.features.receipts.service import keys
from florin_server.features.receipts.service.receipt import (
    SignedReceipt,
    get_page_path,
    is_payer,
    sign_receipt,
)
from florin_server.limits.context import LimitContext
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.payments.service.checkout import find_checkout
from florin_server.operations.context import WorkerContext
from florin_server.rails.context import ChainContext
from florin_server.settings.context import SettingsContext
from florin_server.web.error_pages import render_rate_limit_page, render_unknown_payment_page
from florin_server.web.handlers import NOSNIFF, Routes, build_read_routes
from florin_server.web.language import negotiate_language
from florin_server.web.receipts import page
from florin_server.web.refusal import check_page_rate, to_refused_error


class _Context(
    ArchiveContext,
    ChainContext,
    EventContext,
    LimitContext,
    SettingsContext,
    StorageContext,
    WorkerContext,
    Protocol,
):
    """The parts of the application that this module uses."""


_JWKS = "/.well-known/jwks.json"
_ACCOUNT = "account"
# programs in browsers verify receipts too
CORS_PATHS = (_JWKS,)


def build_routes(app: _Context) -> Routes:
    """Return the handlers by method and path."""
    page_path = get_page_path("{payment_id}")
    return build_read_routes(
        {
            page_path: _make_page_handler(app, PaymentCodec(app)),
            f"{page_path}.jws": _make_file_handler(app),
            _JWKS: _make_keys_handler(app),
        }
    )


def _make_page_handler(app: _Context, codec: PaymentCodec) -> PlainHandler:
    async def show(request: PlainRequest) -> PlainResponse:
        language = negotiate_language(request)
        if wait_s := app.limits.count_page(request.peer):
            return render_rate_limit_page(request, wait_s)
        checkout = await find_checkout(app, request.variables["payment_id"])
        if checkout is None:
            return render_unknown_payment_page(request)
        payment, merchant = checkout
        if payment.status is not PaymentStatus.SUCCEEDED:
            return page.render_not_succeeded(app.links.get_url(payment.id), language)
        account = _get_account(request)
        summary = _build_summary(payment, merchant, codec)
        if not account or not is_payer(payment, account):
            return page.render_account_form(summary, account, language)
        try:
            signed_receipt = await sign_receipt(app, payment, is_public=True)
            return page.render_receipt(summary, _build_details(app, signed_receipt), language)
        except ApiError:
            return page.render_account_form(summary, account, language, problem=True)

    return show


def _make_file_handler(app: _Context) -> PlainHandler:
    async def tell(request: PlainRequest) -> PlainResponse:
        check_page_rate(app, request)
        checkout = await find_checkout(app, request.variables["payment_id"])
        # one answer for both, so that callers do not learn which of payment and account is wrong
        if checkout is None or not is_payer(checkout[0], _get_account(request)):
            raise to_refused_error(ApiError(ErrorCode.PAYMENT_NOT_FOUND))
        try:
            done = await sign_receipt(app, checkout[0], is_public=True)
        except ApiError as refused:
            raise to_refused_error(refused) from refused
        name = f'attachment; filename="{done.receipt.sub}.jws"'.encode()
        headers = ((b"content-disposition", name), NOSNIFF)
        return PlainResponse(200, done.jws.encode(), MEDIA_TYPE, headers)

    return tell


def _make_keys_handler(app: _Context) -> PlainHandler:
    cache_control = b"public, max-age=%d" % CACHE_S

    async def tell(request: PlainRequest) -> PlainResponse:
        check_page_rate(app, request)
        response = PlainResponse.from_json(await keys.get_published_keys(app))
        return PlainResponse(
            200, response.body, "application/jwk-set+json", cache_control=cache_control
        )

    return tell


def _get_account(request: PlainRequest) -> str:
    return request.get_parameter(_ACCOUNT).strip()


def _build_summary(
    payment: Payment, merchant: Merchant, codec: PaymentCodec
) -> page.ReceiptSummary:
    amount = codec.to_amount(payment.unit, payment.value)
    return page.ReceiptSummary(
        merchant=merchant.name,
        value=Decimal(format_minor_units(payment.value, amount.display.decimals)),
        symbol=amount.display.asset_symbol,
        payment_id=payment.id,
        at_s=payment.updated_at_us // 1_000_000,
        live=payment.live,
        path=get_page_path(payment.id),
    )


def _get_network_name(app: _Context, chain_id: str) -> str:
    """Return the name of a chain (CAIP-2) as buyers know it, with its id."""
    rail = app.rails.get(chain_id)
    names = [asset.network_name for asset in rail.assets.values()] if rail else []
    return f"{names[0]} ({chain_id})" if names else chain_id


def _build_details(app: _Context, signed_receipt: SignedReceipt) -> page.ReceiptDetails:
    receipt, place = signed_receipt.receipt, signed_receipt.receipt.transaction
    rows: list[tuple[str, page.RowValue | None]] = [
        ("paid", _get_paid_amount(receipt)),
        ("payer", receipt.payer),
        ("recipient", receipt.recipient),
        ("network", _get_network_name(app, place.chain)),
        ("transaction", place.hash),
        ("block", str(place.block)),
        *(("refund", _build_refund_line(receipt, refund)) for refund in receipt.all_refunds),
        ("issuer", receipt.iss),
        ("issued", receipt.iat),
        ("key", signed_receipt.key_id),
    ]
    return page.ReceiptDetails([(name, value) for name, value in rows if value], receipt.payer)


def _build_refund_line(receipt: Receipt, refund: ReceiptRefund) -> page.RefundLine:
    value, symbol = Decimal(refund.value), refund.asset
    if receipt.paid.symbol and refund.asset == receipt.paid.asset:
        value = Decimal(format_minor_units(int(refund.value), receipt.paid.decimals))
        symbol = receipt.paid.symbol
    return page.RefundLine(value, symbol, refund.status, refund.completed_at, refund.transaction)


def _get_paid_amount(receipt: Receipt) -> tuple[Decimal, str]:
    """Return the paid amount; in minor units for an asset without a known symbol."""
    decimals = receipt.paid.decimals if receipt.paid.symbol else 0
    value = format_minor_units(int(receipt.paid.value), decimals or 0)
    return Decimal(value), receipt.paid.symbol or receipt.paid.asset
