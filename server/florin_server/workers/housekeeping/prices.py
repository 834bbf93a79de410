"""What coins cost is asked again and again, so that nobody who wants options waits for it."""

from __future__ import annotations

from florin_server.clock import rest
from florin_server.flows.app import Core


async def follow_prices(app: Core) -> None:
    """Asks for prices at once, and from then on after every pause."""
    while True:
        now_us = app.clock.now_us()
        await app.prices.refresh(now_us)
        await rest(app.clock, app.settings.prices.refresh_s, now_us)
