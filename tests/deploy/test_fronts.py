"""Florin behind nginx and behind Envoy, as `deploy` sets them up."""

from __future__ import annotations

import asyncio
import json
import ssl
from contextlib import asynccontextmanager
from ipaddress import ip_network
from typing import Any

import aiohttp
import grpc
import pytest
import pytest_asyncio
from florin.v1 import gateway_pb2_grpc, payment_pb2
from florin_server.settings import LimitSettings
from grpc_health.v1 import health_pb2, health_pb2_grpc
from multidict import CIMultiDict

from tests.deploy.front import NAME, Front, running
from tests.support.api import grpc_metadata, to_api_call_error
from tests.support.service import wait_open_responses
from tests.support.service_harness import ORDER, ServiceHarness, open_service
from tests.support.tcp_relay import TcpRelay
from tests.support.until import wait_until

BUYER, OTHER = "127.0.0.66", "127.0.0.67"

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.long]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["nginx", "envoy"])
async def fronted(request, tmp_path_factory):
    """Open a service, and a front of it."""
    home = tmp_path_factory.mktemp("home")
    few = LimitSettings(page_burst=3, failure_burst=3)
    trusted = (ip_network("127.0.0.1/32"),)
    async with open_service(home, limits=few, trusted_proxies=trusted) as desk:
        places = desk.env["FLORIN_BASE_URL"], desk.env["FLORIN_GRPC_TARGET"]
        folder = tmp_path_factory.mktemp(request.param)
        async with running(request.param, folder, *places) as front:
            yield desk, front


@pytest_asyncio.fixture(loop_scope="module")
async def desk(fronted) -> ServiceHarness:
    fronted[0].clock.advance(600)
    return fronted[0]


@pytest.fixture
def front(fronted) -> Front:
    return fronted[1]


@asynccontextmanager
async def browser(front: Front, address: str = NAME):
    """Open a client at an address of the loopback network, with a connection for each request."""
    connector = aiohttp.TCPConnector(local_addr=(address, 0), ssl=front.trust, force_close=True)
    async with aiohttp.ClientSession(front.base, connector=connector) as session:
        yield session


def channel(front: Front, port: int | None = None) -> grpc.aio.Channel:
    roots = front.authority.ca.read_bytes()
    return grpc.aio.secure_channel(
        f"{NAME}:{port or front.port}",
        grpc.ssl_channel_credentials(roots),
        options=(("grpc.use_local_subchannel_pool", 1),),
    )


def wallet(desk: ServiceHarness) -> dict[str, str]:
    return {"App-Id": desk.env["FLORIN_APP_ID"], "Client-Id": "client"}


async def created(desk: ServiceHarness, session: aiohttp.ClientSession) -> str:
    async with session.post("/v1/payments", json=ORDER, headers=desk.rest.merchant) as answer:
        assert answer.status == 201, await answer.text()
        return str((await answer.json())["paymentId"])


async def cancelled(desk: ServiceHarness, session: aiohttp.ClientSession, payment_id: str) -> None:
    path = f"/v1/payments/{payment_id}/cancel"
    async with session.post(path, json={}, headers=desk.rest.merchant) as answer:
        assert answer.status == 200, await answer.text()


async def test_calls_and_pages_pass(desk, front):
    async with browser(front) as session:
        payment_id = await created(desk, session)
        async with session.get(f"/{payment_id}") as page:
            assert page.status == 200
            assert "default-src" in page.headers["Content-Security-Policy"]
        async with session.get("/spec/2026-02-18/openapi.json") as answer:
            assert (await answer.json())["servers"][0]["url"].startswith("https://")
        # refusals are Florin's, including the body
        async with session.get("/v1/payments/pay_0", headers={"Api-Key": "no"}) as answer:
            assert answer.status == 401
            assert (await answer.json())["code"] == "invalid_api_key"
        # paths too: no proxy decodes them
        path = f"/v1/payments/{payment_id}%2Fstatus"
        async with session.get(path, headers=desk.rest.merchant) as answer:
            assert answer.status in {400, 404}


async def test_events_pass_as_they_come(desk, front):
    async with browser(front) as session:
        payment_id = await created(desk, session)
        events = f"/v1/gateway/payment/{payment_id}/events"
        async with session.get(events, headers=wallet(desk)) as stream:
            assert stream.content_type == "text/event-stream"
            lines = aiter(stream.content)

            async def event() -> dict[str, Any]:
                async with asyncio.timeout(10):
                    async for line in lines:
                        if line.startswith(b"data:"):
                            return dict(json.loads(line[5:]))
                raise EOFError

            # before any further event
            assert (await event())["status"] == "requires_action"
            await cancelled(desk, session, payment_id)
            assert (await event())["status"] == "cancelled"


async def test_a_long_poll_is_answered_when_something_happens(desk, front):
    async with browser(front) as session:
        payment_id = await created(desk, session)
        path = f"/v1/gateway/payment/{payment_id}/status?maxPollMs=25000"
        poll = asyncio.create_task(session.get(path, headers=wallet(desk)))
        await wait_open_responses(desk.service, 1)
        await cancelled(desk, session, payment_id)
        async with asyncio.timeout(10), await poll as answer:
            assert (await answer.json())["status"] == "cancelled"


