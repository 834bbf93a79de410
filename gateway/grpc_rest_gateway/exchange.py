"""One HTTP exchange: the request as the gateway reads it, and its response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import quote

from google.protobuf.descriptor import Descriptor

from grpc_rest_gateway.errors import INVALID_PARAMS, RefusedError
from grpc_rest_gateway.forwarded import format_peer
from grpc_rest_gateway.headers import HeaderRules, Headers, RequestHeaders
from grpc_rest_gateway.requestwait import Receive
from grpc_rest_gateway.rpc import Metadata

Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Scope: TypeAlias = MutableMapping[str, Any]


class ClientGoneError(Exception):
    """The client left before the response."""


class HttpExchange:
    """One HTTP request and its response."""

    __slots__ = (
        "cors",
        "header_rules",
        "path",
        "peer",
        "receive",
        "request_headers",
        "request_type",
        "route",
        "route_headers",
        "scope",
        "send",
        "timeout_s",
    )

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, header_rules: HeaderRules
    ) -> None:
        self.header_rules = header_rules
        self.scope = scope
        self.receive = receive
        self.send = send
        self.request_headers = RequestHeaders()
        self.path = ""
        self.peer = ""
        self.cors = False
        # name of the route: an RPC, a path template, or empty
        self.route = ""
        # headers of every response of the route
        self.route_headers: Headers = []
        # request type of the route's RPC; None for routes without an RPC
        self.request_type: Descriptor | None = None
        self.timeout_s = 0.0

    async def send_json(
        self, status: int, body: bytes, metadata: Metadata = (), extra: Headers | None = None
    ) -> None:
        """Send a JSON response."""
        headers = self.build_headers(metadata, len(body))
        if extra:
            headers += extra
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    def build_headers(self, metadata: Metadata = (), length: int | None = None) -> Headers:
        """Return the headers of a response; JSON unless its content type is replaced."""
        headers = self.header_rules.build_response_headers(
            self.request_headers.request_id, metadata, cors=self.cors, length=length
        )
        if self.route_headers:
            headers += self.route_headers
        return headers

    async def read_body(self, limit: int) -> bytes:
        """Return the whole body; raise RefusedError beyond `limit` bytes."""
        announced = self.request_headers.content_length
        if announced is not None and announced > limit:
            raise _make_too_large_error(limit)
        parts: list[bytes] = []
        size = 0
        message = await self.receive()
        while message["type"] != "http.disconnect":
            part = message.get("body", b"")
            size += len(part)
            if size > limit:
                raise _make_too_large_error(limit)
            if not message.get("more_body"):
                return b"".join([*parts, part]) if parts else part
            parts.append(part)
            message = await self.receive()
        raise ClientGoneError

    def check_unread_body_size(self, limit: int) -> None:
        """Apply the size limit also to a body that the route does not read."""
        announced = self.request_headers.content_length
        if announced is not None and announced > limit:
            raise _make_too_large_error(limit)


async def complete_lifespan(receive: Receive, send: Send) -> None:
    """Answer the start and the end of the server that runs the application."""
    while True:
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return


def get_path(scope: Scope) -> str:
    """Return the undecoded path."""
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode("ascii")
    try:
        return raw.decode("ascii")
    except UnicodeDecodeError:
        raise RefusedError(400, INVALID_PARAMS, "The path is not percent-encoded") from None


def get_peer(scope: Scope) -> str:
    """Return the client's address in gRPC's form."""
    return format_peer(scope.get("client"))


def _make_too_large_error(limit: int) -> RefusedError:
    # the rest of the body is not read
    return RefusedError(
        413, INVALID_PARAMS, f"The body exceeds {limit} bytes", headers=[(b"connection", b"close")]
    )
