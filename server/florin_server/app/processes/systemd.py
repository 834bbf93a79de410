"""Reports the state of a service of `Type=notify` to systemd; does nothing without systemd."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from typing import Final

READY_STATE: Final = "READY=1"
STOPPING_STATE: Final = "STOPPING=1"


def build_reloading_state() -> str:
    """Return the state to send before a second READY; systemd requires its time."""
    return f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}"


def notify(state: str) -> None:
    """Send a state to the service manager, if it listens."""
    socket_path = os.environ.get("NOTIFY_SOCKET", "")
    if socket_path[:1] not in {"/", "@"}:
        return
    # @ begins the name of an abstract socket, which is no file
    address = f"\0{socket_path[1:]}" if socket_path[0] == "@" else socket_path
    # the service continues, even if the message is lost
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, suppress(OSError):
        sender.setblocking(False)
        sender.sendto(state.encode(), address)
