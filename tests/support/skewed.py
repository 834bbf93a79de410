"""The `florin` command on a machine whose clock is wrong, by FLORIN_TEST_CLOCK_AHEAD_S seconds.

python -m tests.support.skewed serve
"""

from __future__ import annotations

import os
import time

AHEAD = "FLORIN_TEST_CLOCK_AHEAD_S"
# set for a process that believes its machine, as releases did that knew no better
BLIND = "FLORIN_TEST_CLOCK_BLIND"


def set_clock(seconds: int) -> None:
    """Set the time of day of this process; what modules read as they are loaded is wrong, too."""
    right_s, right_ns = time.time, time.time_ns
    time.time = lambda: right_s() + seconds  # type: ignore[assignment]
    time.time_ns = lambda: right_ns() + seconds * 10**9  # type: ignore[assignment]


if __name__ == "__main__":
    set_clock(int(os.environ.pop(AHEAD)))
    from florin_server.cli.main import app
    from florin_server.clock import SystemClock

    if os.environ.pop(BLIND, ""):
        SystemClock.follow = lambda *_args, **_options: None  # type: ignore[method-assign]
    app()
