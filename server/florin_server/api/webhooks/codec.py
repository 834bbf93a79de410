"""Convert endpoints, attempts and events to messages, and requests to plain values."""

from __future__ import annotations

from collections.abc import Sequence

from florin.v1 import money_pb2, payment_pb2, refund_pb2, webhook_pb2

from florin_server.api.server.timestamps import to_microseconds, to_timestamp
from florin_server.domain.caip import parse_asset
from florin_server.domain.payments.deposits import DepositReport
from florin_server.domain.payments.payment import PaymentStatus, Refund, RefundStatus
from florin_server.domain.webhooks.endpoint import BODY_FORMAT, WebhookAttempt, WebhookEndpoint
from florin_server.domain.webhooks.health import WebhookHealth
from florin_server.domain.webhooks.signing import format_event_id
from florin_server.domain.webhooks.snapshot import FeeTerms, PaymentSnapshot
from florin_server.features.webhooks.service import replays
from florin_server.features.webhooks.service.endpoints import EndpointSpec, EndpointWithKeys
from florin_server.features.webhooks.service.take import TakenWebhook, WebhookReceipt

_STATUS = {s: payment_pb2.PaymentStatus.Value(f"PAYMENT_STATUS_{s.upper()}") for s in PaymentStatus}
_REFUND_STATUS = {
    s: refund_pb2.RefundStatus.Value(f"REFUND_STATUS_{s.upper()}") for s in RefundStatus
}


def parse_endpoint_spec(request: webhook_pb2.CreateWebhookEndpointRequest) -> EndpointSpec:
    """Return the requested endpoint."""
    return EndpointSpec(request.url, frozenset(request.events), request.description)


def parse_endpoint_changes(request: webhook_pb2.UpdateWebhookEndpointRequest) -> EndpointSpec:
    """Return the requested changes."""
    return EndpointSpec(
        url=request.url if request.HasField("url") else None,
        events=frozenset(request.events.types) if request.HasField("events") else None,
        description=request.description if request.HasField("description") else None,
        paused=request.paused if request.HasField("paused") else None,
    )


def to_endpoint(
    endpoint: WebhookEndpoint,
    public_keys: Sequence[str] = (),
    health: WebhookHealth | None = None,
) -> webhook_pb2.WebhookEndpoint:
    """Return an endpoint as its owner sees it."""
    failing, delivered = endpoint.failing_since_us, endpoint.delivered_at_us
    return webhook_pb2.WebhookEndpoint(
        id=endpoint.id,
        merchant_id=endpoint.merchant_id,
        url=endpoint.url,
        events=sorted(endpoint.events),
        description=endpoint.description,
        status=webhook_pb2.WebhookEndpointStatus.Value(
            f"WEBHOOK_ENDPOINT_STATUS_{endpoint.state.upper()}"
        ),
        paused_reason=endpoint.paused_reason,
        api_version=endpoint.version,
        live=endpoint.live,
        failures=endpoint.failures,
        failing_since=None if failing is None else to_timestamp(failing),
        delivered_at=None if delivered is None else to_timestamp(delivered),
        created_at=to_timestamp(endpoint.created_at_us),
        public_keys=public_keys,
        health=None if health is None else _to_health(health),
    )


def _to_health(health: WebhookHealth) -> webhook_pb2.WebhookHealth:
    next_us = health.next_attempt_at_us
    return webhook_pb2.WebhookHealth(
        attempts_day=health.attempts_day,
        successes_day=health.successes_day,
        attempts_week=health.attempts_week,
        successes_week=health.successes_week,
        median_ms=health.median_ms,
        queued_payments=health.queued_payments,
        has_more_queued=health.has_more_queued,
        next_attempt_at=None if next_us is None else to_timestamp(next_us),
    )


def to_endpoint_with_keys(
    endpoint_with_keys: EndpointWithKeys, health: WebhookHealth | None = None
) -> webhook_pb2.WebhookEndpoint:
    """Return an endpoint with the public keys that verify its messages."""
    return to_endpoint(endpoint_with_keys.endpoint, endpoint_with_keys.public_keys, health)


def to_endpoint_secret(endpoint_with_keys: EndpointWithKeys) -> webhook_pb2.WebhookEndpointSecret:
    """Return an endpoint with its new secret."""
    return webhook_pb2.WebhookEndpointSecret(
        endpoint=to_endpoint_with_keys(endpoint_with_keys), secret=endpoint_with_keys.secret
    )


def to_attempt(attempt: WebhookAttempt) -> webhook_pb2.WebhookAttempt:
    """Return one attempt as a message."""
    return webhook_pb2.WebhookAttempt(
        event_id=format_event_id(attempt.payment_id, attempt.version),
        type=attempt.event_type,
        payment_id=attempt.payment_id,
        version=attempt.version,
        at=to_timestamp(attempt.at_us),
        duration_ms=attempt.took_ms,
        succeeded=attempt.is_success,
        http_status=attempt.status,
        error=attempt.fault,
        answer=attempt.answer,
    )


def parse_replay_spec(request: webhook_pb2.ReplayWebhooksSinceRequest) -> replays.ReplaySpec:
    """Return the requested replay."""
    return replays.ReplaySpec(
        to_microseconds(request.since, "since"),
        frozenset(request.events),
        request.cursor if request.HasField("cursor") else None,
    )


def to_replay_response(page: replays.ReplayPage) -> webhook_pb2.ReplayWebhooksSinceResponse:
    """Return the response with one page of a replay."""
    return webhook_pb2.ReplayWebhooksSinceResponse(
        payments=page.payment_count, next_cursor=page.next_cursor
    )


