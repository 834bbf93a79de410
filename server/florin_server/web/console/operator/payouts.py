"""Payouts: list, create, refuse and resolve them."""

from __future__ import annotations

from florin.v1 import payout_pb2
from grpc_rest_gateway.plain import PlainResponse

from florin_server.domain.errors import validation_error
from florin_server.rails.types import Asset
from florin_server.web.console.confirmation import ActionConfirmation
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


async def confirm_create(console_request: ConsoleRequest) -> ActionConfirmation:
    """Ask before a payout is created: its amount, its recipient and what is owed."""
    form, formatter = console_request.form, console_request.console.formatter
    asset, amount = _parse_amount(console_request)
    request = payout_pb2.PreviewPayoutRequest(
        merchant_id=form.text("merchant"), asset=asset.id, amount=amount
    )
    preview = await console_request.call("OperatorService.PreviewPayout", request)
    sent = formatter.minor(asset.id, preview.amount)
    return ActionConfirmation(
        title=f"Pay out {sent}?",
        button=f"Pay out {sent}",
        back=PATH,
        facts=(
            ("Merchant", preview.merchant_name),
            ("To", preview.account),
            ("Network", asset.network_name),
            ("Owed", formatter.minor(asset.id, preview.owed)),
            ("Mode", "live" if preview.live else "test"),
            *((("It waits", preview.problem),) if preview.problem else ()),
        ),
        warning="The money leaves the treasury and cannot be recovered.",
    )


async def confirm_refuse(console_request: ConsoleRequest) -> ActionConfirmation:
    """Ask before a payout is cancelled."""
    return ActionConfirmation(
        title="Cancel this payout?",
        button="Cancel payout",
        back=PATH,
        facts=await _list_facts(console_request),
        warning="It is not sent. A cancelled refund fails, and the merchant can request another.",
    )


async def confirm_resolve(console_request: ConsoleRequest) -> ActionConfirmation:
    """Ask before the outcome of a payout is set by hand."""
    outcome = console_request.form.text("outcome")
    parse_choice(outcome, _OUTCOMES, "outcome")
    arrived = outcome == "paid"
    return ActionConfirmation(
        title="Did it arrive?" if arrived else "Did it not arrive?",
        button="It arrived" if arrived else "It did not arrive",
        back=PATH,
        facts=await _list_facts(console_request),
        warning="Look up the transaction in a block explorer first. After a wrong answer the money "
        "may be paid twice or not at all.",
    )


async def _list_facts(console_request: ConsoleRequest) -> tuple[tuple[str, str], ...]:
    payout_id, formatter = console_request.form.text("payout"), console_request.console.formatter
    listed = await console_request.call(
        "OperatorService.ListPayouts", payout_pb2.ListPayoutsRequest(all=True)
    )
    for payout in listed.payouts:
        if payout.payout_id == payout_id:
            return (
                ("Amount", formatter.minor(payout.asset, payout.amount)),
                ("To", payout.account),
                ("Merchant", payout.merchant_id),
                ("Payout", payout_id),
            )
    return (("Payout", payout_id),)


def _parse_amount(console_request: ConsoleRequest) -> tuple[Asset, str]:
    """Return the asset of the form and its amount in minor units, empty for all."""
    form = console_request.form
    asset = console_request.console.app.find_asset(form.text("asset"))
    if asset is None:
        raise validation_error("asset", "is unknown")
    amount = form.text("amount")
    return asset, parse_minor_units(amount, asset.decimals, "amount") if amount else ""


async def create(console_request: ConsoleRequest) -> PlainResponse:
    """Create a payout of all or part of the amount that a merchant is owed."""
    asset, amount = _parse_amount(console_request)
    request = payout_pb2.CreatePayoutRequest(
        merchant_id=console_request.form.text("merchant"), asset=asset.id, amount=amount
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
