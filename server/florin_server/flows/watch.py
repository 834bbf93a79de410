"""Somebody follows a payment until its end."""

from __future__ import annotations

from collections.abc import AsyncIterator

from florin_server.domain.payment import Payment
from florin_server.flows.app import App


def watch(app: App, payment: Payment, after_version: int | None) -> AsyncIterator[Payment]:
    """Yields the payment now, then each newer state; only versions above `after_version`."""
    return app.hub.watch(payment.id, -1 if after_version is None else after_version)
