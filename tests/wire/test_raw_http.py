"""Requests as bytes: accepted ones, refused ones, and that bytes behind a refusal are never run.

Each goes through the service's own gateway and through a remote one.
"""

from __future__ import annotations

import json

import pytest
import pytest_asyncio

from tests.support.raw_http import RawResponse, RawSocket, open_raw_socket, parse_response
from tests.support.service_harness import ORDER, ServiceHarness

pytestmark = pytest.mark.asyncio(loop_scope="module")

PARAMS = "invalid_params"
HASTE = {"request_head_s": 0.2, "request_body_s": 0.2}
BODY = json.dumps(ORDER).encode()
HOST = b"Host: pay.example\r\n"


class Lines:
    """Requests of one caller."""

    def __init__(self, desk: ServiceHarness, payment_id: str) -> None:
        self.key = headers(desk.rest.merchant)
        self.app = headers(desk.rest.wallet)
        self.payment_path = f"/v1/payments/{payment_id}".encode()
        self.side = f"/v1/gateway/payment/{payment_id}".encode()

    def get(self, path: bytes = b"", more: bytes = b"", *, line: bytes = b"") -> bytes:
        """Return a merchant's valid read, changed by `more` or by another first line."""
        line = line or b"GET %s HTTP/1.1" % (path or self.payment_path)
        return line + b"\r\n" + HOST + self.key + more + b"\r\n"

    def post(self, framing: bytes, *rest: bytes, path: bytes = b"/v1/payments") -> bytes:
        """Return a valid order in which `framing` replaces the Content-Length."""
        line = b"POST %s HTTP/1.1\r\n" % path
        return line + HOST + self.key + framing + b"\r\n" + b"".join(rest)

    def whole(self, body: bytes = BODY, more: bytes = b"", path: bytes = b"/v1/payments") -> bytes:
        return self.post(b"Content-Length: %d\r\n" % len(body) + more, body, path=path)

    def wallet(self, line: bytes, more: bytes = b"", body: bytes = b"") -> bytes:
        return line + b" HTTP/1.1\r\n" + HOST + self.app + more + b"\r\n" + body


def headers(values: dict[str, str]) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in values.items()).encode()


def chunked(*chunks: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def say(desk) -> Lines:
    return Lines(desk, (await desk.rest.create(ORDER))["paymentId"])


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["local", "remote"])
async def rest(request, desk):
    async with open_raw_socket(desk.service, request.param) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["local", "remote"])
async def hasty(request, desk):
    async with open_raw_socket(desk.service, request.param, **HASTE) as opened:
        yield opened


def check(answer: RawResponse, status: int, code: str, *, browsers: bool) -> None:
    """Check a refusal in the one shape that all have."""
    assert answer.status == status
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert set(answer.json()) <= {"code", "message", "issues", "details", "requestId"}
    assert (answer.json()["code"], bool(answer.json()["message"])) == (code, True)
    assert answer.json()["requestId"] == answer.headers["request-id"]
    assert ("access-control-allow-origin" in answer.headers) is browsers


async def refused_for_good(
    desk: ServiceHarness, opened: RawSocket, status: int, *parts: bytes, browsers: bool = False
) -> RawResponse:
    """Return the refusal of bytes that end a connection: bytes behind them are never run."""
    before = desk.rows()
    raw = await opened.talk(*parts)
    answer = parse_response(raw)
    check(answer, status, PARAMS, browsers=browsers)
    assert answer.headers["connection"] == "close"
    assert raw.count(b"HTTP/1.1 ") == 1
    assert desk.rows() == before
    return answer


