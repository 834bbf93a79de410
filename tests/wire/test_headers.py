"""Headers of answers, paths in all their spellings, and refusals below the business rules."""

from __future__ import annotations

import io
import re
from contextlib import AsyncExitStack
from urllib.parse import quote

import pytest
import pytest_asyncio
from florin_server.app.servers import gateway

from tests.support.desk import ORDER, PAY_URL, ServiceHarness
from tests.support.raw import open_raw_socket

PARAMS = "invalid_params"
ALLOWED = """
    content-type api-key app-id client-id pay-version wcp-version api-version sdk-name sdk-version
    sdk-platform idempotency-key request-id last-event-id
"""
EXPOSED = """
    request-id pay-version wcp-version ratelimit-policy ratelimit retry-after idempotent-replayed
    florin-ignored deprecation link
"""
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def payment_id(desk) -> str:
    return (await desk.rest.create(ORDER))["paymentId"]


def words(header: str) -> set[str]:
    return {word.strip().lower() for word in header.split(",")}


async def answers_of_every_kind(desk: ServiceHarness, payment_id: str):
    """Yield successes and refusals of every layer, by name."""
    side, text = f"/v1/gateway/payment/{payment_id}", f"/v1/payments/{payment_id}"
    app, key = desk.rest.wallet, desk.rest.merchant
    return {
        "created": await desk.ask("POST", "/v1/payments", key, ORDER),
        "detail": await desk.ask("GET", text, key),
        "info": await desk.ask("GET", side, app),
        "status": await desk.ask("GET", f"{side}/status", app),
        "held status": await desk.ask("GET", f"{side}/status?maxPollMs=1", app),
        "options": await desk.ask("POST", f"{side}/options", app, {"accounts": []}),
        "no credential": await desk.ask("GET", side, {}),
        "bad body": await desk.ask("POST", "/v1/payments", key, {}),
        "bad query": await desk.ask("GET", f"{side}/status?maxPollMs=x", app),
        "unknown payment": await desk.ask("GET", "/v1/gateway/payment/pay_0", app),
        "unknown path": await desk.ask("GET", "/v1/nowhere", key),
        "wrong method": await desk.ask("DELETE", text, key),
        "wrong media type": await desk.ask(
            "POST", "/v1/payments", {**key, "Content-Type": "text/xml"}, ORDER
        ),
        "body too large": await desk.ask("POST", f"{side}/options", app, data="x" * 65_537),
        "no stream": await desk.ask("GET", "/v1/payments/pay_0/events", key),
    }


async def test_headers_of_every_answer(desk, payment_id):
    for name, answer in (await answers_of_every_kind(desk, payment_id)).items():
        assert answer.headers["Content-Type"] == "application/json", name
        assert answer.headers["Cache-Control"] == "no-store", name
        assert re.fullmatch(r"[A-Za-z0-9._-]{1,64}", answer.headers["Request-Id"]), name
        if answer.status >= 400:
            assert answer.body["requestId"] == answer.headers["Request-Id"], name
            assert set(answer.body) <= {"code", "message", "requestId", "issues", "details"}, name
        assert "Server" not in answer.headers


async def test_resolved_version_header_is_sent_once_resolved(desk, payment_id):
    answers = await answers_of_every_kind(desk, payment_id)
    unresolved = {"no credential", "unknown path", "wrong method", "wrong media type"}
    unresolved |= {"body too large"}
    for name, answer in answers.items():
        expected = None if name in unresolved else "2026-02-18"
        assert answer.headers.get("Pay-Version") == expected, name
        assert answer.headers.get("WCP-Version") == expected, name


