"""The `florin` command on a machine whose clock is FLORIN_TEST_CLOCK_AHEAD_S seconds ahead.

python -m tests.support.skewed_clock serve
"""

from __future__ import annotations

import os
import time

AHEAD_VARIABLE = "FLORIN_TEST_CLOCK_AHEAD_S"
# set for a process that trusts its machine's clock, as older releases did
BLIND_VARIABLE = "FLORIN_TEST_CLOCK_BLIND"


def set_clock(seconds: int) -> None:
    """Set the time of day of this process, also for modules that read it as they are loaded."""
    right_s, right_ns = time.time, time.time_ns
    time.time = lambda: right_s() + seconds  # type: ignore[assignment]
    time.time_ns = lambda: right_ns() + seconds * 10**9  # type: ignore[assignment]


if __name__ == "__main__":
    set_clock(int(os.environ.pop(AHEAD_VARIABLE)))
    from florin_server.base.clock import SystemClock
    from florin_server.cli.main import app

    if os.environ.pop(BLIND_VARIABLE, ""):
        SystemClock.follow = lambda *_args, **_options: None  # type: ignore[method-assign]
    app()
