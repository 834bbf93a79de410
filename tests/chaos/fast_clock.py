"""A clock that runs faster than the machine's, shared by all processes that open its file."""

from __future__ import annotations

import asyncio
import mmap
import os
import struct
import time
from pathlib import Path

# seconds of a campaign per second of the machine; fewer for long runs on a busy one
SPEED = int(os.environ.get("FLORIN_CHAOS_SPEED", "10"))
_FORMAT = struct.Struct("<qqq")  # its start here and on the machine, and its advance


class QuickClock:
    """A clock that implements the clock protocol; `advance` advances it for all processes."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), _FORMAT.size)

    @classmethod
    def create(cls, path: Path) -> QuickClock:
        path.write_bytes(_FORMAT.pack(time.time_ns() // 1000, time.monotonic_ns(), 0))
        return cls(path)

    def now_us(self) -> int:
        """Return microseconds since the Unix epoch."""
        began_us, began_ns, ahead_us = _FORMAT.unpack_from(self._shared)
        return began_us + (time.monotonic_ns() - began_ns) * SPEED // 1000 + ahead_us

    def steady_us(self) -> int:
        """Return microseconds that never go back; this clock's time of day never does either."""
        return self.now_us()

    async def sleep(self, seconds: float) -> None:
        """Return after that much time, advances included."""
        await asyncio.sleep(seconds / SPEED)

    def advance(self, seconds: int) -> None:
        """Let time jump ahead for all processes."""
        began_us, began_ns, ahead_us = _FORMAT.unpack_from(self._shared)
        _FORMAT.pack_into(self._shared, 0, began_us, began_ns, ahead_us + seconds * 1_000_000)
