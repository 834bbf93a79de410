"""Test which raw requests the gateway accepts, and which it rejects before any call."""

from __future__ import annotations

import asyncio
import socket

import pytest
from grpc_rest_gateway import GatewaySettings, GuardSettings, ServerSettings

from tests.support.gateway_harness import open_gateway
from tests.support.raw_http import parse_response

pytestmark = pytest.mark.long

LINE = b"GET /v1/gateway/payment/pay_1/status HTTP/1.1\r\n"
POST = b"POST /v1/payments HTTP/1.1\r\nHost: lab\r\nApi-Key: k\r\n"
GOOD = LINE + b"Host: lab\r\nApi-Key: k\r\n\r\n"
LAST = LINE + b"Host: lab\r\nApi-Key: k\r\nConnection: close\r\n"
BODY = b'{"amount":{"unit":"u","value":"1"}}'
HASTE = ServerSettings(guard=GuardSettings(head_s_max=0.2, body_s_max=0.2))


@pytest.fixture
async def running():
    async with open_gateway(
        "local", GatewaySettings(cors_paths=("/v1/gateway/*",)), HASTE
    ) as started:
        yield started


async def talk(running, *parts: bytes) -> bytes:
    """Send the parts; return everything received until the connection closes."""
    reader, writer = await running.connect()
    for part in parts:
        writer.write(part)
        await writer.drain()
    async with asyncio.timeout(5):
        return await reader.read()


def status_of(raw: bytes) -> int:
    return parse_response(raw).status


async def test_a_good_request_keeps_the_connection(running):
    reader, writer = await running.connect()
    for _ in range(3):
        writer.write(GOOD)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        length = int(parse_response(head).headers["content-length"])
        await reader.readexactly(length)


async def test_a_chunked_body_is_read(running):
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in BODY)
    head = POST + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert status_of(await talk(running, head, chunks, b"0\r\n\r\n")) == 201


CHUNKED = POST + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
ONE_CHUNK = b"%x\r\n%s\r\n0\r\n" % (len(BODY), BODY)


async def test_trailers_are_no_headers(running):
    stranger = CHUNKED.replace(b"Api-Key: k\r\n", b"")
    assert status_of(await talk(running, stranger + ONE_CHUNK + b"Api-Key: k\r\n\r\n")) == 401
    trailers = b"Api-Key: other\r\nIdempotency-Key: i\r\n\r\n"
    assert status_of(await talk(running, CHUNKED + ONE_CHUNK + trailers)) == 201
    (_, _, metadata), *more = running.service.seen
    assert metadata["api-key"] == "k"
    assert "idempotency-key" not in metadata
    assert not more


@pytest.mark.parametrize(
    ("start", "flood"),
    [(b"1;", b"x" * 65_536), (b"0\r\n", b"X: y\r\n" * 100), (b"0\r\nX: ", b"y" * 65_536)],
    ids=["an extension", "trailers", "a trailer"],
)
async def test_body_framing_is_bounded(running, start, flood):
    reader, writer = await running.connect()
    writer.write(CHUNKED + start)

    async def pour() -> None:
        while not writer.is_closing():
            writer.write(flood)
            await writer.drain()

    pouring = asyncio.create_task(pour())
    async with asyncio.timeout(10):
        answer = parse_response(await reader.read())
    pouring.cancel()
    assert (answer.status, answer.json()["code"]) == (400, "invalid_params")
    assert not running.service.seen


async def test_a_refusal_of_head_has_no_body(running):
    raw = await talk(running, b"HEAD" + LINE[3:] + b"Host: a\r\nHost: b\r\n\r\n")
    answer = parse_response(raw)
    assert (answer.status, answer.body) == (400, b"")
    assert int(answer.headers["content-length"]) > 0


async def test_a_body_that_is_not_read_is_not_late(running):
    # more than the server buffers before it computes the first answer
    body = BODY.ljust(300_000)
    outputs = b'{"optionId":"slow","results":[]}'
    slow = POST.replace(b"payments", b"gateway/payment/pay_1/confirm")
    slow += b"Content-Length: %d\r\n\r\n%s" % (len(outputs), outputs)
    reader, writer = await running.connect()
    head = POST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    writer.write(slow + head + body)
    await running.service.entered.wait()
    asyncio.get_running_loop().call_later(3 * HASTE.guard.body_s_max, running.service.gate.set)
    first = await reader.readuntil(b"}")
    assert first.startswith(b"HTTP/1.1 200")
    async with asyncio.timeout(5):
        assert status_of(await reader.read()) == 201


