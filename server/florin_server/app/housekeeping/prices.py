"""Fetches prices again and again, so that no options call waits for them."""

from __future__ import annotations

from typing import Protocol

from florin_server.base.clock import sleep_remaining
from florin_server.db.context import StorageContext
from florin_server.rails.context import ChainContext
from florin_server.settings.context import SettingsContext


class _Context(ChainContext, SettingsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


async def follow_prices(app: _Context) -> None:
    """Fetch prices at once, and then after every pause."""
    while True:
        now_us = app.clock.now_us()
        await app.prices.refresh(now_us)
        await sleep_remaining(app.clock, app.settings.prices.refresh_s, now_us)
