"""JSON-RPC over WebSockets: every call, and subscriptions to what happens with new heads."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

import orjson
from aiohttp import WSCloseCode, WSMsgType, web

MESSAGE_MAX: Final = 5 * 2**20  # as a body
SUBSCRIPTIONS_MAX: Final = 100  # of one socket

Handle = Callable[[bytes], Awaitable[bytes]]


class Chain(Protocol):
    """Tells of new heads."""

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls the listener at each new head; gives back what ends that."""


class Topic(Protocol):
    """Something to subscribe to, for one subscriber."""

    async def news(self) -> list[Any]:
        """What happened since the last time, oldest first."""


class Dialect(Protocol):
    """How subscriptions are asked for and told."""

    @property
    def subscribe(self) -> frozenset[str]:
        """Methods that begin a subscription."""

    @property
    def unsubscribe(self) -> frozenset[str]:
        """Methods that end one."""

    def topic(self, method: str, params: list[Any]) -> Topic | None:
        """What is subscribed to; None if there is no such thing."""

    def name(self, number: int) -> Any:
        """How a subscription is called."""

    def message(self, method: str, name: Any, result: Any) -> Mapping[str, Any]:
        """A notification; `method` is what subscribed."""


class Socket:
    """One client's socket."""

    def __init__(self, handle: Handle, chain: Chain, dialect: Dialect) -> None:
        self._handle = handle
        self._chain = chain
        self._dialect = dialect
        self._socket = web.WebSocketResponse(max_msg_size=MESSAGE_MAX)
        self._numbers = itertools.count(1)
        self._topics: dict[Any, tuple[str, Topic]] = {}
        self._moved = asyncio.Event()

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """Answers until the client leaves."""
        await self._socket.prepare(request)
        leave = self._chain.listen(self._moved.set)
        tells = asyncio.create_task(self._tell())
        try:
            async for message in self._socket:
                if message.type in {WSMsgType.TEXT, WSMsgType.BINARY}:
                    given = message.data
                    payload = given.encode() if isinstance(given, str) else given
                    answer = await self._answer(payload)
                    if answer:
                        await self._socket.send_str(answer.decode())
        finally:
            leave()
            tells.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await tells
        return self._socket

    async def close(self) -> None:
        """Tells the client that the server ends."""
        await self._socket.close(code=WSCloseCode.GOING_AWAY)

    async def _answer(self, payload: bytes) -> bytes:
        try:
            asked = orjson.loads(payload)
        except orjson.JSONDecodeError:
            asked = None
        method = asked.get("method") if isinstance(asked, dict) else None
        if method in self._dialect.subscribe:
            return _answer_to(asked, self._subscribed(asked))
        if method in self._dialect.unsubscribe:
            (name,) = _params(asked)[:1] or [None]
            return _answer_to(asked, {"result": self._topics.pop(name, None) is not None})
        return await self._handle(payload)

    def _subscribed(self, asked: dict[str, Any]) -> dict[str, Any]:
        topic = self._dialect.topic(asked["method"], _params(asked))
        if topic is None:
            return {"error": {"code": -32602, "message": "no such subscription"}}
        if len(self._topics) >= SUBSCRIPTIONS_MAX:
            return {"error": {"code": -32005, "message": "too many subscriptions"}}
        name = self._dialect.name(next(self._numbers))
        self._topics[name] = (asked["method"], topic)
        return {"result": name}

    async def _tell(self) -> None:
        while True:
            await self._moved.wait()
            self._moved.clear()
            for name, (method, topic) in list(self._topics.items()):
                for result in await topic.news():
                    told = self._dialect.message(method, name, result)
                    text = orjson.dumps({"jsonrpc": "2.0", **told}).decode()
                    await self._socket.send_str(text)


def add_sockets(application: web.Application, make: Callable[[], Socket]) -> None:
    """Lets clients connect; they are told when the server ends."""
    connected: set[Socket] = set()

    async def connect(request: web.Request) -> web.WebSocketResponse:
        socket = make()
        connected.add(socket)
        try:
            return await socket.serve(request)
        finally:
            connected.discard(socket)

    async def leave(_: web.Application) -> None:
        for socket in list(connected):
            await socket.close()

    application.router.add_get("/", connect)
    application.on_shutdown.append(leave)


def _params(asked: dict[str, Any]) -> list[Any]:
    params = asked.get("params")
    return params if isinstance(params, list) else []


def _answer_to(asked: dict[str, Any], answer: dict[str, Any]) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": asked.get("id"), **answer})
