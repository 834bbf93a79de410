"""JSON-RPC over WebSockets: every call, and subscriptions to events of new heads."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

import orjson
from aiohttp import WSCloseCode, WSMsgType, web

MESSAGE_MAX: Final = 5 * 2**20  # as for a body
SUBSCRIPTIONS_MAX: Final = 100  # of one socket

PayloadHandler = Callable[[bytes], Awaitable[bytes]]


class HeadSource(Protocol):
    """A source of new heads."""

    def add_listener(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call the listener at each new head; return the function that ends that."""


class SubscriptionTopic(Protocol):
    """A topic to subscribe to, for one subscriber."""

    async def read_news(self) -> list[Any]:
        """Return the events since the last call, oldest first."""


class SubscriptionDialect(Protocol):
    """The format of subscriptions and notifications."""

    @property
    def subscribe_methods(self) -> frozenset[str]:
        """Return the methods that start a subscription."""

    @property
    def unsubscribe_methods(self) -> frozenset[str]:
        """Return the methods that end a subscription."""

    def find_topic(self, method: str, params: list[Any]) -> SubscriptionTopic | None:
        """Return the topic of a subscription; None if it does not exist."""

    def format_id(self, number: int) -> Any:
        """Return the name of a subscription."""

    def build_notification(
        self, method: str, subscription_id: Any, result: Any
    ) -> Mapping[str, Any]:
        """Return a notification; `method` is the subscribing method."""


class RpcSocket:
    """The socket of one client."""

    def __init__(
        self, handle: PayloadHandler, chain: HeadSource, dialect: SubscriptionDialect
    ) -> None:
        self._handle = handle
        self._chain = chain
        self._dialect = dialect
        self._socket = web.WebSocketResponse(max_msg_size=MESSAGE_MAX)
        self._numbers = itertools.count(1)
        self._topics: dict[Any, tuple[str, SubscriptionTopic]] = {}
        self._head_changed = asyncio.Event()

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """Answer until the client disconnects."""
        await self._socket.prepare(request)
        leave = self._chain.add_listener(self._head_changed.set)
        task = asyncio.create_task(self._send_notifications())
        try:
            async for message in self._socket:
                if message.type in {WSMsgType.TEXT, WSMsgType.BINARY}:
                    data = message.data
                    payload = data.encode() if isinstance(data, str) else data
                    answer = await self._answer_payload(payload)
                    if answer:
                        await self._socket.send_str(answer.decode())
        finally:
            leave()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await task
        return self._socket

    async def close(self) -> None:
        """Notify the client that the server stops."""
        await self._socket.close(code=WSCloseCode.GOING_AWAY)

    async def _answer_payload(self, payload: bytes) -> bytes:
        try:
            request = orjson.loads(payload)
        except orjson.JSONDecodeError:
            request = None
        method = request.get("method") if isinstance(request, dict) else None
        if method in self._dialect.subscribe_methods:
            return _build_answer(request, self._answer_subscription(request))
        if method in self._dialect.unsubscribe_methods:
            (name,) = _get_params(request)[:1] or [None]
            return _build_answer(request, {"result": self._topics.pop(name, None) is not None})
        return await self._handle(payload)

    def _answer_subscription(self, request: dict[str, Any]) -> dict[str, Any]:
        topic = self._dialect.find_topic(request["method"], _get_params(request))
        if topic is None:
            return {"error": {"code": -32602, "message": "no such subscription"}}
        if len(self._topics) >= SUBSCRIPTIONS_MAX:
            return {"error": {"code": -32005, "message": "too many subscriptions"}}
        name = self._dialect.format_id(next(self._numbers))
        self._topics[name] = (request["method"], topic)
        return {"result": name}

    async def _send_notifications(self) -> None:
        while True:
            await self._head_changed.wait()
            self._head_changed.clear()
            for name, (method, topic) in list(self._topics.items()):
                for result in await topic.read_news():
                    message = self._dialect.build_notification(method, name, result)
                    text = orjson.dumps({"jsonrpc": "2.0", **message}).decode()
                    await self._socket.send_str(text)


def add_socket_support(
    application: web.Application, create_socket: Callable[[], RpcSocket]
) -> None:
    """Accept clients; they are notified when the server stops."""
    connected: set[RpcSocket] = set()

    async def connect(request: web.Request) -> web.WebSocketResponse:
        socket = create_socket()
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


def _get_params(request: dict[str, Any]) -> list[Any]:
    params = request.get("params")
    return params if isinstance(params, list) else []


def _build_answer(request: dict[str, Any], answer: dict[str, Any]) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": request.get("id"), **answer})
