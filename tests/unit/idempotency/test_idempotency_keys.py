"""Test the scope of idempotency keys, and the order of calls under one key."""

from __future__ import annotations

import asyncio
import hashlib
from types import SimpleNamespace

import pytest
from florin.v1 import admin_pb2, gateway_pb2, merchant_pb2
from florin_server.api.server.idempotency import IdempotencyLocks, build_idempotency_key
from florin_server.api.server.methods import index_methods
from florin_server.domain.accounts.caller import Caller, IdempotencyKey
from florin_server.domain.payments.payment import Merchant

METHODS = index_methods(
    [
        admin_pb2.DESCRIPTOR.services_by_name["AdminService"],
        gateway_pb2.DESCRIPTOR.services_by_name["GatewayService"],
        merchant_pb2.DESCRIPTOR.services_by_name["MerchantService"],
    ]
)
CREATE = METHODS["/florin.v1.MerchantService/CreatePayment"]
OPTIONS = METHODS["/florin.v1.GatewayService/GetPaymentOptions"]
SHOP = Merchant("mrch_1", "prtn_1", "Shop", "a@shop.example", "", "active", True, 1)
ORDER = merchant_pb2.CreatePaymentRequest(reference_id="order-1")
KEY = IdempotencyKey("scope", "a", b"")


@pytest.mark.parametrize(
    ("caller", "method", "scope"),
    [
        (Caller(live=False, partner_id="prtn_1", merchant=SHOP), CREATE, "prtn_1/mrch_1/test"),
        (Caller(live=True, partner_id="prtn_1", merchant=SHOP), CREATE, "prtn_1/mrch_1/live"),
        (Caller(live=True, partner_id="prtn_1"), CREATE, "prtn_1//live"),
        (Caller(live=True, credential="app_1/c"), OPTIONS, "guard/app_1/c/live"),
        (Caller(live=False, credential="key_1", merchant=SHOP), OPTIONS, "guard/key_1/test"),
    ],
)
def test_a_key_is_its_callers_for_as_long_as_it_is_stored(caller, method, scope):
    """Stored keys outlive releases, so neither scope nor fingerprint may change."""
    idempotency_key = build_idempotency_key(method, caller, "a", ORDER)
    body = ORDER.SerializeToString(deterministic=True)
    fingerprint = hashlib.sha256(f"{method.name}\0".encode() + body).digest()
    assert idempotency_key == IdempotencyKey(scope, "a", fingerprint, permanent=False)


async def unknown(_op):
    """Read nothing, as for an unused key."""


async def test_last_canceled_request_leaves_no_lock_behind():
    clock, store = SimpleNamespace(now_us=lambda: 0), SimpleNamespace(read=unknown)
    app = SimpleNamespace(limit_sync=None, clock=clock, store=store)
    guards = IdempotencyLocks(app)  # type: ignore[arg-type]  # enough for one process
    await guards.acquire(KEY, None)
    second = asyncio.create_task(guards.acquire(KEY, None))
    await asyncio.sleep(0)
    assert guards.call_count == 2
    # the first call ends and the second is canceled in the same step
    guards.release(KEY)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert guards.call_count == 0
