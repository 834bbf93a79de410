"""Writes down what could not be written when it was set aside, and forgets what passed long ago."""

from __future__ import annotations

from florin_server.clock import rest
from florin_server.flows.app import Core

_WRITE_S = 5.0
_FORGET_US = 3_600_000_000


async def keep_quarantine(app: Core) -> None:
    """Works until cancelled."""
    forget_at_us = 0
    while True:
        now_us = app.clock.now_us()
        await app.quarantine.flush()
        if now_us >= forget_at_us:
            await app.quarantine.forget()
            forget_at_us = now_us + _FORGET_US
        await rest(app.clock, _WRITE_S, now_us)
