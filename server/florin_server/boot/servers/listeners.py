"""How a process stops to listen on a port that others share, while it answers what it has."""

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

# where the system tells what a process has open
_OPEN = Path("/proc/self/fd")
# a connection that was begun is made within a round trip, and accepted soon; who is not answered
# knocks again after a second (RFC 6298), when nothing listens here any more
_MADE_S: Final = 0.5
_ACCEPTED_S: Final = 0.4
_LOOK_S: Final = 0.01

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
# struct tcp_info: of a socket that listens this is how many wait to be accepted
_TCP_INFO_BYTES: Final = 28
_WAITING: Final = slice(24, 28)


async def stop_listening(*ports: int) -> int:
    """Leaves ports to others who listen there too; tells how many sockets did.

    gRPC has no way to do this: a server that stops refuses the calls that connections still bring
    while their clients are told. Shutting a socket resets what nobody has accepted yet: so nothing
    new is let in first, and what was begun before is waited for, a second at most.
    """
    with ExitStack() as stack:
        found = [stack.enter_context(one) for one in _listening()]
        mine = [one for one in found if one.getsockname()[1] in ports]
        if not mine:
            return 0
        for one in mine:
            _let_nobody_in(one)
        loop = asyncio.get_running_loop()
        until = loop.time() + _MADE_S + _ACCEPTED_S
        await asyncio.sleep(_MADE_S)
        while any(map(waiting, mine)) and loop.time() < until:  # noqa: ASYNC110  (nobody tells)
            await asyncio.sleep(_LOOK_S)
        # a socket may have two numbers: it is shut once
        return sum(map(_shut, mine))


def _shut(one: socket.socket) -> bool:
    """False if nobody listens there any more."""
    if listens := _shares(one):
        one.shutdown(socket.SHUT_RD)
    return listens


def _let_nobody_in(one: socket.socket) -> None:
    """Who knocks is not answered; whoever is let in already goes on."""
    steps = ctypes.create_string_buffer(_FILTER)
    program = struct.pack("@HP", len(_FILTER) // _STEP_BYTES, ctypes.addressof(steps))
    # where that cannot be, some are reset
    with suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, program)


def waiting(one: socket.socket) -> int:
    """How many connections nobody has accepted yet, as far as the system tells."""
    with suppress(OSError):
        told = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        return int.from_bytes(told[_WAITING], sys.byteorder)
    return 0


def _listening() -> Iterator[socket.socket]:
    # all of them before the first is opened once more
    for entry in [*_OPEN.iterdir()] if _OPEN.exists() else ():
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
