"""The end of listening on a shared port, while a process answers its open calls."""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

# where the system lists the open files of a process
_OPEN_FILES = Path("/proc/self/fd")
# a started connection is established within a round trip, and accepted soon; a client without an
# answer retries after a second (RFC 6298), when this process no longer listens
_HANDSHAKE_S: Final = 0.5
_ACCEPT_TIMEOUT_S: Final = 0.4
_POLL_S: Final = 0.01

# linux/filter.h: drop segments that begin a connection, SYN without ACK in the byte of flags
_ATTACH_FILTER: Final = 26
_FILTER: Final = b"".join(
    struct.pack("=HBBI", *step)
    for step in (
        (0x30, 0, 0, 13),
        (0x54, 0, 0, 0x12),
        (0x15, 0, 1, 0x02),
        (0x06, 0, 0, 0),
        (0x06, 0, 0, 0xFFFFFFFF),
    )
)
_STEP_BYTES: Final = 8
# struct tcp_info: for a listening socket this is the number of waiting connections
_TCP_INFO_BYTES: Final = 28
_BACKLOG_BYTES: Final = slice(24, 28)


async def stop_listening(*ports: int) -> int:
    """Leave ports to other listeners; return how many sockets it concerned.

    gRPC has no way to do this: a stopping server refuses the calls that connections still bring
    before their clients notice. Shutting a socket resets connections that are not accepted yet. So
    nothing new is let in first, and started connections are awaited, a second at most.
    """
    with ExitStack() as stack:
        sockets = [stack.enter_context(each_socket) for each_socket in _list_listening()]
        mine = [each_socket for each_socket in sockets if each_socket.getsockname()[1] in ports]
        if not mine:
            return 0
        for listener in mine:
            _drop_new_connections(listener)
        loop = asyncio.get_running_loop()
        until = loop.time() + _HANDSHAKE_S + _ACCEPT_TIMEOUT_S
        await asyncio.sleep(_HANDSHAKE_S)
        while any(map(count_waiting, mine)) and loop.time() < until:  # noqa: ASYNC110  (no event)
            await asyncio.sleep(_POLL_S)
        # a socket may have two numbers: it is shut once
        return sum(map(_shut_down, mine))


def _shut_down(this_socket: socket.socket) -> bool:
    """Shut the socket down; return False if no process listens there any more."""
    if listens := _is_shared(this_socket):
        this_socket.shutdown(socket.SHUT_RD)
    return listens


def _drop_new_connections(this_socket: socket.socket) -> None:
    """Drop new connection requests; established connections continue."""
    steps = ctypes.create_string_buffer(_FILTER)
    program = struct.pack("@HP", len(_FILTER) // _STEP_BYTES, ctypes.addressof(steps))
    # where that is not possible, some are reset
    with suppress(OSError):
        this_socket.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, program)


def count_waiting(this_socket: socket.socket) -> int:
    """Return how many connections are not accepted yet, as far as the system shows it."""
    with suppress(OSError):
        tcp_info = this_socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        return int.from_bytes(tcp_info[_BACKLOG_BYTES], sys.byteorder)
    return 0


def _list_listening() -> Iterator[socket.socket]:
    # all of them before the first is opened once more
    for entry in [*_OPEN_FILES.iterdir()] if _OPEN_FILES.exists() else ():
        # a socket that was closed meanwhile does not listen
        with suppress(OSError):
            number = os.dup(int(entry.name))
            try:
                candidate = socket.socket(fileno=number)
            except OSError:
                os.close(number)
                continue
            if _is_shared(candidate):
                yield candidate
            else:
                candidate.close()


def _is_shared(listener: socket.socket) -> bool:
    """Return True for a socket with other listeners; an inherited socket is shared."""
    return (
        listener.family in {socket.AF_INET, socket.AF_INET6}
        and bool(listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
        and bool(listener.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT))
    )
