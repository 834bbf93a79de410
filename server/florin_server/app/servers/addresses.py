"""Addresses to listen on, and why one cannot be used."""

from __future__ import annotations

import errno
import socket

from florin_server.app.home import SetupError
from florin_server.app.servers.port_holder import find_port_holder
from florin_server.settings import Settings

_BACKLOG = 2048
_PORTS_FAULT = {errno.EADDRINUSE, errno.EACCES}  # and not the address's

# what to change about a listener's port
HTTP_PORT_SETTING = "--http-port or FLORIN_HTTP_PORT"
GRPC_PORT_SETTING = "--grpc-port or FLORIN_GRPC_PORT"
OPERATOR_PORT_SETTING = "FLORIN_OPERATOR_PORT"
METRICS_PORT_SETTING = "FLORIN_METRICS_PORT"
EVM_PORT_SETTING = "FLORIN_EMBEDDED__RPC_PORT"
SOLANA_PORT_SETTING = "FLORIN_EMBEDDED_SOLANA__RPC_PORT"


def check_bind(settings: Settings) -> None:
    """Refuse an address that others can reach, unless the operator allowed it."""
    if settings.tls_certificate is not None or settings.insecure_bind:
        return
    if settings.host not in {"127.0.0.1", "::1", "localhost"}:
        raise SetupError(
            f"{settings.host} can be reached from other machines, and Florin uses plain text "
            "there. Set FLORIN_TLS_CERTIFICATE and FLORIN_TLS_KEY, or put a TLS proxy in front "
            "and bind to 127.0.0.1, or set FLORIN_INSECURE_BIND=true."
        )


def open_listening_socket(subject: str, host: str, port: int, setting: str) -> socket.socket:
    """Return a listening socket; OSError that says what cannot listen where, and why.

    `setting` chooses another port.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        # the standard library repeats the address in brackets
        reason = (error.strerror or str(error)).partition(" (while")[0]
        if error.errno in _PORTS_FAULT:
            raise build_bind_error(subject, host, port, setting, reason) from error
        raise OSError(
            f"{subject} cannot listen on {format_address(host, port)}: {reason}"
        ) from error
    listener.setblocking(False)
    return listener


def build_bind_error(subject: str, host: str, port: int, setting: str, reason: str) -> OSError:
    """Return the error of a failed listen, with what to change."""
    by = f" by {who}" if (who := find_port_holder(port)) else ""
    return OSError(
        f"{subject} cannot listen on {format_address(host, port)}: {reason}{by}; choose another "
        f"port "
        f"with "
        f"{setting} (0: any)"
    )


def require_free_port(subject: str, host: str, port: int, setting: str) -> None:
    """Raise OSError if a port is taken, for servers with a worse message; 0 is always free."""
    if port:
        open_listening_socket(subject, host, port, setting).close()


def reserve_port(subject: str, host: str, port: int, setting: str) -> socket.socket:
    """Reserve a port that processes of this user can share, without listening on it.

    OSError as `open_listening_socket` if it is taken, also by others who share it.
    """
    require_free_port(subject, host, port, setting)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    stored_socket = socket.socket(family, socket.SOCK_STREAM)
    # without SO_REUSEADDR, which would let others bind a port that does not listen yet
    stored_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        stored_socket.bind((host, port))
    except OSError as error:
        stored_socket.close()
        raise build_bind_error(
            subject, host, port, setting, error.strerror or str(error)
        ) from error
    return stored_socket


def format_address(host: str, port: int) -> str:
    """Return host and port, IPv6 addresses in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
