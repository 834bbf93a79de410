"""One payment of a merchant: status, timeline and actions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any
from urllib.parse import quote

import orjson
from florin.v1 import account_pb2, held_pb2, merchant_pb2, money_pb2, payment_pb2, refund_pb2
from google.protobuf.message import Message
from grpc_rest_gateway.errors import to_refused_error
from grpc_rest_gateway.plain import PlainEvent, PlainEvents, PlainResponse
from grpc_rest_gateway.rpc import CallError, MessageStream

from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.web.console.confirmation import ActionConfirmation
from florin_server.web.console.deliveries import list_deliveries
from florin_server.web.console.fields import parse_choice, parse_minor_units
from florin_server.web.console.notes import list_notes
from florin_server.web.console.payment_links import find_explorer_url, find_receipt_url
from florin_server.web.console.pills import list_payment_pills
from florin_server.web.console.refusals import ConsoleError
from florin_server.web.console.site import ConsoleRequest
from florin_server.web.console.timeline import describe_duration, find_confirming, list_steps
from florin_server.web.console.view import Formatter
from florin_server.web.payments.qr import render_code

PATH = "/console/merchants/{merchant_id}/payments/{payment_id}"
OUTCOMES = {
    name.removeprefix("SIMULATED_OUTCOME_").lower(): number
    for name, number in account_pb2.SimulatedOutcome.items()
    if number
}


async def show(console_request: ConsoleRequest) -> PlainResponse:
    """Show a payment."""
    merchant = console_request.get_path_variable("merchant_id")
    payment = await _get_payment(console_request)
    events_request = payment_pb2.ListPaymentEventsRequest(
        payment_id=console_request.get_path_variable("payment_id")
    )
    past = await console_request.call(
        "MerchantService.ListPaymentEvents", events_request, merchant=merchant
    )
    return console_request.render_page(
        "merchant/payment",
        console_request.texts.plain(
            "payment.title", id=console_request.formatter.short(payment.payment_id)
        ),
        payment=payment,
        steps=list_steps(console_request.formatter, past.events, payment.refunds),
        duration=describe_duration(console_request.formatter, past.events),
        confirming=await find_confirming(console_request, payment),
        notes=await list_notes(console_request, payment.payment_id),
        deliveries=await list_deliveries(console_request, payment.payment_id),
        explorer=find_explorer_url(console_request, payment),
        receipt=find_receipt_url(payment),
        code=None
        if payment.is_final
        else render_code(payment.gateway_url, console_request.texts.plain("payment.code")),
        pills=list_payment_pills(console_request.texts),
        outcomes=OUTCOMES,
        rest=_find_refundable(payment),
        # only money at addresses can be claimed
        claims=await list_claims(console_request) if payment.addresses else (),
        can_cancel=payment.status == payment_pb2.PAYMENT_STATUS_REQUIRES_ACTION,
        can_simulate=not payment.live and not payment.is_final,
        path=build_path(payment.merchant.id, payment.payment_id),
    )


async def _get_payment(console_request: ConsoleRequest) -> merchant_pb2.PaymentDetail:
    request = payment_pb2.GetPaymentRequest(
        payment_id=console_request.get_path_variable("payment_id")
    )
    payment: merchant_pb2.PaymentDetail = await console_request.call(
        "MerchantService.GetPayment",
        request,
        merchant=console_request.get_path_variable("merchant_id"),
    )
    return payment


async def list_claims(console_request: ConsoleRequest) -> Sequence[held_pb2.DepositClaim]:
    """Return the claims of buyers for held money of the payment, the oldest first."""
    request = held_pb2.ListDepositClaimsRequest(
        payment_id=console_request.get_path_variable("payment_id")
    )
    listed = await console_request.call(
        "MerchantService.ListDepositClaims",
        request,
        merchant=console_request.get_path_variable("merchant_id"),
    )
    claims: Sequence[held_pb2.DepositClaim] = listed.claims
    return claims


def _find_refundable(payment: merchant_pb2.PaymentDetail) -> refund_pb2.RefundTotal | None:
    """Return the amount left to refund, with its worth when paid; None without one."""
    if payment.status != payment_pb2.PAYMENT_STATUS_SUCCEEDED:
        return None
    if not payment.HasField("refunded"):
        return refund_pb2.RefundTotal(
            refundable=payment.info.option_amount, payment_refundable=payment.amount
        )
    return payment.refunded if int(payment.refunded.refundable.value) else None


async def stream_events(console_request: ConsoleRequest) -> PlainEvents | PlainResponse:
    """Stream the states of a payment to the page's script."""
    merchant = console_request.get_path_variable("merchant_id")
    request = payment_pb2.WatchPaymentRequest(
        payment_id=console_request.get_path_variable("payment_id"),
        after_version=console_request.request.parse_last_event_id(),
    )
    messages = console_request.stream("MerchantService.WatchPayment", request, merchant=merchant)
    try:
        # a refusal before the first message is an answer; a later one ends the stream
        first = await anext(aiter(messages), None)
    except CallError as failure:
        await messages.close()
        raise to_refused_error(failure) from failure
    if first is None:
        await messages.close()
        return PlainResponse(204)
    return PlainEvents(_stream_states(console_request.formatter, first, messages), lambda: None)