CHUNKED = b"Transfer-Encoding: chunked\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
FRAMING = {
    "length and chunks": (LENGTH + CHUNKED, chunked(BODY)),
    "chunks and length": (CHUNKED + LENGTH, chunked(BODY)),
    "length twice": (LENGTH + LENGTH, BODY),
    "lengths that differ": (LENGTH + b"Content-Length: 2\r\n", BODY),
    "a list of lengths": (b"Content-Length: 2, 2\r\n", b"{}"),
    "a negative length": (b"Content-Length: -2\r\n", b"{}"),
    "a signed length": (b"Content-Length: +2\r\n", b"{}"),
    "a hexadecimal length": (b"Content-Length: 0x2\r\n", b"{}"),
    "an empty length": (b"Content-Length: \r\n", b""),
    "a length beyond 64 bits": (b"Content-Length: 99999999999999999999999\r\n", b""),
    "a length with an underscore": (LENGTH + b"Content_Length: 2\r\n", BODY),
    "an unknown coding": (b"Transfer-Encoding: gzip\r\n", BODY),
    "no coding": (b"Transfer-Encoding: identity\r\n", BODY),
    "an empty coding": (b"Transfer-Encoding: \r\n", BODY),
    "a coding twice": (CHUNKED + CHUNKED, chunked(BODY)),
    "a list of codings": (b"Transfer-Encoding: gzip, chunked\r\n", chunked(BODY)),
    "a coding that ends alike": (b"Transfer-Encoding: xchunked\r\n", chunked(BODY)),
    "a blank before the colon": (b"Transfer-Encoding : chunked\r\n", chunked(BODY)),
    "a coding with an underscore": (LENGTH + b"Transfer_Encoding: chunked\r\n", BODY),
    "a folded coding": (b"Transfer-Encoding:\r\n chunked\r\n", chunked(BODY)),
    "a chunk of no size": (CHUNKED, b"zz\r\n" + BODY),
    "a chunk of negative size": (CHUNKED, b"-1\r\n" + BODY),
    "a chunk of size 0x2": (CHUNKED, b"0x2\r\n{}\r\n0\r\n\r\n"),
    "a chunk beyond 64 bits": (CHUNKED, b"fffffffffffffffff\r\n{}\r\n0\r\n\r\n"),
    "a blank behind a size": (CHUNKED, b"2 \r\n{}\r\n0\r\n\r\n"),
    "a line feed behind a size": (CHUNKED, b"2\n{}\r\n0\r\n\r\n"),
    "a line feed in an extension": (CHUNKED, b"2;a\nb\r\n{}\r\n0\r\n\r\n"),
    "a chunk longer than it says": (CHUNKED, b"2\r\n{} \r\n0\r\n\r\n"),
    "a chunk that does not end": (CHUNKED, b"2\r\n{}xx0\r\n\r\n"),
}


@pytest.mark.parametrize("name", FRAMING)
async def test_a_body_that_two_readers_could_cut_differently(desk, rest, say, name):
    framing, rest_of_it = FRAMING[name]
    await refused_for_good(desk, rest, 400, say.post(framing, rest_of_it, say.whole()))


async def test_chunks_in_http_1_0_are_refused_and_nothing_behind_them_is_run(desk, rest, say):
    # if chunks were ignored here, the bytes behind them would be the next request
    for more in (b"", b"Connection: keep-alive\r\n"):
        request = say.post(CHUNKED + more, chunked(BODY)).replace(b"HTTP/1.1", b"HTTP/1.0")
        await refused_for_good(desk, rest, 400, request + say.whole())


HEADS = {
    "no Host": b"",
    "two Hosts": HOST + HOST,
    "Hosts that differ": HOST + b"Host: other\r\n",
    "line feeds alone": HOST.replace(b"\r\n", b"\n"),
    "a carriage return alone": HOST.replace(b"\r\n", b"\r"),
    "a folded header": HOST + b"X: a\r\n b\r\n",
    "a folded first header": b" " + HOST,
    "a blank in a name": HOST + b"X Y: a\r\n",
    "a blank before a colon": HOST + b"X : a\r\n",
    "an empty name": HOST + b": a\r\n",
    "no colon": HOST + b"X\r\n",
    "NUL in a value": HOST + b"X: a\0b\r\n",
    "NUL in a name": HOST + b"X\0Y: a\r\n",
    "a control character": HOST + b"X: \x01\r\n",
    "a deleted character": HOST + b"X: \x7f\r\n",
    "a name beyond ASCII": HOST + b"X\xc3\xbc: a\r\n",
    "a key with an underscore": HOST + b"api_key: a\r\n",
    "an app with underscores": HOST + b"APP_ID: a\r\n",
    "an idempotency key half with underscores": HOST + b"idempotency_key: a\r\n",
}
LINES = {
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM",
    "HTTP/0.9": b"GET /v1/payments/pay_0",
    "HTTP/1.2": b"GET /v1/payments/pay_0 HTTP/1.2",
    "HTTP/3.0": b"GET /v1/payments/pay_0 HTTP/3.0",
    "http in lower case": b"GET /v1/payments/pay_0 http/1.1",
    "a blank behind the version": b"GET /v1/payments/pay_0 HTTP/1.1 ",
    "an unknown method": b"FROB /v1/payments/pay_0 HTTP/1.1",
    "a method in lower case": b"get /v1/payments/pay_0 HTTP/1.1",
    "no path": b"GET HTTP/1.1",
    "a path without a slash": b"GET v1/payments/pay_0 HTTP/1.1",
    "a host for a path": b"CONNECT pay.example:80 HTTP/1.1",
    "a tab": b"GET\t/v1/payments/pay_0 HTTP/1.1",
    "a blank in the path": b"GET /v1/payments/pay_ 0 HTTP/1.1",
    "NUL in the path": b"GET /v1/payments/pay_\0 HTTP/1.1",
    "a path beyond ASCII": b"GET /v1/payments/\xc3\xbc HTTP/1.1",
}


