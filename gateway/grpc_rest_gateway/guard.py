"""The connection guard: limits that a connection must keep before its request reaches the gateway.

A subclass of uvicorn's httptools protocol. The parser refuses malformed framing. The guard adds
limits of size and time, exactly one Host, one way of framing a body, and a JSON body for every
error. An error waits until the responses to earlier requests of the connection are sent.
"""

from __future__ import annotations

import asyncio
import http
from collections.abc import Callable
from enum import Enum, auto
from typing import Any

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from grpc_rest_gateway.bufferedtransport import BufferedTransport
from grpc_rest_gateway.errors import INVALID_PARAMS, RefusedError
from grpc_rest_gateway.forwarded import TrustedProxies, format_peer
from grpc_rest_gateway.headers import MISSPELT_HEADER, HeaderRules, Headers, get_request_id
from grpc_rest_gateway.http10 import disable_chunking
from grpc_rest_gateway.proxyprotocol import parse_preface
from grpc_rest_gateway.settings import GuardSettings, HeaderSettings

# the parser reads a line without a version as HTTP/0.9
_VERSIONS = frozenset({"1.0", "1.1"})


class MessageStage(Enum):
    """Progress of the message that is being read."""

    HEAD = auto()
    BODY = auto()
    DONE = auto()


class ConnectionGuard(HttpToolsProtocol):
    """One connection, within the limits of `settings`."""

    settings = GuardSettings()
    header_rules = HeaderRules(HeaderSettings())
    list_response_headers: Callable[[str, str], Headers] = staticmethod(lambda _method, _path: [])

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._stage = MessageStage.HEAD
        self._head_bytes = 0
        self._body_bytes = 0
        # received since the last byte of the body
        self._framing_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._fault: RefusedError | None = None
        self._refusal: RefusedError | None = None
        # received part of a PROXY header; None once it is read, or if none is expected
        self._preface: bytes | None = None
        self.url = b""
        self.headers = []

    # connection
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer for the head of a new connection."""
        super().connection_made(transport)
        joined: Any = BufferedTransport(transport, self.loop, self._has_unread_body)
        self.transport = joined
        if self.settings.proxy_protocol:
            proxies = TrustedProxies(self.settings.proxy_protocol)
            self._preface = b"" if proxies.is_trusted(format_peer(self.client)) else None
        self._start_timer(self.settings.head_s_max)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse, then check whether the message is still incomplete."""
        if self._refusal is not None or self.transport.is_closing():
            return
        if self._preface is not None:
            data = self._strip_preface(self._preface + data)
            if not data:
                return
        self._unset_keepalive_if_required()
        if self._stage is MessageStage.DONE and self.cycle.response_complete:
            self._stage = MessageStage.HEAD
        in_head = self._stage is MessageStage.HEAD
        if in_head:
            self._head_bytes += len(data)
        before = self._body_bytes
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # answer the request without an upgrade; the bytes that follow are not HTTP
            self.cycle.keep_alive = False
            self._stop_timer()
            return
        except httptools.HttpParserError:
            self._refuse(self._fault or _make_malformed_error())
            return
        if self._stage is MessageStage.DONE:
            self._stop_timer()
        elif (
            in_head
            and self._stage is MessageStage.HEAD
            and self._head_bytes > self.settings.head_bytes_max
        ):
            self._refuse(_make_head_too_large_error())
        elif (
            not in_head
            and self._stage is MessageStage.BODY
            and self._has_excess_framing(self._body_bytes - before, len(data))
        ):
            self._refuse(_make_malformed_error("The framing of the body is too large"))
        elif self._timer is None:
            in_time = self.settings
            self._start_timer(
                in_time.head_s_max if self._stage is MessageStage.HEAD else in_time.body_s_max
            )

    def _strip_preface(self, data: bytes) -> bytes:
        """Return the data after the PROXY header, and record its client."""
        try:
            preface = parse_preface(data)
        except ValueError:
            # this connection does not use HTTP
            self._stop_timer()
            self._preface = None
            self.transport.close()
            return b""
        if preface is None:
            self._preface = data
            return b""
        self._preface = None
        self.client = preface.client or self.client
        return data[preface.size :]

    # parser callbacks; an exception in one ends parsing
    def on_message_begin(self) -> None:
        """Start a new head."""
        self._stage = MessageStage.HEAD
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Check the whole head, then start the request."""
        self._fault = self._find_head_fault()
        if self._fault is not None:
            raise self._fault
        super().on_headers_complete()
        if self.scope["http_version"] == "1.0":
            disable_chunking(self.cycle)
        # the parser reports trailers as headers: discard them
        self.headers = []
        self._stage = MessageStage.BODY
        self._head_bytes = 0
        self._body_bytes = 0
        self._framing_bytes = 0
        self._stop_timer()

    def on_body(self, body: bytes) -> None:
        """Count the bytes of the body."""
        self._body_bytes += len(body)
        if self._body_bytes > self.settings.body_bytes_max:
            self._fault = _make_body_too_large_error(self.settings.body_bytes_max)
            raise self._fault
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Mark the message as complete."""
        self._stage = MessageStage.DONE
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Send the error that waited for this response."""
        super().on_response_complete()
        if self._refusal is not None and not self.transport.is_closing():
            self._send_refusal_in_order(self._refusal)

    # checks
    def _find_head_fault(self) -> RefusedError | None:
        bounds = self.settings
        size = len(self.url)
        hosts = lengths = 0
        coding = length = b""
        for name, value in self.headers:
            size += len(name) + len(value) + 4
            if name == b"host":
                hosts += 1
            elif name == b"content-length":
                lengths += 1
                length = value
            elif name == b"transfer-encoding":
                coding = coding + b"," + value if coding else value
            elif b"_" in name and name.replace(b"_", b"-") in self.header_rules.protected_headers:
                return _make_malformed_error(MISSPELT_HEADER)
        if size > bounds.head_bytes_max or len(self.headers) > bounds.headers_max:
            return _make_head_too_large_error()
        version = self.parser.get_http_version()
        if version not in _VERSIONS:
            return _make_malformed_error()
        if hosts != 1:
            return _make_malformed_error("Exactly one Host header is needed")
        if coding and (lengths or coding.lower() != b"chunked" or version != "1.1"):
            return _make_malformed_error("The body is framed in an ambiguous way")
        if lengths > 1:
            return _make_malformed_error("The body is framed in an ambiguous way")
        if lengths and int(length) > bounds.body_bytes_max:
            return _make_body_too_large_error(bounds.body_bytes_max)
        return None

    def _has_excess_framing(self, body_bytes: int, all_bytes: int) -> bool:
        """Return True if chunk extensions or trailers exceed the size limit of a head."""
        self._framing_bytes = 0 if body_bytes else self._framing_bytes + all_bytes
        return self._framing_bytes > self.settings.head_bytes_max

    # refusals
    def _start_timer(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self._refuse_late_request)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse_late_request(self) -> None:
        self._timer = None
        if self.flow.read_paused:
            # the gateway keeps the client waiting, not the other way around
            self._start_timer(self.settings.body_s_max)
            return
        what = "head" if self._stage is MessageStage.HEAD else "body"
        self._refuse(
            RefusedError(408, INVALID_PARAMS, f"The request {what} did not arrive in time")
        )

    def _has_unread_body(self) -> bool:
        """Return True if the client can still be sending data that the gateway does not read."""
        return self._refusal is not None or self._stage is MessageStage.BODY

    def _is_idle(self) -> bool:
        """Return True if no response is pending on this connection."""
        return not self.pipeline and (self.cycle is None or self.cycle.response_complete)

    def _refuse(self, refusal: RefusedError) -> None:
        if self._refusal is not None or self.transport.is_closing():
            return
        self._refusal = refusal
        self._stop_timer()
        self._send_refusal_in_order(refusal)

    def _send_refusal_in_order(self, refusal: RefusedError) -> None:
        """Send the error after the responses to all earlier requests."""
        cycle = self.cycle
        if self._stage is MessageStage.BODY and not self.pipeline:
            if cycle.response_started or cycle.response_complete:
                # already answered, or half: only closing is left
                self.transport.close()
                return
            # discard the gateway's own response, if it still comes
            cycle.disconnected = True
            cycle.message_event.set()
            self._send_refusal(refusal)
        elif self._is_idle():
            self._send_refusal(refusal)
        else:
            self.flow.pause_reading()

    def _send_refusal(self, refusal: RefusedError) -> None:
        request_id = get_request_id(self.scope["headers"] if self.scope else ())
        body = refusal.encode_body(request_id)
        path = self.url.partition(b"?")[0].decode("latin-1")
        method = self.parser.get_method().decode("latin-1")
        lines = [b"HTTP/1.1 %d %s" % (refusal.status, _get_reason_phrase(refusal.status))]
        head = self.header_rules.build_response_headers(
            request_id, (), cors=False, length=len(body)
        )
        head += [*self.list_response_headers(method, path), (b"connection", b"close")]
        lines += [b"%s: %s" % header for header in head]
        sent_body = b"" if method == "HEAD" else body
        self.transport.write(b"\r\n".join([*lines, b"", sent_body]))
        # read and discard input while the client reads the response
        self.flow.resume_reading()
        self.transport.close()


def make_guard_class(
    settings: GuardSettings,
    header_rules: HeaderRules,
    list_response_headers: Callable[[str, str], Headers],
) -> type[ConnectionGuard]:
    """Return a protocol class for uvicorn, which creates one instance per connection."""
    names = {
        "settings": settings,
        "header_rules": header_rules,
        "list_response_headers": staticmethod(list_response_headers),
    }
    return type("Guard", (ConnectionGuard,), names)


def _get_reason_phrase(status: int) -> bytes:
    return http.HTTPStatus(status).phrase.encode("ascii")


def _make_malformed_error(message: str = "The request is not well-formed HTTP") -> RefusedError:
    return RefusedError(400, INVALID_PARAMS, message)


def _make_head_too_large_error() -> RefusedError:
    return RefusedError(431, INVALID_PARAMS, "The request headers are too many or too large")


def _make_body_too_large_error(limit: int) -> RefusedError:
    return RefusedError(413, INVALID_PARAMS, f"The body exceeds {limit} bytes")
