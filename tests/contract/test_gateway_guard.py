"""What reaches the gateway over a raw socket, and what is turned away at the door."""

from __future__ import annotations

import asyncio
import socket

import pytest
from florin_gateway import GatewaySettings, GuardSettings, ServerSettings

from tests.contract.gateway_lab import lab, read_answer

LINE = b"GET /v1/gateway/payment/pay_1/status HTTP/1.1\r\n"
POST = b"POST /v1/payments HTTP/1.1\r\nHost: lab\r\nApi-Key: k\r\n"
GOOD = LINE + b"Host: lab\r\nApi-Key: k\r\n\r\n"
LAST = LINE + b"Host: lab\r\nApi-Key: k\r\nConnection: close\r\n"
BODY = b'{"amount":{"unit":"u","value":"1"}}'
HASTE = ServerSettings(guard=GuardSettings(head_s_max=0.2, body_s_max=0.2))


@pytest.fixture
async def running():
    async with lab("local", GatewaySettings(cors_paths=("/v1/gateway/*",)), HASTE) as started:
        yield started


async def talk(running, *parts: bytes) -> bytes:
    """Everything that comes back before the connection ends."""
    reader, writer = await running.connect()
    for part in parts:
        writer.write(part)
        await writer.drain()
    async with asyncio.timeout(5):
        return await reader.read()


def status_of(raw: bytes) -> int:
    return read_answer(raw).status


MALFORMED = {
    "length and chunks": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "length twice": POST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "lengths that differ": POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "length with a list": POST + b"Content-Length: 5, 5\r\n\r\nhello",
    "negative length": POST + b"Content-Length: -5\r\n\r\nhello",
    "signed length": POST + b"Content-Length: +5\r\n\r\nhello",
    "hex length": POST + b"Content-Length: 0x5\r\n\r\nhello",
    "huge length": POST + b"Content-Length: 99999999999999999999999\r\n\r\n",
    "coding unknown": POST + b"Transfer-Encoding: gzip\r\n\r\n",
    "coding twice": POST
    + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "coding list": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "coding obscured": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "coding before the colon": POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "chunks in HTTP/1.0": POST.replace(b"1.1", b"1.0")
    + b"Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunk size malformed": POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
    "chunk size negative": POST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
    "chunk too long": POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
    "no host": LINE + b"Api-Key: k\r\n\r\n",
    "no host in HTTP/1.0": LINE.replace(b"1.1", b"1.0") + b"\r\n",
    "two hosts": LINE + b"Host: a\r\nHost: b\r\n\r\n",
    "bare line feeds": GOOD.replace(b"\r\n", b"\n"),
    "bare carriage return": LINE + b"Host: lab\rApi-Key: k\r\n\r\n",
    "folded header": LINE + b"Host: lab\r\nApi-Key: k\r\n more\r\n\r\n",
    "blank in a name": LINE + b"Host: lab\r\nApi Key: k\r\n\r\n",
    "blank before a colon": LINE + b"Host: lab\r\nApi-Key : k\r\n\r\n",
    "empty name": LINE + b"Host: lab\r\n: k\r\n\r\n",
    "no colon": LINE + b"Host: lab\r\nApi-Key\r\n\r\n",
    "NUL in a value": LINE + b"Host: lab\r\nApi-Key: a\0b\r\n\r\n",
    "NUL in a name": LINE + b"Host: lab\r\nApi\0Key: k\r\n\r\n",
    "key twice": LINE + b"Host: lab\r\nConnection: close\r\nApi-Key: a\r\nApi-Key: b\r\n\r\n",
    "key twice in other case": LINE
    + b"Host: lab\r\nConnection: close\r\nApi-Key: a\r\nAPI-KEY: a\r\n\r\n",
    "key with an underscore": LINE + b"Host: lab\r\nApi_Key: a\r\n\r\n",
    "key in both spellings": LINE + b"Host: lab\r\nApi-Key: a\r\napi_key: b\r\n\r\n",
    "no request": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/0.9": b"GET /v1\r\n\r\n",
    "HTTP/3.0": LINE.replace(b"1.1", b"3.0") + b"Host: lab\r\n\r\n",
    "unknown method": b"FROB" + LINE[3:] + b"Host: lab\r\n\r\n",
    "lower-case method": b"get" + LINE[3:] + b"Host: lab\r\n\r\n",
    "no path": b"GET HTTP/1.1\r\nHost: lab\r\n\r\n",
    "path without slash": b"GET v1/x HTTP/1.1\r\nHost: lab\r\n\r\n",
    "authority as path": b"CONNECT lab:80 HTTP/1.1\r\nHost: lab\r\n\r\n",
    "blank in the path": b"GET /v1/a b HTTP/1.1\r\nHost: lab\r\n\r\n",
    "NUL in the path": b"GET /v1/\0 HTTP/1.1\r\nHost: lab\r\n\r\n",
    "bytes beyond ASCII in the path": b"GET /v1/\xc3\xbc HTTP/1.1\r\nHost: lab\r\n\r\n",
}


