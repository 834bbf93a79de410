"""Cached accounts: changes made here act at once, changes made elsewhere in 5 s.

Calls that move money see changes at once (test_standing.py), so these calls move none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import pytest_asyncio
from florin_server.accounts.service import keys
from florin_server.accounts.store import keys as key_store
from florin_server.accounts.store import merchants
from florin_server.api.server import auth
from florin_server.base.topics import Topic
from florin_server.domain.payments.payment import Merchant

from tests.support.service_harness import PartnerTenant, ServiceHarness
from tests.support.until import wait_until

CREATE = "/v1/payments"
WRONG_KEY, FORBIDDEN = (401, "invalid_api_key"), (403, "forbidden")
NO_MERCHANT = (404, "merchant_not_found")
ADMITTED = (400, "params_validation")

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def tenant(desk) -> PartnerTenant:
    return await desk.tenant()


async def knock(desk: ServiceHarness, tenant: PartnerTenant) -> tuple[int, str]:
    """Return the refusal of an empty call that requires an active merchant."""
    return (await desk.ask("POST", CREATE, tenant.headers, {})).refusal


@dataclass
class Change:
    """A change in the store without a notification for this process."""

    make: Callable[[ServiceHarness, PartnerTenant], Any]
    refusal: tuple[int, str]


CHANGES = {
    "key revoked": Change(lambda d, t: key_store.revoke_key(t.key_id, d.clock.now_us()), WRONG_KEY),
    "partner suspended": Change(
        lambda d, t: merchants.put_partner(replace(t.partner, status="suspended")), FORBIDDEN
    ),
    "merchant suspended": Change(
        lambda d, t: merchants.put_merchant(replace(t.merchant, status="suspended")), FORBIDDEN
    ),
    "merchant deleted": Change(
        lambda d, t: merchants.put_merchant(replace(t.merchant, deleted_at_us=1)), NO_MERCHANT
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_remote_change_applies_within_five_seconds(desk, tenant, change):
    assert await knock(desk, tenant) == ADMITTED
    desk.clock.advance(3)
    # calls do not extend the time in the cache
    assert await knock(desk, tenant) == ADMITTED
    await desk.service.app.store.write(change.make(desk, tenant))
    desk.clock.advance(2)
    # at once, or with this process's next check for changes, where other processes are possible
    await wait_until(lambda: knock(desk, tenant), change.refusal)


async def test_a_wallet_app_revoked_elsewhere_stops_within_five_seconds(desk):
    headers = await desk.wallet_app()
    path = "/v1/gateway/payment/pay_0"
    assert (await desk.ask("GET", path, headers)).status == 404
    store = desk.service.app.store
    app = await store.read(key_store.find_app(headers["App-Id"]))
    assert app is not None
    await store.write(key_store.put_app(replace(app, revoked_at_us=1)))
    desk.clock.advance(5)

    async def get_refusal() -> tuple[int, str]:
        return (await desk.ask("GET", path, headers)).refusal

    await wait_until(get_refusal, (401, "invalid_app_id"))


async def test_local_change_applies_at_once(desk, tenant):
    assert await knock(desk, tenant) == ADMITTED
    await tenant.change_merchant(status="inactive")
    assert await knock(desk, tenant) == FORBIDDEN
    await tenant.change_merchant(status="active")
    assert await knock(desk, tenant) == ADMITTED
    await tenant.change_partner(status="suspended")
    assert await knock(desk, tenant) == FORBIDDEN
    await tenant.change_partner(status="active")
    assert await knock(desk, tenant) == ADMITTED
    await keys.revoke(desk.service.app, tenant.key_id)
    assert await knock(desk, tenant) == WRONG_KEY


async def test_rotated_key_works_at_once_and_the_old_key_until_revoked(desk, tenant):
    assert await knock(desk, tenant) == ADMITTED
    old, (_, new) = tenant.secret, await desk.key(tenant.partner.id)
    tenant.secret = new
    assert await knock(desk, tenant) == ADMITTED
    tenant.secret = old
    assert await knock(desk, tenant) == ADMITTED
    await keys.revoke(desk.service.app, tenant.key_id)
    assert await knock(desk, tenant) == WRONG_KEY
    tenant.secret = new
    assert await knock(desk, tenant) == ADMITTED


async def test_row_changed_during_its_lookup_is_not_cached(desk, tenant, monkeypatch):
    other = await desk.tenant()
    store = desk.service.app.store
    read: Callable[[Any], Awaitable[Any]] = store.read

    async def overtaken(op: Any) -> Any:
        result = await read(op)
        if op.steps.__name__ == "find_merchant":
            monkeypatch.undo()
            await tenant.change_merchant(status="inactive")
            # by now the change is known
            assert await knock(desk, other) == ADMITTED
        return result

    monkeypatch.setattr(store, "read", overtaken)
    assert await knock(desk, tenant) == ADMITTED
    assert await knock(desk, tenant) == FORBIDDEN


@pytest.fixture
def looked_up(desk, monkeypatch) -> list[str]:
    """Record the store's lookups for callers."""
    requests: list[str] = []
    of_callers = {"find_key", "find_partner", "find_merchant"}
    store = desk.service.app.store
    read: Callable[[Any], Awaitable[Any]] = store.read

    async def counted(op: Any) -> Any:
        # workers read too
        requests.extend(of_callers & {op.steps.__name__})
        return await read(op)

    monkeypatch.setattr(store, "read", counted)
    return requests


async def test_a_busy_caller_costs_no_lookup(desk, tenant, looked_up):
    for _ in range(5):
        assert await knock(desk, tenant) == ADMITTED
    assert sorted(looked_up) == ["find_key", "find_merchant", "find_partner"]
    # missing rows are looked up each time: they can exist a moment later
    tenant.merchant = replace(tenant.merchant, id="mrch_unknown")
    looked_up.clear()
    for _ in range(2):
        assert await knock(desk, tenant) == NO_MERCHANT
    assert looked_up == ["find_merchant", "find_merchant"]


async def test_account_cache_is_bounded(desk, tenant, looked_up, monkeypatch):
    monkeypatch.setattr(auth, "_CACHE_MAX", 3)
    desk.service.app.notifier.publish(Topic.ACCOUNTS)
    merchants_ = [await desk.merchant(tenant) for _ in range(10)]

    async def asked_for(*order: Merchant) -> int:
        """Return how many of the merchants had to be looked up."""
        looked_up.clear()
        for tenant.merchant in order:
            assert await knock(desk, tenant) == ADMITTED
        return looked_up.count("find_merchant")

    assert await asked_for(*merchants_) == 10
    # the cache has the last one, and at most two of those before it
    assert await asked_for(merchants_[-1]) == 0
    assert 7 <= await asked_for(*reversed(merchants_)) < 10