async def _stream_states(
    formatter: Formatter, first: Message, messages: MessageStream
) -> AsyncGenerator[PlainEvent, None]:
    try:
        yield _to_state_event(formatter, first)
        async for message in messages:
            yield _to_state_event(formatter, message)
    finally:
        await messages.close()


def _to_state_event(formatter: Formatter, message: Any) -> PlainEvent:
    state = {
        "status": formatter.pill("payment", message.payment.status).name,
        "isFinal": message.payment.is_final,
    }
    return PlainEvent(message.version, orjson.dumps(state))


async def confirm_refund(console_request: ConsoleRequest) -> ActionConfirmation:
    """Ask before a refund: the amount that is sent, its value when paid, and the recipient."""
    payment, formatter = await _get_payment(console_request), console_request.formatter
    texts, form = console_request.texts, console_request.form
    paid = payment.info.option_amount
    if payment.status != payment_pb2.PAYMENT_STATUS_SUCCEEDED or not paid.value.isdecimal():
        raise ApiError(ErrorCode.PAYMENT_NOT_SUCCEEDED)
    amount = money_pb2.Amount()
    amount.CopyFrom(paid)
    if text := form.text("amount"):
        amount.value = parse_minor_units(text, paid.display.decimals)
        rest = _find_refundable(payment)
        # without a rest the service refuses any amount, and says why
        if rest is not None and int(amount.value) > int(rest.refundable.value):
            raise ConsoleError(
                400, "fault.refund_too_much", amount=formatter.amount(rest.refundable)
            )
    worth = money_pb2.Amount()
    worth.CopyFrom(payment.amount)
    # at the payment's own rate, rounded down like the refund itself
    worth.value = str(int(amount.value) * int(payment.amount.value) // int(paid.value))
    return ActionConfirmation(
        title=texts.plain("refund.ask", amount=formatter.amount(amount)),
        button=texts.plain("refund.button", amount=formatter.amount(amount)),
        back=get_page_path(console_request),
        facts=(
            (texts.plain("refund.sent"), formatter.amount(amount)),
            (texts.plain("refund.worth"), formatter.amount(worth)),
            (
                texts.plain("recipient"),
                payment.buyer.account_caip10 or texts.plain("refund.simulated"),
            ),
            (texts.plain("network"), formatter.network(paid)),
            (
                texts.plain("payment"),
                f"{formatter.amount(payment.amount)}, {payment.merchant.name}",
            ),
            (texts.plain("reason"), form.text("reason") or texts.plain("none")),
        ),
        warning=texts.plain("money_leaves"),
    )


async def confirm_cancel(console_request: ConsoleRequest) -> ActionConfirmation:
    """Ask before a payment is cancelled."""
    payment, formatter = await _get_payment(console_request), console_request.formatter
    texts = console_request.texts
    return ActionConfirmation(
        title=texts.plain("payment.cancel.ask"),
        button=texts.plain("payment.cancel.button"),
        back=get_page_path(console_request),
        facts=(
            (texts.plain("amount"), formatter.amount(payment.amount)),
            (texts.plain("merchant"), payment.merchant.name),
            (texts.plain("reference"), payment.reference_id or texts.plain("none")),
        ),
        warning=texts.plain("payment.cancel.warning"),
    )


async def refund(console_request: ConsoleRequest) -> PlainResponse:
    """Refund the payment, or a part of it in whole units of what was paid."""
    request = refund_pb2.CreateRefundRequest(
        payment_id=console_request.get_path_variable("payment_id")
    )
    if reason := console_request.form.text("reason"):
        request.reason = reason
    if text := console_request.form.text("amount"):
        paid = (await _get_payment(console_request)).info.option_amount
        request.amount.unit = paid.unit
        request.amount.value = parse_minor_units(text, paid.display.decimals)
    return await call_and_redirect(console_request, "MerchantService.CreateRefund", request)


async def cancel(console_request: ConsoleRequest) -> PlainResponse:
    """Cancel the payment."""
    request = payment_pb2.CancelPaymentRequest(
        payment_id=console_request.get_path_variable("payment_id")
    )
    return await call_and_redirect(console_request, "MerchantService.CancelPayment", request)


async def simulate(console_request: ConsoleRequest) -> PlainResponse:
    """Set the outcome of a test payment."""
    request = account_pb2.SimulatePaymentRequest(
        payment_id=console_request.get_path_variable("payment_id"),
        outcome=parse_choice(console_request.form.text("outcome"), OUTCOMES, "outcome"),
    )
    return await call_and_redirect(console_request, "AdminService.SimulatePayment", request)


async def call_and_redirect(
    console_request: ConsoleRequest, name: str, request: Message
) -> PlainResponse:
    """Make a call about the payment under the form's key; redirect to the payment's page."""
    merchant, key = (
        console_request.get_path_variable("merchant_id"),
        console_request.form.text("form"),
    )
    await console_request.call(name, request, merchant=merchant, key=key)
    return console_request.redirect_to(get_page_path(console_request))


def get_page_path(console_request: ConsoleRequest) -> str:
    """Return the path of the page of the payment in the address."""
    return build_path(
        console_request.get_path_variable("merchant_id"),
        console_request.get_path_variable("payment_id"),
    )


def build_path(merchant_id: str, payment_id: str) -> str:
    """Return the path of a payment's page."""
    return PATH.format(merchant_id=quote(merchant_id, ""), payment_id=quote(payment_id, ""))