async def test_expect_continue_is_answered_before_the_body(running):
    head = POST + b"Connection: close\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
    reader, writer = await running.connect()
    writer.write(head % len(BODY))
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(BODY)
    assert status_of(await reader.read()) == 201


async def test_a_dripping_head_is_late_all_the_same(running):
    reader, writer = await running.connect()

    async def drip() -> None:
        writer.write(LINE)
        for byte in b"x" * 100:
            writer.write(bytes((byte,)))
            await asyncio.sleep(0.02)

    dripping = asyncio.create_task(drip())
    async with asyncio.timeout(5):
        answer = parse_response(await reader.read())
    dripping.cancel()
    assert answer.status == 408
    assert answer.headers["access-control-allow-origin"] == "*"


async def test_an_answer_may_take_longer_than_a_head(running):
    head = LINE.replace(b"/status", b"/status?maxPollMs=500")
    raw = await talk(running, head + b"Host: lab\r\nApi-Key: k\r\nConnection: close\r\n\r\n")
    assert status_of(raw) == 200


async def test_a_late_second_request_does_not_hurt_the_first(running):
    slow = LINE.replace(b"/status", b"/status?maxPollMs=500") + b"Host: lab\r\nApi-Key: k\r\n\r\n"
    raw = await talk(running, slow + b"GET /half")
    first, second = raw.split(b"HTTP/1.1 ")[1:]
    assert first.startswith(b"200")
    assert second.startswith(b"408")


async def test_a_late_second_body_does_not_hurt_the_first(running):
    slow = LINE.replace(b"/status", b"/status?maxPollMs=500") + b"Host: lab\r\nApi-Key: k\r\n\r\n"
    raw = await talk(running, slow + POST + b"Content-Length: 35\r\n\r\n" + BODY[:9])
    first, second = raw.split(b"HTTP/1.1 ")[1:]
    assert first.startswith(b"200")
    assert second.startswith(b"408")
    assert "CreatePayment" not in running.service.calls


async def test_a_malformed_second_request_is_answered_in_turn(running):
    slow = LINE.replace(b"/status", b"/status?maxPollMs=100") + b"Host: lab\r\nApi-Key: k\r\n\r\n"
    raw = await talk(running, slow + LINE + b"Host: a\r\nHost: b\r\n\r\n" + GOOD)
    first, second = raw.split(b"HTTP/1.1 ")[1:]
    assert first.startswith(b"200")
    assert second.startswith(b"400")


async def test_requests_in_a_row_are_answered_in_order(running):
    slow = LINE.replace(b"/status", b"/status?maxPollMs=50") + b"Host: lab\r\nApi-Key: k\r\n\r\n"
    last = LINE + b"Host: lab\r\nConnection: close\r\n\r\n"
    raw = await talk(running, slow + GOOD + last)
    assert [part[:3] for part in raw.split(b"HTTP/1.1 ")[1:]] == [b"200", b"200", b"401"]


async def test_an_upgrade_is_not_followed(running):
    head = LINE + b"Host: lab\r\nApi-Key: k\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    raw = await talk(running, head + b"PRI * HTTP/2.0\r\n\r\n")
    assert raw.count(b"HTTP/1.1 ") == 1
    assert status_of(raw) == 200


async def test_a_client_that_hangs_up_amid_a_body_calls_nothing(running):
    reader, writer = await running.connect()
    writer.write(POST + b"Content-Length: 35\r\n\r\n" + BODY[:9])
    writer.write_eof()
    async with asyncio.timeout(5):
        await reader.read()
    assert not running.service.seen


async def test_server_uses_a_provided_socket():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        async with open_gateway(
            "local", server_settings=ServerSettings(), sock=listener
        ) as running:
            assert running.server.port == port
            assert status_of(
                await talk(running, GOOD.replace(b"k\r\n", b"k\r\nConnection: close\r\n"))
            )
