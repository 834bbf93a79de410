"""The webhooks section: the requests that Florin sends, and how it reads their responses."""

from __future__ import annotations

import re
from typing import Any

from florin.v1 import webhook_pb2
from grpc_rest_gateway.openapi import SchemaRegistry

from florin_server.domain.payments.state import EVENT_DESCRIPTIONS, PaymentStateEvent
from florin_server.domain.webhooks.endpoint import DEPOSIT_TYPES, EVENT_TYPES
from florin_server.domain.webhooks.signing import HEADER_FAMILIES
from florin_server.web.openapi.webhook_examples import make_webhook_example

JsonObject = dict[str, Any]

_SIGNING_NOTE = "See [Standard Webhooks](https://www.standardwebhooks.com)."
_VALUES = {
    "id": "The event's id, equal on every delivery.",
    "timestamp": "Time of signing, in Unix seconds.",
    "signature": (
        f"Signatures, separated by spaces: `v1` by the secret, `v1a` by the public key. "
        f"{_SIGNING_NOTE}"
    ),
}
# libraries read one of the two families
_HEADERS = tuple(
    (f"{family}-{name}", description, {"type": "string"})
    for family in HEADER_FAMILIES
    for name, description in _VALUES.items()
)


def describe_webhooks(schemas: SchemaRegistry) -> JsonObject:
    """Describe one webhook per event type; all types share one schema."""
    body = schemas.build_response(webhook_pb2.WebhookEvent.DESCRIPTOR)
    return {event_type: {"post": _describe_webhook(event_type, body)} for event_type in EVENT_TYPES}


def _describe_type(event_type: str) -> str:
    subject, _, status = event_type.rpartition(".")
    if event_type in DEPOSIT_TYPES:
        description = EVENT_DESCRIPTIONS[PaymentStateEvent(status)]
        return f"{description[0].upper()}{description[1:]}."
    verb = "was" if status in {"created", "settled"} else "is"
    return f"A {subject} {verb} {status}."


def _describe_webhook(event_type: str, body: JsonObject) -> JsonObject:
    name = "".join(part.capitalize() for part in re.split(r"[._]", event_type))
    return {
        "operationId": f"on{name}",
        "tags": ["Webhooks"],
        "summary": _describe_type(event_type),
        "security": [],
        "parameters": [
            {
                "name": name,
                "in": "header",
                "required": True,
                "description": description,
                "schema": schema,
            }
            for name, description, schema in _HEADERS
        ],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {
                        "allOf": [body, {"properties": {"type": {"const": event_type}}}],
                    },
                    "examples": {event_type: {"value": make_webhook_example(event_type)}},
                }
            },
        },
        "responses": {
            "2XX": {"description": "The endpoint accepted the event."},
            "410": {"description": "The endpoint wants no more events; Florin pauses it."},
            "default": {"description": "Florin retries later; redirects count as failures."},
        },
    }
