"""Test a deprecated route: it accepts older header names, and every answer names the successor.

Run in process and over a channel.
"""

from __future__ import annotations

import pytest

from tests.support.gateway_harness import KEY, open_gateway
from tests.support.raw_http import parse_response

PATH = "/v1/merchants/mrch_1/payments"
OLD = {"X-Api-Key": "secret"}
LINK = '</v1/merchants/payments>; rel="successor-version"'


@pytest.fixture(params=["local", "remote"])
async def running(request):
    async with open_gateway(request.param) as started:
        yield started


def check_deprecation(answer, status: int, code: str | None = None) -> None:
    assert answer.status == status
    assert answer.headers["deprecation"] == "@1771372800"
    assert answer.headers["link"] == LINK
    assert code is None or answer.json()["code"] == code


async def test_every_answer_names_the_successor(running):
    check_deprecation(await running.call("GET", PATH), 200)
    check_deprecation(await running.call("GET", f"/{PATH}/"), 200)
    check_deprecation(await running.call("GET", f"{PATH}?limit=x"), 400, "invalid_params")
    check_deprecation(await running.call("GET", PATH, headers={}), 401, "missing_auth_headers")
    unknown = await running.call("GET", "/v1/merchants/none/payments")
    check_deprecation(unknown, 404, "merchant_not_found")
    encoded = {**KEY, "Content-Encoding": "gzip"}
    check_deprecation(await running.call("GET", PATH, headers=encoded), 415, "invalid_params")


async def test_refusals_at_the_door_name_it_too(running):
    for more, status in ((b"", 400), (b"Host: a\r\nHost: b\r\n", 400)):
        reader, writer = await running.connect()
        writer.write(b"GET %s HTTP/1.1\r\n%s\r\n" % (PATH.encode(), more))
        check_deprecation(parse_response(await reader.read()), status, "invalid_params")
    head = f"GET {PATH} HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n".encode()
    reader, writer = await running.connect()
    writer.write(head + b"Api-Key: a\r\nApi-Key: a\r\n\r\n")
    check_deprecation(parse_response(await reader.read()), 400, "invalid_params")


async def test_other_routes_do_not(running):
    for method, path in (("GET", "/v1/payments/pay_1"), ("POST", PATH), ("GET", "/v1/merchants")):
        answer = await running.call(method, path)
        assert "deprecation" not in answer.headers
        assert "link" not in answer.headers


async def test_the_older_header_is_read_there_only(running):
    assert (await running.call("GET", PATH, headers=OLD)).status == 200
    name, _, metadata = running.service.seen[-1]
    assert (name, metadata["api-key"]) == ("ListPaymentsLegacy", "secret")
    assert "x-api-key" not in metadata
    elsewhere = await running.call("GET", "/v1/payments/pay_1", headers=OLD)
    assert elsewhere.json()["code"] == "missing_auth_headers"


async def test_current_header_overrides_its_old_name(running):
    await running.call("GET", PATH, headers={**OLD, "Api-Key": "other"})
    assert running.service.seen[-1][2]["api-key"] == "other"


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (b"X-Api-Key: a\r\nx-api-key: a\r\n", "invalid_params"),
        (b"X_Api_Key: a\r\n", "invalid_params"),
        (b"X-Api-Key: \xc3\xbc\r\n", "header_not_ascii"),
    ],
)
async def test_an_older_header_that_cannot_be_read(running, lines, code):
    reader, writer = await running.connect()
    head = f"GET {PATH} HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n".encode()
    writer.write(head + lines + b"\r\n")
    check_deprecation(parse_response(await reader.read()), 400, code)
    assert not running.service.seen
