"""Attempts to deliver the events of one payment to the webhook endpoints of its partner."""

from __future__ import annotations

from dataclasses import dataclass

from florin.v1 import webhook_pb2
from grpc_rest_gateway.errors import RefusedError

from florin_server.web.console.site import ConsoleRequest

# endpoints whose attempts are read, each with a call of the API
_ENDPOINTS_MAX = 3
_ATTEMPTS_SHOWN = 20
_NOT_ALLOWED, _RATE_LIMITED = 403, 429


@dataclass(frozen=True, slots=True)
class Delivery:
    """An attempt with its endpoint."""

    endpoint: webhook_pb2.WebhookEndpoint
    attempt: webhook_pb2.WebhookAttempt


async def list_deliveries(
    console_request: ConsoleRequest, payment_id: str
) -> list[Delivery] | None:
    """Return the newest attempts of a payment; None if the key must not see endpoints."""
    deliveries: list[Delivery] = []
    try:
        listed = await console_request.call(
            "WebhookService.ListWebhookEndpoints", webhook_pb2.ListWebhookEndpointsRequest()
        )
        for endpoint in listed.endpoints[:_ENDPOINTS_MAX]:
            request = webhook_pb2.ListWebhookAttemptsRequest(id=endpoint.id, payment_id=payment_id)
            past = await console_request.call("WebhookService.ListWebhookAttempts", request)
            deliveries += [Delivery(endpoint, attempt) for attempt in past.attempts]
    except RefusedError as refused:
        if refused.status in {_NOT_ALLOWED, _RATE_LIMITED}:
            return None
        raise
    deliveries.sort(key=lambda delivery: -delivery.attempt.at.ToMicroseconds())
    return deliveries[:_ATTEMPTS_SHOWN]
