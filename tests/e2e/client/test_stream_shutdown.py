"""SIGTERM to a service ends streams so that clients do not take payments for final."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import grpc
import pytest
from florin.v1 import gateway_pb2_grpc, merchant_pb2_grpc, payment_pb2
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from tests.support.api import RestApi
from tests.support.command import RunningCommand
from tests.support.service_harness import ORDER

pytestmark = pytest.mark.long
FINAL_S = 60


@pytest.fixture
def up(tmp_path, forks):
    """Start `florin up`, and restart it at the same addresses with the same state."""
    started: list[RunningCommand] = []

    def start() -> RunningCommand:
        ports = {"FLORIN_GRPC_PORT": "0", "FLORIN_HTTP_PORT": "0"}
        if started:
            env = started[0].env
            ports["FLORIN_GRPC_PORT"] = env["FLORIN_GRPC_TARGET"].rpartition(":")[2]
            ports["FLORIN_HTTP_PORT"] = env["FLORIN_BASE_URL"].rpartition(":")[2]
        started.append(forks.start_lasting("up", home=tmp_path / "home", **ports))
        return started[-1]

    yield start
    for command in started:
        if command.process.poll() is None:
            command.send_signal(signal.SIGTERM)
            assert command.wait_ended().status == 0


@pytest.fixture
def remote(tmp_path, forks):
    """Start a gateway in a process of its own, in front of a service."""
    started: list[RunningCommand] = []

    def start(florin: RunningCommand) -> str:
        target = florin.env["FLORIN_GRPC_TARGET"]
        command = forks.start_lasting("gateway", "--upstream", target, home=tmp_path / "gateway")
        started.append(command)
        (url,) = re.findall(r"http://\S+", command.out)
        return str(url).rstrip("/")

    yield start
    for command in started:
        command.send_signal(signal.SIGTERM)
        assert command.wait_ended().status == 0


def metadata(env: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return (("api-key", env["FLORIN_PARTNER_KEY"]), ("merchant-id", env["FLORIN_MERCHANT_ID"]))


async def events(stream: aiohttp.ClientResponse) -> list[tuple[int, dict[str, Any]]]:
    """Return the events of a stream up to its end, each with its id."""
    results, event_id = [], -1
    async for line in stream.content:
        if line.startswith(b"id:"):
            event_id = int(line[3:])
        elif line.startswith(b"data:"):
            results.append((event_id, json.loads(line[5:])))
    return results


async def read_to_end(call: Any) -> None:
    """Read the rest of a stream that was read before; AioRpcError unless it ends with OK."""
    while await call.read() is not grpc.aio.EOF:
        pass


def assert_resumable(error: grpc.aio.AioRpcError, version: str) -> None:
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    status = rpc_status.from_call(error)
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    details = {detail.TypeName(): detail for detail in status.details}
    assert details[info.DESCRIPTOR.full_name].Unpack(info)
    assert details[retry.DESCRIPTOR.full_name].Unpack(retry)
    assert info.metadata["afterVersion"] == version


async def test_streams_end_unavailable_at_sigterm_and_resume_after_their_version(up, remote):
    florin = await asyncio.to_thread(up)
    env = florin.env
    away = await asyncio.to_thread(remote, florin)
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())
        channel = await stack.enter_async_context(
            grpc.aio.insecure_channel(env["FLORIN_GRPC_TARGET"])
        )
        api = RestApi(session, env["FLORIN_BASE_URL"], env)
        payment_id = (await api.create(ORDER))["paymentId"]
        request = payment_pb2.WatchPaymentRequest(payment_id=payment_id)
        silent = payment_pb2.WatchPaymentRequest(payment_id=payment_id, after_version=0)
        merchant: Any = merchant_pb2_grpc.MerchantServiceStub(channel)
        wallet: Any = gateway_pb2_grpc.GatewayServiceStub(channel)
        calls = [
            merchant.WatchPayment(request, metadata=metadata(env)),
            wallet.WatchPayment(request, metadata=metadata(env)),
        ]
        for call in calls:
            assert not (await call.read()).payment.is_final
        calls.append(merchant.WatchPayment(silent, metadata=metadata(env)))
        # the initial metadata shows that the stream is open
        await calls[-1].initial_metadata()
        streams, polls = [], []
        for base in (env["FLORIN_BASE_URL"], away):
            for path, headers in (
                (f"/v1/payments/{payment_id}", api.merchant),
                (f"/v1/gateway/payment/{payment_id}", api.wallet),
            ):
                stream = await stack.enter_async_context(
                    session.get(f"{base}{path}/events", headers=headers)
                )
                assert stream.status == 200
                streams.append(stream)
                poll = session.get(f"{base}{path}/status?maxPollMs=20000", headers=headers)
                polls.append(asyncio.ensure_future(stack.enter_async_context(poll)))
        page = f"{env['FLORIN_BASE_URL']}/{payment_id}/events"
        streams.append(await stack.enter_async_context(session.get(page)))
        reading = [asyncio.create_task(events(stream)) for stream in streams]
        florin.send_signal(signal.SIGTERM)
        for call in calls:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await read_to_end(call)
            assert_resumable(caught.value, "0")
        for results in await asyncio.gather(*reading):
            assert [(version, state["isFinal"]) for version, state in results] == [(0, False)]
        for poll in polls:
            answer = await asyncio.wait_for(poll, FINAL_S)
            # long polls end with the last state seen, or are refused with a retry delay
            assert answer.status in {200, 503}
            body = await answer.json()
            assert body.get("isFinal", False) is False
        await asyncio.to_thread(florin.wait_ended)
        await asyncio.to_thread(up)
        await api.merchant_cancel(payment_id)
        stream = session.get(
            f"{env['FLORIN_BASE_URL']}/v1/payments/{payment_id}/events",
            headers={**api.merchant, "Last-Event-ID": "0"},
        )
        async with stream as resumed:
            ((version, state),) = await events(resumed)
        assert (version, state["status"], state["isFinal"]) == (1, "cancelled", True)
        call = merchant.WatchPayment(silent, metadata=metadata(env), wait_for_ready=True)
        assert [update.version async for update in call] == [1]
        assert await call.code() is grpc.StatusCode.OK
