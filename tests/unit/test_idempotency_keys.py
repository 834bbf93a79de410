"""What an idempotency key stands for, and whose turn it is under one."""

from __future__ import annotations

import asyncio
import hashlib
from types import SimpleNamespace

import pytest
from florin.v1 import admin_pb2, gateway_pb2, merchant_pb2
from florin_server.domain.payments.payment import Merchant
from florin_server.flows.app import Caller, IdempotencyKey
from florin_server.rpc.server.idempotency import Guards, key_of
from florin_server.rpc.server.methods import methods_of

METHODS = methods_of(
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
    """Stored keys outlive releases, so that neither scope nor fingerprint may change."""
    found = key_of(method, caller, "a", ORDER)
    body = ORDER.SerializeToString(deterministic=True)
    fingerprint = hashlib.sha256(f"{method.name}\0".encode() + body).digest()
    assert found == IdempotencyKey(scope, "a", fingerprint, permanent=False)


async def unknown(_op):
    """What the store has of a key that nobody used."""


async def test_whoever_leaves_last_leaves_nothing_behind():
    clock, store = SimpleNamespace(now_us=lambda: 0), SimpleNamespace(read=unknown)
    app = SimpleNamespace(sharing=None, clock=clock, store=store)
    guards = Guards(app)  # type: ignore[arg-type]  # turns of one process need no more of it
    await guards.take(KEY, None)
    second = asyncio.create_task(guards.take(KEY, None))
    await asyncio.sleep(0)
    assert guards.calls == 2
    # the first one ends and the second one is cancelled in the same step
    guards.leave(KEY)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert guards.calls == 0
