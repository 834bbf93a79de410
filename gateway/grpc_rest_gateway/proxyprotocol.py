"""The PROXY protocol: a header that proxies without HTTP send at the start of a connection.

Version 1 is a line of text, version 2 is binary. The settings list the peers that send it. Any
other connection that starts with it is refused as malformed HTTP.
"""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

from grpc_rest_gateway.forwarded import parse_address

# longest line of version 1, its end included
LINE_BYTES_MAX = 107
# longest version 2 header after its first 16 bytes: addresses and extensions
EXTENSION_BYTES_MAX = 1024

_TEXT_SIGNATURE = b"PROXY "
_BINARY_SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
_FAMILIES = {b"TCP4": 4, b"TCP6": 6}
_LOCAL_COMMAND, _PROXY_COMMAND = 0x20, 0x21
_ADDRESS_BYTES_BY_FAMILY = {0x11: 4, 0x21: 16}


class ProxyPreface(NamedTuple):
    """A parsed PROXY header: its size in bytes, and the client; None if the proxy itself calls."""

    size: int
    client: tuple[str, int] | None


def parse_preface(data: bytes) -> ProxyPreface | None:
    """Parse the start of a connection.

    Return None while it is incomplete; raise ValueError if it is no PROXY header.
    """
    if data.startswith(_BINARY_SIGNATURE[: len(data)]):
        return _parse_binary_preface(data)
    if data.startswith(_TEXT_SIGNATURE[: len(data)]):
        return _parse_text_preface(data)
    raise ValueError("the connection does not start with a PROXY header")


def _parse_text_preface(data: bytes) -> ProxyPreface | None:
    line, end, _ = data[:LINE_BYTES_MAX].partition(b"\r\n")
    if not end:
        if len(data) >= LINE_BYTES_MAX:
            raise ValueError("the PROXY header is too long")
        return None
    size = len(line) + 2
    _, family, *rest = line.split(b" ")
    if family == b"UNKNOWN":
        return ProxyPreface(size, None)
    if family not in _FAMILIES or len(rest) != 4:
        raise ValueError("the PROXY header is malformed")
    source, _, *ports = rest
    if not all(port.isdigit() and int(port) < 1 << 16 for port in ports):
        raise ValueError("the PROXY header is malformed")
    at = ipaddress.ip_address(source.decode("ascii"))
    if at.version != _FAMILIES[family]:
        raise ValueError("the PROXY header is malformed")
    return ProxyPreface(size, (_format_host(str(at)), int(ports[0])))


def _parse_binary_preface(data: bytes) -> ProxyPreface | None:
    if len(data) < 16:
        return None
    command, family = data[12], data[13]
    more = int.from_bytes(data[14:16])
    if command not in {_LOCAL_COMMAND, _PROXY_COMMAND} or more > EXTENSION_BYTES_MAX:
        raise ValueError("the PROXY header is malformed")
    size = 16 + more
    if len(data) < size:
        return None
    width = _ADDRESS_BYTES_BY_FAMILY.get(family)
    if command == _LOCAL_COMMAND or width is None:
        return ProxyPreface(size, None)
    if more < 2 * width + 4:
        raise ValueError("the PROXY header is malformed")
    at = ipaddress.ip_address(data[16 : 16 + width])
    port = int.from_bytes(data[16 + 2 * width : 18 + 2 * width])
    return ProxyPreface(size, (_format_host(str(at)), port))


def _format_host(text: str) -> str:
    """Return the address in the form of other connections."""
    return str(parse_address(text))
