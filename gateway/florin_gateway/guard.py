"""The door: what a connection must keep to before its request reaches the gateway.

A subclass of uvicorn's httptools protocol. The parser refuses malformed framing; here are the
bounds in size and time, exactly one Host, one way of framing a body, and a JSON body for every
refusal. A refusal waits until answers to earlier requests of the connection are out.
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

from florin_gateway.errors import INVALID_PARAMS, RefusedError
from florin_gateway.forwarded import Proxies, spelled
from florin_gateway.headers import MISSPELT, HeaderRules, Headers, request_id_of
from florin_gateway.joinedwrites import JoinedWrites
from florin_gateway.oldhttp import without_chunks
from florin_gateway.proxyprotocol import read_preface
from florin_gateway.settings import GuardSettings, HeaderSettings

# the parser takes a line without a version for HTTP/0.9
_VERSIONS = frozenset({"1.0", "1.1"})


class Stage(Enum):
    """Where the message that is being read stands."""

    HEAD = auto()
    BODY = auto()
    DONE = auto()


class Guard(HttpToolsProtocol):
    """One connection, under the bounds of `settings`."""

    settings = GuardSettings()
    rules = HeaderRules(HeaderSettings())
    headers_at: Callable[[str, str], Headers] = staticmethod(lambda _method, _path: [])

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._stage = Stage.HEAD
        self._head_bytes = 0
        self._body_bytes = 0
        # received since the last byte of the body
        self._framing_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._fault: RefusedError | None = None
        self._refusal: RefusedError | None = None
        # what came so far of a PROXY header; None once it is read, or where there is none
        self._preface: bytes | None = None
        self.url = b""
        self.headers = []

    # connection
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Give a new connection its time to send a head."""
        super().connection_made(transport)
        joined: Any = JoinedWrites(transport, self.loop, self._unread)
        self.transport = joined
        if self.settings.proxy_protocol:
            proxies = Proxies(self.settings.proxy_protocol)
            self._preface = b"" if proxies.trusts(spelled(self.client)) else None
        self._arm(self.settings.head_s_max)

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop the timer."""
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse, then see whether the message is still on its way."""
        if self._refusal is not None or self.transport.is_closing():
            return
        if self._preface is not None:
            data = self._after_preface(self._preface + data)
            if not data:
                return
        self._unset_keepalive_if_required()
        if self._stage is Stage.DONE and self.cycle.response_complete:
            self._stage = Stage.HEAD
        in_head = self._stage is Stage.HEAD
        if in_head:
            self._head_bytes += len(data)
        before = self._body_bytes
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # the request is answered as if it asked for no other protocol, what follows is not HTTP
            self.cycle.keep_alive = False
            self._disarm()
            return
        except httptools.HttpParserError:
            self._refuse(self._fault or _malformed())
            return
        if self._stage is Stage.DONE:
            self._disarm()
        elif (
            in_head
            and self._stage is Stage.HEAD
            and self._head_bytes > self.settings.head_bytes_max
        ):
            self._refuse(_head_too_large())
        elif (
            not in_head
            and self._stage is Stage.BODY
            and self._frames_too_much(self._body_bytes - before, len(data))
        ):
            self._refuse(_malformed("The body is framed with too much"))
        elif self._timer is None:
            in_time = self.settings
            self._arm(in_time.head_s_max if self._stage is Stage.HEAD else in_time.body_s_max)

    def _after_preface(self, data: bytes) -> bytes:
        """What comes behind the PROXY header, of which the client is learnt."""
        try:
            preface = read_preface(data)
        except ValueError:
            # nobody here speaks HTTP
            self._disarm()
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
        """A new head begins."""
        self._stage = Stage.HEAD
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Check the head as a whole, then start the request."""
        self._fault = self._fault_of_head()
        if self._fault is not None:
            raise self._fault
        super().on_headers_complete()
        if self.scope["http_version"] == "1.0":
            without_chunks(self.cycle)
        # the parser reports trailers as headers: they are nobody's
        self.headers = []
        self._stage = Stage.BODY
        self._head_bytes = 0
        self._body_bytes = 0
        self._framing_bytes = 0
        self._disarm()

    def on_body(self, body: bytes) -> None:
        """Count the body."""
        self._body_bytes += len(body)
        if self._body_bytes > self.settings.body_bytes_max:
            self._fault = _body_too_large(self.settings.body_bytes_max)
            raise self._fault
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The message is in."""
        self._stage = Stage.DONE
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Say now what had to wait for this answer."""
        super().on_response_complete()
        if self._refusal is not None and not self.transport.is_closing():
            self._say_in_turn(self._refusal)

    # checks
    def _fault_of_head(self) -> RefusedError | None:
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
            elif b"_" in name and name.replace(b"_", b"-") in self.rules.delicate:
                return _malformed(MISSPELT)
        if size > bounds.head_bytes_max or len(self.headers) > bounds.headers_max:
            return _head_too_large()
        version = self.parser.get_http_version()
        if version not in _VERSIONS:
            return _malformed()
        if hosts != 1:
            return _malformed("Exactly one Host header is needed")
        if coding and (lengths or coding.lower() != b"chunked" or version != "1.1"):
            return _malformed("The body is framed in an ambiguous way")
        if lengths > 1:
            return _malformed("The body is framed in an ambiguous way")
        if lengths and int(length) > bounds.body_bytes_max:
            return _body_too_large(bounds.body_bytes_max)
        return None

    def _frames_too_much(self, body_bytes: int, all_bytes: int) -> bool:
        """True for extensions of a chunk, or trailers, that are larger than a head may be."""
        self._framing_bytes = 0 if body_bytes else self._framing_bytes + all_bytes
        return self._framing_bytes > self.settings.head_bytes_max

    # refusals
    def _arm(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self._expire)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self._timer = None
        if self.flow.read_paused:
            # it is us who keep the client waiting
            self._arm(self.settings.body_s_max)
            return
        what = "head" if self._stage is Stage.HEAD else "body"
        self._refuse(
            RefusedError(408, INVALID_PARAMS, f"The request {what} did not arrive in time")
        )

    def _unread(self) -> bool:
        """True if the client may still be sending what nobody reads."""
        return self._refusal is not None or self._stage is Stage.BODY

    def _idle(self) -> bool:
        """True if no answer is on its way to this connection."""
        return not self.pipeline and (self.cycle is None or self.cycle.response_complete)

    def _refuse(self, refusal: RefusedError) -> None:
        if self._refusal is not None or self.transport.is_closing():
            return
        self._refusal = refusal
        self._disarm()
        self._say_in_turn(refusal)

    def _say_in_turn(self, refusal: RefusedError) -> None:
        """Say it once the answers to all earlier requests are out."""
        cycle = self.cycle
        if self._stage is Stage.BODY and not self.pipeline:
            if cycle.response_started or cycle.response_complete:
                # answered already, or half: all that is left to say is goodbye
                self.transport.close()
                return
            # the gateway's own answer, should it still come, goes nowhere
            cycle.disconnected = True
            cycle.message_event.set()
            self._say(refusal)
        elif self._idle():
            self._say(refusal)
        else:
            self.flow.pause_reading()

    def _say(self, refusal: RefusedError) -> None:
        request_id = request_id_of(self.scope["headers"] if self.scope else ())
        body = refusal.body(request_id)
        path = self.url.partition(b"?")[0].decode("latin-1")
        method = self.parser.get_method().decode("latin-1")
        lines = [b"HTTP/1.1 %d %s" % (refusal.status, _phrase(refusal.status))]
        head = self.rules.answer(request_id, (), cors=False, length=len(body))
        head += [*self.headers_at(method, path), (b"connection", b"close")]
        lines += [b"%s: %s" % header for header in head]
        told = b"" if method == "HEAD" else body
        self.transport.write(b"\r\n".join([*lines, b"", told]))
        # to be thrown away, while the client reads the answer
        self.flow.resume_reading()
        self.transport.close()


def guard_class(
    settings: GuardSettings, rules: HeaderRules, headers_at: Callable[[str, str], Headers]
) -> type[Guard]:
    """A protocol class for uvicorn, which makes one object of it per connection."""
    names = {"settings": settings, "rules": rules, "headers_at": staticmethod(headers_at)}
    return type("Guard", (Guard,), names)


def _phrase(status: int) -> bytes:
    return http.HTTPStatus(status).phrase.encode("ascii")


def _malformed(message: str = "The request is not well-formed HTTP") -> RefusedError:
    return RefusedError(400, INVALID_PARAMS, message)


def _head_too_large() -> RefusedError:
    return RefusedError(431, INVALID_PARAMS, "The request headers are too many or too large")


def _body_too_large(limit: int) -> RefusedError:
    return RefusedError(413, INVALID_PARAMS, f"The body exceeds {limit} bytes")
