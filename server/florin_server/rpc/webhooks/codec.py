"""Endpoints, attempts and events to messages, and requests to plain values."""

from __future__ import annotations

from collections.abc import Sequence

from florin.v1 import money_pb2, payment_pb2, refund_pb2, webhook_pb2

from florin_server.domain.caip import parse_asset
from florin_server.domain.payments.payment import Refund, RefundStatus, Status
from florin_server.domain.webhooks.endpoint import FORMAT, Attempt, Endpoint
from florin_server.domain.webhooks.signing import event_id
from florin_server.domain.webhooks.snapshot import FeeTerms, PaymentSnapshot
from florin_server.flows.webhooks import replays
from florin_server.flows.webhooks.endpoints import Told, Wanted
from florin_server.flows.webhooks.take import Receipt, Taken
from florin_server.rpc.server.timestamps import microseconds, timestamp

_STATUS = {s: payment_pb2.PaymentStatus.Value(f"PAYMENT_STATUS_{s.upper()}") for s in Status}
_REFUND_STATUS = {
    s: refund_pb2.RefundStatus.Value(f"REFUND_STATUS_{s.upper()}") for s in RefundStatus
}


def created(request: webhook_pb2.CreateWebhookEndpointRequest) -> Wanted:
    """What is asked for."""
    return Wanted(request.url, frozenset(request.events), request.description)


def changes(request: webhook_pb2.UpdateWebhookEndpointRequest) -> Wanted:
    """What is to change."""
    return Wanted(
        url=request.url if request.HasField("url") else None,
        events=frozenset(request.events.types) if request.HasField("events") else None,
        description=request.description if request.HasField("description") else None,
        paused=request.paused if request.HasField("paused") else None,
    )


def endpoint(one: Endpoint, public_keys: Sequence[str] = ()) -> webhook_pb2.WebhookEndpoint:
    """An endpoint as its owner sees it."""
    failing, delivered = one.failing_since_us, one.delivered_at_us
    return webhook_pb2.WebhookEndpoint(
        id=one.id,
        merchant_id=one.merchant_id,
        url=one.url,
        events=sorted(one.events),
        description=one.description,
        status=webhook_pb2.WebhookEndpointStatus.Value(
            f"WEBHOOK_ENDPOINT_STATUS_{one.state.upper()}"
        ),
        paused_reason=one.paused_reason,
        api_version=one.version,
        live=one.live,
        failures=one.failures,
        failing_since=None if failing is None else timestamp(failing),
        delivered_at=None if delivered is None else timestamp(delivered),
        created_at=timestamp(one.created_at_us),
        public_keys=public_keys,
    )


def told(one: Told) -> webhook_pb2.WebhookEndpoint:
    """The same with what verifies its messages."""
    return endpoint(one.endpoint, one.public_keys)


def secret(one: Told) -> webhook_pb2.WebhookEndpointSecret:
    """The same with its new secret."""
    return webhook_pb2.WebhookEndpointSecret(endpoint=told(one), secret=one.secret)


def attempt(one: Attempt) -> webhook_pb2.WebhookAttempt:
    """One attempt."""
    return webhook_pb2.WebhookAttempt(
        event_id=event_id(one.payment_id, one.version),
        type=one.event_type,
        payment_id=one.payment_id,
        version=one.version,
        at=timestamp(one.at_us),
        duration_ms=one.took_ms,
        succeeded=one.succeeded,
        http_status=one.status,
        error=one.fault,
        answer=one.answer,
    )


def since(request: webhook_pb2.ReplayWebhooksSinceRequest) -> replays.Wanted:
    """What is to be told again."""
    return replays.Wanted(
        microseconds(request.since, "since"),
        frozenset(request.events),
        request.cursor if request.HasField("cursor") else None,
    )


def replayed(one: replays.Replayed) -> webhook_pb2.ReplayWebhooksSinceResponse:
    """A page of what is told again."""
    return webhook_pb2.ReplayWebhooksSinceResponse(
        payments=one.payments, next_cursor=one.next_cursor
    )


def receipts(request: webhook_pb2.TakeWebhooksRequest) -> list[Receipt]:
    """What became of what was taken."""
    return [
        Receipt(one.token, one.http_status if one.HasField("http_status") else None)
        for one in request.receipts
    ]


