"""A new payment, and the link that its buyer gets."""

from __future__ import annotations

from collections.abc import Mapping

from florin.v1 import merchant_pb2, money_pb2
from florin_gateway.errors import RefusedError
from florin_gateway.plain import PlainAnswer

from florin_server.domain.errors import FlorinError, invalid
from florin_server.domain.money import CURRENCIES
from florin_server.domain.urls import UrlError, to_ascii_url
from florin_server.flows.payments.worth import accepted_currencies
from florin_server.web.console.fields import minor
from florin_server.web.console.merchant import payment, payments
from florin_server.web.console.site import Visit, told_of
from florin_server.web.refusal import refusal

PATH = "/console/payments/new"
_FIELDS = ("merchant", "amount", "unit", "reference", "minutes", "success_url", "error_url")
_MINUTES_DIGITS = 6


async def show(visit: Visit) -> PlainAnswer:
    """The form."""
    return await _form(visit, dict.fromkeys(_FIELDS, ""))


async def create(visit: Visit) -> PlainAnswer:
    """Makes the payment; the form comes again with what is wrong in it."""
    given = {name: visit.form.text(name) for name in _FIELDS}
    merchant, key = given["merchant"], visit.form.text("form")
    try:
        request = _request(visit, given)
        made = await visit.ask("MerchantService.CreatePayment", request, merchant=merchant, key=key)
    except FlorinError as refused:
        return await _form(visit, given, refusal(refused))
    except RefusedError as refused:
        if refused.status in {401, 403}:
            raise
        return await _form(visit, given, refused)
    return visit.see(payment.path_of(merchant, made.payment_id))


async def _form(
    visit: Visit, given: Mapping[str, str], refused: RefusedError | None = None
) -> PlainAnswer:
    return visit.page(
        "merchant/create",
        "New payment",
        200 if refused is None else refused.status,
        given=given,
        problem="" if refused is None else told_of(refused),
        merchants=await payments.merchants(visit),
        units=_units(visit),
    )


def _units(visit: Visit) -> dict[str, str]:
    """What an amount can be of, by its unit."""
    app = visit.site.app
    accepted = accepted_currencies(app, live=visit.session.live)
    currencies = {f"iso4217/{code}": code for code in accepted}
    tokens = {
        f"caip19/{asset.id}": f"{asset.symbol} on {asset.network_name}"
        for _, asset in app.assets(live=visit.session.live).values()
    }
    return {**currencies, **tokens}


def _request(visit: Visit, given: Mapping[str, str]) -> merchant_pb2.CreatePaymentRequest:
    unit = given["unit"]
    if unit not in _units(visit):
        raise invalid("unit", "is unknown")
    kind, _, name = unit.partition("/")
    for field in ("success_url", "error_url"):
        if given["success_url"] or given["error_url"]:
            try:
                to_ascii_url(given[field])
            except UrlError as error:
                raise invalid(field, str(error)) from error
    asset = visit.site.app.asset(name)
    decimals = CURRENCIES[name].decimals if kind == "iso4217" else asset.decimals if asset else 0
    return merchant_pb2.CreatePaymentRequest(
        amount=money_pb2.AmountValue(unit=unit, value=minor(given["amount"], decimals, "amount")),
        reference_id=given["reference"] or None,
        expires_at=_expiry(visit, given["minutes"]),
        checkout=merchant_pb2.CheckoutUrls(
            success_url=given["success_url"], error_url=given["error_url"]
        )
        if given["success_url"] or given["error_url"]
        else None,
    )


def _expiry(visit: Visit, minutes: str) -> int | None:
    if not minutes:
        return None
    if not (minutes.isascii() and minutes.isdecimal() and len(minutes) <= _MINUTES_DIGITS):
        raise invalid("minutes", "is no whole number")
    return visit.site.app.clock.now_us() // 1_000_000 + 60 * int(minutes)
