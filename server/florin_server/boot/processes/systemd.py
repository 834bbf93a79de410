"""Reports the state of a service of `Type=notify` to systemd; nothing without systemd."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from typing import Final

READY_STATE: Final = "READY=1"
STOPPING_STATE: Final = "STOPPING=1"


def build_reloading_state() -> str:
    """Return the state before a second READY; systemd requires the time of it."""
    return f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}"


def notify(state: str) -> None:
    """Send a state to the service manager, if it listens."""
    place = os.environ.get("NOTIFY_SOCKET", "")
    if place[:1] not in {"/", "@"}:
        return
    # a name that begins with @ is in no folder
    address = f"\0{place[1:]}" if place[0] == "@" else place
    # the service continues, even if the message is lost
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, suppress(OSError):
        sender.setblocking(False)
        sender.sendto(state.encode(), address)