@pytest.mark.parametrize("request_bytes", MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_request_is_refused_with_a_body(running, request_bytes):
    raw = await talk(running, request_bytes)
    answer = read_answer(raw)
    huge = b"999999999999999" in request_bytes
    assert answer.status in ({400, 413} if huge else {400, 405, 404})
    assert answer.json()["code"] == "invalid_params"
    assert answer.json()["requestId"] == answer.headers["request-id"]
    assert answer.headers["cache-control"] == "no-store"
    assert raw.count(b"HTTP/1.1 ") == 1
    assert not running.service.seen


async def test_a_good_request_keeps_the_connection(running):
    reader, writer = await running.connect()
    for _ in range(3):
        writer.write(GOOD)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        length = int(read_answer(head).headers["content-length"])
        await reader.readexactly(length)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (LINE + b"Host: lab\r\nX-Big: " + b"x" * 16_400 + b"\r\n\r\n", 431),
        (LINE + b"Host: lab\r\nX-Big: " + b"x" * 1_000_000 + b"\r\n\r\n", 431),
        (LINE + b"Host: lab\r\n" + b"X: y\r\n" * 64 + b"\r\n", 431),
        (b"GET /" + b"x" * 16_400 + b" HTTP/1.1\r\nHost: lab\r\n\r\n", 431),
        (LAST + b"X: y\r\n" * 61 + b"\r\n", 200),
        (LAST + b"X: " + b"x" * 16_000 + b"\r\n\r\n", 200),
    ],
    ids=["one large", "one huge", "many", "long path", "64 pass", "16 000 bytes pass"],
)
async def test_heads_are_bounded(running, head, status):
    assert status_of(await talk(running, head)) == status


@pytest.mark.parametrize(
    "parts",
    [
        (POST + b"Content-Length: 3000000\r\n\r\n",),
        (POST + b"Content-Length: 1048577\r\n\r\n", b"x"),
        (
            POST + b"Transfer-Encoding: chunked\r\n\r\n",
            b"100000\r\n" + b" " * 1048576 + b"\r\n1\r\nx",
        ),
    ],
    ids=["announced", "one byte too many", "in chunks"],
)
async def test_bodies_are_bounded(running, parts):
    answer = read_answer(await talk(running, *parts))
    assert (answer.status, answer.json()["code"]) == (413, "invalid_params")


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
async def test_what_frames_a_body_is_bounded(running, start, flood):
    reader, writer = await running.connect()
    writer.write(CHUNKED + start)

    async def pour() -> None:
        while not writer.is_closing():
            writer.write(flood)
            await writer.drain()

    pouring = asyncio.create_task(pour())
    async with asyncio.timeout(10):
        answer = read_answer(await reader.read())
    pouring.cancel()
    assert (answer.status, answer.json()["code"]) == (400, "invalid_params")
    assert not running.service.seen


async def test_a_refusal_of_head_has_no_body(running):
    raw = await talk(running, b"HEAD" + LINE[3:] + b"Host: a\r\nHost: b\r\n\r\n")
    answer = read_answer(raw)
    assert (answer.status, answer.body) == (400, b"")
    assert int(answer.headers["content-length"]) > 0


async def test_a_body_that_is_not_read_is_not_late(running):
    # more than the server takes in before the first answer is worked out
    body = BODY.ljust(300_000)
    outputs = b'{"optionId":"slow","results":[]}'
    slow = POST.replace(b"payments", b"gateway/payment/pay_1/confirm")
    slow += b"Content-Length: %d\r\n\r\n%s" % (len(outputs), outputs)
    reader, writer = await running.connect()
    head = POST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    writer.write(slow + head + body[:200_000])
    await running.service.entered.wait()
    asyncio.get_running_loop().call_later(3 * HASTE.guard.body_s_max, running.service.gate.set)
    first = await reader.readuntil(b"}")
    assert first.startswith(b"HTTP/1.1 200")
    writer.write(body[200_000:])
    async with asyncio.timeout(5):
        assert status_of(await reader.read()) == 201


async def test_a_body_is_asked_for_where_the_client_waits(running):
    head = POST + b"Connection: close\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
    reader, writer = await running.connect()
    writer.write(head % len(BODY))
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(BODY)
    assert status_of(await reader.read()) == 201


@pytest.mark.parametrize(
    "parts",
    [
        (),
        (b"\r\n\r\n",),
        (b"GET /v1",),
        (LINE, b"Host: lab\r\n"),
        (POST + b"Content-Length: 35\r\n\r\n", BODY[:9]),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n", b"5\r\nhe"),
    ],
    ids=["nothing", "empty lines", "half a line", "half a head", "half a body", "half a chunk"],
)
async def test_what_does_not_arrive_in_time_is_408(running, parts):
    answer = read_answer(await talk(running, *parts))
    assert (answer.status, answer.json()["code"]) == (408, "invalid_params")
    assert not running.service.seen


async def test_a_dripping_head_is_late_all_the_same(running):
    reader, writer = await running.connect()

    async def drip() -> None:
        writer.write(LINE)
        for byte in b"x" * 100:
            writer.write(bytes((byte,)))
            await asyncio.sleep(0.02)

    dripping = asyncio.create_task(drip())
    async with asyncio.timeout(5):
        answer = read_answer(await reader.read())
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


async def test_the_server_uses_a_socket_it_is_given():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        async with lab("local", server_settings=ServerSettings(), sock=listener) as running:
            assert running.server.port == port
            assert status_of(
                await talk(running, GOOD.replace(b"k\r\n", b"k\r\nConnection: close\r\n"))
            )
