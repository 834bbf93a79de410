"""Addresses to listen on, and why one cannot be used."""

from __future__ import annotations

import socket

from florin_server.boot.home import Refused
from florin_server.config import Settings

_BACKLOG = 2048


def check_bind(settings: Settings) -> None:
    """Refuses an address that others can reach, unless the operator allowed it."""
    if settings.host not in {"127.0.0.1", "::1", "localhost"} and not settings.insecure_bind:
        raise Refused(
            f"{settings.host} can be reached by others and Florin speaks plain text there. Put a "
            "TLS proxy in front and bind to 127.0.0.1, or set FLORIN_INSECURE_BIND=true."
        )


def listen(what: str, host: str, port: int) -> socket.socket:
    """A listening socket; OSError that says who cannot listen where if it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        # the standard library repeats the address in brackets
        reason = (error.strerror or str(error)).partition(" (while")[0]
        raise OSError(f"{what} cannot listen on {spelled(host, port)}: {reason}") from error
    listener.setblocking(False)
    return listener


def check_free(what: str, host: str, port: int) -> None:
    """OSError if a port is taken, for servers that would tell it less well; 0 is always free."""
    if port:
        listen(what, host, port).close()


def spelled(host: str, port: int) -> str:
    """Host and port, IPv6 addresses in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
