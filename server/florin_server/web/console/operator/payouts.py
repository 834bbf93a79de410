"""Payouts: list, create, refuse and resolve them."""

from __future__ import annotations

from florin.v1 import payout_pb2
from grpc_rest_gateway.plain import PlainResponse

from florin_server.rails.types import Asset
from florin_server.web.console.confirmation import ActionConfirmation
from florin_server.web.console.fields import parse_choice, parse_minor_units
from florin_server.web.console.refusals import ConsoleError
from florin_server.web.console.site import ConsoleRequest

PATH = "/console/payouts"
OUTCOMES = {
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
        console_request.texts.plain("nav.payouts"),
        payouts=result.payouts,
        everything=everything,
        assets={
            asset.id: console_request.formatter.token_name(asset.symbol, asset.network_name)
            for asset in assets
        },
    )


async def confirm_create(console_request: ConsoleRequest) -> ActionConfirmation:
    """Ask before a payout is created: its amount, its recipient and what is owed."""
    form, formatter, texts = (
        console_request.form,
        console_request.formatter,
        console_request.texts,
    )
    asset, amount = _parse_amount(console_request)
    request = payout_pb2.PreviewPayoutRequest(
        merchant_id=form.text("merchant"), asset=asset.id, amount=amount
    )
    preview = await console_request.call("OperatorService.PreviewPayout", request)
    sent = formatter.minor(asset.id, preview.amount)
    return ActionConfirmation(
        title=texts.plain("payout.ask", amount=sent),
        button=texts.plain("payout.button", amount=sent),
        back=PATH,
        facts=(
            (texts.plain("merchant"), preview.merchant_name),
            (texts.plain("recipient"), preview.account),
            (texts.plain("network"), asset.network_name),
            (texts.plain("payout.owed"), formatter.minor(asset.id, preview.owed)),
            (
                texts.plain("mode"),
                texts.plain("state.mode.live" if preview.live else "state.mode.test"),
            ),
            *(((texts.plain("payout.waits"), preview.problem),) if preview.problem else ()),
        ),
        warning=texts.plain("money_leaves"),
    )


async def confirm_refuse(console_request: ConsoleRequest) -> ActionConfirmation:
    """Ask before a payout is cancelled."""
    return ActionConfirmation(
        title=console_request.texts.plain("payout.cancel.ask"),
        button=console_request.texts.plain("payout.cancel.button"),
        back=PATH,
        facts=await _list_facts(console_request),
        warning=console_request.texts.plain("payout.cancel.warning"),
    )


async def confirm_resolve(console_request: ConsoleRequest) -> ActionConfirmation:
    """Ask before the outcome of a payout is set by hand."""
    outcome = console_request.form.text("outcome")
    parse_choice(outcome, OUTCOMES, "outcome")
    return ActionConfirmation(
        title=console_request.texts.plain(f"payout.{outcome}.ask"),
        button=console_request.texts.plain(f"payout.{outcome}.button"),
        back=PATH,
        facts=await _list_facts(console_request),
        warning=console_request.texts.plain("payout.resolve.warning"),
    )


async def _list_facts(console_request: ConsoleRequest) -> tuple[tuple[str, str], ...]:
    payout_id, formatter = console_request.form.text("payout"), console_request.formatter
    texts = console_request.texts
    listed = await console_request.call(
        "OperatorService.ListPayouts", payout_pb2.ListPayoutsRequest(all=True)
    )
    for payout in listed.payouts:
        if payout.payout_id == payout_id:
            return (
                (texts.plain("amount"), formatter.minor(payout.asset, payout.amount)),
                (texts.plain("recipient"), payout.account),
                (texts.plain("merchant"), payout.merchant_id),
                (texts.plain("payout"), payout_id),
            )
    return ((texts.plain("payout"), payout_id),)


def _parse_amount(console_request: ConsoleRequest) -> tuple[Asset, str]:
    """Return the asset of the form and its amount in minor units, empty for all."""
    form = console_request.form
    asset = console_request.console.app.find_asset(form.text("asset"))
    if asset is None:
        raise ConsoleError(400, "fault.unknown_choice", field="asset")
    amount = form.text("amount")
    return asset, parse_minor_units(amount, asset.decimals) if amount else ""


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
        outcome=parse_choice(console_request.form.text("outcome"), OUTCOMES, "outcome"),
    )
    await console_request.call("OperatorService.ResolvePayout", request)
    return console_request.redirect_to(PATH)
