"""Endpoints, attempts and events to messages, and requests to plain values."""

from __future__ import annotations

from collections.abc import Sequence

from florin.v1 import webhook_pb2

from florin_server.domain.webhooks.endpoint import Attempt, Endpoint
from florin_server.domain.webhooks.past import Past
from florin_server.domain.webhooks.signing import event_id
from florin_server.flows.webhooks import replays
from florin_server.flows.webhooks.endpoints import Told, Wanted
from florin_server.flows.webhooks.take import Receipt, Taken
from florin_server.rpc.payments.codec import Codec
from florin_server.rpc.server.timestamps import microseconds, timestamp


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


def event(answers: Codec, past: Past) -> webhook_pb2.WebhookEvent:
    """What an endpoint is told."""
    return webhook_pb2.WebhookEvent(
        type=past.event_type,
        timestamp=timestamp(past.at_us),
        api_version=past.api_version,
        data=answers.detail(past.payment, past.merchant, past.refund),
    )
