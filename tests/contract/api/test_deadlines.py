"""Callers whose deadline passes or who leave: reads end with them, started changes are finished."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from florin.v1 import gateway_pb2, gateway_pb2_grpc, merchant_pb2, merchant_pb2_grpc

from tests.support.api import grpc_metadata
from tests.support.service_harness import ORDER, PartnerTenant, PaymentOffer, ServiceHarness
from tests.support.wallet import EvmTestWallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

# long enough to reach the point where the call is stopped, on a busy machine too
SOON_MS = 1000


class Held:
    """An operation that answers when it is released, and records how the wait for it ended."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.call_started = asyncio.Event()
        self.released = asyncio.Event()
        self.call_canceled = asyncio.Event()

    async def __call__(self, *args: Any) -> Any:
        self.call_started.set()
        try:
            await self.released.wait()
        except asyncio.CancelledError:
            self.call_canceled.set()
            raise
        return await self.inner(*args)


def hold(monkeypatch, owner: Any, name: str) -> Held:
    held = Held(getattr(owner, name))
    monkeypatch.setattr(owner, name, held)
    return held


@pytest.fixture
def rail(desk) -> Any:
    (rail,) = desk.service.app.rails.values()
    return rail


def options_by_grpc(desk: ServiceHarness, payment_id: str, seconds: float | None = None) -> Any:
    request = gateway_pb2.GetPaymentOptionsRequest(
        payment_id=payment_id, accounts=[EvmTestWallet().account]
    )
    stub = gateway_pb2_grpc.GatewayServiceStub(desk.channel)
    return stub.GetPaymentOptions(request, metadata=desk.grpc.wallet, timeout=seconds)


def create_by_grpc(desk: ServiceHarness, tenant: PartnerTenant, seconds: float) -> Any:
    stub = merchant_pb2_grpc.MerchantServiceStub(desk.channel)
    request = merchant_pb2.CreatePaymentRequest(amount=ORDER["amount"])
    metadata = grpc_metadata(tenant.headers)
    return stub.CreatePayment(request, metadata=metadata, timeout=seconds)


async def created(desk: ServiceHarness) -> str:
    return str((await desk.rest.create(ORDER))["paymentId"])


async def test_a_read_past_its_deadline_ends_over_grpc(desk, rail, monkeypatch):
    payment_id = await created(desk)
    held = hold(monkeypatch, rail.offers, "list_payable")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await options_by_grpc(desk, payment_id, SOON_MS / 1000)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await asyncio.wait_for(held.call_canceled.wait(), 10)


async def test_a_read_past_its_deadline_ends_over_rest(desk, rail, monkeypatch):
    path = f"/v1/gateway/payment/{await created(desk)}/options"
    held = hold(monkeypatch, rail.offers, "list_payable")
    headers = {**desk.rest.wallet, "grpc-timeout": f"{SOON_MS}m"}
    answer = await desk.ask("POST", path, headers, {"accounts": [EvmTestWallet().account]})
    assert answer.refusal == (503, "internal_error")
    await asyncio.wait_for(held.call_canceled.wait(), 10)


async def test_a_read_ends_when_its_caller_leaves_over_grpc(desk, rail, monkeypatch):
    payment_id = await created(desk)
    held = hold(monkeypatch, rail.offers, "list_payable")
    call = options_by_grpc(desk, payment_id)
    await held.call_started.wait()
    call.cancel()
    await asyncio.wait_for(held.call_canceled.wait(), 10)


async def test_a_read_ends_when_its_caller_leaves_over_rest(desk, monkeypatch):
    path = f"/v1/gateway/payment/{await created(desk)}"
    held = hold(monkeypatch, desk.service.app.store.payments, "find")
    call = asyncio.create_task(desk.ask("GET", path, desk.rest.wallet))
    await held.call_started.wait()
    call.cancel()
    await asyncio.wait_for(held.call_canceled.wait(), 10)


async def test_a_call_whose_deadline_has_passed_changes_nothing_over_rest(desk):
    before = desk.rows()
    headers = {**desk.rest.merchant, "grpc-timeout": "0m", "Idempotency-Key": "late"}
    answer = await desk.ask("POST", "/v1/payments", headers, ORDER)
    assert answer.refusal == (503, "internal_error")
    assert desk.rows() == before
    # the key is unused
    del headers["grpc-timeout"]
    assert (await desk.ask("POST", "/v1/payments", headers, {})).status == 400
    assert (await desk.ask("POST", "/v1/payments", headers, ORDER)).status == 201


async def test_a_call_whose_deadline_has_passed_changes_nothing_over_grpc(desk, monkeypatch):
    """Its deadline passes while its credential is still being looked up."""
    tenant = await desk.tenant()
    before = desk.rows()
    held = hold(monkeypatch, desk.service.app.store, "read")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await create_by_grpc(desk, tenant, SOON_MS / 1000)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await asyncio.wait_for(held.call_canceled.wait(), 10)
    held.released.set()
    assert desk.rows() == before


def confirm_request(offer: PaymentOffer) -> dict[str, Any]:
    results = [{"type": "walletRpc", "data": offer.outputs}]
    return {"optionId": offer.option_id, "results": results}


@pytest.mark.parametrize("key", [{}, {"Idempotency-Key": "a"}])
@pytest.mark.parametrize("how", ["rest leaves", "grpc leaves", "rest is late", "grpc is late"])
async def test_confirm_completes_after_its_caller_leaves(desk, rail, monkeypatch, how, key):
    offer = await desk.offer()
    held = hold(monkeypatch, rail.verifier, "verify")
    path = f"/v1/gateway/payment/{offer.payment_id}/confirm"
    headers = {**desk.rest.wallet, **key, "Client-Id": f"{how} {key}"}
    if how == "rest is late":
        headers["grpc-timeout"] = f"{SOON_MS}m"
    if how.startswith("rest"):
        call = asyncio.create_task(desk.ask("POST", path, headers, confirm_request(offer)))
    else:
        request = gateway_pb2.ConfirmPaymentRequest(
            payment_id=offer.payment_id,
            option_id=offer.option_id,
            results=[
                gateway_pb2.ActionResult(
                    type=gateway_pb2.ACTION_RESULT_TYPE_WALLET_RPC,
                    output_json=[f'"{output}"' for output in offer.outputs],
                )
            ],
        )
        stub = gateway_pb2_grpc.GatewayServiceStub(desk.channel)
        call = stub.ConfirmPayment(
            request,
            metadata=grpc_metadata(headers),
            timeout=SOON_MS / 1000 if "late" in how else 20,
        )
    await held.call_started.wait()
    if "leaves" in how:
        call.cancel()
    elif how.startswith("rest"):
        assert (await call).refusal == (503, "internal_error")
    else:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    held.released.set()
    state = await asyncio.wait_for(desk.wait_final(offer.payment_id), 20)
    assert state["status"] == "succeeded"
    assert not held.call_canceled.is_set()
    if key:
        # the result under the key is known
        answer = await desk.ask("POST", path, headers, {**confirm_request(offer), "optionId": "x"})
        assert answer.body["details"] == {"reason": "different_body"}
