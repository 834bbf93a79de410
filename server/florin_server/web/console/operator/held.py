"""Money of blocked payers, and the operator's verdict on it."""

from __future__ import annotations

from florin.v1 import held_pb2
from florin_gateway.plain import PlainAnswer

from florin_server.web.console.fields import chosen
from florin_server.web.console.site import Visit

PATH = "/console/held"
_VERDICTS = {
    "release": held_pb2.HELD_PAYMENT_VERDICT_RELEASE,
    "return": held_pb2.HELD_PAYMENT_VERDICT_RETURN,
    "keep": held_pb2.HELD_PAYMENT_VERDICT_KEEP,
}


async def show(visit: Visit) -> PlainAnswer:
    """What is held; what was decided, if that is asked for."""
    everything = visit.query.get("all") == "1"
    request = held_pb2.ListHeldPaymentsRequest(all=everything)
    found = await visit.ask("OperatorService.ListHeldPayments", request)
    return visit.page(
        "operator/held", "Held money", held=found.held_payments, everything=everything
    )


async def resolve(visit: Visit) -> PlainAnswer:
    """Gives the verdict."""
    form = visit.form
    request = held_pb2.ResolveHeldPaymentRequest(
        held_id=form.text("held"),
        verdict=chosen(form.text("verdict"), _VERDICTS, "verdict"),
        note=form.text("note"),
        even_if_blocked=form.text("even_if_blocked") == "1",
    )
    await visit.ask("OperatorService.ResolveHeldPayment", request)
    return visit.see(PATH)