@pytest.mark.parametrize("name", HEADS)
async def test_a_head_that_is_not_well_formed(desk, rest, say, name):
    line = b"GET " + say.payment_path + b" HTTP/1.1\r\n"
    request = line + HEADS[name] + say.key + b"\r\n"
    await refused_for_good(desk, rest, 400, request + say.whole())
    side = b"GET " + say.side + b" HTTP/1.1\r\n" + HEADS[name] + say.app + b"\r\n"
    await refused_for_good(desk, rest, 400, side + say.whole(), browsers=True)


@pytest.mark.parametrize("name", LINES)
async def test_a_first_line_that_is_none(desk, rest, say, name):
    await refused_for_good(desk, rest, 400, say.get(line=LINES[name]) + say.whole())


async def test_heads_and_bodies_beyond_their_bounds(desk, rest, say):
    mib = 1 << 20
    many = b"".join(b"X-%d: 1\r\n" % n for n in range(65))
    for status, parts in (
        (431, [say.get(more=b"X: %s\r\n" % (b"x" * 16_384))]),
        (431, [say.get(more=b"X: %s\r\n" % (b"x" * mib))]),
        (431, [say.get(b"/" + b"x" * 16_384)]),
        (431, [say.get(more=many)]),
        (431, [say.get(more=b"Cookie: %s\r\n" % b"a" * 65)]),
        (413, [say.post(b"Content-Length: 3000000\r\n")]),
        (413, [say.post(b"Content-Length: %d\r\n" % (mib + 1)), b"x"]),
        (413, [say.post(CHUNKED), chunked(b" " * mib, b"x")]),
        (413, [say.get(more=b"Content-Length: %d\r\n" % (mib + 1))]),
    ):
        await refused_for_good(desk, rest, status, *parts, say.whole())
    longer = b"Content-Length: 65537\r\n"
    for call in (b"options", b"fetch", b"confirm", b"cancel"):
        line = b"POST %s/%s" % (say.side, call)
        for parts in (
            [say.wallet(line, longer)],
            [say.wallet(line, CHUNKED, chunked(b" " * 65_536, b"x"))],
        ):
            await refused_for_good(desk, rest, 413, *parts, say.whole(), browsers=True)


async def test_heads_and_bodies_within_their_bounds(rest, say):
    few = b"".join(b"X-%d: 1\r\n" % n for n in range(61))
    for request in (
        say.get(more=few),
        say.get(more=b"X: %s\r\n" % (b"x" * 16_000)),
        say.get(more=b"Content-Length: 5\r\n") + b"hello",
        say.get(more=CHUNKED) + chunked(b"hello"),
    ):
        answer, stays = await rest.ask(request)
        assert (answer.status, stays) == (200, True)
    for body in (BODY.ljust(1 << 20), BODY):
        answer, stays = await rest.ask(say.whole(body))
        assert (answer.status, stays) == (201, True)
        answer, stays = await rest.ask(say.post(CHUNKED, chunked(body[:1], body[1:])))
        assert (answer.status, stays) == (201, True)


@pytest.mark.parametrize("name", ["nothing", "blank lines", "half a line", "half a head"])
async def test_a_head_that_does_not_come(desk, hasty, say, name):
    parts = {
        "nothing": b"",
        "blank lines": b"\r\n\r\n",
        "half a line": b"GET /v1/pay",
        "half a head": say.get()[:-2],
    }
    answer = await refused_for_good(desk, hasty, 408, parts[name])
    assert "head" in answer.json()["message"]


@pytest.mark.parametrize("name", ["no body", "half a body", "half a chunk", "no last chunk"])
async def test_a_body_that_does_not_come(desk, hasty, say, name):
    parts = {
        "no body": say.post(LENGTH),
        "half a body": say.post(LENGTH, BODY[:9]),
        "half a chunk": say.post(CHUNKED, b"5\r\nhe"),
        "no last chunk": say.post(CHUNKED, chunked(BODY)[:-5]),
    }
    answer = await refused_for_good(desk, hasty, 408, parts[name])
    assert "body" in answer.json()["message"]


# refused, but the connection stays usable


