"""Keeps partitions of payments ahead of the calendar, and watches for lost ones."""

from __future__ import annotations

import logging
from typing import Final, Protocol

from florin_server.base.clock import sleep_remaining
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import StoreError
from florin_server.operations.context import OperationsContext
from florin_server.operations.store import leases


class _Context(OperationsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

LEASE_NAME: Final = "partitions"
_INTERVAL_S: Final = 60.0
# months are created long before they are needed
_RETRY_US: Final = 600_000_000
# another process takes over from one that died
_LEASE_US: Final = 300_000_000


async def maintain_partitions(app: _Context, lease_owner: str) -> None:
    """Check the partitions every minute until canceled, and extend them where that is due.

    Without a lease owner, another process extends them.
    """
    retry_at_us = 0
    while True:
        now_us = app.clock.now_us()
        status = await app.store.read_partition_status(now_us)
        if status is not None and status.is_due and lease_owner and now_us >= retry_at_us:
            retry_at_us = now_us + _RETRY_US
            await _extend_partitions(app, lease_owner, now_us)
            status = await app.store.read_partition_status(now_us)
        app.partition_health.record(status)
        await sleep_remaining(app.clock, _INTERVAL_S, now_us)


async def _extend_partitions(app: _Context, lease_owner: str, now_us: int) -> None:
    steps = leases.acquire(LEASE_NAME, lease_owner, now_us, _LEASE_US, app.store.is_exclusive)
    epoch = await app.store.write(steps)
    if epoch is None:
        return
    try:
        await app.store.extend_partitions(now_us)
    except StoreError as error:
        _log.warning("the partitions could not be extended and are tried again later: %s", error)
    finally:
        await app.store.write(leases.release(LEASE_NAME, lease_owner, epoch))
