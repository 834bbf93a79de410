"""`python -m tests.scratch`: tells the folder for what tests write.

It is in memory where there is room for it: a store waits for the disk with every commit, and tests
would wait with it for a third of their time. A TMPDIR that is set is left as it is.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import psutil

MEMORY = Path("/dev/shm")
# twice what a whole run has there at a time
ROOM_BYTES = 4 * 1024**3


def folder(memory: Path = MEMORY) -> Path:
    """A folder in memory, if tests may have one; else the usual one for temporary files."""
    usual = Path(tempfile.gettempdir())
    if "TMPDIR" in os.environ or not os.access(memory, os.W_OK | os.X_OK):
        return usual
    found = os.statvfs(memory)
    room = min(found.f_bavail * found.f_frsize, psutil.virtual_memory().available // 2)
    # they run programs of clones that they make
    return memory if room >= ROOM_BYTES and not found.f_flag & os.ST_NOEXEC else usual


if __name__ == "__main__":
    print(folder())
