"""Endpoints in a store, and what waits for them: claimed, told, or failed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from florin_server.domain.accounts.account import Partner
from florin_server.domain.payments.payment import Merchant
from florin_server.domain.sealed import Seal
from florin_server.domain.webhooks.endpoint import Attempt, Endpoint, EndpointState
from florin_server.domain.webhooks.signing import Keys
from florin_server.store.accounts import merchants
from florin_server.store.engine.store import Store
from florin_server.store.webhooks import deliveries, endpoints
from florin_server.store.webhooks.deliveries import Claimed, Policy
from florin_server.store.webhooks.endpoints import Secret

from tests.support.store_kit import NOW_US

LEASE_US = 60_000_000
DAY_US = 86_400_000_000
POLICY = Policy(give_up_us=3 * DAY_US, attempts_kept=5)
_SEAL = Seal([b"k" * 32])


def endpoint(number: int = 1, **changes: Any) -> Endpoint:
    made = Endpoint(
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
    return replace(made, **changes)


def secret(n: int = 1, expires_at_us: int | None = None) -> Secret:
    keys = Keys(bytes([n]) * 32, bytes([n + 1]) * 32)
    sealed = _SEAL.close(keys.kept, "here", lambda size: b"n" * size)
    return Secret(n, sealed, keys.public_key, expires_at_us)


async def added(store: Store, number: int = 1, **changes: Any) -> Endpoint:
    made = endpoint(number, **changes)
    assert await store.write(endpoints.add(made, secret(), 10)) is None
    return made


async def opened_shop(store: Store) -> Store:
    """A store with a partner and a merchant."""
    await store.write(
        merchants.put_partner(Partner("par_1", "Partner", "2026-02-18", "active", NOW_US))
    )
    merchant = Merchant("mer_1", "par_1", "Shop", "a@b.c", None, "active", False, NOW_US)
    await store.write(merchants.create(merchant))
    return store


async def claim(
    store: Store,
    now_us: int = NOW_US,
    busy: Collection[str] = (),
    limit: int = 100,
    crowded: Collection[str] = (),
) -> list[Claimed]:
    return await store.write(deliveries.claim(now_us, LEASE_US, busy, limit, crowded))


def attempt(one: Claimed, status: int = 200, at_us: int = NOW_US) -> Attempt:
    return Attempt(
        one.endpoint.id, 0, one.waiting.payment_id, one.waiting.told + 1, "payment.created", at_us,
        12, status, None, "ok",
    )  # fmt: skip


async def tell(store: Store, one: Claimed, now_us: int = NOW_US) -> bool:
    version = one.waiting.told + 1
    return await store.write(deliveries.told(one, version, now_us, attempt(one), 5))


async def fail(store: Store, one: Claimed, now_us: int = NOW_US, **options: Any) -> EndpointState:
    return await store.write(
        deliveries.failed(one, attempt(one, 500, now_us), now_us, POLICY, **options)
    )
