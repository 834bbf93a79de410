"""One request under way: its parts as the gateway reads them, and how it is answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import quote

from google.protobuf.descriptor import Descriptor

from florin_gateway.errors import INVALID_PARAMS, RefusedError
from florin_gateway.forwarded import spelled
from florin_gateway.headers import HeaderRules, Headers, Incoming
from florin_gateway.hold import Receive
from florin_gateway.rpc import Metadata

Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Scope: TypeAlias = MutableMapping[str, Any]


class ClientGoneError(Exception):
    """Nobody is left to answer."""


class Exchange:
    """One request under way."""

    __slots__ = (
        "cors",
        "incoming",
        "path",
        "peer",
        "receive",
        "request_type",
        "route",
        "route_headers",
        "rules",
        "scope",
        "send",
        "timeout_s",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send, rules: HeaderRules) -> None:
        self.rules = rules
        self.scope = scope
        self.receive = receive
        self.send = send
        self.incoming = Incoming()
        self.path = ""
        self.peer = ""
        self.cors = False
        # the name of what answers: an RPC, a template of paths, or nothing
        self.route = ""
        # what every answer of the route carries
        self.route_headers: Headers = []
        # what the RPC of the route is asked with; None for what is no RPC
        self.request_type: Descriptor | None = None
        self.timeout_s = 0.0

    async def answer(
        self, status: int, body: bytes, metadata: Metadata = (), extra: Headers | None = None
    ) -> None:
        """Send a JSON answer."""
        headers = self.headers(metadata, len(body))
        if extra:
            headers += extra
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    def headers(self, metadata: Metadata = (), length: int | None = None) -> Headers:
        """Headers of an answer; JSON unless its content type is replaced."""
        headers = self.rules.answer(
            self.incoming.request_id, metadata, cors=self.cors, length=length
        )
        if self.route_headers:
            headers += self.route_headers
        return headers

    async def body(self, limit: int) -> bytes:
        """The whole body; RefusedError beyond `limit` bytes."""
        announced = self.incoming.content_length
        if announced is not None and announced > limit:
            raise _too_large(limit)
        parts: list[bytes] = []
        size = 0
        message = await self.receive()
        while message["type"] != "http.disconnect":
            part = message.get("body", b"")
            size += len(part)
            if size > limit:
                raise _too_large(limit)
            if not message.get("more_body"):
                return b"".join([*parts, part]) if parts else part
            parts.append(part)
            message = await self.receive()
        raise ClientGoneError

    def check_unread_body(self, limit: int) -> None:
        """Hold a body that nobody reads to its bound all the same."""
        announced = self.incoming.content_length
        if announced is not None and announced > limit:
            raise _too_large(limit)


def path_of(scope: Scope) -> str:
    """The undecoded path."""
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode("ascii")
    try:
        return raw.decode("ascii")
    except UnicodeDecodeError:
        raise RefusedError(400, INVALID_PARAMS, "The path is not percent-encoded") from None


def peer_of(scope: Scope) -> str:
    """The client's address as gRPC writes it."""
    return spelled(scope.get("client"))


def _too_large(limit: int) -> RefusedError:
    # what is left of the body is not worth reading
    return RefusedError(
        413, INVALID_PARAMS, f"The body exceeds {limit} bytes", headers=[(b"connection", b"close")]
    )
