"""The next event of a payment for an endpoint, and the keys that sign it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from florin_server.db.context import StorageContext
from florin_server.domain.cipher import DecryptionError
from florin_server.domain.webhooks.signing import WebhookKeys, format_event_id
from florin_server.domain.webhooks.snapshot import PaymentSnapshot, snapshot_at
from florin_server.features.webhooks.service.endpoints import get_cipher_context
from florin_server.features.webhooks.store.claims import WebhookDeliveryClaim
from florin_server.features.webhooks.store.deliveries import DeliveryData
from florin_server.features.webhooks.store.endpoints import SigningSecret

# writes the body of an event
EventEncoder = Callable[[PaymentSnapshot], bytes]


@dataclass(frozen=True, slots=True)
class WebhookMessage:
    """One event for an endpoint, at its place."""

    id: str
    place: int
    event_type: str
    body: bytes


def find_next_message(
    encode_event: EventEncoder, delivery: WebhookDeliveryClaim, delivery_data: DeliveryData
) -> WebhookMessage | None:
    """Return the first event that the endpoint subscribes to.

    None if it subscribes to none of them.
    """
    for event in delivery_data.pending_events:
        event_type = event.event_type
        if event_type is None or not delivery.endpoint.is_subscribed(event_type):
            continue
        if not delivery.pending.includes_event(event.place, event_type):
            continue
        snapshot = snapshot_at(
            delivery_data.payment, delivery_data.option, delivery_data.history, event
        )
        name = format_event_id(delivery_data.payment.id, event.place)
        return WebhookMessage(name, event.place, event_type, encode_event(snapshot))
    return None


def decrypt_keys(
    core: StorageContext, endpoint_id: str, secrets: Sequence[SigningSecret]
) -> list[WebhookKeys]:
    """Return the keys that sign messages, the newest first; DecryptionError without the newest."""
    keys: list[WebhookKeys] = []
    for secret in secrets:
        try:
            text = core.cipher.decrypt(secret.sealed, get_cipher_context(endpoint_id, secret.n))
        except DecryptionError:
            if not keys:
                raise
            continue
        keys.append(WebhookKeys.from_bytes(text))
    if not keys:
        raise DecryptionError
    return keys
