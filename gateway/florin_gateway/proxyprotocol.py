"""The PROXY protocol: what a proxy that knows no HTTP says before a connection's first byte.

Version 1 is a line of text, version 2 is binary. Whoever is to say it is configured: a connection
of another peer that begins with it is no HTTP, and refused as such.
"""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

from florin_gateway.forwarded import parsed

# a line of version 1, its end included
LINE_MAX = 107
# of version 2, beyond its first 16 bytes: addresses and what is said besides
MORE_MAX = 1024

_LINE = b"PROXY "
_BINARY = b"\r\n\r\n\0\r\nQUIT\n"
_FAMILIES = {b"TCP4": 4, b"TCP6": 6}
_LOCAL, _PROXIED = 0x20, 0x21
_TCP = {0x11: 4, 0x21: 16}


class Preface(NamedTuple):
    """What was said: how many bytes that took, and who called; None if the proxy calls itself."""

    size: int
    client: tuple[str, int] | None


def read_preface(data: bytes) -> Preface | None:
    """What a connection begins with; None while more is needed, ValueError if it is another."""
    if data.startswith(_BINARY[: len(data)]):
        return _binary(data)
    if data.startswith(_LINE[: len(data)]):
        return _line(data)
    raise ValueError("the connection does not begin with a PROXY header")


def _line(data: bytes) -> Preface | None:
    line, end, _ = data[:LINE_MAX].partition(b"\r\n")
    if not end:
        if len(data) >= LINE_MAX:
            raise ValueError("the PROXY header is too long")
        return None
    size = len(line) + 2
    _, family, *rest = line.split(b" ")
    if family == b"UNKNOWN":
        return Preface(size, None)
    if family not in _FAMILIES or len(rest) != 4:
        raise ValueError("the PROXY header is malformed")
    source, _, *ports = rest
    if not all(port.isdigit() and int(port) < 1 << 16 for port in ports):
        raise ValueError("the PROXY header is malformed")
    at = ipaddress.ip_address(source.decode("ascii"))
    if at.version != _FAMILIES[family]:
        raise ValueError("the PROXY header is malformed")
    return Preface(size, (_host(str(at)), int(ports[0])))


def _binary(data: bytes) -> Preface | None:
    if len(data) < 16:
        return None
    command, family = data[12], data[13]
    more = int.from_bytes(data[14:16])
    if command not in {_LOCAL, _PROXIED} or more > MORE_MAX:
        raise ValueError("the PROXY header is malformed")
    size = 16 + more
    if len(data) < size:
        return None
    width = _TCP.get(family)
    if command == _LOCAL or width is None:
        return Preface(size, None)
    if more < 2 * width + 4:
        raise ValueError("the PROXY header is malformed")
    at = ipaddress.ip_address(data[16 : 16 + width])
    port = int.from_bytes(data[16 + 2 * width : 18 + 2 * width])
    return Preface(size, (_host(str(at)), port))


def _host(text: str) -> str:
    """The address as other connections would show it."""
    return str(parsed(text))
