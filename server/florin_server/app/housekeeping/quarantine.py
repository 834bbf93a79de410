"""Stores quarantined items that could not be stored at once, and deletes old ones."""

from __future__ import annotations

from florin_server.app.core import Core
from florin_server.base.clock import sleep_remaining

_FLUSH_S = 5.0
_DELETE_INTERVAL_US = 3_600_000_000


async def maintain_quarantine(app: Core) -> None:
    """Run until canceled."""
    forget_at_us = 0
    while True:
        now_us = app.clock.now_us()
        await app.quarantine.flush()
        if now_us >= forget_at_us:
            await app.quarantine.delete_old()
            forget_at_us = now_us + _DELETE_INTERVAL_US
        await sleep_remaining(app.clock, _FLUSH_S, now_us)
