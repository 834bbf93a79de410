"""Watches whether this process reaches its store, on connections that nothing else uses."""

from __future__ import annotations

import logging
from typing import Final, Protocol

from florin_server.db.context import StorageContext
from florin_server.db.engine.query import StoreError
from florin_server.domain.errors import ApiError
from florin_server.operations.context import OperationsContext


class _Context(OperationsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

_INTERVAL_S: Final = 2.0
_STANDBY_S: Final = 5.0


async def watch_store(core: _Context) -> None:
    """Work until canceled: probe the store every two seconds, and note whether it answers."""
    while True:
        await probe_store(core)
        await core.clock.sleep(_INTERVAL_S)


async def watch_standby(core: _Context) -> None:
    """Work until canceled: check the standby every five seconds, also while nothing reads it.

    Apart from `watch_store`, which a standby that does not answer may not delay.
    """
    before = ""
    while True:
        await core.store.probe_standby()
        problem = core.store.standby_problem or ""
        if problem and not before:
            _log.warning("the standby is not read: %s", problem)
        elif before and not problem:
            _log.info("the standby is read again")
        before = problem
        await core.clock.sleep(_STANDBY_S)


async def probe_store(core: _Context) -> None:
    """Probe the store once, and record and log whether it answers."""
    why = ""
    try:
        await core.store.probe()
    except (StoreError, ApiError) as error:
        why = f"{core.store.location}: {error or type(error).__name__}"
    health = core.store_health
    if why and not health.problem:
        _log.error("the store cannot be reached: %s", why)
    elif health.problem and not why:
        _log.info("the store answers again")
    health.record(why, core.clock.steady_us())
