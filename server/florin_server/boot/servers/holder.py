"""Who listens on a port of this machine, as far as the system tells."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_PROC = Path("/proc")
_LISTENS = "0A"
_SOCKET = re.compile(r"socket:\[(\d+)\]")


def holder(port: int) -> str:
    """The process that listens on a TCP port, as `process 123 (name)`; empty if nobody tells.

    Only Linux tells, and of other people's processes only to root.
    """
    sockets = set(_sockets(port))
    for process in _PROC.glob("[0-9]*") if sockets else ():
        try:
            if any(_socket(one) in sockets for one in (process / "fd").iterdir()):
                return f"process {process.name} ({(process / 'comm').read_text().strip()})"
        except OSError:
            # it has ended, or is somebody else's
            continue
    return ""


def _sockets(port: int) -> Iterator[str]:
    """The inodes of the sockets that listen on a port."""
    for table in ("tcp", "tcp6"):
        try:
            lines = (_PROC / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, local, _, state, *rest = line.split()
            if state == _LISTENS and int(local.rpartition(":")[2], 16) == port:
                yield rest[5]


def _socket(descriptor: Path) -> str | None:
    found = _SOCKET.fullmatch(str(descriptor.readlink()))
    return found[1] if found else None
