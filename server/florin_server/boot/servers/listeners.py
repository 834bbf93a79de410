"""How a process stops to listen on a port that others share, while it answers what it has."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

# where the system tells what a process has open
_OPEN = Path("/proc/self/fd")


def stop_listening(*ports: int) -> int:
    """Leaves ports to others who listen there too; tells how many sockets did.

    gRPC has no way to do this: a server that stops refuses the calls that connections still bring
    while their clients are told. A connection that nobody has accepted yet is reset, unless the
    system hands it on (`net.ipv4.tcp_migrate_req`).
    """
    count = 0
    for one in _listening():
        with closing(one):
            if one.getsockname()[1] in ports:
                one.shutdown(socket.SHUT_RD)
                count += 1
    return count


def _listening() -> Iterator[socket.socket]:
    for entry in _OPEN.iterdir() if _OPEN.exists() else ():
        # what was closed meanwhile does not listen
        with suppress(OSError):
            number = os.dup(int(entry.name))
            try:
                found = socket.socket(fileno=number)
            except OSError:
                os.close(number)
                continue
            if _shares(found):
                yield found
            else:
                found.close()


def _shares(found: socket.socket) -> bool:
    """True for a socket that listens beside others; one that was inherited is everybody's."""
    return (
        found.family in {socket.AF_INET, socket.AF_INET6}
        and bool(found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
        and bool(found.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT))
    )
