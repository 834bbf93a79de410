"""Moves old payments of a store into files, and deletes their rows once a file is verified.

Two processes that did so at the same time would lose nothing: each file has a name of its own, and
rows are deleted in the transaction that finds their payment as a file has it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from florin_server.db.context import StorageContext
from florin_server.db.engine.partitions import MonthPartition
from florin_server.db.engine.query import Op, StoreError, on_snapshot, operation
from florin_server.domain.archive import ArchiveMonth, find_archive_month
from florin_server.money.archive.service import writing
from florin_server.money.archive.service.folder import ArchiveFolder
from florin_server.money.archive.service.writing import ArchivePage
from florin_server.money.archive.store import closed, files, rows
from florin_server.money.archive.store.closed import PaymentVersion
from florin_server.money.archive.store.files import ArchiveFile
from florin_server.money.archive.store.rows import ARCHIVED_TABLES

_log = logging.getLogger(__name__)

# payments of one transaction
_DELETED_AT_ONCE: Final = 100
_RECORDED_AT_ONCE: Final = 1_000
# A partition in which more payments stay is emptied row by row: its writers would wait while they
# are copied.
RETAINED_MAX: Final = 20_000
# below every id
FIRST_ID: Final = ""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that was written, None at the end; and the id after which the next one begins."""

    last_id: str
    file: ArchiveFile | None


async def write_file(
    app: StorageContext, folder: ArchiveFolder, after_id: str, end: ArchiveMonth, before_us: int
) -> WrittenFile:
    """Write the next closed payments of one month, after an id, to a file.

    Payments of the month `end` and later are left out, and those that changed since `before_us`.
    Raise ArchiveError if the file cannot be written.
    """
    while True:
        first = await app.store.scan(closed.list_ids(after_id, end.first_id, 1))
        if not first:
            return WrittenFile(after_id, None)
        month = find_archive_month(first[0])
        if month is None:
            # an id of another form stays in the store
            after_id = first[0]
            continue
        batches, last_id = await writing.read_pages(
            app,
            ARCHIVED_TABLES,
            after_id,
            partial(_read_page, end_id=month.end_id, before_us=before_us),
        )
        after_id = last_id if last_id is not None else month.end_id
        if batches:
            file = await writing.write_batches(app, folder, month.name, ARCHIVED_TABLES, batches)
            return WrittenFile(after_id, file)


async def remove_payments(
    app: StorageContext, folder: ArchiveFolder, month_files: Sequence[ArchiveFile]
) -> int:
    """Delete the rows of the payments in some files of one month; return how many were deleted.

    Payments that changed after they were read stay. Where the month is a partition, it is emptied
    at once, unless other sessions use it. Raise ArchiveError, before anything is deleted, unless
    the files are as they were written.
    """
    for file in month_files:
        await asyncio.to_thread(folder.verify, file)
    month, size = month_files[0].month, _DELETED_AT_ONCE
    partition = next((p for p in await app.store.list_partitions() if p.month == month), None)
    if partition is not None:
        for file in month_files:
            async for payments in _iterate_versions(folder, file, _RECORDED_AT_ONCE):
                await app.store.write(files.put_unchanged_keys(file.n, payments))
        if await _empty_partition(app, partition):
            size = _RECORDED_AT_ONCE
    count = 0
    for file in month_files:
        async for payments in _iterate_versions(folder, file, size):
            count += await app.store.write(_delete(file.n, payments))
        await app.store.write(files.mark_removed(file.n, app.clock.now_us()))
    return count


async def _empty_partition(app: StorageContext, partition: MonthPartition) -> bool:
    """Delete all payments of a partition that are in files; False if it has to be row by row."""
    month = ArchiveMonth(partition.month, partition.first_id, partition.end_id)
    try:
        result = await app.store.replace_partition(
            month.name, closed.select_unarchived(month), RETAINED_MAX
        )
    except StoreError as error:
        _log.warning("%s leaves the store row by row: %s", month.name, error)
        return False
    if result.is_replaced:
        freed_mb = result.freed_bytes // 1_000_000
        _log.info("%d payments of %s stay; freed %d MB", result.kept_count, month.name, freed_mb)
    return result.is_replaced


@operation
def _delete(file_n: int, payments: Sequence[PaymentVersion]) -> Op[int]:
    """Delete rows of payments that are as a file has them; return how many have left the store."""
    unchanged_ids = yield from closed.lock_unchanged(payments)
    if unchanged_ids:
        yield from files.put_keys(file_n, unchanged_ids)
        yield from rows.delete_payments(unchanged_ids)
    # their partition was emptied
    removed_ids = yield from files.list_removed(file_n, [payment.id for payment in payments])
    if removed_ids:
        yield from rows.delete_other_rows(removed_ids)
    return len(removed_ids)


async def _iterate_versions(
    folder: ArchiveFolder, file: ArchiveFile, size: int
) -> AsyncIterator[list[PaymentVersion]]:
    from florin_server.money.archive.service import parquet  # noqa: PLC0415  (extra)

    path = folder.get_path(file)
    for group in await asyncio.to_thread(list, parquet.iterate_versions(path)):
        for start in range(0, len(group), size):
            yield group[start : start + size]


@on_snapshot
def _read_page(after_id: str, end_id: str, before_us: int) -> Op[ArchivePage[str]]:
    ids = yield from closed.list_ids(after_id, end_id, writing.PAGE)
    closed_ids = [payment.id for payment in (yield from closed.list_closed(ids, before_us))]
    stored_rows = yield from rows.read_rows(ARCHIVED_TABLES, closed_ids)
    return ArchivePage(ids[-1] if ids else None, stored_rows)
