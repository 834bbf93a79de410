"""Held money of blocked payers, and the operator's verdict on it."""

from __future__ import annotations

from florin.v1 import held_pb2
from grpc_rest_gateway.plain import PlainResponse

from florin_server.web.console.confirmation import ActionConfirmation
from florin_server.web.console.fields import parse_choice
from florin_server.web.console.site import ConsoleRequest

PATH = "/console/held"
_VERDICTS = {
    "release": held_pb2.HELD_PAYMENT_VERDICT_RELEASE,
    "return": held_pb2.HELD_PAYMENT_VERDICT_RETURN,
    "keep": held_pb2.HELD_PAYMENT_VERDICT_KEEP,
}

_QUESTIONS = {
    "release": (
        "Release this money to the merchant?",
        "Release to the merchant",
        "The payment succeeds, although its payer is on a screening list.",
    ),
    "return": (
        "Return this money to its payer?",
        "Return to the payer",
        "The money leaves the treasury and cannot be recovered. The payment fails.",
    ),
    "keep": (
        "Keep this money?",
        "Keep the money",
        "The payment fails. You can still return the money later.",
    ),
}


async def show(console_request: ConsoleRequest) -> PlainResponse:
    """List held money; on request, decided cases too."""
    everything = console_request.query.get("all") == "1"
    request = held_pb2.ListHeldPaymentsRequest(all=everything)
    result = await console_request.call("OperatorService.ListHeldPayments", request)
    return console_request.render_page(
        "operator/held", "Held money", held=result.held_payments, everything=everything
    )


async def confirm_resolve(console_request: ConsoleRequest) -> ActionConfirmation:
    """Ask before a decision about held money."""
    form, formatter = console_request.form, console_request.console.formatter
    verdict = form.text("verdict")
    parse_choice(verdict, _VERDICTS, "verdict")
    listed = await console_request.call(
        "OperatorService.ListHeldPayments", held_pb2.ListHeldPaymentsRequest(all=True)
    )
    held_id = form.text("held")
    facts = [
        (
            ("Amount", formatter.minor(item.asset, item.held_amount)),
            ("Paid by", item.payer),
            ("Why it is held", item.reason),
            ("Payment", item.payment_id),
        )
        for item in listed.held_payments
        if item.held_id == held_id
    ]
    title, button, warning = _QUESTIONS[verdict]
    return ActionConfirmation(
        title=title,
        button=button,
        back=PATH,
        facts=(*(facts[0] if facts else (("Held payment", held_id),)), ("Note", form.text("note"))),
        warning=warning,
    )


async def resolve(console_request: ConsoleRequest) -> PlainResponse:
    """Apply the operator's verdict."""
    form = console_request.form
    request = held_pb2.ResolveHeldPaymentRequest(
        held_id=form.text("held"),
        verdict=parse_choice(form.text("verdict"), _VERDICTS, "verdict"),
        note=form.text("note"),
        even_if_blocked=form.text("even_if_blocked") == "1",
    )
    await console_request.call("OperatorService.ResolveHeldPayment", request)
    return console_request.redirect_to(PATH)
