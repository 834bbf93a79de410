"""The form that creates a payment."""

from __future__ import annotations

from collections.abc import Mapping

from florin.v1 import merchant_pb2, money_pb2
from grpc_rest_gateway.errors import RefusedError
from grpc_rest_gateway.plain import PlainResponse

from florin_server.domain.errors import ApiError
from florin_server.domain.money import CURRENCIES
from florin_server.domain.urls import UrlError, to_ascii_url
from florin_server.money.payments.service.conversion import list_accepted_currencies
from florin_server.web.console.fields import parse_minor_units
from florin_server.web.console.merchant import payment, payments
from florin_server.web.console.refusals import ConsoleError, describe_refusal
from florin_server.web.console.shell import parse_merchant
from florin_server.web.console.site import ConsoleRequest
from florin_server.web.refusal import to_refused_error

PATH = "/console/payments/new"
_FIELDS = (
    *("merchant", "amount", "unit", "reference", "description", "minutes"),
    *("success_url", "error_url"),
)
_MINUTES_DIGITS = 6


async def show(console_request: ConsoleRequest) -> PlainResponse:
    """Show the form."""
    values = dict.fromkeys(_FIELDS, "")
    values["merchant"] = parse_merchant(console_request.query)
    return await _render_form(console_request, values)


async def create(console_request: ConsoleRequest) -> PlainResponse:
    """Create the payment; show the form again with its errors if it is refused."""
    values = {name: console_request.form.text(name) for name in _FIELDS}
    merchant, key = values["merchant"], console_request.form.text("form")
    try:
        request = _build_request(console_request, values)
        created = await console_request.call(
            "MerchantService.CreatePayment", request, merchant=merchant, key=key
        )
    except ApiError as refused:
        return await _render_form(console_request, values, to_refused_error(refused))
    except RefusedError as refused:
        if refused.status in {401, 403}:
            raise
        return await _render_form(console_request, values, refused)
    return console_request.redirect_to(payment.build_path(merchant, created.payment_id))


async def _render_form(
    console_request: ConsoleRequest, values: Mapping[str, str], error: RefusedError | None = None
) -> PlainResponse:
    return console_request.render_page(
        "merchant/create",
        console_request.texts.plain("nav.new_payment"),
        200 if error is None else error.status,
        values=values,
        problem="" if error is None else describe_refusal(error, console_request.texts),
        merchants=await payments.list_merchants(console_request),
        units=_list_units(console_request),
    )


def _list_units(console_request: ConsoleRequest) -> dict[str, str]:
    """Return the currencies and tokens that an amount can have, by unit."""
    app = console_request.console.app
    accepted = list_accepted_currencies(app, live=console_request.session.live)
    currencies = {f"iso4217/{code}": code for code in accepted}
    tokens = {
        f"caip19/{asset.id}": console_request.formatter.token_name(asset.symbol, asset.network_name)
        for _, asset in app.list_assets(live=console_request.session.live).values()
    }
    return {**currencies, **tokens}


def _build_request(
    console_request: ConsoleRequest, values: Mapping[str, str]
) -> merchant_pb2.CreatePaymentRequest:
    unit = values["unit"]
    if unit not in _list_units(console_request):
        raise ConsoleError(400, "fault.unknown_choice", field="unit")
    kind, _, name = unit.partition("/")
    for field in ("success_url", "error_url"):
        if values["success_url"] or values["error_url"]:
            try:
                to_ascii_url(values[field])
            except UrlError as error:
                raise ConsoleError(400, f"fault.url.{field}", problem=error) from error
    asset = console_request.console.app.find_asset(name)
    decimals = CURRENCIES[name].decimals if kind == "iso4217" else asset.decimals if asset else 0
    return merchant_pb2.CreatePaymentRequest(
        amount=money_pb2.AmountValue(
            unit=unit, value=parse_minor_units(values["amount"], decimals)
        ),
        reference_id=values["reference"] or None,
        description=values["description"] or None,
        expires_at=_parse_expiry(console_request, values["minutes"]),
        checkout=merchant_pb2.CheckoutUrls(
            success_url=values["success_url"], error_url=values["error_url"]
        )
        if values["success_url"] or values["error_url"]
        else None,
    )


def _parse_expiry(console_request: ConsoleRequest, minutes: str) -> int | None:
    if not minutes:
        return None
    if not (minutes.isascii() and minutes.isdecimal() and len(minutes) <= _MINUTES_DIGITS):
        raise ConsoleError(400, "fault.minutes")
    return console_request.console.app.clock.now_us() // 1_000_000 + 60 * int(minutes)
