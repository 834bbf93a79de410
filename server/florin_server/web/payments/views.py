"""The checkout page of a payment, and the test panel on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Protocol
from urllib.parse import parse_qsl, urlencode

from florin.v1 import money_pb2
from grpc_rest_gateway.errors import RefusedError
from grpc_rest_gateway.plain import PlainRequest, PlainResponse

from florin_server.accounts.service.wallets import get_checkout_app
from florin_server.api.payments.codec import PaymentCodec
from florin_server.base.context import EventContext, MeterContext
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.db.context import StorageContext
from florin_server.domain.accounts.credentials import CHECKOUT_APP_IDS
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.links import PAYMENT_ID_PARAMETER, find_query_id
from florin_server.domain.payments.payment import Merchant, Payment, Refund, RefundStatus
from florin_server.domain.payouts.refund_amounts import describe_progress, sum_refunds
from florin_server.features.icons.context import IconContext
from florin_server.limits.context import LimitContext
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.context import UsageContext
from florin_server.money.payments.service import panel
from florin_server.money.payments.service.checkout import (
    find_checkout,
    find_coin,
    find_payment,
    find_processing_s,
    find_progress,
    find_refund_transaction,
    find_return_url,
    find_transaction,
    may_receive_money,
)
from florin_server.money.payments.service.transaction_request import is_offered
from florin_server.money.payments.service.ways import PaymentWay, list_ways
from florin_server.money.refunds.service import list_refunds
from florin_server.operations.context import WorkerContext
from florin_server.rails.context import ChainContext
from florin_server.settings.context import SettingsContext
from florin_server.web import theme
from florin_server.web.error_pages import render_rate_limit_page, render_unknown_payment_page
from florin_server.web.forms import FORM_TYPE, get_media_type, is_same_site_form
from florin_server.web.language import LANGUAGES, PARAMETER, negotiate_language
from florin_server.web.payments import claim_box, page, send, transfer_box
from florin_server.web.payments.page import (
    CheckoutChain,
    CheckoutData,
    CheckoutLine,
    CheckoutOffer,
    CheckoutRefund,
    PaidAmount,
    RefundEntry,
)
from florin_server.web.payments.return_options import (
    ReturnOptions,
    find_payment_return_link,
    parse_return_options,
)
from florin_server.web.refusal import to_refused_error


class _Context(
    ArchiveContext,
    ChainContext,
    EventContext,
    IconContext,
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


class CheckoutPages:
    """Handles the requests of checkout pages."""

    def __init__(self, app: _Context, codec: PaymentCodec) -> None:
        self._app = app
        self._codec = codec
        # modes (live or test) whose app id is registered
        self._registered_modes: set[bool] = set()
        self._wallets = [
            (wallet_link.name, wallet_link.url) for wallet_link in app.settings.checkout.wallets
        ]
        self._downloads = tuple(app.settings.checkout.downloads.items())

    async def show(self, request: PlainRequest) -> PlainResponse:
        """Show the page of the payment in the address."""
        return await self._render(request, _get_link(request))

    async def run_test_action(self, request: PlainRequest) -> PlainResponse:
        """Apply an action of the test panel to a test payment; redirect to its page.

        Forms of other sites are refused. The page shows an error of the action.
        """
        self._require_own_form(request)
        link = request.variables["payment_id"]
        if wait_s := self._app.limits.count_page(request.peer):
            return render_rate_limit_page(request, wait_s)
        payment = await find_payment(self._app, link)
        if payment is None:
            return render_unknown_payment_page(request)
        # without a panel the address does not exist
        if panel.find_panel(self._app, payment) is None:
            raise to_refused_error(ApiError(ErrorCode.PAYMENT_NOT_FOUND))
        try:
            await self._apply_test_action(payment, dict(_parse_fields(request.body)), request.peer)
        except ApiError as error:
            is_busy = error.code is ErrorCode.RATE_LIMITED
            text = "panel.refused.busy" if is_busy else "panel.refused"
            return await self._render(request, link, text)
        query = _build_appearance_query(request, parse_return_options(request.query))
        headers = [(b"location", f"/{payment.id}{query}".encode())]
        return PlainResponse(303, b"", "text/html; charset=utf-8", headers)

    async def open_address(self, request: PlainRequest) -> PlainResponse:
        """Open an address of the payment for the asset in the form; redirect to its page.

        Forms of other sites are refused. The page shows why there is no address.
        """
        self._require_own_form(request)
        link = request.variables["payment_id"]
        if wait_s := self._app.limits.count_page(request.peer):
            return render_rate_limit_page(request, wait_s)
        payment = await find_payment(self._app, link)
        if payment is None:
            return render_unknown_payment_page(request)
        asset = dict(_parse_fields(request.body)).get("asset", "")
        refusal_key = await send.open_address(self._app, payment, asset, request.peer)
        if refusal_key:
            return await self._render(request, link, send_refusal_key=refusal_key)
        return _redirect(request, payment.id, {send.ASSET_PARAMETER: asset}, "send")

    async def open_transfer(self, request: PlainRequest) -> PlainResponse:
        """Open the link of a transfer for the asset in the form; redirect to the payment's page.

        Forms of other sites are refused. The page shows why there is no link.
        """
        self._require_own_form(request)
        link = request.variables["payment_id"]
        if wait_s := self._app.limits.count_page(request.peer):
            return render_rate_limit_page(request, wait_s)
        checkout = await find_checkout(self._app, link)
        if checkout is None:
            return render_unknown_payment_page(request)
        asset = dict(_parse_fields(request.body)).get("asset", "")
        refusal_key = await transfer_box.open_transfer(self._app, *checkout, asset, request.peer)
        if refusal_key:
            return await self._render(request, link, transfer_refusal_key=refusal_key)
        return _redirect(
            request, checkout[0].id, {transfer_box.TRANSFER_PARAMETER: asset}, "solana"
        )

    async def claim_deposit(self, request: PlainRequest) -> PlainResponse:
        """Claim held money for the account in the form; redirect to the payment's page.

        Forms of other sites are refused. The page shows why a claim is refused.
        """
        self._require_own_form(request)
        link = request.variables["payment_id"]
        if wait_s := self._app.limits.count_page(request.peer):
            return render_rate_limit_page(request, wait_s)
        payment = await find_payment(self._app, link)
        if payment is None:
            return render_unknown_payment_page(request)
        fields = dict(_parse_fields(request.body))
        claim_id, form = await claim_box.post_claim(self._app, payment, fields, request.peer)
        if not claim_id:
            return await self._render(request, link, claim_form=form)
        return _redirect(request, payment.id, {claim_box.CLAIM_PARAMETER: claim_id}, "claims")

    def _require_own_form(self, request: PlainRequest) -> None:
        """Refuse forms of other sites; programs call `simulate` with an API key."""
        is_form = get_media_type(request) == FORM_TYPE
        if not is_form or not is_same_site_form(request, self._app.links.hosts):
            raise RefusedError(403, ErrorCode.FORBIDDEN, "Only a form on this page can do this")

    async def _apply_test_action(
        self, payment: Payment, form: Mapping[str, str], peer: str
    ) -> None:
        if "pay" in form:
            await panel.pay(self._app, payment, form["pay"], peer)
        elif "outcome" in form:
            await panel.set_outcome(self._app, payment, form["outcome"])
        elif (seconds := form.get("seconds", "")).isascii() and seconds.isdecimal():
            await panel.advance_clock(self._app, payment, int(seconds[:9]))
        else:
            raise ApiError(ErrorCode.INVALID_PARAMS, "The form names no action")

    async def _render(
        self,
        request: PlainRequest,
        link: str,
        refusal_key: str = "",
        send_refusal_key: str = "",
        transfer_refusal_key: str = "",
        *,
        claim_form: claim_box.ClaimForm = claim_box.NO_FORM,
    ) -> PlainResponse:
        language = negotiate_language(request)
        if wait_s := self._app.limits.count_page(request.peer):
            return render_rate_limit_page(request, wait_s)
        return_options = parse_return_options(request.query)
        checkout = await find_checkout(self._app, link)
        if checkout is None:
            return render_unknown_payment_page(request)
        checkout_data = await self._build_checkout(*checkout, refusal_key, return_options)
        chosen = request.get_parameter(send.ASSET_PARAMETER)
        checkout_data = replace(
            checkout_data,
            send=await send.load(self._app, checkout[0], chosen, send_refusal_key),
            transfers=await transfer_box.load_transfers(
                self._app,
                *checkout,
                request.get_parameter(transfer_box.TRANSFER_PARAMETER),
                transfer_refusal_key,
            ),
            claims=await claim_box.load_claims(
                self._app,
                checkout[0],
                request.get_parameter(claim_box.CLAIM_PARAMETER),
                claim_form,
            ),
        )
        return page.render_checkout(
            checkout_data,
            language,
            theme.get_theme(request),
            _build_appearance_query(request, return_options),
            urlencode(return_options.to_parameters()),
        )

    async def _build_checkout(
        self,
        payment: Payment,
        merchant: Merchant,
        refusal_key: str,
        return_options: ReturnOptions,
    ) -> CheckoutData:
        app = self._app
        if payment.live not in self._registered_modes and not payment.status.is_final:
            await get_checkout_app(app, live=payment.live)
            self._registered_modes.add(payment.live)
        refunds = await list_refunds(app, payment)
        amount = self._codec.to_amount(payment.unit, payment.value)
        status = self._codec.to_status_response(payment)
        checkout_settings = app.settings.checkout
        return CheckoutData(
            id=payment.id,
            merchant=merchant.name,
            value=_to_whole_units(amount),
            symbol=amount.display.asset_symbol,
            status=payment.status,
            link=app.links.get_url(payment.id),
            live=payment.live,
            expires_at=payment.expires_at,
            now_ms=app.clock.now_us() // 1000,
            updated_at=payment.updated_at_us // 1_000_000,
            app_id=CHECKOUT_APP_IDS[payment.live],
            poll_ms=status.poll_in_ms,
            return_url=find_return_url(payment),
            may_receive_money=await may_receive_money(app, payment),
            logo_path=await app.icons.find_path(merchant.icon_url, merchant.partner_id),
            accent=merchant.accent
            or checkout_settings.accents.get(merchant.id, checkout_settings.accent),
            wallets=self._wallets,
            downloads=self._downloads,
            offers=[_to_offer(way) for way in list_ways(app, payment)],
            chains=() if payment.status.is_final else self._list_chains(payment),
            progress=find_progress(app, payment),
            usual_s=find_processing_s(app, payment),
            paid=_to_paid_amount(status.info.option_amount)
            if status.info.HasField("option_amount")
            else None,
            transaction=find_transaction(app, payment),
            refund=self._describe_refund(payment, refunds),
            panel=panel.find_panel(app, payment),
            refusal_key=refusal_key,
            description=payment.description,
            lines=_list_lines(payment, amount),
            support_email=merchant.support_email,
            support_url=merchant.support_url,
            return_link=find_payment_return_link(checkout_settings, payment, return_options.url),
            solana_pay_url=app.links.get_solana_pay_url(payment.id)
            if is_offered(app, payment)
            else "",
        )

    def _describe_refund(
        self, payment: Payment, refunds: Sequence[Refund]
    ) -> CheckoutRefund | None:
        """Return the refunds of a payment, pending ones included; None without refunds."""
        refund_progress = describe_progress(payment, refunds)
        if refund_progress is None:
            return None
        totals = sum_refunds(payment, refunds)
        value = self._codec.to_amount(totals.unit, totals.refunded)
        paid = self._codec.to_amount(totals.unit, totals.refunded + totals.refundable)
        return CheckoutRefund(
            refund_progress,
            _to_whole_units(value),
            _to_whole_units(paid),
            value.display.asset_symbol,
            [self._to_refund_entry(payment, refund) for refund in refunds if _is_shown(refund)],
        )

    def _to_refund_entry(self, payment: Payment, refund: Refund) -> RefundEntry:
        at_us = refund.completed_at_us or refund.created_at_us
        return RefundEntry(
            _to_whole_units(self._codec.to_amount(refund.unit, refund.value)),
            at_us // 1_000_000,
            find_refund_transaction(self._app, payment, refund),
        )

    def _list_chains(self, payment: Payment) -> Sequence[CheckoutChain]:
        """Return the chains that accept the payment, with what wallets need to add them."""
        checkout_settings = self._app.settings.checkout
        chains = []
        for rail in self._app.rails.values():
            if rail.live is not payment.live or not rail.assets:
                continue
            symbol, name = find_coin(rail) or ("", "")
            explorer = checkout_settings.explorers.get(rail.chain_id, "")
            chains.append(
                CheckoutChain(
                    rail.chain_id,
                    next(iter(rail.assets.values())).network_name,
                    symbol,
                    name,
                    checkout_settings.nodes.get(rail.chain_id, ""),
                    explorer.partition("/tx/")[0] if "/tx/" in explorer else "",
                )
            )
        return chains


def _to_offer(way: PaymentWay) -> CheckoutOffer:
    asset = way.asset
    return CheckoutOffer(
        f"caip19/{asset.id}",
        Decimal(way.value).scaleb(-asset.decimals),
        asset.symbol,
        asset.chain_id,
        asset.network_name,
        way.network_fee,
        way.eta_s,
    )


def _is_shown(refund: Refund) -> bool:
    return refund.status is not RefundStatus.FAILED


def _get_link(request: PlainRequest) -> str:
    """Return the link or id of the payment; RefusedError if the address has none."""
    if "payment_id" in request.variables:
        return request.variables["payment_id"]
    if all(name != PAYMENT_ID_PARAMETER for name, _ in request.query):
        raise RefusedError(404, ErrorCode.INVALID_PARAMS, "Path not found")
    return find_query_id(request.query)


def _redirect(
    request: PlainRequest, payment_id: str, chosen: Mapping[str, str], part: str
) -> PlainResponse:
    """Return the redirect to a part of a payment's page, with the asset that was chosen."""
    query = _build_appearance_query(request, parse_return_options(request.query))
    location = f"/{payment_id}{query}{'&' if query else '?'}{urlencode(chosen)}#{part}"
    return PlainResponse(303, b"", "text/html; charset=utf-8", [(b"location", location.encode())])


def _build_appearance_query(request: PlainRequest, return_options: ReturnOptions) -> str:
    """Return the query that keeps the language and the theme of a page, and its way back."""
    language = request.get_parameter(PARAMETER)
    parameters = {PARAMETER: language if language in LANGUAGES else ""}
    parameters[theme.PARAMETER] = theme.get_theme(request)
    parameters = {name: value for name, value in parameters.items() if value}
    query = urlencode(parameters | return_options.to_parameters())
    return f"?{query}" if query else ""


def _list_lines(payment: Payment, amount: money_pb2.Amount) -> Sequence[CheckoutLine]:
    decimals = amount.display.decimals
    return [
        CheckoutLine(line.name, line.quantity, Decimal(line.amount).scaleb(-decimals))
        for line in payment.lines
    ]


def _to_whole_units(amount: money_pb2.Amount) -> Decimal:
    return Decimal(amount.value).scaleb(-amount.display.decimals)


def _to_paid_amount(amount: money_pb2.Amount) -> PaidAmount:
    display = amount.display
    return PaidAmount(
        _to_whole_units(amount), display.asset_symbol, display.network_name or amount.unit
    )


def _parse_fields(body: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(body.decode("ascii"), max_num_fields=4)
    except ValueError:
        return []
