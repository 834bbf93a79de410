"""Work that goes on after an outage of the store."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from florin_server.clock import Clock
from florin_server.store.engine.query import StoreUnavailable

_log = logging.getLogger(__name__)

# a full disk is emptied by somebody, not by trying again at once
_RETRY_S = 1.0


async def outliving(clock: Clock, work: Callable[[], Awaitable[None]]) -> None:
    """Does work that never ends by itself, and begins it anew when the store did not work."""
    while True:
        try:
            await work()
        except StoreUnavailable as error:
            _log.warning("%s waits: %s", work, error)
        await clock.sleep(_RETRY_S)
