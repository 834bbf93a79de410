"""`florin webhooks`: webhook endpoints, while the service runs or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from florin.v1 import webhook_admin_pb2, webhook_pb2

from florin_server.cli.console import (
    console,
    print_hint,
    print_json,
    print_table,
)
from florin_server.cli.operation import call_operator, format_minute, format_mode
from florin_server.domain.text import replace_unprintable

_COLUMNS = ("Id", "Partner", "Merchant", "Mode", "Status", "Failures", "Delivered", "URL")
_ATTEMPT_COLUMNS = ("At", "Event", "Type", "HTTP", "ms", "Answer or error")
_RESPONSE_CHARS_MAX = 80


@dataclass(frozen=True, slots=True)
class EndpointOptions:
    """The options of a new endpoint."""

    url: str
    partner: str
    merchant: str
    events: Sequence[str]


def create_endpoint(overrides: dict[str, Any], options: EndpointOptions, *, live: bool) -> None:
    """Create an endpoint, and print its secret."""
    request = webhook_admin_pb2.CreatePartnerEndpointRequest(
        partner_id=options.partner,
        live=live,
        endpoint=webhook_pb2.CreateWebhookEndpointRequest(
            url=options.url, merchant_id=options.merchant or None, events=options.events
        ),
    )
    _print_secret(call_operator(overrides, "CreateWebhookEndpoint", request))


def list_endpoints(overrides: dict[str, Any], *, is_paused: bool) -> None:
    """Print all endpoints, or only paused ones."""
    endpoints, cursor = [], None
    while cursor != "":
        request = webhook_admin_pb2.ListPartnerEndpointsRequest(
            paused=is_paused, cursor=cursor or ""
        )
        page = call_operator(overrides, "ListWebhookEndpoints", request)
        endpoints += page.endpoints
        cursor = page.next_cursor
    if not print_json({"endpoints": endpoints}):
        print_table(_COLUMNS, map(_to_row, endpoints))


def set_paused(overrides: dict[str, Any], endpoint_id: str, *, is_paused: bool) -> None:
    """Pause or resume an endpoint."""
    request = webhook_pb2.UpdateWebhookEndpointRequest(id=endpoint_id, paused=is_paused)
    done = call_operator(overrides, "UpdateWebhookEndpoint", request)
    if not print_json(done):
        console.print(f"{endpoint_id} is {'paused' if is_paused else 'active'}.")


def delete_endpoint(overrides: dict[str, Any], endpoint_id: str) -> None:
    """Delete an endpoint."""
    call_operator(
        overrides, "DeleteWebhookEndpoint", webhook_pb2.DeleteWebhookEndpointRequest(id=endpoint_id)
    )
    if not print_json({"id": endpoint_id, "deleted": True}):
        console.print(f"{endpoint_id} is deleted.")


def rotate_secret(overrides: dict[str, Any], endpoint_id: str, overlap_s: int | None) -> None:
    """Create a new secret for an endpoint, and print it."""
    request = webhook_pb2.RotateWebhookSecretRequest(id=endpoint_id, overlap_seconds=overlap_s)
    _print_secret(call_operator(overrides, "RotateWebhookSecret", request))


def list_attempts(overrides: dict[str, Any], endpoint_id: str, payment_id: str) -> None:
    """Print the latest delivery attempts of an endpoint."""
    request = webhook_pb2.ListWebhookAttemptsRequest(id=endpoint_id, payment_id=payment_id or None)
    result = call_operator(overrides, "ListWebhookAttempts", request)
    if not print_json(result):
        print_table(_ATTEMPT_COLUMNS, map(_to_attempt_row, result.attempts))


def _print_secret(endpoint_secret: webhook_pb2.WebhookEndpointSecret) -> None:
    if print_json(endpoint_secret):
        return
    console.print(endpoint_secret.secret)
    print_hint(f"Endpoint {endpoint_secret.endpoint.id}. Save the secret: it is not shown again.")


def _to_row(partner_endpoint: webhook_admin_pb2.PartnerEndpoint) -> tuple[str, ...]:
    endpoint = partner_endpoint.endpoint
    status = webhook_pb2.WebhookEndpointStatus.Name(endpoint.status)
    return (
        endpoint.id,
        partner_endpoint.partner_id,
        endpoint.merchant_id or "-",
        format_mode(live=endpoint.live),
        status.removeprefix("WEBHOOK_ENDPOINT_STATUS_").lower(),
        str(endpoint.failures),
        format_minute(endpoint, "delivered_at"),
        endpoint.url or "-",
    )


def _to_attempt_row(attempt: webhook_pb2.WebhookAttempt) -> tuple[str, ...]:
    # a stranger wrote the answer: it must not steer the terminal
    answer = replace_unprintable(attempt.error or attempt.answer, "?")
    return (
        format_minute(attempt, "at"),
        attempt.event_id,
        attempt.type,
        str(attempt.http_status) if attempt.HasField("http_status") else "-",
        str(attempt.duration_ms),
        answer[:_RESPONSE_CHARS_MAX],
    )
