"""The addresses on which embedded chains listen."""

from __future__ import annotations

import logging
import socket
from urllib.parse import urlsplit

from florin_server.app.home import StateFolder
from florin_server.app.servers.addresses import open_listening_socket

_log = logging.getLogger(__name__)

HOST = "127.0.0.1"


def open_listener(
    home: StateFolder, name: str, subject: str, port: int, setting: str
) -> socket.socket:
    """Open the listening socket of an embedded chain, on a configured or earlier port.

    `port` is that of the settings; 0 takes the port of the address `name` in demo.env, which
    clients that read it continue to use, or any free port at the first start and when another
    program has taken the port. OSError if the port of the settings is taken. A listener is opened,
    not a port checked: between a check and a later bind, any program could take the port.
    """
    if port:
        return open_listening_socket(subject, HOST, port, setting)
    last_port = _get_local_port(home.read_demo_env().get(name, ""))
    try:
        return open_listening_socket(subject, HOST, last_port, setting)
    except OSError as error:
        _log.warning("%s; %s of demo.env changes", error, name)
        return open_listening_socket(subject, HOST, 0, setting)


def _get_local_port(address: str) -> int:
    """Return the port of an address on this machine; 0 for any other."""
    try:
        parts = urlsplit(address)
        return (parts.port or 0) if parts.hostname == HOST else 0
    except ValueError:
        return 0
