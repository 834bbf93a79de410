"""Watches whether this process reaches its store, on a connection that nothing else uses."""

from __future__ import annotations

import logging
from typing import Final

from florin_server.domain.errors import FlorinError
from florin_server.flows.app import Core
from florin_server.store.engine.query import StoreError

_log = logging.getLogger(__name__)

_EVERY_S: Final = 2.0


async def watch_store(core: Core) -> None:
    """Work until cancelled: probe the store every two seconds, and note whether it answers."""
    while True:
        await probe_store(core)
        await core.clock.sleep(_EVERY_S)


async def probe_store(core: Core) -> None:
    """Probe the store once, and note and log whether it answers."""
    why = ""
    try:
        await core.store.probe()
    except (StoreError, FlorinError) as error:
        why = f"{core.store.place}: {error or type(error).__name__}"
    health = core.store_health
    if why and not health.problem:
        _log.error("the store is not reached: %s", why)
    elif health.problem and not why:
        _log.info("the store answers again")
    health.note(why, core.clock.steady_us())