def taken(one: Taken) -> webhook_pb2.TakenWebhook:
    """One event that is handed out."""
    return webhook_pb2.TakenWebhook(
        token=one.token, event_id=one.message.id, body=one.message.body.decode()
    )


def event(snapshot: PaymentSnapshot) -> webhook_pb2.WebhookEvent:
    """Return the body of a webhook."""
    return webhook_pb2.WebhookEvent(
        id=event_id(snapshot.payment.id, snapshot.place),
        type=snapshot.event_type,
        api_version=FORMAT,
        created_at=timestamp(snapshot.at_us),
        payment=_payment(snapshot),
    )


def _payment(snapshot: PaymentSnapshot) -> webhook_pb2.WebhookPayment:
    payment, status, ended_us = snapshot.payment, snapshot.status, snapshot.ended_at_us
    message = webhook_pb2.WebhookPayment(
        payment_id=payment.id,
        merchant_id=payment.merchant_id,
        live=payment.live,
        payment_state_version=snapshot.place,
        reference_id=payment.reference_id,
        status=_STATUS[status],
        is_final=status.is_final,
        amount=_amount(payment.unit, payment.value),
        created_at=timestamp(payment.created_at_us),
        expires_at=timestamp(payment.expires_at * 1_000_000),
        processing=_processing(snapshot),
        refunds=[_refund(refund) for refund in snapshot.refunds],
    )
    if ended_us is not None:
        at = timestamp(ended_us)
        if status is Status.SUCCEEDED:
            message.success.MergeFrom(
                webhook_pb2.WebhookSuccess(succeeded_at=at, tx_id=payment.tx_id)
            )
        elif status is Status.FAILED:
            reason = payment.failure_code or payment.failure_detail
            message.failed.MergeFrom(
                webhook_pb2.WebhookFailure(failed_at=at, failure_reason=reason)
            )
        elif status is Status.CANCELLED:
            message.cancelled.MergeFrom(
                webhook_pb2.WebhookCancellation(
                    cancelled_at=at, cancellation_reason=payment.cancelled_reason
                )
            )
        else:
            message.expired.MergeFrom(webhook_pb2.WebhookExpiry(expired_at=at))
    if (settlement := snapshot.settlement) is not None:
        message.settled.MergeFrom(
            webhook_pb2.WebhookSettlement(
                settled_at=timestamp(settlement.at_us),
                tx_id=settlement.tx_id,
                amount=_amount(settlement.unit, settlement.value),
            )
        )
    return message


def _processing(snapshot: PaymentSnapshot) -> webhook_pb2.WebhookProcessing | None:
    amount = snapshot.option_amount
    if snapshot.processing_at_us is None or amount is None:
        return None
    unit = amount.unit
    return webhook_pb2.WebhookProcessing(
        processing_at=timestamp(snapshot.processing_at_us),
        option_amount=_amount(unit, amount.value),
        fee=_fee(unit, snapshot.fee),
        settlement_amount=_amount(unit, snapshot.net_value),
        buyer_caip10=snapshot.payment.payer,
        chain_caip2=_chain_of(unit),
    )


def _fee(unit: str, fee: FeeTerms | None) -> webhook_pb2.WebhookFee | None:
    if fee is None:
        return None
    numerator, denominator = fee.fraction
    return webhook_pb2.WebhookFee(
        kind="base_plus_percent",
        base_amount=_amount(unit, fee.base),
        percent=webhook_pb2.WebhookFraction(numerator=str(numerator), denominator=str(denominator)),
        percent_amount=_amount(unit, fee.percent),
        total_amount=_amount(unit, fee.total),
    )


def _refund(refund: Refund) -> webhook_pb2.WebhookRefund:
    done_us = refund.completed_at_us
    return webhook_pb2.WebhookRefund(
        refund_id=refund.id,
        status=_REFUND_STATUS[refund.status],
        amount=_amount(refund.unit, refund.value),
        tx_id=refund.tx_id,
        created_at=timestamp(refund.created_at_us),
        completed_at=None if done_us is None else timestamp(done_us),
        reason=refund.reason,
    )


def _amount(unit: str, value: int) -> money_pb2.AmountValue:
    return money_pb2.AmountValue(unit=unit, value=str(value))


def _chain_of(unit: str) -> str:
    """Return the chain of a unit; empty for a currency, in which nothing is paid on a chain."""
    kind, _, asset = unit.partition("/")
    return str(parse_asset(asset).chain) if kind == "caip19" else ""
