"""Shows a payment's page as the payment stands, and drives test payments from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final
from urllib.parse import parse_qsl, urlencode

from florin.v1 import money_pb2
from florin_gateway.errors import RefusedError
from florin_gateway.plain import PlainAnswer, PlainRequest

from florin_server.domain.accounts.credentials import CHECKOUT_APPS
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.payments.links import QUERY_ID, query_id
from florin_server.domain.payments.payment import Merchant, Payment, Refund
from florin_server.domain.payouts.refund_amounts import describe_progress, sum_refunds
from florin_server.flows.accounts.wallets import checkout_app
from florin_server.flows.app import App
from florin_server.flows.payments import panel
from florin_server.flows.payments.checkout import (
    back_to_shop,
    checkout,
    find_coin,
    may_receive_money,
    named,
    progress,
    transaction,
)
from florin_server.flows.payouts.refund import list_refunds
from florin_server.rpc.payments.codec import Codec
from florin_server.web import theme
from florin_server.web.language import LANGUAGES, PARAMETER, spoken
from florin_server.web.notice import no_payment, too_many
from florin_server.web.origin import is_own_form
from florin_server.web.payments import page
from florin_server.web.payments.page import Chain, Checkout, CheckoutRefund, Paid
from florin_server.web.refusal import refusal

_FORM: Final = b"application/x-www-form-urlencoded"


class Pages:
    """Answers for the addresses of payments."""

    def __init__(self, app: App, answers: Codec) -> None:
        self._app = app
        self._answers = answers
        # modes whose pages have their app id by now
        self._registered: set[bool] = set()
        self._wallets = [(one.name, one.url) for one in app.settings.checkout.wallets]

    async def show(self, request: PlainRequest) -> PlainAnswer:
        """The page of the payment that the address names."""
        return await self._show(request, _link(request))

    async def drive(self, request: PlainRequest) -> PlainAnswer:
        """Does with a test payment what its page was told; leads back to the page.

        A page of another site cannot have a browser do it. What is refused is told on the page.
        """
        self._require_own(request)
        link = request.variables["payment_id"]
        if wait_s := self._app.limits.page(request.peer):
            return too_many(request, wait_s)
        payment = await named(self._app, link)
        if payment is None:
            return no_payment(request)
        # who has no panel finds nothing here
        if panel.panel(self._app, payment) is None:
            raise refusal(FlorinError(Code.PAYMENT_NOT_FOUND))
        try:
            await self._obey(payment, dict(_fields(request.body)), request.peer)
        except FlorinError as refused:
            busy = refused.code is Code.RATE_LIMITED
            text = "panel.refused.busy" if busy else "panel.refused"
            return await self._show(request, link, text)
        headers = [(b"location", f"/{payment.id}{_looks(request)}".encode())]
        return PlainAnswer(303, b"", "text/html; charset=utf-8", headers)

    def _require_own(self, request: PlainRequest) -> None:
        """Refuse whatever no page of this site sent; programs have `simulate` and need a key."""
        kind = dict(request.headers).get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != _FORM or not is_own_form(request, self._app.links.hosts):
            raise RefusedError(403, Code.FORBIDDEN, "Only a form of this page does that")

    async def _obey(self, payment: Payment, told: Mapping[str, str], peer: str) -> None:
        if "pay" in told:
            await panel.pay(self._app, payment, told["pay"], peer)
        elif "outcome" in told:
            await panel.decide(self._app, payment, told["outcome"])
        elif (seconds := told.get("seconds", "")).isascii() and seconds.isdecimal():
            await panel.advance(self._app, payment, int(seconds[:9]))
        else:
            raise FlorinError(Code.INVALID_PARAMS, "Nothing was asked for")

    async def _show(self, request: PlainRequest, link: str, refused: str = "") -> PlainAnswer:
        language = spoken(request)
        if wait_s := self._app.limits.page(request.peer):
            return too_many(request, wait_s)
        found = await checkout(self._app, link)
        if found is None:
            return no_payment(request)
        told = await self._told(*found, refused)
        return page.page(told, language, theme.asked(request.query), _looks(request))

    async def _told(self, payment: Payment, merchant: Merchant, refused: str) -> Checkout:
        app = self._app
        if payment.live not in self._registered and not payment.status.is_final:
            await checkout_app(app, live=payment.live)
            self._registered.add(payment.live)
        refunds = await list_refunds(app, payment)
        amount = self._answers.amount(payment.unit, payment.value)
        status = self._answers.status(payment)
        said = app.settings.checkout
        return Checkout(
            id=payment.id,
            merchant=merchant.name,
            value=_whole(amount),
            symbol=amount.display.asset_symbol,
            status=payment.status,
            link=app.links.of(payment.id),
            live=payment.live,
            expires_at=payment.expires_at,
            now_ms=app.clock.now_us() // 1000,
            updated_at=payment.updated_at_us // 1_000_000,
            app_id=CHECKOUT_APPS[payment.live],
            poll_ms=status.poll_in_ms,
            back=back_to_shop(payment),
            waits=await may_receive_money(app, payment),
            logo=await app.icons.address(merchant.icon_url, merchant.partner_id),
            accent=said.accents.get(merchant.id, said.accent),
            wallets=self._wallets,
            chains=() if payment.status.is_final else self._chains(payment),
            progress=progress(app, payment),
            paid=_paid(status.info.option_amount)
            if status.info.HasField("option_amount")
            else None,
            transaction=transaction(app, payment),
            refund=self._describe_refund(payment, refunds),
            panel=panel.panel(app, payment),
            refused=refused,
        )

    def _describe_refund(
        self, payment: Payment, refunds: Sequence[Refund]
    ) -> CheckoutRefund | None:
        """Return how much of a payment goes back or went back; None if nothing does."""
        refund_progress = describe_progress(payment, refunds)
        if refund_progress is None:
            return None
        totals = sum_refunds(payment, refunds)
        value = self._answers.amount(totals.unit, totals.refunded)
        paid = self._answers.amount(totals.unit, totals.refunded + totals.refundable)
        return CheckoutRefund(
            refund_progress, _whole(value), _whole(paid), value.display.asset_symbol
        )

    def _chains(self, payment: Payment) -> Sequence[Chain]:
        """Return the chains that can be paid on, with what wallets need to add them."""
        said = self._app.settings.checkout
        chains = []
        for rail in self._app.rails.values():
            if rail.live is not payment.live or not rail.assets:
                continue
            symbol, name = find_coin(rail) or ("", "")
            explorer = said.explorers.get(rail.chain_id, "")
            chains.append(
                Chain(
                    rail.chain_id,
                    next(iter(rail.assets.values())).network_name,
                    symbol,
                    name,
                    said.nodes.get(rail.chain_id, ""),
                    explorer.partition("/tx/")[0] if "/tx/" in explorer else "",
                )
            )
        return chains


def _link(request: PlainRequest) -> str:
    """What names the payment; RefusedError where nothing is meant to."""
    if "payment_id" in request.variables:
        return request.variables["payment_id"]
    if all(name != QUERY_ID for name, _ in request.query):
        raise RefusedError(404, Code.INVALID_PARAMS, "Path not found")
    return query_id(request.query)


def _looks(request: PlainRequest) -> str:
    """The part of an address that tells how its page is shown."""
    language = next((value for name, value in request.query if name == PARAMETER), "")
    asked = {PARAMETER: language if language in LANGUAGES else ""}
    asked[theme.PARAMETER] = theme.asked(request.query)
    given = urlencode({name: value for name, value in asked.items() if value})
    return f"?{given}" if given else ""


def _whole(amount: money_pb2.Amount) -> Decimal:
    return Decimal(amount.value).scaleb(-amount.display.decimals)


def _paid(amount: money_pb2.Amount) -> Paid:
    display = amount.display
    return Paid(_whole(amount), display.asset_symbol, display.network_name or amount.unit)


def _fields(body: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(body.decode("ascii"), max_num_fields=4)
    except ValueError:
        return []