async def test_stream_sends_the_same_headers(desk, payment_id):
    url = f"{desk.rest.base}/v1/gateway/payment/{payment_id}/events"
    headers = {**desk.rest.wallet, "Request-Id": "stream-1"}
    async with desk.session.get(url, headers=headers) as stream:
        assert stream.status == 200
        assert stream.headers["Content-Type"].partition(";")[0] == "text/event-stream"
        assert stream.headers["Cache-Control"] == "no-store, no-transform"
        assert stream.headers["X-Accel-Buffering"] == "no"
        assert stream.headers["Request-Id"] == "stream-1"
        assert stream.headers["Pay-Version"] == "2026-02-18"
        assert stream.headers["WCP-Version"] == "2026-02-18"
        assert stream.headers["Access-Control-Allow-Origin"] == "*"


async def test_remote_gateway_sends_the_same_headers(desk, payment_id):
    async with AsyncExitStack() as stack:
        listener = gateway.bind_socket("127.0.0.1", 0)
        url = await gateway.start_remote_gateway(desk.env["FLORIN_GRPC_TARGET"], listener, stack)
        side = f"{url}/v1/gateway/payment/{payment_id}"
        headers = {**desk.rest.wallet, "Request-Id": "far"}
        for path in ("", "/status", "/status?maxPollMs=1", "/events"):
            async with desk.session.get(side + path, headers=headers) as answer:
                assert answer.status == 200, path
                assert answer.headers["Request-Id"] == "far", path
                assert answer.headers["Pay-Version"] == "2026-02-18", path
                assert answer.headers["WCP-Version"] == "2026-02-18", path
                unbuffered = "no" if path == "/events" else None
                assert answer.headers.get("X-Accel-Buffering") == unbuffered, path
        created = {**desk.rest.merchant, "Idempotency-Key": "far"}
        for replayed in (None, "true"):
            async with desk.session.post(
                f"{url}/v1/payments", json=ORDER, headers=created
            ) as answer:
                assert answer.status == 201
                assert answer.headers.get("Idempotent-Replayed") == replayed


@pytest.mark.parametrize("kind", ["local", "remote"])
async def test_silent_stream_sends_the_version_headers(desk, payment_id, kind):
    async with open_raw_socket(desk.service, kind) as rest:
        url = f"http://{rest.host}:{rest.port}/v1/gateway/payment/{payment_id}"
        headers = {**desk.rest.wallet, "Last-Event-ID": "0"}
        async with desk.session.get(f"{url}/events", headers=headers) as stream:
            assert stream.status == 200
            assert stream.headers["Pay-Version"] == stream.headers["WCP-Version"] == "2026-02-18"
        async with desk.session.get(f"{url}0/events", headers=headers) as refusal:
            assert refusal.status == 404
            assert refusal.headers.getall("Pay-Version") == ["2026-02-18"]


async def test_stream_of_an_ended_payment_returns_204(desk):
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    await desk.rest.merchant_cancel(payment_id)
    for path, headers in (
        (f"/v1/gateway/payment/{payment_id}/events", desk.rest.wallet),
        (f"/v1/payments/{payment_id}/events", desk.rest.merchant),
    ):
        answer = await desk.ask("GET", path, {**headers, "Last-Event-ID": "1"})
        assert (answer.status, answer.text) == (204, "")
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Request-Id"]
        assert answer.headers["Pay-Version"] == answer.headers["WCP-Version"] == "2026-02-18"
        result = await desk.ask("GET", path, {**headers, "Last-Event-ID": "0"})
        assert result.text.count("event: status") == 1


@pytest.mark.parametrize("request_id", ["a", "A-z_0.9", "x" * 64])
async def test_a_request_id_comes_back(desk, payment_id, request_id):
    for path in (f"/v1/payments/{payment_id}", "/v1/payments/pay_0", "/v1/nowhere"):
        answer = await desk.ask("GET", path, {**desk.rest.merchant, "Request-Id": request_id})
        assert answer.headers["Request-Id"] == request_id
        if answer.status >= 400:
            assert answer.body["requestId"] == request_id


