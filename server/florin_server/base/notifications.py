"""Notifications of changed accounts, and of webhooks to deliver."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from florin_server.base.hints import ProcessBus
from florin_server.domain.webhooks.snapshot import PaymentSnapshot


@dataclass(slots=True)
class AccountInvalidation:
    """Notifies the caches of accounts of a change.

    `listeners` are called whenever the generation rises.
    """

    bus: ProcessBus = field(default_factory=ProcessBus)
    version: int = 0
    listeners: list[Callable[[], None]] = field(default_factory=list)

    def publish_change(self) -> None:
        """Drop all cached accounts, here and in other processes, after a change in this process."""
        self.invalidate()
        self.bus.publish_cache_invalidation()

    def invalidate(self) -> None:
        """Drop what is cached."""
        self.version += 1
        for listener in self.listeners:
            listener()


@dataclass(slots=True)
class WebhookState:
    """State of webhooks that services share with the delivery worker.

    `delivery_event` is set if there can be deliveries; `encode_event` writes an event.
    """

    delivery_event: asyncio.Event = field(default_factory=asyncio.Event)
    encode_event: Callable[[PaymentSnapshot], bytes] | None = None
