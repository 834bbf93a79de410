"""What the pay host answers about receipts: the buyer's page, the receipt itself, and the keys.

Whoever has the payment's link sees no more on the page than on the checkout page. Who also names
the account that paid gets the public receipt, which says what the chain shows anyway: a stranger
can follow the transaction to that account. What only the merchant knows is in no public answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal

from florin_gateway.plain import PlainAnswer, PlainHandler, PlainRequest

from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.money import spelled
from florin_server.domain.payments.payment import Merchant, Payment, Status
from florin_server.domain.receipts.keys import KEPT_S
from florin_server.domain.receipts.receipt import Receipt, Refunded
from florin_server.domain.receipts.signature import MEDIA_TYPE
from florin_server.flows.app import App
from florin_server.flows.payments.checkout import checkout
from florin_server.flows.receipts import keys
from florin_server.flows.receipts.receipt import Signed, is_payer, page_path, signed
from florin_server.rpc.payments.codec import Codec
from florin_server.web.language import spoken
from florin_server.web.notice import no_payment, too_many
from florin_server.web.receipts import page
from florin_server.web.refusal import refusal

_READ = ("GET", "HEAD")
_JWKS = "/.well-known/jwks.json"
_ACCOUNT = "account"
# programs in browsers check receipts too
CORS_PATHS = (_JWKS,)


def routes(app: App) -> Mapping[tuple[str, str], PlainHandler]:
    """The handlers by method and path."""
    whole = page_path("{payment_id}")
    read = {whole: _page(app, Codec(app)), f"{whole}.jws": _file(app), _JWKS: _keys(app)}
    return {(method, path): read[path] for method in _READ for path in read}


def _page(app: App, answers: Codec) -> PlainHandler:
    async def show(request: PlainRequest) -> PlainAnswer:
        language = spoken(request)
        if wait_s := app.limits.page(request.peer):
            return too_many(request, wait_s)
        found = await checkout(app, request.variables["payment_id"])
        if found is None:
            return no_payment(request)
        payment, merchant = found
        if payment.status is not Status.SUCCEEDED:
            return page.none_yet(app.links.of(payment.id), language)
        account = _account(request)
        told = _summary(payment, merchant, answers)
        if not account or not is_payer(payment, account):
            return page.short(told, account, language)
        try:
            return page.whole(told, _details(await signed(app, payment, public=True)), language)
        except FlorinError:
            return page.short(told, account, language, problem=True)

    return show


def _file(app: App) -> PlainHandler:
    async def tell(request: PlainRequest) -> PlainAnswer:
        if wait_s := app.limits.page(request.peer):
            raise refusal(FlorinError(Code.RATE_LIMITED, retry_after_s=wait_s))
        found = await checkout(app, request.variables["payment_id"])
        # a stranger learns nothing by what it is told: it may be no payment, or not the payer's
        if found is None or not is_payer(found[0], _account(request)):
            raise refusal(FlorinError(Code.PAYMENT_NOT_FOUND))
        try:
            done = await signed(app, found[0], public=True)
        except FlorinError as refused:
            raise refusal(refused) from refused
        name = f'attachment; filename="{done.receipt.sub}.jws"'.encode()
        headers = ((b"content-disposition", name), (b"x-content-type-options", b"nosniff"))
        return PlainAnswer(200, done.jws.encode(), MEDIA_TYPE, headers)

    return tell


def _keys(app: App) -> PlainHandler:
    kept = b"public, max-age=%d" % KEPT_S

    async def tell(request: PlainRequest) -> PlainAnswer:
        if wait_s := app.limits.page(request.peer):
            raise refusal(FlorinError(Code.RATE_LIMITED, retry_after_s=wait_s))
        told = PlainAnswer.json(await keys.published(app))
        return PlainAnswer(200, told.body, "application/jwk-set+json", cache_control=kept)

    return tell


def _account(request: PlainRequest) -> str:
    return next((value for name, value in request.query if name == _ACCOUNT), "").strip()


def _summary(payment: Payment, merchant: Merchant, answers: Codec) -> page.Summary:
    amount = answers.amount(payment.unit, payment.value)
    return page.Summary(
        merchant=merchant.name,
        value=Decimal(spelled(payment.value, amount.display.decimals)),
        symbol=amount.display.asset_symbol,
        payment_id=payment.id,
        at_s=payment.updated_at_us // 1_000_000,
        live=payment.live,
        path=page_path(payment.id),
    )


def _details(done: Signed) -> page.Details:
    said, place = done.receipt, done.receipt.transaction
    rows: list[tuple[str, str | int | tuple[Decimal, str] | None]] = [
        ("paid", _money(said)),
        ("payer", said.payer),
        ("recipient", said.recipient),
        ("network", place.chain),
        ("transaction", place.hash),
        ("block", str(place.block)),
        *(("refund", _describe_refund(said, refund)) for refund in said.all_refunds),
        ("issuer", said.iss),
        ("issued", said.iat),
        ("key", done.key_id),
    ]
    return page.Details([(name, value) for name, value in rows if value], said.payer)


def _describe_refund(said: Receipt, refund: Refunded) -> str:
    """Return amount, status, date and transaction of a refund."""
    amount = f"{refund.value} {refund.asset}"
    if said.paid.symbol and refund.asset == said.paid.asset:
        amount = f"{spelled(int(refund.value), said.paid.decimals)} {said.paid.symbol}"
    at = refund.completed_at
    date = None if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"
    return ", ".join(filter(None, (amount, refund.status, date, refund.transaction)))


def _money(said: Receipt) -> tuple[Decimal, str]:
    """What was paid; of an asset that nobody has named, its smallest units."""
    decimals = said.paid.decimals if said.paid.symbol else 0
    value = spelled(int(said.paid.value), decimals or 0)
    return Decimal(value), said.paid.symbol or said.paid.asset
