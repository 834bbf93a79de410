"""Stores quarantined items that could not be stored at once, and deletes old ones."""

from __future__ import annotations

from typing import Protocol

from florin_server.base.clock import sleep_remaining
from florin_server.db.context import StorageContext
from florin_server.operations.context import QuarantineContext


class _Context(QuarantineContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_FLUSH_S = 5.0
_DELETE_INTERVAL_US = 3_600_000_000


async def maintain_quarantine(app: _Context) -> None:
    """Run until canceled."""
    forget_at_us = 0
    while True:
        now_us = app.clock.now_us()
        await app.quarantine.flush()
        if now_us >= forget_at_us:
            await app.quarantine.delete_old()
            forget_at_us = now_us + _DELETE_INTERVAL_US
        await sleep_remaining(app.clock, _FLUSH_S, now_us)
