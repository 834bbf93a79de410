"""Held money of blocked payers, and the operator's verdict on it."""

from __future__ import annotations

from florin.v1 import held_pb2
from grpc_rest_gateway.plain import PlainResponse

from florin_server.web.console.confirmation import ActionConfirmation
from florin_server.web.console.fields import parse_choice
from florin_server.web.console.site import ConsoleRequest

PATH = "/console/held"
VERDICTS = {
    "release": held_pb2.HELD_PAYMENT_VERDICT_RELEASE,
    "return": held_pb2.HELD_PAYMENT_VERDICT_RETURN,
    "keep": held_pb2.HELD_PAYMENT_VERDICT_KEEP,
}


async def show(console_request: ConsoleRequest) -> PlainResponse:
    """List held money; on request, decided cases too."""
    everything = console_request.query.get("all") == "1"
    request = held_pb2.ListHeldPaymentsRequest(all=everything)
    result = await console_request.call("OperatorService.ListHeldPayments", request)
    return console_request.render_page(
        "operator/held",
        console_request.texts.plain("nav.held"),
        held=result.held_payments,
        everything=everything,
    )


async def confirm_resolve(console_request: ConsoleRequest) -> ActionConfirmation:
    """Ask before a decision about held money."""
    form, formatter, texts = (
        console_request.form,
        console_request.formatter,
        console_request.texts,
    )
    verdict = form.text("verdict")
    parse_choice(verdict, VERDICTS, "verdict")
    listed = await console_request.call(
        "OperatorService.ListHeldPayments", held_pb2.ListHeldPaymentsRequest(all=True)
    )
    held_id, return_to = form.text("held"), form.text("return_to")
    facts = [
        (
            (texts.plain("amount"), formatter.minor(item.asset, item.held_amount)),
            (texts.plain("held.payer"), item.payer),
            *(((texts.plain("recipient"), return_to),) if return_to else ()),
            (texts.plain("held.why"), item.reason),
            (texts.plain("payment"), item.payment_id),
        )
        for item in listed.held_payments
        if item.held_id == held_id
    ]
    return ActionConfirmation(
        title=texts.plain(f"held.{verdict}.ask"),
        button=texts.plain(f"held.{verdict}.button"),
        back=PATH,
        facts=(
            *(facts[0] if facts else ((texts.plain("held.payment"), held_id),)),
            (texts.plain("note"), form.text("note")),
        ),
        warning=texts.plain(f"held.{verdict}.warning"),
    )


async def resolve(console_request: ConsoleRequest) -> PlainResponse:
    """Apply the operator's verdict."""
    form = console_request.form
    request = held_pb2.ResolveHeldPaymentRequest(
        held_id=form.text("held"),
        verdict=parse_choice(form.text("verdict"), VERDICTS, "verdict"),
        note=form.text("note"),
        even_if_blocked=form.text("even_if_blocked") == "1",
    )
    if return_to := form.text("return_to"):
        request.return_to = return_to
    await console_request.call("OperatorService.ResolveHeldPayment", request)
    return console_request.redirect_to(PATH)
