"""Measures how late the event loop of this process runs what is due."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from florin_server.base.meters import Meters

# between two measurements, in seconds of this machine
_INTERVAL_S = 0.5


async def measure_loop_lag(
    meters: Meters,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    now_s: Callable[[], float] = time.perf_counter,
) -> None:
    """Observe, until canceled, how much later than requested a sleep ends."""
    while True:
        began_s = now_s()
        await sleep(_INTERVAL_S)
        meters.record_loop_lag(max(0.0, now_s() - began_s - _INTERVAL_S))
