"""Test long polls and event streams through the gateway, in process and over a channel."""

from __future__ import annotations

import asyncio

import pytest
from florin.v1 import payment_pb2
from grpc_rest_gateway import GatewaySettings, ServerSettings

from tests.support.gateway_harness import KEY, open_gateway
from tests.support.raw_http import parse_response

pytestmark = pytest.mark.long

STATUS = "/v1/gateway/payment/pay_1/status"
EVENTS = "/v1/gateway/payment/pay_1/events"
CONFIRM = "/v1/gateway/payment/pay_1/confirm"
OUTPUTS = {"optionId": "o", "results": [{"type": "walletRpc", "data": []}]}
PROCESSING = payment_pb2.PAYMENT_STATUS_PROCESSING
SUCCEEDED = payment_pb2.PAYMENT_STATUS_SUCCEEDED
BROKEN = payment_pb2.PAYMENT_STATUS_UNSPECIFIED

QUICK = GatewaySettings(stream_heartbeat_s=0.05, stream_head_s=0.1, poll_s_max=20)


@pytest.fixture(params=["local", "remote"])
async def running(request):
    async with open_gateway(request.param, QUICK) as started:
        yield started


async def poll(running, target: str, method: str = "GET", body=None, headers=KEY) -> asyncio.Task:
    """Start a poll and wait until the server keeps it open."""
    task = asyncio.create_task(running.call(method, target, body, headers))
    await running.service.wait_watched("pay_1")
    return task


async def test_a_poll_is_held_until_the_status_changes(running):
    task = await poll(running, STATUS + "?maxPollMs=20000")
    assert not task.done()
    running.service.move("pay_1", PROCESSING)
    answer = await task
    assert answer.json()["status"] == "processing"
    assert answer.headers["pay-version"] == "2026-02-18"
    await running.service.wait_watched("pay_1", 0)


async def test_a_poll_ends_when_time_is_up(running):
    answer = await running.call("GET", STATUS + "?maxPollMs=150")
    assert answer.json()["status"] == "requires_action"
    await running.service.wait_watched("pay_1", 0)


async def test_final_status_is_returned_at_once(running):
    running.service.move("pay_1", SUCCEEDED)
    answer = await running.call("GET", STATUS + "?maxPollMs=20000")
    assert answer.json()["isFinal"] is True


async def test_without_time_a_poll_is_a_plain_status(running):
    answer = await running.call("GET", STATUS + "?maxPollMs=0")
    assert answer.status == 200
    assert running.service.calls == {"GetPaymentStatus": 1}


async def test_a_poll_is_never_longer_than_the_bound():
    async with open_gateway("local", GatewaySettings(poll_s_max=0.1)) as running:
        answer = await running.call("GET", STATUS + f"?maxPollMs={'9' * 40}")
        assert answer.status == 200


async def test_a_poll_of_an_unknown_payment_is_404(running):
    answer = await running.call("GET", "/v1/gateway/payment/none/status?maxPollMs=20000")
    assert (answer.status, answer.json()["code"]) == (404, "payment_not_found")


async def test_poll_with_a_broken_feed_returns_the_last_status(running):
    task = await poll(running, STATUS + "?maxPollMs=20000")
    running.service.move("pay_1", BROKEN)
    assert (await task).status == 200


async def test_confirm_waits_for_the_final_status(running):
    task = await poll(running, CONFIRM + "?maxPollMs=20000", "POST", OUTPUTS)
    running.service.move("pay_1", PROCESSING)
    assert (await running.call("GET", STATUS)).json()["status"] == "processing"
    assert not task.done()
    running.service.move("pay_1", SUCCEEDED)
    answer = await task
    assert answer.json()["status"] == "succeeded"
    assert running.service.calls["ConfirmPayment"] == running.service.calls["WatchPayment"] == 1
    await running.service.wait_watched("pay_1", 0)


async def test_confirm_answers_processing_when_time_is_up(running):
    answer = await running.call("POST", CONFIRM + "?maxPollMs=100", OUTPUTS)
    assert answer.json()["status"] == "processing"


