"""What callers are told while the store does not work, and that nothing is lost by it."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
import pytest_asyncio
from florin.v1 import merchant_pb2, merchant_pb2_grpc
from florin_server.store.engine.query import StoreUnavailable
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from tests.support.api import grpc_metadata, refused
from tests.support.calls import Call, Request, public_calls
from tests.support.desk import DEPLOYED, ORDER, SPEC, Answer, Desk, Tenant, opened
from tests.support.store_kit import pragma
from tests.support.until import until

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
ANY = Request({"payment_id": "pay_0", "merchant_id": "mrch_0", "id": "crypto_0"}, {})

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def create(desk: Desk, tenant: Tenant, **headers: str) -> Answer:
    return await desk.ask("POST", "/v1/payments", {**tenant.headers, **headers}, ORDER)


async def create_by_grpc(desk: Desk, tenant: Tenant) -> grpc.aio.AioRpcError:
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
    async with opened(tmp_path_factory.mktemp("outages"), fault=DISK) as desk:
        yield desk


@pytest.fixture
def broken_disk(monkeypatch):
    """No group of writes can be committed."""
    return lambda: monkeypatch.setattr(DISK, "broken", True)


@pytest.fixture
def closed(desk, monkeypatch):
    """Nobody's credential can be looked up; the workers go on."""
    read = desk.service.app.store.read

    async def down(op: Any) -> Any:
        if op.steps.__name__ in {"key_by_id", "app"}:
            raise StoreUnavailable("the store is closed")
        return await read(op)

    def begin() -> None:
        monkeypatch.setattr(desk.service.app.store, "read", down)

    return begin


async def test_what_cannot_be_committed_may_be_sent_again(desk, broken_disk, monkeypatch):
    tenant = await desk.tenant()
    before = desk.rows()
    broken_disk()
    for profile in ({}, SPEC, DEPLOYED):
        answer = await create(desk, tenant, **{"Idempotency-Key": "a"}, **profile)
        assert answer.told == DOWN
        assert answer.headers["Retry-After"] == "1"
        assert "disk" not in answer.text
    error = await create_by_grpc(desk, tenant)
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert (refused(error).http, refused(error).code) == DOWN
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
    ((pages,),) = pragma(store, "page_count")
    pragma(store, f"max_page_count = {pages}")
    made = []
    while (answer := await create(desk, tenant)).status == 201:
        made.append(answer.body["paymentId"])
        assert len(made) < 500
    assert answer.told == DOWN
    # what is there is still told
    for payment_id in made:
        assert (await desk.ask("GET", f"/v1/payments/{payment_id}", tenant.headers)).status == 200
    pragma(store, "max_page_count = 1000000")
    assert (await create(desk, tenant)).status == 201


async def told(desk: Desk, call: Call, headers: dict[str, str]) -> tuple[int, str]:
    """What a call is refused with before anybody reads its request."""
    if call.verb:
        return await call.outcome(desk, ANY, headers)
    service: Any = call.method.containing_service
    made: Any = desk.channel.unary_unary
    if call.method.server_streaming:
        made = desk.channel.unary_stream
    metadata = grpc_metadata(headers)
    under_way = made(f"/{service.full_name}/{call.method.name}")(b"", metadata=metadata)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await (under_way.read() if call.method.server_streaming else under_way)
    error = refused(caught.value)
    return error.http, error.code


@pytest.mark.parametrize("call", list(public_calls()), ids=str)
async def test_whose_gateway_it_is_that_does_not_answer(desk, closed, call):
    """The deployed profile has a code of its own for it, on some calls."""

    tenant = await desk.tenant()
    closed()
    service, _, name = call.name.partition(".")
    for profile in ({}, SPEC, DEPLOYED):
        relayed = profile is DEPLOYED and name in RELAYING[service]
        answer = await told(desk, call, {**tenant.headers, **profile})
        assert answer == (RELAYED if relayed else DOWN)


async def test_a_relayed_outage_says_when_to_come_back(desk, closed):
    tenant = await desk.tenant()
    closed()
    answer = await desk.ask("GET", "/v1/payments", {**tenant.headers, **DEPLOYED})
    assert (answer.told, answer.headers["Retry-After"]) == (RELAYED, "1")


async def test_the_workers_outlive_an_outage(desk, broken_disk, monkeypatch):
    """A payment that is due, and one that is confirmed, wait for the disk and then go on."""
    due = (await desk.rest.create({**ORDER, "expiresAt": desk.now + 5}))["paymentId"]
    offer = await desk.offer()
    await desk.chain.ask("florin_fault", {"kind": "mining", "paused": True})
    assert (await desk.confirm(offer))["status"] == "processing"
    broken_disk()
    await desk.chain.ask("florin_fault", {"kind": "mining", "paused": False})
    await desk.chain.ask("evm_mine")
    ended = [asyncio.create_task(desk.final(one)) for one in (due, offer.payment_id)]
    for _ in range(20):
        desk.clock.advance(1)
        await asyncio.wait(ended, timeout=0.02)
    assert await desk.service.workers.problems() == {}
    monkeypatch.undo()

    async def passing() -> None:
        desk.clock.advance(1)

    await until(lambda: all(task.done() for task in ended), meanwhile=passing)
    statuses = [task.result()["status"] for task in ended]
    assert statuses == ["expired", "succeeded"]