@pytest.mark.parametrize("request_id", ["", "x" * 65, "a b", "a/b", "a\tb", '"a"'])
async def test_a_request_id_of_another_form_is_replaced(desk, payment_id, request_id):
    headers = {**desk.rest.merchant, "Request-Id": request_id}
    answer = await desk.ask("GET", f"/v1/payments/{payment_id}", headers)
    assert answer.status == 200
    assert answer.headers["Request-Id"] != request_id
    other = await desk.ask("GET", f"/v1/payments/{payment_id}", headers)
    assert other.headers["Request-Id"] != answer.headers["Request-Id"]


# browsers


@pytest.mark.parametrize("path", ["", "/options", "/confirm", "/status", "/events", "/nowhere"])
async def test_a_browser_may_ask_first(desk, path):
    ask = {
        "Origin": "https://wallet.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "app-id,client-id,content-type",
    }
    answer = await desk.ask("OPTIONS", f"/v1/gateway/payment/pay_0{path}", ask)
    assert (answer.status, answer.text) == (204, "")
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert words(answer.headers["Access-Control-Allow-Methods"]) == {"get", "post"}
    assert words(answer.headers["Access-Control-Allow-Headers"]) == set(ALLOWED.split())
    assert answer.headers["Access-Control-Max-Age"] == "7200"


async def test_every_answer_of_the_gateway_family_may_be_read_by_browsers(desk, payment_id):
    side, app = f"/v1/gateway/payment/{payment_id}", desk.rest.wallet
    answers = [
        await desk.ask("GET", side, app),
        await desk.ask("GET", side, {}),
        await desk.ask("GET", "/v1/gateway/payment/pay_0", app),
        await desk.ask("POST", f"{side}/options", app, data="{"),
        await desk.ask("POST", f"{side}/options", app, data="x" * 65_537),
        await desk.ask("POST", f"{side}/options", {**app, "Content-Type": "a/b"}, data="{}"),
        await desk.ask("DELETE", side, app),
        await desk.ask("GET", "/v1/gateway/nowhere", app),
        await desk.ask("GET", "/v1/gateway/payment/pay_0/nowhere", app),
        await desk.ask("GET", f"/{side}/", app),
        await desk.ask("GET", "/v1/gateway/payment/%zz", app),
    ]
    for answer in answers:
        assert answer.headers.get("Access-Control-Allow-Origin") == "*", answer
        assert words(answer.headers["Access-Control-Expose-Headers"]) >= set(EXPOSED.split())


async def test_refusals_of_the_door_may_be_read_by_browsers_too(desk, payment_id):
    path = f"/v1/gateway/payment/{payment_id}".encode()
    for request, expected in (
        (b"GET %s HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n" % (path, b"x" * 17_000), 431),
        (b"POST %s/options HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n" % path, 413),
        (b"GET %s HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n" % path, 400),
        (b"GET %s HTTP/1.1\r\nHost: x\r\nApi-Key: a\r\nApi-Key: b\r\n\r\n" % path, 400),
    ):
        status, headers, body = await desk.send_raw(request)
        assert (status, body["code"]) == (expected, PARAMS)
        if expected != 431:
            # the head of a 431 was not read to its end
            assert headers["access-control-allow-origin"] == "*"


async def test_other_families_are_closed_to_browsers(desk, payment_id):
    text = f"/v1/payments/{payment_id}"
    for method, path in (("GET", text), ("POST", "/v1/payments"), ("GET", "/v1/nowhere")):
        answer = await desk.ask(method, path, {**desk.rest.merchant, "Origin": "https://a.example"})
        assert not [h for h in answer.headers if h.lower().startswith("access-control")]
    answer = await desk.ask("OPTIONS", text, {"Access-Control-Request-Method": "GET"})
    assert answer.refusal == (405, PARAMS)


