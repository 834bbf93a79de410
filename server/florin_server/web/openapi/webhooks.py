"""The section of webhooks: what Florin itself asks, and what it reads of the answer."""

from __future__ import annotations

from typing import Any

from florin.v1 import webhook_pb2
from florin_gateway.openapi import Schemas

from florin_server.domain.webhooks.endpoint import EVENT_TYPES
from florin_server.domain.webhooks.signing import FAMILIES

Json = dict[str, Any]

_SIGNED = "See [Standard Webhooks](https://www.standardwebhooks.com)."
_VALUES = {
    "id": "The event's id, the same on every delivery.",
    "timestamp": "When it was signed, in seconds since 1970.",
    "signature": (
        f"Signatures with a blank between: `v1` by the secret, `v1a` by the public key. {_SIGNED}"
    ),
}
# libraries read one family or the other
_HEADERS = tuple(
    (f"{family}-{name}", text, {"type": "string"})
    for family in FAMILIES
    for name, text in _VALUES.items()
)


def webhooks(schemas: Schemas) -> Json:
    """One entry for each type of event; all of them have one schema."""
    body = schemas.answer(webhook_pb2.WebhookEvent.DESCRIPTOR)
    return {one: {"post": _told(one, body)} for one in EVENT_TYPES}


def _told(event_type: str, body: Json) -> Json:
    name = "".join(part.capitalize() for part in event_type.split("."))
    subject, _, status = event_type.rpartition(".")
    verb = "was" if status in {"created", "settled"} else "is"
    return {
        "operationId": f"on{name}",
        "tags": ["Webhooks"],
        "summary": f"A {subject} {verb} {status}.",
        "security": [],
        "parameters": [
            {"name": name, "in": "header", "required": True, "description": told, "schema": schema}
            for name, told, schema in _HEADERS
        ],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {
                        "allOf": [body, {"properties": {"type": {"const": event_type}}}],
                    }
                }
            },
        },
        "responses": {
            "2XX": {"description": "The event was taken."},
            "410": {"description": "The endpoint wants nothing any more, and is paused."},
            "default": {"description": "The event is sent again later; redirects count as this."},
        },
    }
