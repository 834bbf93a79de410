"""What every embedded chain has."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from florin_server.boot.home import Home
from florin_server.boot.servers.addresses import check_free

_log = logging.getLogger(__name__)

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Embedded:
    """A running embedded chain: where others ask it, and how this process asks and hears of it."""

    handle: Callable[[bytes], Awaitable[bytes]]
    rpc_url: str
    listen: Callable[[Callable[[], None]], object]  # to new heads
    busy: Callable[[], bool]  # it does something, or makes it last


def port_of(home: Home, name: str, what: str, wanted: int, setting: str) -> int:
    """Where an embedded chain listens: the port of the settings, or else that of its last start.

    `name` is its address in demo.env, which whoever has read it goes on using. 0, for any port, at
    the first start, and where somebody else has the port by now. OSError if the port of the
    settings is taken.
    """
    if wanted:
        check_free(what, HOST, wanted, setting)
        return wanted
    known = home.read_demo_env().get(name, "")
    last = _own_port(known)
    try:
        check_free(what, HOST, last, setting)
    except OSError as error:
        _log.warning("%s; %s of demo.env changes", error, name)
        return 0
    return last


def _own_port(address: str) -> int:
    """The port of an address on this machine; 0 for any other."""
    try:
        parts = urlsplit(address)
        return (parts.port or 0) if parts.hostname == HOST else 0
    except ValueError:
        return 0
