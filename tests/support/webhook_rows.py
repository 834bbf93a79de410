"""Endpoints in a store, and their waiting events: claimed, delivered, or failed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from florin_server.accounts.store import merchants
from florin_server.db.engine.store import Store
from florin_server.domain.accounts.account import Partner
from florin_server.domain.cipher import Cipher
from florin_server.domain.payments.payment import Merchant
from florin_server.domain.webhooks.endpoint import EndpointState, WebhookAttempt, WebhookEndpoint
from florin_server.domain.webhooks.signing import WebhookKeys
from florin_server.features.webhooks.store import claims, deliveries, endpoints
from florin_server.features.webhooks.store.claims import WebhookDeliveryClaim
from florin_server.features.webhooks.store.deliveries import DeliveryPolicy
from florin_server.features.webhooks.store.endpoints import SigningSecret

from tests.support.store_factories import NOW_US

LEASE_US = 60_000_000
DAY_US = 86_400_000_000
POLICY = DeliveryPolicy(give_up_us=3 * DAY_US, attempt_log_size=5)
_SEAL = Cipher([b"k" * 32])


def make_endpoint(number: int = 1, **changes: Any) -> WebhookEndpoint:
    endpoint = WebhookEndpoint(
        id=f"whe_{number:03}",
        partner_id="par_1",
        merchant_id="mer_1",
        live=False,
        url=f"https://shop.example/{number}",
        events=frozenset(),
        description="",
        version="2026-02-18",
        state=EndpointState.ACTIVE,
        paused_reason=None,
        created_at_us=NOW_US,
    )
    return replace(endpoint, **changes)


def make_secret(n: int = 1, expires_at_us: int | None = None) -> SigningSecret:
    keys = WebhookKeys(bytes([n]) * 32, bytes([n + 1]) * 32)
    sealed = _SEAL.encrypt(keys.stored_bytes, "here", lambda size: b"n" * size)
    return SigningSecret(n, sealed, keys.public_key, expires_at_us)


async def add_endpoint(store: Store, number: int = 1, **changes: Any) -> WebhookEndpoint:
    endpoint = make_endpoint(number, **changes)
    assert await store.write(endpoints.add(endpoint, make_secret(), 10)) is None
    return endpoint


async def add_merchant(store: Store) -> Store:
    """Fill a store with a partner and a merchant."""
    await store.write(
        merchants.put_partner(Partner("par_1", "Partner", "2026-02-18", "active", NOW_US))
    )
    merchant = Merchant("mer_1", "par_1", "Shop", "a@b.c", None, "active", False, NOW_US)
    await store.write(merchants.create(merchant))
    return store


async def claim_deliveries(
    store: Store,
    now_us: int = NOW_US,
    busy: Collection[str] = (),
    limit: int = 100,
    crowded: Collection[str] = (),
) -> list[WebhookDeliveryClaim]:
    return await store.write(claims.claim(now_us, LEASE_US, busy, limit, crowded))


def make_attempt(
    delivery: WebhookDeliveryClaim, status: int = 200, at_us: int = NOW_US
) -> WebhookAttempt:
    return WebhookAttempt(
        delivery.endpoint.id, 0, delivery.pending.payment_id, delivery.pending.told + 1,
        "payment.created", at_us, 12, status, None, "ok",
    )  # fmt: skip


async def record_delivered(
    store: Store, delivery: WebhookDeliveryClaim, now_us: int = NOW_US
) -> bool:
    version = delivery.pending.told + 1
    return await store.write(
        deliveries.record_delivered(delivery, version, now_us, make_attempt(delivery), 5)
    )


async def record_failed(
    store: Store, delivery: WebhookDeliveryClaim, now_us: int = NOW_US, **options: Any
) -> EndpointState:
    return await store.write(
        deliveries.record_failure(
            delivery, make_attempt(delivery, 500, now_us), now_us, POLICY, **options
        )
    )
