"""HTTP proxy in front of a chain's node that fails exactly as configured.

    async with FaultyNodeProxy(node_url) as proxy:
        rail = EvmRail(settings(rpc_url=proxy.url), signer)
        proxy.fail(make_status_fault(429, headers={"Retry-After": "3"}), times=2)
        lie = make_change_fault(lambda params, answer: ...)
        proxy.fail(lie, method="eth_getTransactionReceipt")
        proxy.down()  # connections are cut until proxy.up()
        proxy.heal()  # forgets every fault, and is up

`fail` plans a fault for requests that call a method (any, if none is named), for a number of
requests (permanently, if no number is given). Of the planned faults that match, the newest is used.
The upstream is a URL or a coroutine function of bytes; setting `proxy.upstream` puts another chain
behind the same address. `proxy.asked` lists every method that was called, `proxy.requests` counts
requests, and `await proxy.until(method)` returns when the next request that calls it has come.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import aiohttp
from aiohttp import web

ProxyUpstream = str | Callable[[bytes], Awaitable[bytes]]
ForwardRequest = Callable[[], Awaitable[bytes]]
ProxyFault = Callable[[web.Request, bytes, ForwardRequest], Awaitable[web.StreamResponse]]


@dataclass
class PlannedNodeFault:
    """A fault that waits for its requests."""

    fault: ProxyFault
    method: str | None
    times: int | None

    def fits(self, methods: Sequence[str]) -> bool:
        return self.times != 0 and (self.method is None or self.method in methods)


@dataclass
class FaultyNodeProxy:
    """See the module."""

    upstream: ProxyUpstream
    methods: list[str] = field(default_factory=list)
    requests: int = 0
    _planned: list[PlannedNodeFault] = field(default_factory=list)
    _is_down: bool = False
    _waiting: list[tuple[str, asyncio.Future[None]]] = field(default_factory=list)

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession()
        application = web.Application(client_max_size=8 * 2**20)
        application.router.add_route("*", "/{rest:.*}", self._answer)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port: int = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()
        await self._session.close()

    @property
    def url(self) -> str:
        """Return the URL with an access key, as hosted nodes have it."""
        return f"http://127.0.0.1:{self.port}/v2/secret-access-key"

    def fail(
        self, fault: ProxyFault, *, method: str | None = None, times: int | None = None
    ) -> PlannedNodeFault:
        planned = PlannedNodeFault(fault, method, times)
        self._planned.append(planned)
        return planned

    def heal(self) -> None:
        self._planned.clear()
        self._is_down = False

    def down(self) -> None:
        self._is_down = True

    def up(self) -> None:
        self._is_down = False

    async def until(self, method: str) -> None:
        """Return when a request that calls the method has come."""
        come: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((method, come))
        await come

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        payload = await request.read()
        self.requests += 1
        methods = _list_methods(payload)
        self.methods += methods
        for method, come in self._waiting:
            if method in methods and not come.done():
                come.set_result(None)
        self._waiting = [item for item in self._waiting if not item[1].done()]
        if self._is_down:
            return await cut_connection(request, payload, self._forward(payload))
        for planned in reversed(self._planned):
            if planned.fits(methods):
                if planned.times is not None:
                    planned.times -= 1
                return await planned.fault(request, payload, self._forward(payload))
        return _make_response(await self._forward(payload)())

    def _forward(self, payload: bytes) -> ForwardRequest:
        async def forward() -> bytes:
            if not isinstance(self.upstream, str):
                return await self.upstream(payload)
            headers = {"content-type": "application/json"}
            async with self._session.post(self.upstream, data=payload, headers=headers) as answer:
                return await answer.read()

        return forward


# ---- faults


async def cut_connection(request: web.Request, _: bytes, __: ForwardRequest) -> web.StreamResponse:
    """End the connection without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def cut_after_forward(
    request: web.Request, payload: bytes, forward: ForwardRequest
) -> web.StreamResponse:
    """Forward the request; end the connection before the answer."""
    await forward()
    return await cut_connection(request, payload, forward)