def parse_receipts(request: webhook_pb2.TakeWebhooksRequest) -> list[WebhookReceipt]:
    """Return the results of taken events."""
    return [
        WebhookReceipt(
            receipt.token, receipt.http_status if receipt.HasField("http_status") else None
        )
        for receipt in request.receipts
    ]


def to_taken_webhook(webhook: TakenWebhook) -> webhook_pb2.TakenWebhook:
    """Return one queued event."""
    return webhook_pb2.TakenWebhook(
        token=webhook.token, event_id=webhook.message.id, body=webhook.message.body.decode()
    )


def to_webhook_event(snapshot: PaymentSnapshot) -> webhook_pb2.WebhookEvent:
    """Return the body of a webhook."""
    return webhook_pb2.WebhookEvent(
        id=format_event_id(snapshot.payment.id, snapshot.place),
        type=snapshot.event_type,
        api_version=BODY_FORMAT,
        created_at=to_timestamp(snapshot.at_us),
        payment=_to_webhook_payment(snapshot),
    )


def _to_webhook_payment(snapshot: PaymentSnapshot) -> webhook_pb2.WebhookPayment:
    payment, status, ended_us = snapshot.payment, snapshot.status, snapshot.ended_at_us
    message = webhook_pb2.WebhookPayment(
        payment_id=payment.id,
        merchant_id=payment.merchant_id,
        live=payment.live,
        payment_state_version=snapshot.place,
        reference_id=payment.reference_id,
        status=_STATUS[status],
        is_final=status.is_final,
        amount=_to_amount(payment.unit, payment.value),
        created_at=to_timestamp(payment.created_at_us),
        expires_at=to_timestamp(payment.expires_at * 1_000_000),
        processing=_to_processing(snapshot),
        refunds=[_to_refund(refund) for refund in snapshot.refunds],
        metadata=dict(payment.metadata),
    )
    if snapshot.deposit is not None:
        message.deposit.MergeFrom(_to_deposit(snapshot.deposit))
    if ended_us is not None:
        at = to_timestamp(ended_us)
        if status is PaymentStatus.SUCCEEDED:
            message.success.MergeFrom(
                webhook_pb2.WebhookSuccess(succeeded_at=at, tx_id=payment.tx_id)
            )
        elif status is PaymentStatus.FAILED:
            reason = payment.failure_code or payment.failure_detail
            message.failed.MergeFrom(
                webhook_pb2.WebhookFailure(failed_at=at, failure_reason=reason)
            )
        elif status is PaymentStatus.CANCELLED:
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
                settled_at=to_timestamp(settlement.at_us),
                tx_id=settlement.tx_id,
                amount=_to_amount(settlement.unit, settlement.value),
            )
        )
    return message


def _to_processing(snapshot: PaymentSnapshot) -> webhook_pb2.WebhookProcessing | None:
    amount = snapshot.option_amount
    if snapshot.processing_at_us is None or amount is None:
        return None
    unit = amount.unit
    return webhook_pb2.WebhookProcessing(
        processing_at=to_timestamp(snapshot.processing_at_us),
        option_amount=_to_amount(unit, amount.value),
        fee=_to_fee(unit, snapshot.fee),
        settlement_amount=_to_amount(unit, snapshot.net_value),
        buyer_caip10=snapshot.payment.payer,
        chain_caip2=_get_chain_id(unit),
    )


def _to_fee(unit: str, fee: FeeTerms | None) -> webhook_pb2.WebhookFee | None:
    if fee is None:
        return None
    numerator, denominator = fee.fraction
    return webhook_pb2.WebhookFee(
        kind="base_plus_percent",
        base_amount=_to_amount(unit, fee.base),
        percent=webhook_pb2.WebhookFraction(numerator=str(numerator), denominator=str(denominator)),
        percent_amount=_to_amount(unit, fee.percent),
        total_amount=_to_amount(unit, fee.total),
    )


def _to_refund(refund: Refund) -> webhook_pb2.WebhookRefund:
    done_us = refund.completed_at_us
    return webhook_pb2.WebhookRefund(
        refund_id=refund.id,
        status=_REFUND_STATUS[refund.status],
        amount=_to_amount(refund.unit, refund.value),
        tx_id=refund.tx_id,
        created_at=to_timestamp(refund.created_at_us),
        completed_at=None if done_us is None else to_timestamp(done_us),
        reason=refund.reason,
    )


def _to_deposit(report: DepositReport) -> webhook_pb2.WebhookDeposit:
    message = webhook_pb2.WebhookDeposit(
        tx_id=report.tx_hash,
        sender_caip10=report.sender,
        address_caip10=report.address,
        amount=_to_amount(f"caip19/{report.asset}", report.value),
        is_final=report.is_final,
        returned_to_caip10=report.returned_to,
        payout_id=report.payout_id,
        claim_id=report.claim_id,
    )
    totals = {"received": report.received, "missing": report.missing, "over": report.over}
    for name, value in totals.items():
        if value is not None:
            getattr(message, name).MergeFrom(_to_amount(f"caip19/{report.route_asset}", value))
    return message


def _to_amount(unit: str, value: int) -> money_pb2.AmountValue:
    return money_pb2.AmountValue(unit=unit, value=str(value))


def _get_chain_id(unit: str) -> str:
    """Return the chain of a unit; empty for a currency, which is paid on no chain."""
    kind, _, asset = unit.partition("/")
    return str(parse_asset(asset).chain) if kind == "caip19" else ""
