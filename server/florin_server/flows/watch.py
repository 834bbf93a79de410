"""Somebody follows a payment until its end."""

from __future__ import annotations

from collections.abc import AsyncIterator

from florin_server.domain.payment import Payment
from florin_server.flows.app import App, Caller
from florin_server.flows.load import find


async def watch(
    app: App, caller: Caller, text: str, after_version: int | None
) -> AsyncIterator[Payment]:
    """Yields the payment now, then each newer state; only versions above `after_version`."""
    payment = await find(app, caller, text)
    after = -1 if after_version is None else after_version
    async for state in app.hub.watch(payment.id, after):
        yield state
