"""Drops the partitions of months whose payments are in the archive."""

from __future__ import annotations

import logging
from typing import Final

from florin_server.db.context import StorageContext
from florin_server.db.engine.query import StoreError
from florin_server.domain.archive import ArchiveMonth

_log = logging.getLogger(__name__)

# All calls wait while the copy of these payments is compared with them.
PAYMENTS_MAX: Final = 10_000


async def drop_archived_months(app: StorageContext, end: ArchiveMonth) -> int:
    """Drop the oldest partitions that ended before a month; return how many.

    Payments that stay go to the partition before them. A month with too many of them ends the run.
    So do sessions that use it, and views or missing partitions of an operator, which are logged.
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
    except StoreError as error:
        _log.warning("the partitions of archived months are dropped later: %s", error)
    return count
