"""What every embedded chain has."""

from __future__ import annotations

import logging
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from florin_server.boot.home import Home
from florin_server.boot.servers.addresses import listen

_log = logging.getLogger(__name__)

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Embedded:
    """A running embedded chain: where others ask it, and how this process asks and hears of it."""

    handle: Callable[[bytes], Awaitable[bytes]]
    rpc_url: str
    listen: Callable[[Callable[[], None]], object]  # to new heads
    busy: Callable[[], bool]  # it does something, or makes it last


def open_listener(home: Home, name: str, what: str, port: int, setting: str) -> socket.socket:
    """Open the listening socket of an embedded chain, on the port of the settings or of last time.

    `port` is that of the settings; 0 takes the port of the address `name` in demo.env, which
    clients that read it go on using, or any free port at the first start and when another program
    has taken the port. OSError if the port of the settings is taken. A listener is opened, not a
    port checked: between a check and a later bind, any program could take the port.
    """
    if port:
        return listen(what, HOST, port, setting)
    last_port = _own_port(home.read_demo_env().get(name, ""))
    try:
        return listen(what, HOST, last_port, setting)
    except OSError as error:
        _log.warning("%s; %s of demo.env changes", error, name)
        return listen(what, HOST, 0, setting)


def _own_port(address: str) -> int:
    """The port of an address on this machine; 0 for any other."""
    try:
        parts = urlsplit(address)
        return (parts.port or 0) if parts.hostname == HOST else 0
    except ValueError:
        return 0
