"""An HTTP proxy in front of a chain's node that goes wrong exactly as it is told.

    async with FaultyProxy(node_url) as proxy:
        rail = EvmRail(settings(rpc_url=proxy.url), signer)
        proxy.fail(status(429, headers={"Retry-After": "3"}), times=2)
        proxy.fail(change(lambda params, answer: ...), method="eth_getTransactionReceipt")
        proxy.down()  # connections are cut until proxy.up()
        proxy.heal()  # forgets every fault, and is up

`fail` plans a fault for requests that call a method (any, if none is named), for a number of
requests (for good, if none is told). The newest planned fault that fits is the one that happens.
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

Upstream = str | Callable[[bytes], Awaitable[bytes]]
Forward = Callable[[], Awaitable[bytes]]
Fault = Callable[[web.Request, bytes, Forward], Awaitable[web.StreamResponse]]


@dataclass
class Planned:
    """A fault that waits for its requests."""

    fault: Fault
    method: str | None
    times: int | None

    def fits(self, methods: Sequence[str]) -> bool:
        return self.times != 0 and (self.method is None or self.method in methods)


@dataclass
class FaultyProxy:
    """See above."""

    upstream: Upstream
    asked: list[str] = field(default_factory=list)
    requests: int = 0
    _planned: list[Planned] = field(default_factory=list)
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
        """With an access key, as hosted nodes have it."""
        return f"http://127.0.0.1:{self.port}/v2/secret-access-key"

    def fail(self, fault: Fault, *, method: str | None = None, times: int | None = None) -> Planned:
        planned = Planned(fault, method, times)
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
        """Returns when a request that calls the method has come."""
        come: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((method, come))
        await come

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        payload = await request.read()
        self.requests += 1
        methods = _methods(payload)
        self.asked += methods
        for method, come in self._waiting:
            if method in methods and not come.done():
                come.set_result(None)
        self._waiting = [one for one in self._waiting if not one[1].done()]
        if self._is_down:
            return await cut(request, payload, self._forward(payload))
        for planned in reversed(self._planned):
            if planned.fits(methods):
                if planned.times is not None:
                    planned.times -= 1
                return await planned.fault(request, payload, self._forward(payload))
        return _body(await self._forward(payload)())

    def _forward(self, payload: bytes) -> Forward:
        async def forward() -> bytes:
            if not isinstance(self.upstream, str):
                return await self.upstream(payload)
            headers = {"content-type": "application/json"}
            async with self._session.post(self.upstream, data=payload, headers=headers) as answer:
                return await answer.read()

        return forward


# ---- faults


async def cut(request: web.Request, _: bytes, __: Forward) -> web.StreamResponse:
    """The connection ends without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def after(request: web.Request, payload: bytes, forward: Forward) -> web.StreamResponse:
    """The node does what it was asked; the connection ends before it says so."""
    await forward()
    return await cut(request, payload, forward)


async def truncated(request: web.Request, _: bytes, forward: Forward) -> web.StreamResponse:
    """Half of the answer, and the end."""
    answer = await forward()
    response = web.StreamResponse(headers={"content-length": str(len(answer))})
    await response.prepare(request)
    await response.write(answer[: len(answer) // 2])
    if request.transport is not None:
        request.transport.close()
    return response


async def html(*_: Any) -> web.StreamResponse:
    """The error page of what stands before a node, as a success."""
    page = "<html><body><h1>Service temporarily unavailable</h1></body></html>"
    return web.Response(text=page, content_type="text/html")


def status(code: int, *, headers: Mapping[str, str] | None = None, body: str = "") -> Fault:
    """Another HTTP status."""

    async def fault(*_: Any) -> web.StreamResponse:
        return web.Response(status=code, headers=headers, text=body or "<html>no</html>")

    return fault


def error(code: int, message: str) -> Fault:
    """A JSON-RPC error for the whole request, with HTTP 200."""

    async def fault(_: web.Request, payload: bytes, __: Forward) -> web.StreamResponse:
        asked = json.loads(payload)
        number = asked.get("id") if isinstance(asked, dict) else None
        refusal = {"code": code, "message": message}
        return web.json_response({"jsonrpc": "2.0", "id": number, "error": refusal})

    return fault


def change(how: Callable[[list[Any], dict[str, Any]], Any], method: str | None = None) -> Fault:
    """Each answer (of the method) becomes what `how(params, answer)` returns: a lie."""

    async def fault(_: web.Request, payload: bytes, forward: Forward) -> web.StreamResponse:
        asked, told = json.loads(payload), json.loads(await forward())
        if isinstance(asked, dict):
            return web.json_response(_changed(how, method, asked, told))
        by_id = {one["id"]: one for one in told}
        return web.json_response([_changed(how, method, one, by_id[one["id"]]) for one in asked])

    return fault


def refused(code: int, message: str) -> Callable[[list[Any], dict[str, Any]], Any]:
    """For `change`: an error instead of a result."""
    return lambda _, answer: {"id": answer["id"], "error": {"code": code, "message": message}}


def replied(result: Any) -> Callable[[list[Any], dict[str, Any]], Any]:
    """For `change`: another result."""
    return lambda _, answer: {"jsonrpc": "2.0", "id": answer["id"], "result": result}


def batches_up_to(most: int) -> Fault:
    """Larger batches are refused as a whole."""

    async def fault(request: web.Request, payload: bytes, forward: Forward) -> web.StreamResponse:
        asked = json.loads(payload)
        if isinstance(asked, list) and len(asked) > most:
            return await error(-32600, "batch too large")(request, payload, forward)
        return _body(await forward())

    return fault


def held(until: asyncio.Event) -> Fault:
    """No answer until something happens."""

    async def fault(_: web.Request, __: bytes, forward: Forward) -> web.StreamResponse:
        await until.wait()
        return _body(await forward())

    return fault


def behind(head: int) -> Fault:
    """An EVM node that is no further than a block: `latest` is that block, later ones are not."""

    async def fault(_: web.Request, payload: bytes, forward: Forward) -> web.StreamResponse:
        asked = json.loads(payload)
        told = json.loads(await forward())
        many = asked if isinstance(asked, list) else [asked]
        answers = {one["id"]: one for one in (told if isinstance(told, list) else [told])}
        found = [_from_behind(head, one, answers[one["id"]]) for one in many]
        return web.json_response(found if isinstance(asked, list) else found[0])

    return fault


def _from_behind(head: int, asked: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    method, params, result = asked["method"], asked.get("params", []), answer.get("result")
    unknown = {"jsonrpc": "2.0", "id": asked["id"], "result": None}
    missing = {"id": asked["id"], "error": {"code": -32000, "message": "header not found"}}
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


def _changed(how: Any, method: str | None, asked: dict[str, Any], answer: dict[str, Any]) -> Any:
    fits = method is None or asked["method"] == method
    return how(asked.get("params", []), answer) if fits else answer


def _methods(payload: bytes) -> list[str]:
    try:
        asked = json.loads(payload)
    except ValueError:
        return []
    return [one["method"] for one in (asked if isinstance(asked, list) else [asked])]


def _body(answer: bytes) -> web.Response:
    return web.Response(body=answer, content_type="application/json")
