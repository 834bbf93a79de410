"""Fetches prices again and again, so that no options call waits for them."""

from __future__ import annotations

from florin_server.app.core import Core
from florin_server.base.clock import sleep_remaining


async def follow_prices(app: Core) -> None:
    """Fetch prices at once, and then after every pause."""
    while True:
        now_us = app.clock.now_us()
        await app.prices.refresh(now_us)
        await sleep_remaining(app.clock, app.settings.prices.refresh_s, now_us)
