"""Answers while the store does not work, and that no data is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
import pytest_asyncio
from florin.v1 import merchant_pb2, merchant_pb2_grpc
from florin_server.db.engine.query import StoreUnavailable
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from tests.support.api import grpc_metadata, to_api_call_error
from tests.support.calls import CallRequest, PublicCall, list_public_calls
from tests.support.service_harness import (
    DEPLOYED,
    ORDER,
    SPEC,
    PartnerTenant,
    ServiceHarness,
    ServiceResponse,
    open_service,
)
from tests.support.store_factories import run_pragma
from tests.support.until import wait_until

DOWN, RELAYED = (503, "internal_error"), (502, "bad_gateway")
# lists, accounts and refunds; payments and wallets have no code of their own for it
RELAYING = {
    "MerchantService": {
        "ListPayments",
        "ListMerchantPayments",
        "ListPaymentsLegacy",
        "CreateRefund",
    },
    "AdminService": {
        *("CreateMerchant", "ListMerchants", "GetMerchant", "UpdateMerchant", "DeleteMerchant"),
        *("ListSettlements", "CreateCryptoSettlements", "UpdateCryptoSettlement"),
        "DeleteCryptoSettlement",
    },
    "GatewayService": set(),
    "WebhookService": set(),
}
# enough for every path
ANY = CallRequest({"payment_id": "pay_0", "merchant_id": "mrch_0", "id": "crypto_0"}, {})

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def create(desk: ServiceHarness, tenant: PartnerTenant, **headers: str) -> ServiceResponse:
    return await desk.ask("POST", "/v1/payments", {**tenant.headers, **headers}, ORDER)


async def create_by_grpc(desk: ServiceHarness, tenant: PartnerTenant) -> grpc.aio.AioRpcError:
    stub = merchant_pb2_grpc.MerchantServiceStub(desk.channel)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.CreatePayment(
            merchant_pb2.CreatePaymentRequest(amount=ORDER["amount"]),
            metadata=grpc_metadata(tenant.headers),
        )
    return caught.value


class Disk:
    """Commits groups of writes unless it is broken."""

    broken = False

    def __call__(self, step: str) -> None:
        if self.broken and step == "commit":
            raise OSError("no such disk")


DISK = Disk()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    async with open_service(tmp_path_factory.mktemp("outages"), fault=DISK) as desk:
        yield desk


@pytest.fixture
def broken_disk(monkeypatch):
    """Make all commits of write groups fail."""
    return lambda: monkeypatch.setattr(DISK, "broken", True)


@pytest.fixture
def closed(desk, monkeypatch):
    """Make all lookups of credentials fail; the workers continue."""
    read = desk.service.app.store.read

    async def down(op: Any) -> Any:
        if op.steps.__name__ in {"find_key", "find_app"}:
            raise StoreUnavailable("the store is closed")
        return await read(op)

    def begin() -> None:
        monkeypatch.setattr(desk.service.app.store, "read", down)

    return begin


async def test_failed_commit_is_retryable_with_the_same_key(desk, broken_disk, monkeypatch):
    tenant = await desk.tenant()
    before = desk.rows()
    broken_disk()
    for profile in ({}, SPEC, DEPLOYED):
        answer = await create(desk, tenant, **{"Idempotency-Key": "a"}, **profile)
        assert answer.refusal == DOWN
        assert answer.headers["Retry-After"] == "1"
        assert "disk" not in answer.text
    error = await create_by_grpc(desk, tenant)
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert (to_api_call_error(error).http, to_api_call_error(error).code) == DOWN
    retry = error_details_pb2.RetryInfo()
    details: Any = rpc_status.from_call(error)
    assert [detail.Unpack(retry) for detail in details.details].count(True) == 1
    monkeypatch.undo()
    assert desk.rows() == before
    answer = await create(desk, tenant, **{"Idempotency-Key": "a"})
    assert answer.status == 201
    assert "Idempotent-Replayed" not in answer.headers


async def test_a_full_disk_refuses_until_there_is_room(desk):
    tenant = await desk.tenant()
    store = desk.service.app.store
    ((pages,),) = run_pragma(store, "page_count")
    run_pragma(store, f"max_page_count = {pages}")
    created = []
    while (answer := await create(desk, tenant)).status == 201:
        created.append(answer.body["paymentId"])
        assert len(created) < 500
    assert answer.refusal == DOWN
    # existing data is still returned
    for payment_id in created:
        assert (await desk.ask("GET", f"/v1/payments/{payment_id}", tenant.headers)).status == 200
    run_pragma(store, "max_page_count = 1000000")
    assert (await create(desk, tenant)).status == 201


async def get_refusal(
    desk: ServiceHarness, call: PublicCall, headers: dict[str, str]
) -> tuple[int, str]:
    """Return the refusal of a call before its request is read."""
    if call.verb:
        return await call.outcome(desk, ANY, headers)
    service: Any = call.method.containing_service
    unary_unary: Any = desk.channel.unary_unary
    if call.method.server_streaming:
        unary_unary = desk.channel.unary_stream
    metadata = grpc_metadata(headers)
    under_way = unary_unary(f"/{service.full_name}/{call.method.name}")(b"", metadata=metadata)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await (under_way.read() if call.method.server_streaming else under_way)
    error = to_api_call_error(caught.value)
    return error.http, error.code


@pytest.mark.parametrize("call", list(list_public_calls()), ids=str)
async def test_whose_gateway_it_is_that_does_not_answer(desk, closed, call):
    """The deployed profile has a code of its own for it, on some calls."""

    tenant = await desk.tenant()
    closed()
    service, _, name = call.name.partition(".")
    for profile in ({}, SPEC, DEPLOYED):
        relayed = profile is DEPLOYED and name in RELAYING[service]
        answer = await get_refusal(desk, call, {**tenant.headers, **profile})
        assert answer == (RELAYED if relayed else DOWN)


async def test_a_relayed_outage_says_when_to_come_back(desk, closed):
    tenant = await desk.tenant()
    closed()
    answer = await desk.ask("GET", "/v1/payments", {**tenant.headers, **DEPLOYED})
    assert (answer.refusal, answer.headers["Retry-After"]) == (RELAYED, "1")


async def test_the_workers_outlive_an_outage(desk, broken_disk, monkeypatch):
    """A payment that is due, and a confirmed one, wait for the disk and then continue."""
    due = (await desk.rest.create({**ORDER, "expiresAt": desk.now + 5}))["paymentId"]
    offer = await desk.offer()
    await desk.chain.ask("florin_fault", {"kind": "mining", "paused": True})
    assert (await desk.confirm(offer))["status"] == "processing"
    broken_disk()
    await desk.chain.ask("florin_fault", {"kind": "mining", "paused": False})
    await desk.chain.ask("evm_mine")
    ended = [asyncio.create_task(desk.wait_final(item)) for item in (due, offer.payment_id)]
    for _ in range(20):
        desk.clock.advance(1)
        await asyncio.wait(ended, timeout=0.02)
    assert await desk.service.workers.find_problems() == {}
    monkeypatch.undo()

    async def passing() -> None:
        desk.clock.advance(1)

    await wait_until(lambda: all(task.done() for task in ended), meanwhile=passing)
    statuses = [task.result()["status"] for task in ended]
    assert statuses == ["expired", "succeeded"]