def soft_refusals(say: Lines) -> dict[str, tuple[bytes, int, str]]:
    existing = (b"Api-Key", b"Merchant-Id", b"App-Id", b"Client-Id", b"Pay-Version", b"WCP-Version")
    existing += (b"Sdk-Name", b"Sdk-Version", b"Sdk-Platform", b"Idempotency-Key", b"Request-Id")
    existing += (b"Content-Type", b"Content-Encoding", b"Last-Event-ID")
    twice = {
        f"{name.decode()} twice": (say.get(more=b"%s: a\r\n%s: a\r\n" % (name, name.upper())))
        for name in existing
    }
    beyond = {
        f"{name.decode()} beyond ASCII": say.get(more=b"%s: \xc3\xbc\r\n" % name)
        for name in existing[2:10]
    }
    cases = {name: (request, 400, PARAMS) for name, request in twice.items()}
    cases |= {name: (request, 400, "header_not_ascii") for name, request in beyond.items()}
    cases |= {
        "an unknown path": (say.get(b"/v1/nowhere"), 404, PARAMS),
        "the root of the API": (say.get(b"/v1"), 404, PARAMS),
        "the root": (say.get(b"/"), 404, PARAMS),
        "a star": (say.get(b"*"), 404, PARAMS),
        "another method": (say.get(line=b"DELETE %s HTTP/1.1" % say.payment_path), 405, PARAMS),
        "what the server supports": (say.get(line=b"OPTIONS * HTTP/1.1"), 404, PARAMS),
        "a browser's question": (
            say.get(line=b"OPTIONS /v1/payments HTTP/1.1", more=b"Origin: https://a.example\r\n"),
            *(405, PARAMS),
        ),
        "a media type": (say.whole(more=b"Content-Type: text/plain\r\n"), 415, PARAMS),
        "a form": (
            say.whole(more=b"Content-Type: application/x-www-form-urlencoded\r\n"),
            *(415, PARAMS),
        ),
        "an encoding": (say.whole(more=b"Content-Encoding: gzip\r\n"), 415, PARAMS),
        "no encoding, in words": (say.whole(more=b"Content-Encoding: identity\r\n"), 415, PARAMS),
        "a query that is not encoded": (say.get(say.payment_path + b"?a=%zz"), 400, PARAMS),
        "a query that is not UTF-8": (say.get(say.payment_path + b"?a=%ff"), 400, PARAMS),
        "a bad number": (say.get(say.payment_path + b"/status?maxPollMs=x"), 400, PARAMS),
        "no JSON": (say.whole(b"{"), 400, "params_validation"),
        "no body": (say.whole(b""), 400, "params_validation"),
        "no body at all": (say.post(b""), 400, "params_validation"),
        # paths in disguise
        "a malformed escape": (say.get(b"/v1/payments/%zz"), 400, PARAMS),
        "an escape that is cut off": (say.get(say.payment_path + b"%"), 400, PARAMS),
        "a path that is not UTF-8": (say.get(b"/v1/payments/%ff"), 400, PARAMS),
        "U+0000": (say.get(say.payment_path + b"%00"), 400, PARAMS),
        "an encoded slash": (say.get(say.payment_path + b"%2Fstatus"), 404, "payment_not_found"),
        "a slash encoded twice": (
            say.get(say.payment_path + b"%252Fstatus"),
            404,
            "payment_not_found",
        ),
        "an encoded question mark": (say.get(say.payment_path + b"%3Fa"), 404, "payment_not_found"),
        "dots": (say.get(b"/v1/payments/.."), 404, "payment_not_found"),
        "encoded dots": (say.get(b"/v1/payments/%2e%2e"), 404, "payment_not_found"),
        "dots encoded twice": (say.get(b"/v1/payments/%252e%252e"), 404, "payment_not_found"),
        "a way back": (say.get(b"/v1/x/.." + say.payment_path[3:]), 404, PARAMS),
        "a dot": (say.get(b"/v1/." + say.payment_path[3:]), 404, PARAMS),
        "two slashes inside": (say.get(say.payment_path.replace(b"s/", b"s//")), 404, PARAMS),
        "three slashes before": (say.get(b"//" + say.payment_path), 404, PARAMS),
        "two slashes behind": (say.get(say.payment_path + b"//"), 404, PARAMS),
        "another case": (say.get(b"/V1/payments/pay_0"), 404, PARAMS),
        "a parameter of a segment": (say.get(say.payment_path + b";a=b"), 404, "payment_not_found"),
    }
    return cases


async def test_a_well_framed_refusal_keeps_the_connection(desk, rest, say):
    before = desk.rows()
    for name, (request, status, code) in soft_refusals(say).items():
        answer, stays = await rest.ask(request)
        try:
            check(answer, status, code, browsers=False)
        except (AssertionError, ValueError) as error:
            raise AssertionError(f"{name}: {answer}") from error
        assert stays, name
    assert desk.rows() == before