# paths and methods


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/payments", {"GET", "POST"}),
        ("/v1/merchant/payment", {"POST"}),
        ("/v1/payments/pay_0", {"GET"}),
        ("/v1/payments/pay_0/status", {"GET"}),
        ("/v1/payments/pay_0/cancel", {"POST"}),
        ("/v1/payments/pay_0/events", {"GET"}),
        ("/v1/merchant/payment/pay_0/status", {"GET"}),
        ("/v1/refunds", {"POST"}),
        ("/v1/merchants", {"GET", "POST"}),
        ("/v1/merchants/mrch_0", {"GET", "PATCH", "DELETE"}),
        # not the methods for a merchant of this name
        ("/v1/merchants/payments", {"GET"}),
        ("/v1/merchants/%70ayments", {"GET"}),
        ("/v1/merchants/mrch_0/payments", {"GET"}),
        ("/v1/gateway/payment/pay_0", {"GET", "OPTIONS"}),
        ("/v1/gateway/payment/pay_0/options", {"POST", "OPTIONS"}),
        ("/v1/gateway/payment/pay_0/fetch", {"POST", "OPTIONS"}),
        ("/v1/gateway/payment/pay_0/confirm", {"POST", "OPTIONS"}),
        ("/v1/gateway/payment/pay_0/status", {"GET", "OPTIONS"}),
        ("/v1/gateway/payment/pay_0/cancel", {"POST", "OPTIONS"}),
        ("/v1/gateway/payment/pay_0/events", {"GET", "OPTIONS"}),
    ],
)
async def test_wrong_method_returns_the_allowed_methods(desk, path, allowed):
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"):
        if method in allowed:
            continue
        answer = await desk.ask(method, path, {})
        assert answer.refusal == (405, PARAMS), method
        assert {name.strip() for name in answer.headers["Allow"].split(",")} == allowed


@pytest.mark.parametrize(
    "path",
    [
        "/v2/payments",
        "/V1/payments/pay_0",
        "/v1/payment/pay_0",
        "/v1/payments/pay_0/x",
        "/v1/payments//status",
        "/v1/gateway/payment//status",
        "/v1//payments/pay_0",
        "/v1/payments/pay_0//",
        "/v1/payments/pay_0/..",
        "/v1/merchant/payment/pay_0",
        "/v1/gateway/payment/pay_0/status/x",
    ],
)
async def test_an_unknown_path(desk, path):
    answer = await desk.ask("GET", path, desk.rest.merchant)
    assert answer.refusal == (404, PARAMS)


async def test_spellings_of_a_path(desk, payment_id):
    expected = (await desk.ask("GET", f"/v1/payments/{payment_id}", desk.rest.merchant)).body
    encoded = "".join(f"%{ord(letter):02x}" for letter in payment_id)
    for path in (
        f"//v1/payments/{payment_id}",
        f"/v1/payments/{payment_id}/",
        f"//v1/payments/{payment_id}/",
        f"/v1/payments/{encoded}",
        f"/v1/p%61yments/{payment_id}",
        f"/v1/payments/{payment_id}?",
        f"/v1/payments/{payment_id}?unknown=1&unknown=2&&=",
    ):
        answer = await desk.ask("GET", path, desk.rest.merchant)
        assert (answer.status, answer.body) == (200, expected), path
        assert "Location" not in answer.headers
    answer = await desk.ask("POST", "//v1/payments/", desk.rest.merchant, ORDER)
    assert answer.status == 201


async def test_a_path_that_is_not_utf_8(desk):
    for path in ("/v1/payments/%ff", "/v1/payments/%zz", "/v1/gateway/payment/%c3%28/status"):
        assert (await desk.ask("GET", path, desk.rest.merchant)).refusal == (400, PARAMS)


# bodies


