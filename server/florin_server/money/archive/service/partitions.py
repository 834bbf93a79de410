"""Drops the partitions of months whose payments are in the archive."""

from __future__ import annotations

import logging
from typing import Final

from florin_server.db.context import StorageContext
from florin_server.db.engine.query import StoreUnavailable
from florin_server.domain.archive import ArchiveMonth

_log = logging.getLogger(__name__)

# Payments that stay are copied: more of them would keep their writers waiting for seconds.
PAYMENTS_MAX: Final = 10_000


async def drop_archived_months(app: StorageContext, end: ArchiveMonth) -> int:
    """Drop the oldest partitions that ended before a month; return how many.

    Payments that stay go to the partition before them. A month with too many of them ends the run,
    and so do sessions that use it.
    """
    partitions = await app.store.list_partitions()
    count = 0
    try:
        for partition in partitions[1:]:
            if partition.end_id > end.first_id or not await app.store.merge_partition(
                partition.month, PAYMENTS_MAX
            ):
                break
            _log.info("dropped the partitions of %s", partition.month)
            count += 1
    except StoreUnavailable as error:
        _log.info("the partitions of archived months are dropped later: %s", error)
    return count