async def test_calls_and_streams_of_grpc_pass(desk, front):
    async with browser(front) as session, channel(front) as direct:
        health = health_pb2_grpc.HealthStub(direct)
        answer = await health.Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        payment_id = await created(desk, session)
        watch = gateway_pb2_grpc.GatewayServiceStub(direct).WatchPayment(
            payment_pb2.WatchPaymentRequest(payment_id=payment_id),
            metadata=grpc_metadata(wallet(desk)),
        )
        async with asyncio.timeout(10):
            assert (await watch.read()).version == 0
            await cancelled(desk, session, payment_id)
            assert (await watch.read()).version == 1


def forged(number: int) -> list[tuple[str, str]]:
    """Return headers with forged addresses: different ones each time, and repeated headers."""
    return [
        ("X-Forwarded-For", f"192.0.2.{number}"),
        ("X-Forwarded-For", f"192.0.2.{number}, 127.0.0.1"),
        ("Forwarded", f"for=192.0.2.{number}"),
        ("X-Real-IP", f"192.0.2.{number}"),
        ("X-Envoy-External-Address", f"192.0.2.{number}"),
        ("X-Forwarded-Proto", "http"),
    ]


async def test_each_buyer_has_its_own_pages_and_none_by_a_lie(desk, front):
    async with browser(front, BUYER) as buyer, browser(front, OTHER) as other:
        payment_id = await created(desk, buyer)

        async def fetch_status(session: aiohttp.ClientSession, number: int) -> int:
            async with session.get(f"/{payment_id}", headers=CIMultiDict(forged(number))) as page:
                return page.status

        assert [await fetch_status(buyer, number) for number in range(5)] == [200] * 3 + [429] * 2
        assert [await fetch_status(other, number) for number in range(5)] == [200] * 3 + [429] * 2


async def test_grpc_callers_behind_a_proxy_are_distinguished(desk, front):
    async def fetch_error_code(port: int, number: int) -> str:
        lie = [(name.lower(), value) for name, value in forged(number)]
        async with channel(front, port) as direct:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await gateway_pb2_grpc.GatewayServiceStub(direct).GetPaymentStatus(
                    payment_pb2.GetPaymentStatusRequest(payment_id="pay_0"),
                    metadata=(("app-id", "app_guess"), ("client-id", "c"), *lie),
                )
        return to_api_call_error(caught.value).code

    async with TcpRelay(front.port, BUYER) as buyer, TcpRelay(front.port, OTHER) as other:
        codes = [await fetch_error_code(buyer.port, number) for number in range(5)]
        assert codes == ["invalid_app_id"] * 3 + ["rate_limited"] * 2
        assert await fetch_error_code(other.port, 0) == "invalid_app_id"
    # REST and gRPC know them by the same address
    async with browser(front, BUYER) as session:
        guess = {"App-Id": "app_guess", "Client-Id": "c"}
        async with session.get("/v1/gateway/payment/pay_0", headers=guess) as answer:
            assert answer.status == 429


async def test_a_new_certificate_refuses_no_request_and_ends_no_stream(desk, front):
    async with browser(front) as session, channel(front) as direct:
        payment_id = await created(desk, session)
        events = f"/v1/gateway/payment/{payment_id}/events"
        async with session.get(events, headers=wallet(desk)) as stream:
            watch = gateway_pb2_grpc.GatewayServiceStub(direct).WatchPayment(
                payment_pb2.WatchPaymentRequest(payment_id=payment_id),
                metadata=grpc_metadata(wallet(desk)),
            )
            assert (await watch.read()).version == 0
            renewed, answers = asyncio.Event(), []

            async def asks() -> None:
                """Call until some time after the certificate has changed."""
                left = 10
                while left:
                    left -= renewed.is_set()
                    path = f"/v1/payments/{payment_id}"
                    async with session.get(path, headers=desk.rest.merchant) as answer:
                        answers.append(answer.status)
                    desk.clock.advance(0.1)

            asking = [asyncio.create_task(asks()) for _ in range(4)]
            await wait_until(lambda: len(answers) > 20)
            number = front.certify()
            front.reload()
            await wait_until(front.shown, number)
            renewed.set()
            await asyncio.gather(*asking)
            assert set(answers) == {200}
            assert len(answers) > 60
            await cancelled(desk, session, payment_id)
            async with asyncio.timeout(10):
                assert (await watch.read()).version == 1
                result = [line async for line in stream.content if line.startswith(b"data:")]
            assert json.loads(result[-1][5:])["status"] == "cancelled"


async def test_plain_text_is_sent_to_tls_or_not_heard(front):
    async with aiohttp.ClientSession() as session:
        url = f"http://{NAME}:{front.plain}/pay_1?a=b"
        if front.kind == "envoy":
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get(url)
            return
        async with session.get(url, allow_redirects=False) as answer:
            assert answer.status == 308
            assert answer.headers["Location"] == f"https://{NAME}/pay_1?a=b"


async def test_http_2_is_spoken(front):
    wants = ssl.create_default_context(cafile=front.authority.ca)
    wants.set_alpn_protocols(["h2", "http/1.1"])
    _, writer = await asyncio.open_connection(NAME, front.port, ssl=wants)
    assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
    writer.close()
