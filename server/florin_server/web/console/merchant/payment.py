"""One payment of a merchant: where it stands, what happened to it, and what can be done."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import quote

import orjson
from florin.v1 import account_pb2, merchant_pb2, payment_pb2, refund_pb2
from florin_gateway.errors import refusal_of
from florin_gateway.plain import PlainAnswer, PlainEvent, PlainEvents
from florin_gateway.rpc import CallError, Messages
from google.protobuf.message import Message

from florin_server.web.console.fields import chosen, minor
from florin_server.web.console.site import Visit
from florin_server.web.console.view import Show

PATH = "/console/merchants/{merchant_id}/payments/{payment_id}"
_OUTCOMES = {
    name.removeprefix("SIMULATED_OUTCOME_").lower(): number
    for name, number in account_pb2.SimulatedOutcome.items()
    if number
}


async def show(visit: Visit) -> PlainAnswer:
    """The page of a payment."""
    merchant, payment_id = visit.path("merchant_id"), visit.path("payment_id")
    request = payment_pb2.GetPaymentRequest(payment_id=payment_id)
    found = await visit.ask("MerchantService.GetPayment", request, merchant=merchant)
    asked = payment_pb2.ListPaymentEventsRequest(payment_id=payment_id)
    past = await visit.ask("MerchantService.ListPaymentEvents", asked, merchant=merchant)
    return visit.page(
        "merchant/payment",
        f"Payment {visit.site.show.short(found.payment_id)}",
        payment=found,
        events=past.events,
        outcomes=_OUTCOMES,
        rest=_rest(found),
        can_cancel=found.status == payment_pb2.PAYMENT_STATUS_REQUIRES_ACTION,
        can_simulate=not found.live and not found.is_final,
        path=path_of(found.merchant.id, found.payment_id),
    )


def _rest(payment: merchant_pb2.PaymentDetail) -> refund_pb2.RefundTotal | None:
    """Return what is left to refund, with what it was worth when paid; None if nothing is."""
    if payment.status != payment_pb2.PAYMENT_STATUS_SUCCEEDED:
        return None
    if not payment.HasField("refunded"):
        return refund_pb2.RefundTotal(
            refundable=payment.info.option_amount, payment_refundable=payment.amount
        )
    return payment.refunded if int(payment.refunded.refundable.value) else None


async def events(visit: Visit) -> PlainEvents | PlainAnswer:
    """Its states as they come, for the page's script."""
    merchant = visit.path("merchant_id")
    request = payment_pb2.WatchPaymentRequest(
        payment_id=visit.path("payment_id"), after_version=visit.request.last_event_id()
    )
    messages = visit.follow("MerchantService.WatchPayment", request, merchant=merchant)
    try:
        # a refusal is an answer of its own; later ones end the stream
        first = await anext(aiter(messages), None)
    except CallError as failure:
        await messages.close()
        raise refusal_of(failure) from failure
    if first is None:
        await messages.close()
        return PlainAnswer(204)
    return PlainEvents(_states(visit.site.show, first, messages), lambda: None)


async def _states(
    show: Show, first: Message, messages: Messages
) -> AsyncGenerator[PlainEvent, None]:
    try:
        yield _state(show, first)
        async for message in messages:
            yield _state(show, message)
    finally:
        await messages.close()


def _state(show: Show, message: Any) -> PlainEvent:
    status = show.state("payment", message.payment.status)
    told = {"status": status, "look": show.look(status), "isFinal": message.payment.is_final}
    return PlainEvent(message.version, orjson.dumps(told))


async def refund(visit: Visit) -> PlainAnswer:
    """Refund the payment, or a part of it in whole units of what was paid."""
    request = refund_pb2.CreateRefundRequest(payment_id=visit.path("payment_id"))
    if reason := visit.form.text("reason"):
        request.reason = reason
    if text := visit.form.text("amount"):
        asked = payment_pb2.GetPaymentRequest(payment_id=request.payment_id)
        found = await visit.ask(
            "MerchantService.GetPayment", asked, merchant=visit.path("merchant_id")
        )
        paid = found.info.option_amount
        request.amount.unit = paid.unit
        request.amount.value = minor(text, paid.display.decimals, "amount")
    return await _do(visit, "MerchantService.CreateRefund", request)


async def cancel(visit: Visit) -> PlainAnswer:
    """Calls it off."""
    request = payment_pb2.CancelPaymentRequest(payment_id=visit.path("payment_id"))
    return await _do(visit, "MerchantService.CancelPayment", request)


async def simulate(visit: Visit) -> PlainAnswer:
    """Gives a test payment its outcome."""
    request = account_pb2.SimulatePaymentRequest(
        payment_id=visit.path("payment_id"),
        outcome=chosen(visit.form.text("outcome"), _OUTCOMES, "outcome"),
    )
    return await _do(visit, "AdminService.SimulatePayment", request)


async def _do(visit: Visit, name: str, request: Message) -> PlainAnswer:
    merchant, key = visit.path("merchant_id"), visit.form.text("form")
    await visit.ask(name, request, merchant=merchant, key=key)
    return visit.see(_path(visit))


def _path(visit: Visit) -> str:
    return path_of(visit.path("merchant_id"), visit.path("payment_id"))


def path_of(merchant_id: str, payment_id: str) -> str:
    """Where the page of a payment is."""
    return PATH.format(merchant_id=quote(merchant_id, ""), payment_id=quote(payment_id, ""))