async def test_media_types_and_encodings(desk):
    async def create(**headers):
        values = {**desk.rest.merchant, **{k.replace("_", "-"): v for k, v in headers.items()}}
        return await desk.ask("POST", "/v1/payments", values, ORDER)

    for good in ("application/json", "application/json; charset=utf-8", "Application/JSON"):
        assert (await create(Content_Type=good)).status == 201
    for bad in ("text/plain", "application/x-www-form-urlencoded", "application/jsonp", "json"):
        assert (await create(Content_Type=bad)).refusal == (415, PARAMS)
    for coding in ("gzip", "deflate", "br", "compress", "x"):
        assert (await create(Content_Encoding=coding)).refusal == (415, PARAMS)
    order = b'{"amount": {"unit": "iso4217/USD", "value": "1250"}}'
    head = "POST /v1/payments HTTP/1.1\r\nHost: x\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in desk.rest.merchant.items())
    head += f"Content-Length: {len(order)}\r\n\r\n"
    status, _, body = await desk.send_raw(head.encode() + order)
    assert status == 201, body


async def pieces(body):
    """Yield a body without a declared length, one byte longer than the given one."""
    yield body
    yield b" "


async def test_how_large_a_body_may_be(desk, payment_id):
    side, key = f"/v1/gateway/payment/{payment_id}", desk.rest.merchant
    fits = b'{"accounts": []}'.ljust(65_536)
    assert (await desk.ask("POST", f"{side}/options", desk.rest.wallet, data=fits)).status == 200
    for call in ("options", "fetch", "confirm", "cancel"):
        answer = await desk.ask("POST", f"{side}/{call}", desk.rest.wallet, data=fits + b" ")
        assert answer.refusal == (413, PARAMS), call
        chunked = await desk.ask("POST", f"{side}/{call}", desk.rest.wallet, data=pieces(fits))
        assert chunked.refusal == (413, PARAMS), call
    # these bodies are ignored, but have the same limit
    for path in (side, f"{side}/status", f"{side}/events"):
        answer = await desk.ask("GET", path, desk.rest.wallet, data=fits + b" ")
        assert answer.refusal == (413, PARAMS), path
    order = b'{"amount": {"unit": "iso4217/USD", "value": "1250"}}'.ljust(1 << 20)
    assert (await desk.ask("POST", "/v1/payments", key, data=io.BytesIO(order))).status == 201
    more = io.BytesIO(order + b" ")
    assert (await desk.ask("POST", "/v1/payments", key, data=more)).refusal == (413, PARAMS)


async def test_the_body_of_a_cancel_is_ignored(desk):
    for body in (b"", b"{}", b"{not json", b"[]", b"\x00\xff"):
        payment_id = (await desk.rest.create(ORDER))["paymentId"]
        path = f"/v1/payments/{payment_id}/cancel"
        answer = await desk.ask("POST", path, desk.rest.merchant, data=body)
        assert (answer.status, answer.body["status"]) == (200, "cancelled")


# payment ids in disguise


def spellings(payment_id: str) -> dict[str, str]:
    link = f"{PAY_URL}/{payment_id}"
    return {
        "the link": link,
        "a link with a query": f"{PAY_URL}/?pid={payment_id}",
        "a link with both": f"{PAY_URL}/buy?x=1&pid={payment_id}#top",
        "a subdomain": f"https://de.pay.florin.example/{payment_id}",
        "a port": f"https://pay.florin.example:8443/a/{payment_id}/",
        "a pairing URI": f"wc:topic@2?relay-protocol=irn&pay={quote(link, safe='')}",
        "a trailing slash": f"{payment_id}/",
        "a path": f"p/{payment_id}",
    }


