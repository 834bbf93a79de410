"""Finishes a rolling upgrade once the last process of an older release has ended."""

from __future__ import annotations

import logging

from florin_server.clock import rest
from florin_server.flows.app import Core
from florin_server.store.upgrades import older_releases

_log = logging.getLogger(__name__)

_LOOK_S = 1.0
# once nothing is pending, for a migration that another process makes later
_IDLE_S = 60.0


async def finish_upgrade(app: Core) -> None:
    """Work until cancelled: fill in what older processes left out, when none is alive."""
    said = False
    while True:
        now_us = app.clock.now_us()
        pending = await app.store.read(older_releases.is_pending())
        if pending and await app.store.write(older_releases.release(alone=app.store.exclusive)):
            while await app.store.write(older_releases.fill_page()):
                # endpoints may have to be told
                app.webhooks.asked.set()
            app.webhooks.asked.set()
            _log.info("the upgrade of the store is finished")
            pending = said = False
        elif pending and not said:
            _log.warning(
                "processes of an older release run on this store: until they have ended, second "
                "refunds of a payment are refused and payment.settled waits"
            )
            said = True
        await rest(app.clock, _LOOK_S if pending else _IDLE_S, now_us)
