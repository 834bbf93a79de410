"""Payouts: list, create, refuse and resolve them."""

from __future__ import annotations

from florin.v1 import payout_pb2
from grpc_rest_gateway.plain import PlainResponse

from florin_server.domain.errors import validation_error
from florin_server.web.console.fields import parse_choice, parse_minor_units
from florin_server.web.console.site import ConsoleRequest

PATH = "/console/payouts"
_OUTCOMES = {
    "paid": payout_pb2.PAYOUT_OUTCOME_PAID,
    "not_paid": payout_pb2.PAYOUT_OUTCOME_NOT_PAID,
}


async def show(console_request: ConsoleRequest) -> PlainResponse:
    """List the open payouts; on request, all of them."""
    everything = console_request.query.get("all") == "1"
    request = payout_pb2.ListPayoutsRequest(all=everything)
    result = await console_request.call("OperatorService.ListPayouts", request)
    assets = [
        asset
        for live in (True, False)
        for _, asset in console_request.console.app.list_assets(live=live).values()
    ]
    return console_request.render_page(
        "operator/payouts",
        "Payouts",
        payouts=result.payouts,
        everything=everything,
        assets={asset.id: f"{asset.symbol} on {asset.network_name}" for asset in assets},
    )


async def create(console_request: ConsoleRequest) -> PlainResponse:
    """Create a payout of all or part of the amount that a merchant is owed."""
    form = console_request.form
    asset = console_request.console.app.find_asset(form.text("asset"))
    if asset is None:
        raise validation_error("asset", "is unknown")
    amount = form.text("amount")
    request = payout_pb2.CreatePayoutRequest(
        merchant_id=form.text("merchant"),
        asset=asset.id,
        amount=parse_minor_units(amount, asset.decimals, "amount") if amount else "",
    )
    await console_request.call("OperatorService.CreatePayout", request)
    return console_request.redirect_to(PATH)


async def refuse(console_request: ConsoleRequest) -> PlainResponse:
    """Refuse a payout that was not sent."""
    request = payout_pb2.RefusePayoutRequest(payout_id=console_request.form.text("payout"))
    await console_request.call("OperatorService.RefusePayout", request)
    return console_request.redirect_to(PATH)


async def resolve(console_request: ConsoleRequest) -> PlainResponse:
    """Set the outcome of a payout that its transaction does not prove."""
    request = payout_pb2.ResolvePayoutRequest(
        payout_id=console_request.form.text("payout"),
        outcome=parse_choice(console_request.form.text("outcome"), _OUTCOMES, "outcome"),
    )
    await console_request.call("OperatorService.ResolvePayout", request)
    return console_request.redirect_to(PATH)