async def test_confirm_without_time_answers_at_once(running):
    await running.call("POST", CONFIRM, OUTPUTS)
    assert running.service.calls == {"ConfirmPayment": 1}


async def test_a_wait_after_confirm_carries_no_idempotency_key(running):
    headers = {**KEY, "Idempotency-Key": "k"}
    task = await poll(running, CONFIRM + "?maxPollMs=20000", "POST", OUTPUTS, headers)
    running.service.move("pay_1", SUCCEEDED)
    assert (await task).status == 200
    metadata = {name: sent for name, _, sent in running.service.seen}
    assert metadata["ConfirmPayment"]["idempotency-key"] == "k"
    assert "idempotency-key" not in metadata["WatchPayment"]


@pytest.mark.parametrize("target", [STATUS + "?maxPollMs=20000", EVENTS])
async def test_a_client_that_leaves_frees_its_stream(running, target):
    _, writer = await running.send("GET", target)
    await running.service.wait_watched("pay_1")
    writer.transport.abort()
    await running.service.wait_watched("pay_1", 0)


async def test_server_stop_answers_held_polls_and_streams(running):
    task = await poll(running, STATUS + "?maxPollMs=20000")
    reader, _ = await running.send("GET", EVENTS)
    await running.service.wait_watched("pay_1", 2)
    await reader.readuntil(b"data: ")
    async with asyncio.timeout(3):
        await running.server.stop()
        assert (await task).json()["status"] == "requires_action"
        assert (await reader.read()).endswith(b"0\r\n\r\n")
    await running.service.wait_watched("pay_1", 0)


async def test_call_that_exceeds_the_stop_timeout_gets_503():
    patience = ServerSettings(stop_s_max=1)
    async with open_gateway("local", server_settings=patience) as running:
        body = {"optionId": "slow", "results": []}
        task = asyncio.create_task(running.call("POST", CONFIRM, body))
        reader, _ = await running.send("GET", EVENTS)
        async with asyncio.timeout(5):
            await running.service.entered.wait()
            await running.server.stop()
            answer = await task
            assert (await reader.read()).endswith(b"0\r\n\r\n")
    assert (answer.status, answer.json()["code"]) == (503, "internal_error")
    assert answer.json()["requestId"] == answer.headers["request-id"]


def test_streams_keep_the_times_of_the_contract():
    gateway_settings = GatewaySettings()
    assert (
        gateway_settings.stream_retry_ms,
        gateway_settings.stream_heartbeat_s,
        gateway_settings.stream_s_max,
    ) == (2000, 15, 600)
    assert gateway_settings.poll_s_max == 25


async def test_event_stream_sends_every_change_until_final(running):
    reader, _ = await running.send("GET", EVENTS)
    await running.service.wait_watched("pay_1")
    running.service.move("pay_1", PROCESSING)
    running.service.move("pay_1", SUCCEEDED)
    async with asyncio.timeout(5):
        answer = parse_response(await reader.read())
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["cache-control"] == "no-store, no-transform"
    assert answer.headers["x-accel-buffering"] == "no"
    assert answer.headers["pay-version"] == "2026-02-18"
    assert answer.headers["access-control-allow-origin"] == "*"
    events = [part for part in answer.body.decode().split("\n\n") if part and part != ":"]
    assert events[0] == "retry: 2000"
    assert [event.split("\n")[:2] for event in events[1:]] == [
        ["event: status", "id: 0"],
        ["event: status", "id: 1"],
        ["event: status", "id: 2"],
    ]
    assert events[3].split("\n")[2] == (
        'data: {"status":"succeeded","isFinal":true,"info":null,"version":2}'
    )
    await running.service.wait_watched("pay_1", 0)


async def test_a_stream_resumes_after_the_last_event(running):
    running.service.move("pay_1", PROCESSING)
    reader, _ = await running.send("GET", EVENTS, headers={**KEY, "Last-Event-ID": "1"})
    # without events: the head comes after a moment, and comments keep the connection alive
    async with asyncio.timeout(5):
        await reader.readuntil(b":\n\n")
        running.service.move("pay_1", SUCCEEDED)
        assert b"id: 2\n" in await reader.read()


