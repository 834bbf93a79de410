"""A cheap gRPC client: prebuilt HTTP/2 frames on one connection.

A load generator must not be the limit. Headers are compressed once and repeated as indexes into the
table that the server keeps for the connection, as in any gRPC client. Only the frames of answers
are read. The first answer of a connection is decoded and must have status 0.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from hpack import Decoder, Encoder

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
_WINDOW_MAX = 2**31 - 1
_INITIAL_WINDOW = 65_535

Metadata = Sequence[tuple[str, str]]


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    head = len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4)
    return head + payload


def message(content: bytes) -> bytes:
    """Return a message as sent in DATA frames, uncompressed."""
    return b"\0" + len(content).to_bytes(4) + content


class GrpcConnection(asyncio.Protocol):
    """Calls of one method; events are reported by stream number."""

    def __init__(self, path: str, metadata: Metadata) -> None:
        self._headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "127.0.0.1"),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", "grpc-bench"),
            ("grpc-accept-encoding", "identity"),
            *metadata,
        ]
        self._encoder = Encoder()
        self._block = b""
        self._next = 1
        self._window = _INITIAL_WINDOW
        self._queued: list[bytes] = []
        self._rest = b""
        self._decoder: Decoder | None = Decoder()
        self.open: set[int] = set()
        self.fault = ""

    def on_data(self, stream: int) -> None:
        """Handle a part of an answer."""

    def on_end(self, stream: int) -> None:
        """Handle the end of a call, which succeeded if it was answered."""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        settings = (4).to_bytes(2) + _WINDOW_MAX.to_bytes(4)
        update = (_WINDOW_MAX - _INITIAL_WINDOW).to_bytes(4)
        transport.write(_PREFACE + frame(_SETTINGS, 0, 0, settings) + frame(_WINDOW, 0, 0, update))

    def call(self, framed: bytes) -> int:
        """Start a call with one request from `message`; return its stream number."""
        stream, self._next = self._next, self._next + 2
        if stream <= 3:
            # the second time every header is in the table; from then on the block is constant
            self._block = self._encoder.encode(self._headers)
        self.open.add(stream)
        call = frame(_HEADERS, _END_HEADERS, stream, self._block) + frame(
            _DATA, _END_STREAM, stream, framed
        )
        self._window -= len(framed)
        if self._window < 0:
            self._queued.append(call)
        else:
            self._transport.write(call)
        return stream

    def data_received(self, data: bytes) -> None:
        buffer = self._rest + data if self._rest else data
        at, size = 0, len(buffer)
        while size - at >= 9:
            end = at + 9 + int.from_bytes(buffer[at : at + 3])
            if end > size:
                break
            kind, flags = buffer[at + 3], buffer[at + 4]
            stream = int.from_bytes(buffer[at + 5 : at + 9])
            if kind == _DATA:
                if end > at + 9:
                    self.on_data(stream)
            elif kind != _HEADERS:
                self._control(kind, flags, stream, buffer[at + 9 : end])
            elif self._decoder is not None:
                self._look(flags, buffer[at + 9 : end])
            if kind in {_DATA, _HEADERS} and flags & _END_STREAM:
                self._end(stream)
            at = end
        self._rest = buffer[at:]

    def connection_lost(self, _exc: Exception | None) -> None:
        for stream in list(self.open):
            self._end(stream)

    def close(self) -> None:
        self._transport.close()

    def _end(self, stream: int) -> None:
        if stream in self.open:
            self.open.discard(stream)
            self.on_end(stream)

    def _look(self, flags: int, block: bytes) -> None:
        assert self._decoder is not None
        headers = dict(self._decoder.decode(block))
        if flags & _END_STREAM:
            self._decoder = None
            if headers.get("grpc-status") != "0":
                self.fault = repr(headers)
                self._transport.close()

    def _control(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _SETTINGS and not flags & _ACK:
            self._transport.write(frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _PING and not flags & _ACK:
            self._transport.write(frame(_PING, _ACK, 0, payload))
        elif kind == _WINDOW and stream == 0:
            self._window += int.from_bytes(payload)
            if self._queued and self._window >= 0:
                self._transport.write(b"".join(self._queued))
                self._queued.clear()
        elif kind == _RESET:
            self._end(stream)
        elif kind == _GOAWAY:
            self._transport.close()
