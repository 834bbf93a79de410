"""Valid requests with damaged bytes: each gets one well-formed answer, none of them a 5xx.

    FUZZ_REQUESTS=100000 FUZZ_SEED=7 python -m pytest tests/wire/test_http_fuzz.py

Without the variables a short campaign runs, the same one every time.
"""

from __future__ import annotations

import asyncio
import json
import os
import random

import pytest

from tests.support.raw_http import RawResponse, RawSocket, open_raw_socket, read_response
from tests.support.service_harness import ORDER

pytestmark = pytest.mark.asyncio(loop_scope="module")

REQUESTS = int(os.environ.get("FUZZ_REQUESTS", "1500"))
SEED = int(os.environ.get("FUZZ_SEED", "20260218"))
CLIENTS = 8
# the wait for a body of damaged length
HASTE = {"request_head_s": 0.05, "request_body_s": 0.05}
TOKENS = (
    *(b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b":", b",", b";", b'"', b"{", b"}", b"[", b"%00"),
    *(b"%2F", b"%zz", b"%25", b"..", b"//", b"?", b"&", b"=", b"#", b"\xff", b"\xc3\xbc", b"null"),
    *(b"-1", b"9" * 40, b"1e999", b"\\u0000", b"\\ud800", b"[" * 100, b"HTTP/1.0", b"chunked"),
)
HEADERS = (
    *(b"Transfer-Encoding: chunked", b"Content-Length: 3", b"Host: b", b"Api-Key: a", b"A_B: c"),
    *(b"Connection: close", b"Connection: Upgrade\r\nUpgrade: h2c", b"Expect: 100-continue"),
    *(b"WCP-Version: 2026-02-18", b"Idempotency-Key: k", b"Content-Encoding: gzip", b"X: \xff"),
    *(b"Content-Type: text/plain", b"Request-Id: r", b"api_key: a"),
)


def damage(rng: random.Random, request: bytes, remaining: list[bytes]) -> bytes:
    """Return the request after one to four mutations."""
    result = bytearray(request)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        at = rng.randrange(len(result) + 1)
        end = min(len(result), at + rng.choice((1, 1, 2, 5, 20, 100)))
        kind = rng.randrange(8)
        if kind == 0 and at < len(result):
            result[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(result):
            result[at] = rng.randrange(256)
        elif kind == 2:
            del result[at:end]
        elif kind == 3:
            result[at:at] = result[at:end] * rng.choice((1, 2, 50))
        elif kind == 4:
            result[at:at] = rng.choice(TOKENS)
        elif kind == 5:
            # between two lines
            at = result.find(b"\r\n", at) + 2
            result[at:at] = rng.choice(HEADERS) + b"\r\n"
        elif kind == 6:
            result[at:] = rng.choice(remaining)[at:]
        else:
            result[at:end] = bytes(rng.randrange(256) for _ in range(end - at))
    return bytes(result)


async def answer_to(opened: RawSocket, request: bytes) -> RawResponse:
    reader, writer = await asyncio.open_connection(opened.host, opened.port)
    try:
        writer.write(request)
        async with asyncio.timeout(20):
            return await read_response(reader, request.lstrip(b"\r\n").split(b" ", 1)[0])
    finally:
        writer.close()


def check(request: bytes, answer: RawResponse) -> None:
    output = f"{request!r} -> {answer}"
    assert 200 <= answer.status < 500, output
    if answer.status >= 400 and answer.body and b"html" not in answer.body[:20]:
        body = json.loads(answer.body)
        assert set(body) <= {"code", "message", "issues", "details", "requestId"}, output
        assert body["requestId"] == answer.headers["request-id"], output


async def corpus(desk) -> list[bytes]:
    offer = await desk.offer()
    side = f"/v1/gateway/payment/{offer.payment_id}"
    results = [{"type": "walletRpc", "data": ["0x12", {"a": [1, None]}]}]
    confirm = {"optionId": offer.option_id, "results": results, "collectedData": {"fields": []}}
    key, app = desk.rest.merchant, desk.rest.wallet
    shop = f"/v1/merchants/{key['Merchant-Id']}"
    page = "status=succeeded,failed&startTs=2026-02-18T00:00:00%2B01:00&limit=5&sortBy=amount"
    calls = (
        ("GET", f"/v1/payments?{page}", key, None),
        ("GET", f"/v1/merchants/payments?{page}", key, None),
        (
            "GET",
            f"{shop}/payments?start_ts=2026-02-18T00:00:00Z",
            {"X-Api-Key": key["Api-Key"]},
            None,
        ),
        ("GET", "/v1/merchants?search=a&limit=2", key, None),
        ("PATCH", shop, key, {"merchantName": "Corner Café", "iconUrl": None}),
        ("POST", "/v1/refunds", key, {"paymentId": offer.payment_id}),
        ("POST", "/v1/payments", key, {**ORDER, "checkout": {"successUrl": "https://a.example"}}),
        ("GET", f"/v1/payments/{offer.payment_id}?a=b", key, None),
        ("GET", f"{side}/status?maxPollMs=0", app, None),
        ("POST", f"{side}/options?includePaymentInfo=true", app, {"accounts": ["eip155:1:0x0"]}),
        ("POST", f"{side}/fetch", {**app, **key}, {"optionId": offer.option_id, "data": ""}),
        ("POST", f"{side}/confirm", app, confirm),
        ("POST", "/v1/payments/pay_0/cancel", key, {}),
        ("OPTIONS", side, {"Origin": "https://a.example"}, None),
    )
    return [raw for call in calls for raw in in_bytes(*call)]


def in_bytes(method: str, path: str, headers: dict[str, str], body: object) -> list[bytes]:
    lines = [f"{method} {path} HTTP/1.1", "Host: pay.example", "Pay-Version: 2026-02-18"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body is None:
        return ["\r\n".join([*lines, "", ""]).encode()]
    text = json.dumps(body).encode()
    total = "\r\n".join([*lines, f"Content-Length: {len(text)}", "", ""]).encode() + text
    chunked = "\r\n".join([*lines, "Transfer-Encoding: chunked", "", ""]).encode()
    return [total, chunked + b"%x\r\n%s\r\n0\r\n\r\n" % (len(text), text)]


@pytest.mark.parametrize("kind", ["local", "remote"])
async def test_damaged_request_gets_a_response_and_affects_no_other_request(desk, kind):
    requests = await corpus(desk)
    rng = random.Random(f"{SEED} {kind}")
    left = iter(range(REQUESTS))
    statuses: set[int] = set()

    async def client(opened: RawSocket) -> None:
        for _ in left:
            request = damage(rng, rng.choice(requests), requests)
            answer = await answer_to(opened, request)
            check(request, answer)
            statuses.add(answer.status)

    async with open_raw_socket(desk.service, kind, **HASTE) as opened:
        for request in requests:
            check(request, await answer_to(opened, request))
        async with asyncio.TaskGroup() as clients:
            for _ in range(CLIENTS):
                clients.create_task(client(opened))
        assert (await opened.ask(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"))[0].status == 200
    # they reached every layer, and the service still works
    assert statuses >= {200, 201, 400, 401, 404, 405, 408}
    created = await desk.rest.create(ORDER)
    assert (await desk.rest.status(created["paymentId"]))["status"] == "requires_action"