async def test_event_stream_after_the_final_version_returns_204(running):
    running.service.move("pay_1", SUCCEEDED)
    answer = await running.call("GET", EVENTS, headers={**KEY, "Last-Event-ID": "1"})
    assert (answer.status, answer.body) == (204, b"")
    assert "content-type" not in answer.headers
    assert "transfer-encoding" not in answer.headers
    assert answer.headers["pay-version"] == answer.headers["wcp-version"] == "2026-02-18"


async def test_a_stream_resumes_by_its_header_only(running):
    running.service.move("pay_1", SUCCEEDED)
    answer = await running.call("GET", EVENTS + "?afterVersion=1&after_version=x")
    assert (answer.status, answer.body.count(b"id: 1\n")) == (200, 1)


async def test_silent_event_stream_sends_its_version_headers(running):
    running.service.move("pay_1", PROCESSING)
    reader, _ = await running.send("GET", EVENTS, headers={**KEY, "Last-Event-ID": "1"})
    async with asyncio.timeout(5):
        head = parse_response(await reader.readuntil(b"\r\n\r\n"))
        assert (head.status, head.headers["pay-version"]) == (200, "2026-02-18")
        await running.server.stop()
        assert b"event:" not in await reader.read()


async def test_a_stream_without_a_head_yet_is_ended_too(running):
    _, writer = await running.send("GET", EVENTS, headers={**KEY, "Last-Event-ID": "1"})
    await running.service.wait_watched("pay_1")
    async with asyncio.timeout(5):
        await running.server.stop()
    writer.close()
    await running.service.wait_watched("pay_1", 0)


async def test_a_stream_in_http_1_0_has_no_chunks(running):
    reader, writer = await running.connect()
    writer.write(f"GET {EVENTS} HTTP/1.0\r\nHost: lab\r\nApi-Key: k\r\n\r\n".encode())
    await running.service.wait_watched("pay_1")
    running.service.move("pay_1", SUCCEEDED)
    async with asyncio.timeout(5):
        answer = parse_response(await reader.read())
    assert "transfer-encoding" not in answer.headers
    assert answer.headers["connection"] == "close"
    assert answer.body.startswith(b"retry: 2000\n\nevent: status\nid: 0\ndata: {")
    assert answer.body.endswith(b'"version":1}\n\n')


async def test_a_malformed_last_event_id_is_refused(running):
    answer = await running.call("GET", EVENTS, headers={**KEY, "Last-Event-ID": "x"})
    assert (answer.status, answer.json()["code"]) == (400, "invalid_params")


async def test_an_error_before_the_first_event_is_plain_json(running):
    answer = await running.call("GET", "/v1/gateway/payment/none/events")
    assert (answer.status, answer.json()["code"]) == (404, "payment_not_found")
    assert answer.headers["content-type"] == "application/json"


async def test_a_stream_that_breaks_later_just_ends(running):
    reader, _ = await running.send("GET", EVENTS)
    await running.service.wait_watched("pay_1")
    running.service.move("pay_1", BROKEN)
    async with asyncio.timeout(5):
        answer = parse_response(await reader.read())
    assert answer.status == 200
    assert answer.body.count(b"event:") == 1


async def test_a_stream_has_a_longest_life():
    async with open_gateway("local", GatewaySettings(stream_s_max=0.1)) as running:
        answer = await running.call("GET", EVENTS)
        assert (answer.status, answer.body.count(b"event:")) == (200, 1)
        await running.service.wait_watched("pay_1", 0)


async def test_many_polls_are_woken_by_a_single_event():
    async with open_gateway("local", GatewaySettings()) as running:
        path = STATUS + "?maxPollMs=20000"
        tasks = [asyncio.create_task(running.call("GET", path)) for _ in range(300)]
        await running.service.wait_watched("pay_1", 300)
        running.service.move("pay_1", SUCCEEDED)
        answers = await asyncio.gather(*tasks)
        assert {answer.json()["status"] for answer in answers} == {"succeeded"}