@pytest.mark.parametrize("name", spellings(""))
@pytest.mark.parametrize("times", [1, 2])
async def test_a_payment_may_be_named_by_a_link(desk, name, times):
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    text = spellings(payment_id)[name]
    for _ in range(times):
        text = quote(text, safe="")
    side, app = f"/v1/gateway/payment/{text}", desk.rest.wallet
    assert (await desk.ask("GET", side, app)).body["paymentId"] == payment_id
    assert (await desk.ask("GET", f"{side}/status", app)).body["status"] == "requires_action"
    offered = await desk.ask("POST", f"{side}/options", app, {"accounts": []})
    assert (offered.status, offered.body["paymentId"]) == (200, payment_id)
    fetched = await desk.ask("POST", f"{side}/fetch", app, {"optionId": "x"})
    assert fetched.refusal == (400, PARAMS)
    item = await desk.ask("GET", f"/v1/payments/{text}", desk.rest.merchant)
    assert item.body["paymentId"] == payment_id
    cancelled = await desk.ask("POST", f"{side}/cancel", app)
    assert cancelled.body["paymentId"] == payment_id
    stream = await desk.ask("GET", f"{side}/events", app)
    assert '"status":"cancelled"' in stream.text
    body = {"optionId": "x", "results": [{"type": "walletRpc", "data": ["0x"]}]}
    confirmed = await desk.ask("POST", f"{side}/confirm", app, body)
    assert confirmed.refusal == (400, "invalid_state")


def strange(payment_id: str) -> dict[str, str]:
    return {
        "another host": f"https://evil.example/{payment_id}",
        "a host that only begins alike": f"https://pay.florin.example.evil.example/{payment_id}",
        "a host that only ends alike": f"https://evilpay.florin.example/{payment_id}",
        "user information": f"https://pay.florin.example@evil.example/{payment_id}",
        "user information of ours": f"https://a@pay.florin.example/{payment_id}",
        "plain http": f"http://pay.florin.example/{payment_id}",
        "a backslash": f"https://evil.example\\@pay.florin.example/{payment_id}",
        "another host's query": f"https://evil.example/?pid={payment_id}",
        "a pairing URI elsewhere": f"wc:t@2?pay={quote(f'https://evil.example/{payment_id}')}",
        "another scheme": f"ftp://pay.florin.example/{payment_id}",
        "blanks around it": f" {payment_id} ",
        "no id": "nonsense",
        "another prefix": payment_id.replace("pay_", "PAY_"),
        "too long": "pay_" + "a" * 61,
        "far too long": f"{PAY_URL}/{'x' * 2100}/{payment_id}",
        "zero width": payment_id + "\u200b",
    }


@pytest.mark.parametrize("name", strange("pay_"))
@pytest.mark.parametrize("times", [1, 2])
async def test_a_text_that_names_no_payment(desk, payment_id, name, times):
    text = strange(payment_id)[name]
    received = text
    for _ in range(times):
        received, text = text, quote(text, safe="")
    app, deployed = desk.rest.wallet, {**desk.rest.wallet, "WCP-Version": "2026-02-18"}
    unknown = (404, "payment_not_found")
    side = f"/v1/gateway/payment/{text}"
    answer = await desk.ask("POST", f"{side}/options", app, {"accounts": []})
    assert answer.status == 200
    assert answer.body == {"paymentId": received, "options": [], "collectData": None}
    answer = await desk.ask("POST", f"{side}/options", deployed, {"accounts": []})
    assert answer.refusal == unknown
    for call in ("", "/status", "/events", "/status?maxPollMs=5"):
        assert (await desk.ask("GET", side + call, app)).refusal == unknown
    for call in ("cancel", "fetch", "confirm"):
        body = {"optionId": "x", "results": [{"type": "walletRpc", "data": ["0x"]}]}
        assert (await desk.ask("POST", f"{side}/{call}", app, body)).refusal == unknown
    assert (await desk.ask("GET", f"/v1/payments/{text}", desk.rest.merchant)).refusal == unknown


async def test_a_link_encoded_three_times_names_nothing(desk, payment_id):
    text = f"{PAY_URL}/{payment_id}"
    for _ in range(4):
        text = quote(text, safe="")
    answer = await desk.ask("GET", f"/v1/gateway/payment/{text}", desk.rest.wallet)
    assert answer.refusal == (404, "payment_not_found")
