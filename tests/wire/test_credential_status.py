"""Callers whose access ended move nothing, whatever this process has cached of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import pytest_asyncio
from florin.v1 import access_pb2
from florin_server.accounts.store import credential_checks, keys, merchants

from tests.support.calls import PASS, CallRequest, PublicCall, list_public_calls
from tests.support.service_harness import ORDER, PartnerTenant, ServiceHarness

pytestmark = pytest.mark.asyncio(loop_scope="module")

WRONG_KEY, WRONG_APP, FORBIDDEN = (
    (401, "invalid_api_key"),
    (401, "invalid_app_id"),
    (403, "forbidden"),
)
NO_MERCHANT = (404, "merchant_not_found")
READS = access_pb2.KEY_SCOPE_READ
READ_ONLY = frozenset({"read"})
OF_WALLETS = access_pb2.CALLER_FAMILY_GATEWAY
MUTATIONS = [call for call in list_public_calls() if call.rule.scope != READS]
BY_PARTNERS = [call for call in MUTATIONS if call.rule.family != OF_WALLETS]
BY_WALLETS = [call for call in MUTATIONS if call.rule.family == OF_WALLETS]
CONFIRM = next(call for call in BY_WALLETS if str(call).endswith("ConfirmPayment"))


@dataclass(frozen=True)
class Change:
    """A change in the store without a notification for this process."""

    make: Callable[[ServiceHarness, PartnerTenant], Any]
    refusal: tuple[int, str]
    # of calls that require an active merchant
    active_only: bool = False


CHANGES = {
    "key revoked": Change(lambda d, t: keys.revoke_key(t.key_id, d.clock.now_us()), WRONG_KEY),
    "key narrowed": Change(lambda d, t: keys.change_key(t.key_id, None, READ_ONLY), FORBIDDEN),
    "partner suspended": Change(
        lambda d, t: merchants.put_partner(replace(t.partner, status="suspended")), FORBIDDEN
    ),
    "merchant suspended": Change(
        lambda d, t: merchants.put_merchant(replace(t.merchant, status="inactive")),
        FORBIDDEN,
        active_only=True,
    ),
    "merchant deleted": Change(
        lambda d, t: merchants.put_merchant(replace(t.merchant, deleted_at_us=1)),
        NO_MERCHANT,
        active_only=True,
    ),
}
PARTNERS = [
    pytest.param(call, change, id=f"{call}-{name}")
    for call in BY_PARTNERS
    for name, change in CHANGES.items()
    if call.rule.active_merchant or not change.active_only
]


@pytest_asyncio.fixture(loop_scope="module")
async def tenant(desk) -> PartnerTenant:
    return await desk.tenant()


async def remembered(desk: ServiceHarness, headers: dict[str, str]) -> None:
    """Make the process cache the caller."""
    wallet = "App-Id" in headers or "Merchant-Id" not in headers
    path = f"/v1/{'gateway/payment' if wallet else 'payments'}/pay_{'0' * 27}"
    assert (await desk.ask("GET", path, headers)).refusal == (404, "payment_not_found")


async def nothing_done(
    desk: ServiceHarness, call: PublicCall, request: CallRequest, headers: dict[str, str]
) -> tuple[int, str]:
    """Return the refusal; assert that nothing changed."""
    before, now_us = desk.rows(), desk.clock.now_us()
    statuses = desk.select("SELECT id, status FROM payment ORDER BY id")
    result = await call.outcome(desk, request, headers)
    assert desk.rows() == before
    assert desk.select("SELECT id, status FROM payment ORDER BY id") == statuses
    assert desk.clock.now_us() == now_us
    return result


@pytest.mark.parametrize(("call", "change"), PARTNERS)
async def test_a_partner_that_may_no_more_moves_nothing(desk, tenant, call, change):
    request = await call.good.make(desk, tenant)
    await remembered(desk, tenant.headers)
    await desk.service.app.store.write(change.make(desk, tenant))
    sent = {**tenant.headers, "Idempotency-Key": f"{call.name}-{tenant.key_id}"}
    assert await nothing_done(desk, call, request, sent) == change.refusal


@pytest.mark.parametrize("call", BY_WALLETS, ids=str)
@pytest.mark.parametrize("by", ["key", "narrowed key", "app"])
async def test_a_wallet_that_may_no_more_moves_nothing(desk, tenant, call, by):
    request = await call.good.make(desk, tenant)
    if by != "app":
        key_id, secret = await desk.key(None)
        headers = {"Api-Key": secret}
        change, result = keys.revoke_key(key_id, 1), WRONG_KEY
        if by == "narrowed key":
            change, result = keys.change_key(key_id, None, READ_ONLY), FORBIDDEN
    else:
        headers, result = await desk.wallet_app(), WRONG_APP
        change = keys.revoke_app(headers["App-Id"], 1)
    await remembered(desk, headers)
    await desk.service.app.store.write(change)
    assert await nothing_done(desk, call, request, headers) == result


@pytest.mark.parametrize("call", [BY_PARTNERS[0], CONFIRM], ids=str)
async def test_without_the_second_look_they_would(desk, tenant, call, monkeypatch):
    """Otherwise the tests here would find nothing."""
    request = await call.good.make(desk, tenant)
    headers = await desk.wallet_app() if call.rule.family == OF_WALLETS else tenant.headers
    await remembered(desk, headers)
    store = desk.service.app.store
    await store.write(keys.revoke_key(tenant.key_id, 1))
    await store.write(keys.revoke_app(headers.get("App-Id", ""), 1))
    monkeypatch.setattr(credential_checks, "run_if_active", lambda _standing, work: work)
    assert await call.outcome(desk, request, headers) == PASS
    if call.rule.family == OF_WALLETS:
        # or it settles while the next test counts rows
        await desk.wait_final(request.path["payment_id"])


async def test_stored_response_is_refused_to_a_revoked_key(desk, tenant):
    keyed = {**tenant.headers, "Idempotency-Key": f"again-{tenant.key_id}"}
    first, again = [await desk.ask("POST", "/v1/payments", keyed, ORDER) for _ in range(2)]
    assert first.body == again.body
    await desk.service.app.store.write(keys.revoke_key(tenant.key_id, 1))
    assert (await desk.ask("POST", "/v1/payments", keyed, ORDER)).refusal == WRONG_KEY


async def test_stored_response_is_refused_to_a_read_only_key(desk, tenant):
    keyed = {**tenant.headers, "Idempotency-Key": f"again-{tenant.key_id}"}
    assert (await desk.ask("POST", "/v1/payments", keyed, ORDER)).status == 201
    _, reader = await desk.key(tenant.partner.id, scopes=("read",))
    answer = await desk.ask("POST", "/v1/payments", {**keyed, "Api-Key": reader}, ORDER)
    assert answer.refusal == FORBIDDEN
    await desk.service.app.store.write(keys.change_key(tenant.key_id, None, READ_ONLY))
    assert (await desk.ask("POST", "/v1/payments", keyed, ORDER)).refusal == FORBIDDEN


async def test_repeated_confirm_is_refused_to_a_revoked_app(desk, tenant):
    offer, headers = await desk.offer(tenant=tenant), await desk.wallet_app()
    path = f"/v1/gateway/payment/{offer.payment_id}/confirm"
    results = [{"type": "walletRpc", "data": offer.outputs}]
    body = {"optionId": offer.option_id, "results": results}
    for _ in range(2):
        assert (await desk.ask("POST", path, headers, body)).status == 200
    await desk.service.app.store.write(keys.revoke_app(headers["App-Id"], 1))
    assert (await desk.ask("POST", path, headers, body)).refusal == WRONG_APP
    # or it settles while the next test counts rows
    await desk.wait_final(offer.payment_id)


async def test_revoked_app_cannot_fail_a_payment(desk, tenant):
    """Results that match no action end a payment permanently."""
    offer, headers = await desk.offer(tenant=tenant), await desk.wallet_app()
    await remembered(desk, headers)
    await desk.service.app.store.write(keys.revoke_app(headers["App-Id"], 1))
    path = f"/v1/gateway/payment/{offer.payment_id}/confirm"
    results = [{"type": "walletRpc", "data": [*offer.outputs, *offer.outputs]}]
    body = {"optionId": offer.option_id, "results": results}
    assert (await desk.ask("POST", path, headers, body)).refusal == WRONG_APP
    assert (await desk.rest.status(offer.payment_id))["status"] == "requires_action"


async def test_caller_error_is_reported_before_a_request_error(desk, tenant):
    await remembered(desk, tenant.headers)
    await desk.service.app.store.write(keys.revoke_key(tenant.key_id, 1))
    wrong = {**ORDER, "amount": {"unit": "iso4217/XXX", "value": "1250"}}
    assert (await desk.ask("POST", "/v1/payments", tenant.headers, wrong)).refusal == WRONG_KEY
