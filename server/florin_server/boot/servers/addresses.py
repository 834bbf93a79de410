"""Addresses to listen on, and why one cannot be used."""

from __future__ import annotations

import errno
import socket

from florin_server.boot.home import Refused
from florin_server.boot.servers.holder import holder
from florin_server.config import Settings

_BACKLOG = 2048
_PORTS_FAULT = {errno.EADDRINUSE, errno.EACCES}  # and not the address's

# what to change about a listener's port
HTTP_PORT = "--http-port or FLORIN_HTTP_PORT"
GRPC_PORT = "--grpc-port or FLORIN_GRPC_PORT"
OPERATOR_PORT = "FLORIN_OPERATOR_PORT"
METRICS_PORT = "FLORIN_METRICS_PORT"
EVM_PORT = "FLORIN_EMBEDDED__RPC_PORT"
SOLANA_PORT = "FLORIN_EMBEDDED_SOLANA__RPC_PORT"


def check_bind(settings: Settings) -> None:
    """Refuses an address that others can reach, unless the operator allowed it."""
    if settings.tls_certificate is not None or settings.insecure_bind:
        return
    if settings.host not in {"127.0.0.1", "::1", "localhost"}:
        raise Refused(
            f"{settings.host} can be reached by others and Florin speaks plain text there. Set "
            "FLORIN_TLS_CERTIFICATE and FLORIN_TLS_KEY, or put a TLS proxy in front and bind to "
            "127.0.0.1, or set FLORIN_INSECURE_BIND=true."
        )


def listen(what: str, host: str, port: int, setting: str) -> socket.socket:
    """A listening socket; OSError that says who cannot listen where, and why, if it cannot be had.

    `setting` is what chooses another port.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        # the standard library repeats the address in brackets
        reason = (error.strerror or str(error)).partition(" (while")[0]
        if error.errno in _PORTS_FAULT:
            raise refused(what, host, port, setting, reason) from error
        raise OSError(f"{what} cannot listen on {spelled(host, port)}: {reason}") from error
    listener.setblocking(False)
    return listener


def refused(what: str, host: str, port: int, setting: str, reason: str) -> OSError:
    """Why somebody cannot listen, and what to change."""
    by = f" by {who}" if (who := holder(port)) else ""
    return OSError(
        f"{what} cannot listen on {spelled(host, port)}: {reason}{by}; choose another port with "
        f"{setting} (0: any)"
    )


def check_free(what: str, host: str, port: int, setting: str) -> None:
    """OSError if a port is taken, for servers that would tell it less well; 0 is always free."""
    if port:
        listen(what, host, port, setting).close()


def reserve(what: str, host: str, port: int, setting: str) -> socket.socket:
    """A port that processes of this user may share, kept from all that do not; it never listens.

    OSError as `listen` if it is taken, also by others who share it.
    """
    check_free(what, host, port, setting)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    kept = socket.socket(family, socket.SOCK_STREAM)
    # without SO_REUSEADDR: it would let others bind what does not listen yet
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        kept.bind((host, port))
    except OSError as error:
        kept.close()
        raise refused(what, host, port, setting, error.strerror or str(error)) from error
    return kept


def spelled(host: str, port: int) -> str:
    """Host and port, IPv6 addresses in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
