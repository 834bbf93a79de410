"""The process that listens on a port of this machine, as far as the system shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_PROC = Path("/proc")
_LISTEN_STATE = "0A"
_SOCKET = re.compile(r"socket:\[(\d+)\]")


def find_port_holder(port: int) -> str:
    """Return the process that listens on a TCP port, as `process 123 (name)`; empty if unknown.

    Only Linux shows it, and processes of other users only to root.
    """
    sockets = set(_list_socket_inodes(port))
    for process in _PROC.glob("[0-9]*") if sockets else ():
        try:
            if any(_find_socket_inode(path) in sockets for path in (process / "fd").iterdir()):
                return f"process {process.name} ({(process / 'comm').read_text().strip()})"
        except OSError:
            # it has ended, or belongs to another user
            continue
    return ""


def _list_socket_inodes(port: int) -> Iterator[str]:
    """Return the inodes of the sockets that listen on a port."""
    for table in ("tcp", "tcp6"):
        try:
            lines = (_PROC / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, local, _, state, *rest = line.split()
            if state == _LISTEN_STATE and int(local.rpartition(":")[2], 16) == port:
                yield rest[5]


def _find_socket_inode(descriptor: Path) -> str | None:
    match = _SOCKET.fullmatch(str(descriptor.readlink()))
    return match[1] if match else None