async def truncate_response(
    request: web.Request, _: bytes, forward: ForwardRequest
) -> web.StreamResponse:
    """Send half of the answer, and end it."""
    answer = await forward()
    response = web.StreamResponse(headers={"content-length": str(len(answer))})
    await response.prepare(request)
    await response.write(answer[: len(answer) // 2])
    if request.transport is not None:
        request.transport.close()
    return response


async def answer_html(*_: Any) -> web.StreamResponse:
    """Send a proxy's HTML error page with a success status."""
    page = "<html><body><h1>Service temporarily unavailable</h1></body></html>"
    return web.Response(text=page, content_type="text/html")


def make_status_fault(
    code: int, *, headers: Mapping[str, str] | None = None, body: str = ""
) -> ProxyFault:
    """Return a fault with another HTTP status."""

    async def fault(*_: Any) -> web.StreamResponse:
        return web.Response(status=code, headers=headers, text=body or "<html>no</html>")

    return fault


def make_error_fault(code: int, message: str) -> ProxyFault:
    """Return a fault with a JSON-RPC error for the whole request, and HTTP 200."""

    async def fault(_: web.Request, payload: bytes, __: ForwardRequest) -> web.StreamResponse:
        request = json.loads(payload)
        number = request.get("id") if isinstance(request, dict) else None
        refusal = {"code": code, "message": message}
        return web.json_response({"jsonrpc": "2.0", "id": number, "error": refusal})

    return fault


def make_change_fault(
    how: Callable[[list[Any], dict[str, Any]], Any], method: str | None = None
) -> ProxyFault:
    """Return a fault that replaces each answer with the lie `how(params, answer)`."""

    async def fault(_: web.Request, payload: bytes, forward: ForwardRequest) -> web.StreamResponse:
        request, result = json.loads(payload), json.loads(await forward())
        if isinstance(request, dict):
            return web.json_response(_apply_change(how, method, request, result))
        by_id = {item["id"]: item for item in result}
        return web.json_response(
            [_apply_change(how, method, item, by_id[item["id"]]) for item in request]
        )

    return fault


def make_error_change(code: int, message: str) -> Callable[[list[Any], dict[str, Any]], Any]:
    """Return a change, for `make_change_fault`, to an error."""
    return lambda _, answer: {"id": answer["id"], "error": {"code": code, "message": message}}


def make_result_change(result: Any) -> Callable[[list[Any], dict[str, Any]], Any]:
    """Return a change, for `make_change_fault`, to another result."""
    return lambda _, answer: {"jsonrpc": "2.0", "id": answer["id"], "result": result}


def make_batch_limit_fault(most: int) -> ProxyFault:
    """Return a fault that refuses larger batches as a whole."""

    async def fault(
        request: web.Request, payload: bytes, forward: ForwardRequest
    ) -> web.StreamResponse:
        requested_request = json.loads(payload)
        if isinstance(requested_request, list) and len(requested_request) > most:
            return await make_error_fault(-32600, "batch too large")(request, payload, forward)
        return _make_response(await forward())

    return fault


def make_delay_fault(until: asyncio.Event) -> ProxyFault:
    """Return a fault that delays answers until an event is set."""

    async def fault(_: web.Request, __: bytes, forward: ForwardRequest) -> web.StreamResponse:
        await until.wait()
        return _make_response(await forward())

    return fault


def make_lag_fault(head: int) -> ProxyFault:
    """Return an EVM node that lags: `latest` is that block, later blocks do not exist."""

    async def fault(_: web.Request, payload: bytes, forward: ForwardRequest) -> web.StreamResponse:
        request = json.loads(payload)
        result = json.loads(await forward())
        many = request if isinstance(request, list) else [request]
        answers = {item["id"]: item for item in (result if isinstance(result, list) else [result])}
        results = [_apply_lag(head, item, answers[item["id"]]) for item in many]
        return web.json_response(results if isinstance(request, list) else results[0])

    return fault


def _apply_lag(head: int, request: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    method, params, result = request["method"], request.get("params", []), answer.get("result")
    unknown = {"jsonrpc": "2.0", "id": request["id"], "result": None}
    missing = {"id": request["id"], "error": {"code": -32000, "message": "header not found"}}
    if method == "eth_blockNumber":
        return {**unknown, "result": hex(head)}
    if method == "eth_getBlockByNumber" and params[0] == "latest" and isinstance(result, dict):
        return {**answer, "result": {**result, "number": hex(head)}}
    number = params[0] if params and isinstance(params[0], str) else ""
    if method in {"eth_getBlockByNumber", "eth_getBlockReceipts"} and number.startswith("0x"):
        return unknown if int(number, 16) > head else answer
    if method == "eth_getTransactionReceipt" and isinstance(result, dict):
        return unknown if int(result["blockNumber"], 16) > head else answer
    block = params[1] if len(params) > 1 and isinstance(params[1], str) else ""
    if method in {"eth_call", "eth_getTransactionCount"} and block.startswith("0x"):
        return missing if int(block, 16) > head else answer
    return answer


def _apply_change(
    how: Any, method: str | None, request: dict[str, Any], answer: dict[str, Any]
) -> Any:
    fits = method is None or request["method"] == method
    return how(request.get("params", []), answer) if fits else answer


def _list_methods(payload: bytes) -> list[str]:
    try:
        request = json.loads(payload)
    except ValueError:
        return []
    return [item["method"] for item in (request if isinstance(request, list) else [request])]


def _make_response(answer: bytes) -> web.Response:
    return web.Response(body=answer, content_type="application/json")
