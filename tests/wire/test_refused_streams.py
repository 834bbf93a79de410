"""A key is revoked, or a partner suspended, while its streams are silent: they end at once."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest
import pytest_asyncio
from florin.v1 import gateway_pb2_grpc, merchant_pb2_grpc, payment_pb2
from florin_server.accounts.store.keys import revoke_app, revoke_key
from florin_server.api.server.auth import Authenticator
from florin_server.base.topics import Topic

from tests.support.api import grpc_metadata
from tests.support.open_responses import wait_no_open_responses
from tests.support.service_harness import CREATE, ORDER, PartnerTenant, ServiceHarness, open_service
from tests.support.until import wait_until

pytestmark = pytest.mark.asyncio(loop_scope="module")
AT_ONCE_S = 10


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    async with open_service(tmp_path_factory.mktemp("shop")) as service:
        yield service


async def revoke(desk: ServiceHarness, tenant: PartnerTenant) -> None:
    key = await desk.service.app.store.write(revoke_key(tenant.key_id, desk.clock.now_us()))
    assert key is not None


async def suspend(desk: ServiceHarness, tenant: PartnerTenant) -> None:
    await tenant.change_partner(status="suspended")


@pytest.mark.parametrize(
    ("change", "code", "status"),
    [
        (revoke, grpc.StatusCode.UNAUTHENTICATED, 401),
        (suspend, grpc.StatusCode.PERMISSION_DENIED, 403),
    ],
)
async def test_silent_streams_end_at_once_when_their_caller_is_refused(desk, change, code, status):
    tenant, other = await desk.tenant(), await desk.tenant()
    async with AsyncExitStack() as stack:
        calls, ids = {}, {}
        for who in (tenant, other):
            answer = await desk.ask("POST", CREATE, who.headers, ORDER)
            ids[who.key_id] = payment_id = answer.body["paymentId"]
            request = payment_pb2.WatchPaymentRequest(payment_id=payment_id)
            metadata = grpc_metadata(who.headers)
            stubs: list[Any] = [
                merchant_pb2_grpc.MerchantServiceStub(desk.channel),
                gateway_pb2_grpc.GatewayServiceStub(desk.channel),
            ]
            calls[who.key_id] = [stub.WatchPayment(request, metadata=metadata) for stub in stubs]
            for call in calls[who.key_id]:
                assert not (await call.read()).payment.is_final
        path = f"/v1/payments/{ids[tenant.key_id]}"
        stream = await stack.enter_async_context(
            desk.session.get(f"{desk.rest.base}{path}/events", headers=tenant.headers)
        )
        assert (await stream.content.readuntil(b"data:")).endswith(b"data:")
        poll = asyncio.create_task(
            desk.ask("GET", f"{path}/status?maxPollMs=600000", tenant.headers)
        )
        # the poll waits once it has taken a slot
        held = desk.service.app.limits.streams
        await wait_until(lambda: sum(held.open_counts.values()), 6)
        await change(desk, tenant)
        desk.service.app.notifier.publish(Topic.ACCOUNTS)
        async with asyncio.timeout(AT_ONCE_S):
            for call in calls[tenant.key_id]:
                assert await call.code() is code
            rest = await stream.content.read()
            assert b"data:" not in rest
            assert (await poll).status == status
        # a stream of another partner continues
        for call in calls[other.key_id]:
            assert not call.done()
            call.cancel()
    await wait_no_open_responses(desk)


async def test_stream_of_a_wallet_ends_when_its_registration_is_revoked(desk):
    headers = await desk.wallet_app()
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    stub: Any = gateway_pb2_grpc.GatewayServiceStub(desk.channel)
    request = payment_pb2.WatchPaymentRequest(payment_id=payment_id)
    call = stub.WatchPayment(request, metadata=grpc_metadata(headers))
    await call.read()
    await desk.service.app.store.write(revoke_app(headers["App-Id"], desk.clock.now_us()))
    desk.service.app.notifier.publish(Topic.ACCOUNTS)
    async with asyncio.timeout(AT_ONCE_S):
        assert await call.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_many_changes_prove_each_credential_a_bounded_number_of_times(desk, monkeypatch):
    """Changes of accounts must not cause an unlimited number of checks of all streams."""
    tenant = await desk.tenant()
    answer = await desk.ask("POST", CREATE, tenant.headers, ORDER)
    stub: Any = merchant_pb2_grpc.MerchantServiceStub(desk.channel)
    request = payment_pb2.WatchPaymentRequest(payment_id=answer.body["paymentId"])
    calls = [
        stub.WatchPayment(
            request, metadata=(*grpc_metadata(tenant.headers), ("request-id", f"stream-{n}"))
        )
        for n in range(20)
    ]
    for call in calls:
        await call.read()
    proofs = 0
    prove = Authenticator.authenticate

    async def counted(*args: Any) -> Any:
        nonlocal proofs
        proofs += 1
        return await prove(*args)

    monkeypatch.setattr(Authenticator, "authenticate", counted)
    for _ in range(100):
        desk.service.app.notifier.publish(Topic.ACCOUNTS)
        await asyncio.sleep(0)
    await revoke(desk, tenant)
    desk.service.app.notifier.publish(Topic.ACCOUNTS)
    async with asyncio.timeout(AT_ONCE_S):
        for call in calls:
            assert await call.code() is grpc.StatusCode.UNAUTHENTICATED
    assert proofs <= 3