async def test_two_pipelined_requests_are_answered_separately(desk, rest, say):
    refused = say.get(more=b"Api-Key: a\r\n")
    last = say.get(more=b"Connection: close\r\n")
    raw = await rest.talk(refused + say.whole(b"{") + say.whole() + last + say.whole())
    statuses = [part[:3] for part in raw.split(b"HTTP/1.1 ")[1:]]
    # requests after a closing one are ignored
    assert statuses == [b"400", b"400", b"201", b"200"]


# accepted, in every odd spelling


async def test_odd_requests_that_mean_something(rest, say):
    closing = b"Connection: close\r\n"
    upgrade = b"Connection: Upgrade\r\nUpgrade: %s\r\n"
    old = say.get(line=b"GET %s HTTP/1.0" % say.payment_path)
    for name, request, status, expected in (
        ("blank lines before", b"\r\n\r\n" + say.get(), 200, True),
        ("two slashes before", say.get(b"/" + say.payment_path), 200, True),
        ("a slash behind", say.get(say.payment_path + b"/"), 200, True),
        ("an escape", say.get(say.payment_path.replace(b"payments", b"p%61yments")), 200, True),
        ("a whole address", say.get(b"http://other.example" + say.payment_path), 200, True),
        ("an unknown header beyond ASCII", say.get(more=b"X-Name: \xc3\xbc\r\n"), 200, True),
        ("an unknown header twice", say.get(more=b"X: a\r\nX: b\r\n"), 200, True),
        ("an unknown underscore", say.get(more=b"X_Y: a\r\n"), 200, True),
        ("another request id", say.get(more=b"Request-Id: \xc3\xbc\r\n"), 200, True),
        ("coding in capitals", say.post(CHUNKED.upper(), chunked(BODY)), 201, True),
        ("an extension", say.post(CHUNKED, b"2;a=b\r\n{}\r\n0\r\n\r\n"), 400, True),
        ("the end", say.get(more=closing), 200, False),
        ("HTTP/1.0", old, 200, False),
        ("a web socket", say.get(more=upgrade % b"websocket"), 200, False),
        ("HTTP/2", say.get(more=upgrade % b"h2c"), 200, False),
    ):
        answer, stays = await rest.ask(request)
        assert (answer.status, stays) == (status, expected), name


async def test_head_and_options(rest, say):
    question = b"Origin: https://a.example\r\nAccess-Control-Request-Method: POST\r\n"
    for line, more, status, allowed, browsers in (
        (b"HEAD %s" % say.side, b"", 405, "GET, OPTIONS", True),
        (b"HEAD %s" % say.payment_path, b"", 405, "GET", False),
        (b"HEAD /v1/nowhere", b"", 404, None, False),
        (b"HEAD /v1/gateway/nowhere", b"", 404, None, True),
        (b"HEAD /healthz", b"", 200, None, False),
        (b"OPTIONS %s" % say.side, b"", 204, None, True),
        (b"OPTIONS %s" % say.side, question, 204, None, True),
        (b"OPTIONS /%s/" % say.side, question, 204, None, True),
        (b"OPTIONS /v1/gateway/nowhere", question, 204, None, True),
    ):
        answer, stays = await rest.ask(say.wallet(line, more))
        assert (answer.status, answer.body, stays) == (status, b"", True), line
        assert answer.headers.get("allow") == allowed, line
        assert ("access-control-allow-origin" in answer.headers) is browsers, line


async def test_browsers_read_every_answer_of_the_gateway_family_and_no_other(rest, say):
    origin = b"Origin: https://a.example\r\n"
    for target, status in (
        (say.side, 200),
        (b"/" + say.side + b"/", 200),
        (say.side.replace(b"gateway", b"g%61teway"), 200),
        (say.side + b"%00", 400),
        (say.side + b"%zz", 400),
        (say.side + b"/status?maxPollMs=x", 400),
        (b"/v1/gateway/nowhere", 404),
        (b"//v1/gateway/nowhere", 404),
        (b"/v1/gateway/payment//status", 404),
    ):
        answer, _ = await rest.ask(say.wallet(b"GET " + target, origin))
        assert answer.status == status, target
        assert answer.headers["access-control-allow-origin"] == "*", target
    for target in (b"/v1/payments", b"/v1/gatewayx", b"/v1", b"/v1/nowhere", b"/healthz", b"/x/y"):
        answer, _ = await rest.ask(say.wallet(b"GET " + target, origin))
        assert not [name for name in answer.headers if name.startswith("access-control")], target
