"""Finishes a rolling upgrade once the last process of an older release has ended."""

from __future__ import annotations

import logging
from typing import Protocol

from florin_server.base.clock import sleep_remaining
from florin_server.base.context import EventContext
from florin_server.base.topics import Topic
from florin_server.db.context import StorageContext
from florin_server.money.outbox.store import older_releases


class _Context(EventContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

_LOOK_S = 1.0
# once nothing is pending, for a migration that another process starts later
_IDLE_S = 60.0


async def finish_upgrade(app: _Context) -> None:
    """Work until canceled: fill in what older processes left out, when none is alive."""
    is_reported = False
    while True:
        now_us = app.clock.now_us()
        pending = await app.store.read(older_releases.is_pending())
        if pending and await app.store.write(older_releases.release(alone=app.store.is_exclusive)):
            while await app.store.write(older_releases.fill_page()):
                # endpoints may have deliveries
                app.notifier.publish(Topic.WEBHOOKS)
            app.notifier.publish(Topic.WEBHOOKS)
            _log.info("the upgrade of the store is finished")
            pending = is_reported = False
        elif pending and not is_reported:
            _log.warning(
                "processes of an older release run on this store: until they end, Florin refuses "
                "second refunds of a payment and delays payment.settled"
            )
            is_reported = True
        await sleep_remaining(app.clock, _LOOK_S if pending else _IDLE_S, now_us)
