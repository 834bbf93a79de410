"""What coins cost is asked again and again, so that nobody who wants options waits for it."""

from __future__ import annotations

from florin_server.flows.app import Core


async def follow_prices(app: Core) -> None:
    """Asks for prices at once, and from then on after every pause."""
    while True:
        await app.prices.refresh(app.clock.now_us())
        await app.clock.sleep(app.settings.prices.refresh_s)
