"""`florin webhooks`: endpoints, of a running service or of a stopped one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from florin.v1 import webhook_admin_pb2, webhook_pb2

from florin_server.cli.console import console, note, table, told
from florin_server.cli.operation import ask, minute, mode
from florin_server.domain.text import replace_unprintable

_COLUMNS = ("Id", "Partner", "Merchant", "Mode", "Status", "Failures", "Took one", "URL")
_ATTEMPTS = ("At", "Event", "Type", "HTTP", "ms", "What was said")
_SAID_CHARS = 80


@dataclass(frozen=True, slots=True)
class Wanted:
    """An endpoint to be made."""

    url: str
    partner: str
    merchant: str
    events: Sequence[str]


def create(given: dict[str, Any], wanted: Wanted, *, live: bool) -> None:
    """Makes an endpoint and prints its secret."""
    request = webhook_admin_pb2.CreatePartnerEndpointRequest(
        partner_id=wanted.partner,
        live=live,
        endpoint=webhook_pb2.CreateWebhookEndpointRequest(
            url=wanted.url, merchant_id=wanted.merchant or None, events=wanted.events
        ),
    )
    _tell_secret(ask(given, "CreateWebhookEndpoint", request))


def show(given: dict[str, Any], *, paused: bool) -> None:
    """Prints all endpoints."""
    found, cursor = [], None
    while cursor != "":
        request = webhook_admin_pb2.ListPartnerEndpointsRequest(paused=paused, cursor=cursor or "")
        page = ask(given, "ListWebhookEndpoints", request)
        found += page.endpoints
        cursor = page.next_cursor
    if not told({"endpoints": found}):
        table(_COLUMNS, map(_row, found))


def pause(given: dict[str, Any], endpoint_id: str, *, paused: bool) -> None:
    """Pauses an endpoint, or resumes it."""
    request = webhook_pb2.UpdateWebhookEndpointRequest(id=endpoint_id, paused=paused)
    done = ask(given, "UpdateWebhookEndpoint", request)
    if not told(done):
        console.print(f"{endpoint_id} is {'paused' if paused else 'active'}.")


def delete(given: dict[str, Any], endpoint_id: str) -> None:
    """Deletes an endpoint."""
    ask(given, "DeleteWebhookEndpoint", webhook_pb2.DeleteWebhookEndpointRequest(id=endpoint_id))
    if not told({"id": endpoint_id, "deleted": True}):
        console.print(f"{endpoint_id} is deleted.")


def rotate(given: dict[str, Any], endpoint_id: str, overlap_s: int | None) -> None:
    """Gives an endpoint a new secret."""
    request = webhook_pb2.RotateWebhookSecretRequest(id=endpoint_id, overlap_seconds=overlap_s)
    _tell_secret(ask(given, "RotateWebhookSecret", request))


def attempts(given: dict[str, Any], endpoint_id: str, payment_id: str) -> None:
    """Prints an endpoint's last attempts."""
    request = webhook_pb2.ListWebhookAttemptsRequest(id=endpoint_id, payment_id=payment_id or None)
    found = ask(given, "ListWebhookAttempts", request)
    if not told(found):
        table(_ATTEMPTS, map(_attempt, found.attempts))


def _tell_secret(made: webhook_pb2.WebhookEndpointSecret) -> None:
    if told(made):
        return
    console.print(made.secret)
    note(f"Endpoint {made.endpoint.id}. The secret is not shown again.")


def _row(one: webhook_admin_pb2.PartnerEndpoint) -> tuple[str, ...]:
    endpoint = one.endpoint
    status = webhook_pb2.WebhookEndpointStatus.Name(endpoint.status)
    return (
        endpoint.id,
        one.partner_id,
        endpoint.merchant_id or "-",
        mode(live=endpoint.live),
        status.removeprefix("WEBHOOK_ENDPOINT_STATUS_").lower(),
        str(endpoint.failures),
        minute(endpoint, "delivered_at"),
        endpoint.url or "-",
    )


def _attempt(one: webhook_pb2.WebhookAttempt) -> tuple[str, ...]:
    # what strangers answered moves no cursor
    said = replace_unprintable(one.error or one.answer, "?")
    return (
        minute(one, "at"),
        one.event_id,
        one.type,
        str(one.http_status) if one.HasField("http_status") else "-",
        str(one.duration_ms),
        said[:_SAID_CHARS],
    )
