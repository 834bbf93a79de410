"""What leaves the treasuries: listed, begun, called off, resolved."""

from __future__ import annotations

from florin.v1 import payout_pb2
from florin_gateway.plain import PlainAnswer

from florin_server.domain.errors import invalid
from florin_server.web.console.fields import chosen, minor
from florin_server.web.console.site import Visit

PATH = "/console/payouts"
_OUTCOMES = {
    "paid": payout_pb2.PAYOUT_OUTCOME_PAID,
    "not_paid": payout_pb2.PAYOUT_OUTCOME_NOT_PAID,
}


async def show(visit: Visit) -> PlainAnswer:
    """The payouts; done ones if they are asked for."""
    everything = visit.query.get("all") == "1"
    request = payout_pb2.ListPayoutsRequest(all=everything)
    found = await visit.ask("OperatorService.ListPayouts", request)
    assets = [
        asset for live in (True, False) for _, asset in visit.site.app.assets(live=live).values()
    ]
    return visit.page(
        "operator/payouts",
        "Payouts",
        payouts=found.payouts,
        everything=everything,
        assets={asset.id: f"{asset.symbol} on {asset.network_name}" for asset in assets},
    )


async def create(visit: Visit) -> PlainAnswer:
    """Pays a merchant what it is owed, or a part of it."""
    form = visit.form
    asset = visit.site.app.asset(form.text("asset"))
    if asset is None:
        raise invalid("asset", "is unknown")
    amount = form.text("amount")
    request = payout_pb2.CreatePayoutRequest(
        merchant_id=form.text("merchant"),
        asset=asset.id,
        amount=minor(amount, asset.decimals, "amount") if amount else "",
    )
    await visit.ask("OperatorService.CreatePayout", request)
    return visit.see(PATH)


async def refuse(visit: Visit) -> PlainAnswer:
    """Calls one off that is not on its way."""
    request = payout_pb2.RefusePayoutRequest(payout_id=visit.form.text("payout"))
    await visit.ask("OperatorService.RefusePayout", request)
    return visit.see(PATH)


async def resolve(visit: Visit) -> PlainAnswer:
    """Tells what became of one that its transaction does not prove."""
    request = payout_pb2.ResolvePayoutRequest(
        payout_id=visit.form.text("payout"),
        outcome=chosen(visit.form.text("outcome"), _OUTCOMES, "outcome"),
    )
    await visit.ask("OperatorService.ResolvePayout", request)
    return visit.see(PATH)
