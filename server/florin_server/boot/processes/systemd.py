"""Tells systemd how a service of `Type=notify` is doing; nothing where there is none."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from typing import Final

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"


def reloading() -> str:
    """What is told before READY is told again; systemd wants the time of it."""
    return f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}"


def tell(state: str) -> None:
    """Sends a state to whoever started the service, if that wants to know."""
    place = os.environ.get("NOTIFY_SOCKET", "")
    if place[:1] not in {"/", "@"}:
        return
    # a name that begins with @ is in no folder
    address = f"\0{place[1:]}" if place[0] == "@" else place
    # a service works on, whether it is heard or not
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, suppress(OSError):
        sender.setblocking(False)
        sender.sendto(state.encode(), address)
