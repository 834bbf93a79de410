"""Test the JSON-RPC client: which responses it accepts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from types import SimpleNamespace

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from florin_server.rails.connection import jsonrpc
from florin_server.rails.connection.jsonrpc import (
    AnswerTooLarge,
    HttpTransport,
    JsonRpcClient,
    LocalTransport,
    RpcError,
)
from florin_server.rails.types import RailUnavailable
from hypothesis import given, settings
from hypothesis import strategies as st


def node(answer, **options):
    """Return a client whose node responds with `answer(question)`."""
    requests = []

    async def handle(payload):
        question = json.loads(payload)
        requests.append(question)
        created = answer(question)
        return created if isinstance(created, bytes) else json.dumps(created).encode()

    rpc = JsonRpcClient(LocalTransport(handle), **options)
    return rpc, requests


def result(question, value):
    return {"jsonrpc": "2.0", "id": question["id"], "result": value}


def refusal(question, code, message, **more):
    error = {"code": code, "message": message, **more}
    return {"jsonrpc": "2.0", "id": question["id"], "error": error}


async def test_a_call_returns_its_result():
    rpc, request = node(lambda item: result(item, "0x1"))
    assert await rpc.call("eth_getCode", "0xab", "latest") == "0x1"
    assert request == [
        {"jsonrpc": "2.0", "id": 1, "method": "eth_getCode", "params": ["0xab", "latest"]}
    ]


async def test_null_is_a_result():
    rpc, _ = node(lambda item: result(item, None))
    assert await rpc.call("eth_getTransactionReceipt", "0x") is None


async def test_a_refused_call_raises_the_nodes_words():
    rpc, _ = node(lambda item: refusal(item, 3, "execution reverted: no", data="0x08"))
    with pytest.raises(RpcError) as caught:
        await rpc.call("eth_call")
    assert (caught.value.code, caught.value.message) == (3, "execution reverted: no")
    assert caught.value.data == "0x08"
    assert caught.value.is_revert


@pytest.mark.parametrize(
    ("code", "message", "is_revert"),
    [
        (3, "", True),
        (-32000, "Execution Reverted", True),
        (-32015, "VM execution error.", True),
        (-32000, "out of gas", True),
        (-32603, "EVM error OutOfGas", True),
        (-32603, "EVM error: OpcodeNotFound", True),
        (-32603, "EVM error OutOfOffset", True),
        (-32603, "EVM error FatalExternalError", False),
        (-32000, "header not found", False),
        (-32601, "the method does not exist", False),
        (-32005, "limit exceeded", False),
    ],
)
def test_revert_is_distinguished_from_other_errors(code, message, is_revert):
    assert RpcError(code, message).is_revert is is_revert


async def test_batch_is_a_single_payload_answered_in_any_order():
    def backwards(questions):
        return [result(question, question["method"]) for question in reversed(questions)]

    rpc, request = node(backwards)
    assert await rpc.batch([("a", []), ("b", []), ("c", [])]) == ["a", "b", "c"]
    assert len(request) == 1
    assert (rpc.call_count, rpc.request_count) == (3, 1)


async def test_refused_call_does_not_affect_the_rest_of_its_batch():
    def second_fails(questions):
        return [result(questions[0], 1), refusal(questions[1], -32000, "no")]

    rpc, _ = node(second_fails)
    first, second = await rpc.batch([("a", []), ("b", [])])
    assert first == 1
    assert isinstance(second, RpcError)


async def test_no_calls_are_no_question():
    rpc, request = node(lambda item: None)
    assert await rpc.batch([]) == []
    assert request == []


async def test_a_long_batch_travels_in_parts():
    rpc, request = node(
        lambda many: [result(item, item["params"][0]) for item in many], batch_max=4
    )
    assert await rpc.batch([("a", [n]) for n in range(10)]) == list(range(10))
    assert [len(part) for part in request] == [4, 4, 2]


NONSENSE = [
    b"",
    b"<html>",
    b"\xff\xfe",
    b"null",
    b"1",
    b'"text"',
    b"[]",
    b"{}",
    b'{"jsonrpc":"2.0","id":1}',
    b'{"jsonrpc":"2.0","id":2,"result":"0x1"}',
    b'{"jsonrpc":"2.0","id":"1","result":"0x1"}',
    b'{"jsonrpc":"2.0","result":"0x1"}',
    b"[" * 10_000,
]


@pytest.mark.parametrize("answer", NONSENSE)
async def test_malformed_response_raises_rail_unavailable(answer):
    rpc, _ = node(lambda _: answer)
    with pytest.raises(RailUnavailable):
        await rpc.call("eth_chainId")


@pytest.mark.parametrize(
    "answer", [*NONSENSE, b'[{"id":1,"result":1}]', b"[1,2]", b"[null]", b'[{"id":[]},{"id":{}}]']
)
async def test_malformed_batch_response_raises_rail_unavailable(answer):
    rpc, _ = node(lambda _: answer)
    with pytest.raises(RailUnavailable):
        await rpc.batch([("a", []), ("b", [])])


def no_batches(how):
    """Return a node that answers single calls and refuses batches."""
    return lambda question: how if isinstance(question, list) else result(question, "0x1")


REFUSED = {"code": -32600, "message": "invalid request"}


@pytest.mark.parametrize(
    "how",
    [
        {"jsonrpc": "2.0", "id": None, "error": REFUSED},
        [{"jsonrpc": "2.0", "id": None, "error": REFUSED}],
        b"<html>",
        b"",
    ],
    ids=["object", "list", "page", "nothing"],
)
async def test_node_without_batch_support_is_called_request_by_request(how):
    rpc, request = node(no_batches(how))
    calls = [("a", [n]) for n in range(9)]
    assert await rpc.batch(calls) == ["0x1"] * 9
    refused = sum(isinstance(item, list) for item in request)
    assert refused <= 4
    request.clear()
    assert await rpc.batch(calls) == ["0x1"] * 9
    assert [item["params"] for item in request] == [[n] for n in range(9)]


async def test_error_page_of_a_moment_limits_batches_for_seconds(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(jsonrpc, "time", SimpleNamespace(monotonic=lambda: now[0]))
    pages = [1]

    def answer(question):
        if not isinstance(question, list):
            return result(question, "0x1")
        pages[0] -= 1
        return b"<html>" if pages[0] >= 0 else [result(item, "0x1") for item in question]

    rpc, request = node(answer)
    calls = [("a", [n]) for n in range(9)]

    async def count_requests() -> int:
        request.clear()
        assert await rpc.batch(calls) == ["0x1"] * 9
        return len(request)

    assert await count_requests() == 10
    assert await count_requests() == 9
    now[0] += jsonrpc.UNREADABLE_RETRY_S + 1
    assert await count_requests() == 1
    # with further pages, each pause is twice as long
    pages[0] = 1
    assert await count_requests() == 10
    pages[0] = 1
    now[0] += jsonrpc.UNREADABLE_RETRY_S + 1
    assert await count_requests() == 10
    now[0] += jsonrpc.UNREADABLE_RETRY_S + 1
    assert await count_requests() == 9
    now[0] += jsonrpc.UNREADABLE_RETRY_S
    assert await count_requests() == 1


@pytest.mark.parametrize("most", [1, 2, 3, 5, 8])
async def test_node_with_a_small_batch_limit_gets_batches_of_that_size(most):
    def answer(question):
        if not isinstance(question, list):
            return result(question, "0x1")
        if len(question) > most:
            return refusal({"id": None}, -32600, "invalid request")
        return [result(item, item["params"][0]) for item in question]

    rpc, request = node(answer)
    calls = [("a", [n]) for n in range(20)]
    expected = ["0x1"] * 20 if most == 1 else list(range(20))
    for _ in range(2):
        request.clear()
        assert len(await rpc.batch(calls)) == 20
    assert await rpc.batch(calls) == expected or most == 1
    assert all(not isinstance(item, list) or len(item) <= most for item in request)


async def test_busy_node_is_not_called_with_smaller_batches():
    rpc, request = node(lambda _: refusal({"id": None}, -32005, "too many requests"))
    with pytest.raises(RailUnavailable, match="too many requests"):
        await rpc.batch([("a", [n]) for n in range(20)])
    assert len(request) == 1


async def test_batch_refused_as_a_whole_raises_rail_unavailable():
    rpc, _ = node(lambda _: {"jsonrpc": "2.0", "id": None, "error": {"message": "too many"}})
    with pytest.raises(RailUnavailable, match="too many"):
        await rpc.batch([("a", []), ("b", [])])


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["id", "result", "error", "code", "message", "jsonrpc"]), inner
            )
        ),
        max_leaves=8,
    )
)
def test_any_json_is_a_result_a_refusal_or_nothing(answer):
    async def ask():
        rpc, _ = node(lambda _: answer)
        for asking in (rpc.call("a"), rpc.batch([("a", []), ("b", [])])):
            with contextlib.suppress(RailUnavailable, RpcError):
                await asking

    asyncio.run(ask())


async def test_an_answer_above_the_limit_is_not_read():
    rpc, _ = node(lambda item: result(item, "x" * 2000), answer_bytes_max=1000)
    with pytest.raises(AnswerTooLarge):
        await rpc.call("eth_getLogs")


async def test_a_silent_node_is_not_waited_for():
    async def never(_):
        await asyncio.Event().wait()

    rpc = JsonRpcClient(LocalTransport(never), timeout_s=0.01)
    with pytest.raises(RailUnavailable, match="in time"):
        await rpc.call("eth_chainId")


# over HTTP


async def served(handler):
    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", handler)
    server = TestServer(application)
    await server.start_server()
    return server


async def asked_over_http(handler, path="/", **options):
    server = await served(handler)
    transport = HttpTransport(str(server.make_url(path)), **options)
    try:
        return await JsonRpcClient(transport).call("eth_chainId")
    finally:
        await transport.close()
        await server.close()


@pytest.mark.parametrize("status", [200, 400, 418, 500, 502])
async def test_answers_are_read_over_http(status):
    async def handle(request):
        assert request.method == "POST"
        assert request.content_type == "application/json"
        question = json.loads(await request.read())
        return web.json_response(result(question, "0x7a69"), status=status)

    assert await asked_over_http(handle) == "0x7a69"


@pytest.mark.parametrize("status", [204, 301, 401, 403, 429, 500, 502, 503])
async def test_unexpected_http_status_raises_rail_unavailable(status):
    async def handle(request):
        answer = result(json.loads(await request.read()), "0x1")
        return web.json_response(answer, status=status) if denied else web.Response(status=status)

    denied = status in {401, 403, 429, 503}
    with pytest.raises(RailUnavailable, match=str(status)):
        await asked_over_http(handle)


async def test_redirects_are_not_followed():
    seen = []

    async def handle(request):
        seen.append(request.path)
        raise web.HTTPTemporaryRedirect("/elsewhere")

    with pytest.raises(RailUnavailable, match="307"):
        await asked_over_http(handle)
    assert seen == ["/"]


async def test_reading_stops_at_the_limit():
    async def handle(request):
        return web.Response(body=b"x" * 300_000)

    with pytest.raises(AnswerTooLarge):
        await asked_over_http(handle, answer_bytes_max=100_000)


async def test_a_slow_server_is_not_waited_for():
    stop = asyncio.Event()

    async def handle(request):
        await stop.wait()
        return web.Response()

    server = await served(handle)
    transport = HttpTransport(str(server.make_url("/")), timeout_s=0.05)
    with pytest.raises(RailUnavailable, match="in time"):
        await transport.send(b"{}")
    stop.set()
    await transport.close()
    await server.close()


async def test_access_key_in_an_address_is_never_shown():
    async def handle(request):
        return web.Response(status=500)

    with pytest.raises(RailUnavailable) as exception_info:
        await asked_over_http(handle, path="/v2/secret-access-key")
    assert "secret" not in str(exception_info.value)
    with socket.socket() as silent:
        # bound, so that no other process takes the port, but not listening
        silent.bind(("127.0.0.1", 0))
        silent_node = HttpTransport(
            f"http://127.0.0.1:{silent.getsockname()[1]}/v2/secret-access-key"
        )
        with pytest.raises(RailUnavailable) as exception_info:
            await silent_node.send(b"{}")
        await silent_node.close()
    assert "secret" not in str(exception_info.value)


@pytest.mark.parametrize("url", ["", "ftp://node", "node:8545", "http://", "file:///etc/passwd"])
def test_an_address_must_be_http(url):
    with pytest.raises(ValueError, match="http"):
        HttpTransport(url)
