"""The messages of a payment's events: subject, headers and the body of the webhook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from florin_server.domain.webhooks.signing import format_event_id
from florin_server.domain.webhooks.snapshot import snapshot_at
from florin_server.features.event_sink.service.broker import EventEncoder
from florin_server.features.event_sink.store.queue import QueuedEvents

# JetStream stores a message with an id that it knows only once
_ID_HEADER = "Nats-Msg-Id"


@dataclass(frozen=True, slots=True)
class EventMessage:
    """One event for the broker, at its place in the payment's events."""

    place: int
    subject: str
    headers: Mapping[str, str]
    body: bytes


def build_messages(
    encode_event: EventEncoder, prefix: str, queued: QueuedEvents
) -> Iterator[EventMessage]:
    """Yield the messages of the unpublished events, in their order."""
    payment = queued.payment
    mode = "live" if payment.live else "test"
    for event in queued.pending_events:
        if event.event_type is None:
            continue
        snapshot = snapshot_at(payment, queued.option, queued.history, event)
        headers = {
            _ID_HEADER: format_event_id(payment.id, event.place),
            "Content-Type": "application/json",
            "Florin-Event-Type": event.event_type,
            "Florin-Mode": mode,
            "Florin-Merchant-Id": to_subject_token(payment.merchant_id),
            "Florin-Payment-Id": payment.id,
            "Florin-Sequence": str(event.place),
        }
        subject = f"{prefix}.{mode}.{to_subject_token(payment.merchant_id)}.{event.event_type}"
        yield EventMessage(event.place, subject, headers, encode_event(snapshot))


def to_subject_token(text: str) -> str:
    """Return a text as one token of a subject: characters with a meaning there are percent-encoded.

    Partners can choose the ids of their merchants.
    """
    return quote(text, safe="").replace(".", "%2E").replace("~", "%7E")
