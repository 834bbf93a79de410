"""Behind a front each buyer has its own budgets, on every protocol; forged headers give none.

The front is at 127.0.0.1, which is trusted; callers at other addresses of the loopback network are
not.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from ipaddress import ip_network
from typing import Any

import aiohttp
import grpc
import pytest
import pytest_asyncio
from florin.v1 import gateway_pb2_grpc, payment_pb2
from florin_server.settings import LimitSettings

from tests.support.api import to_api_call_error
from tests.support.raw_http import open_raw_socket, read_response
from tests.support.service_harness import ORDER, open_service

TRUSTED = (ip_network("127.0.0.1/32"),)
FRONT, STRANGER = "127.0.0.1", "127.0.0.66"
FORGED = (
    "x-forwarded-for",
    "forwarded",
    "x-real-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "x-client-ip",
    "client-address",
    "gateway-token",
    "via",
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shop(tmp_path_factory):
    few = LimitSettings(page_burst=3, failure_burst=3)
    home = tmp_path_factory.mktemp("fronted")
    async with open_service(home, limits=few, trusted_proxies=TRUSTED) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def payment_id(shop) -> str:
    # limits that the previous test used up are refilled
    shop.clock.advance(600)
    return str((await shop.rest.create(ORDER))["paymentId"])


@asynccontextmanager
async def at(address: str, base: str):
    """Return a function that calls from an address of the loopback network."""
    connector = aiohttp.TCPConnector(local_addr=(address, 0))
    async with aiohttp.ClientSession(base, connector=connector) as session:

        async def ask(path: str, **headers: str) -> int:
            async with session.get(path, headers=headers) as answer:
                return answer.status

        yield ask


async def statuses(ask: Any, path: str, calls: int, **headers: str) -> list[int]:
    return [await ask(path, **headers) for _ in range(calls)]


def forged(number: int) -> dict[str, str]:
    """Return all headers that could pass for an address, with another address each time."""
    return dict.fromkeys(FORGED, f"for=192.0.2.{number}") | {"x-forwarded-for": f"192.0.2.{number}"}


async def test_buyers_behind_a_front_have_their_own_pages(shop, payment_id):
    page = f"/{payment_id}"
    async with at(FRONT, shop.rest.base) as front:
        item, other = {"X-Forwarded-For": "203.0.113.1"}, {"X-Forwarded-For": "203.0.113.2"}
        assert await statuses(front, page, 5, **item) == [200] * 3 + [429] * 2
        assert await statuses(front, page, 5, **other) == [200] * 3 + [429] * 2
        # a buyer's own entry comes before the front's
        more = {"X-Forwarded-For": "198.51.100.7, 203.0.113.1"}
        assert await statuses(front, page, 2, **more) == [429] * 2


async def test_a_forged_header_gives_no_pages(shop, payment_id):
    async with at(STRANGER, shop.rest.base) as stranger:
        result = [await stranger(f"/{payment_id}", **forged(number)) for number in range(6)]
        assert result == [200] * 3 + [429] * 3
    # nor does it use up the budget of the named address
    async with at(FRONT, shop.rest.base) as front:
        assert await front(f"/{payment_id}", **{"X-Forwarded-For": "192.0.2.0"}) == 200


async def test_only_the_header_that_is_configured_counts_of_a_front(shop, payment_id):
    page = f"/{payment_id}"
    async with at(FRONT, shop.rest.base) as front:
        result = [await front(page, Forwarded=f"203.0.113.{n}") for n in range(4)]
        assert result == [200] * 3 + [429]
    async with (
        open_raw_socket(shop.service, "local", proxy_header="forwarded") as rest,
        at(FRONT, f"http://{rest.host}:{rest.port}") as front,
    ):
        shop.clock.advance(600)
        result = [await front(page, Forwarded=f'for="203.0.113.{n}:80"') for n in range(5)]
        assert result == [200] * 5
        result = [await front(page, **{"X-Forwarded-For": f"203.0.113.{n}"}) for n in range(5)]
        assert result == [200] * 3 + [429] * 2


async def test_bad_keys_cost_their_own_sender(shop, payment_id):
    path = f"/v1/gateway/payment/{payment_id}"
    async with at(FRONT, shop.rest.base) as front:
        item = {"App-Id": "app_guess", "Client-Id": "c", "X-Forwarded-For": "2001:db8:1::1"}
        assert await statuses(front, path, 5, **item) == [401] * 3 + [429] * 2
        # one network of IPv6 is one sender
        assert await front(path, **item | {"X-Forwarded-For": "[2001:db8:1::2]:80"}) == 429
        assert await front(path, **item | {"X-Forwarded-For": "2001:db8:2::1"}) == 401


async def test_bad_keys_over_grpc_cost_their_own_sender(shop, payment_id):
    stub = gateway_pb2_grpc.GatewayServiceStub(shop.channel)
    request = payment_pb2.GetPaymentStatusRequest(payment_id=payment_id)

    async def get_error_code(*entries: tuple[str, str]) -> str:
        guess = (("app-id", "app_guess"), ("client-id", "c"))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.GetPaymentStatus(request, metadata=(*guess, *entries))
        return to_api_call_error(caught.value).code

    first, second = ("x-forwarded-for", "203.0.113.1"), ("x-forwarded-for", "203.0.113.2")
    assert [await get_error_code(first) for _ in range(5)][2:] == [
        "invalid_app_id",
        *["rate_limited"] * 2,
    ]
    assert await get_error_code(second) == "invalid_app_id"
    # two lists are combined, in their order
    assert await get_error_code(second, first) == "rate_limited"
    # no other header gives the caller; an unreadable one counts as the front's own
    alone = [await get_error_code(("forwarded", f"192.0.2.{n}")) for n in range(3)]
    assert alone == ["invalid_app_id"] * 3
    assert await get_error_code(("x-forwarded-for", "x" * 4000)) == "rate_limited"


async def test_only_a_trusted_proxy_may_set_the_forwarded_protocol(shop):
    async def get_server_url(address: str, text: str) -> str:
        sent = {"Host": "pay.example", "X-Forwarded-Proto": text}
        connector = aiohttp.TCPConnector(local_addr=(address, 0))
        async with (
            aiohttp.ClientSession(shop.rest.base, connector=connector) as session,
            session.get("/spec/2026-02-18/openapi.json", headers=sent) as answer,
        ):
            (server,) = (await answer.json())["servers"]
            return str(server["url"])

    assert await get_server_url(FRONT, "https") == "https://pay.example"
    assert await get_server_url(FRONT, "javascript") == "http://pay.example"
    assert await get_server_url(STRANGER, "https") == "http://pay.example"


async def test_a_list_that_is_too_long_is_refused_before_it_is_read(shop, payment_id):
    async with at(FRONT, shop.rest.base) as front:
        page = f"/{payment_id}"
        assert await front(page, **{"X-Forwarded-For": "10.0.0.1, " * 1_000 + "203.0.113.1"}) == 200
        assert await front(page, **{"X-Forwarded-For": "10.0.0.1, " * 2_000}) == 431


async def test_proxy_protocol_sets_the_caller_address(shop, payment_id):
    async with open_raw_socket(shop.service, "local", proxy_header="proxy-protocol") as rest:

        async def get_status(preface: bytes, source: str = FRONT, parts: int = 1) -> int | None:
            where = {"local_addr": (source, 0)}
            reader, writer = await asyncio.open_connection(rest.host, rest.port, **where)
            page = f"GET /{payment_id} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n"
            sent = preface + page.encode()
            for start in range(0, len(sent), len(sent) // parts):
                writer.write(sent[start : start + len(sent) // parts])
                await writer.drain()
                await asyncio.sleep(0)
            try:
                async with asyncio.timeout(10):
                    return (await read_response(reader, b"GET")).status
            except (EOFError, ConnectionError):
                return None
            finally:
                writer.close()

        def line(last: int) -> bytes:
            return b"PROXY TCP4 203.0.113.%d 10.0.0.1 5123 443\r\n" % last

        assert [await get_status(line(1), parts=n) for n in (1, 2, 7, 30)] == [200] * 3 + [429]
        assert await get_status(line(2)) == 200
        # the balancer's health check
        assert await get_status(b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0") == 200
        # a trusted proxy without the line, or an untrusted one with it, speaks no HTTP
        assert await get_status(b"") is None
        assert await get_status(b"PROXY TCP4 invalid\r\n") is None
        assert await get_status(line(3), STRANGER) == 400
        assert await get_status(b"", STRANGER) == 200
