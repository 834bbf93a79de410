"""Moves old payments of a store into files, and deletes their rows once a file is verified.

Two processes that did so at the same time would lose nothing: each file has a name of its own, and
rows are deleted in the transaction that finds their payment as a file has it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from florin_server.db.context import StorageContext
from florin_server.db.engine.partitions import MonthPartition
from florin_server.db.engine.query import Op, StoreUnavailable, on_snapshot, operation
from florin_server.domain.archive import ArchiveMonth, find_archive_month
from florin_server.money.archive.service.folder import ArchiveFolder, compute_digest
from florin_server.money.archive.store import closed, files, rows
from florin_server.money.archive.store.closed import PaymentVersion
from florin_server.money.archive.store.files import ArchiveFile
from florin_server.money.archive.store.rows import StoredRow

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)

# payments of a file, and their bytes in memory
FILE_MAX: Final = 10_000
_FILE_BYTES_MAX: Final = 64 * 1024 * 1024
# payments that are read in one snapshot
PAGE: Final = 1_000
# payments of one transaction
_DELETED_AT_ONCE: Final = 100
_RECORDED_AT_ONCE: Final = 1_000
# A partition in which more payments stay is emptied row by row: its writers would wait while they
# are copied.
RETAINED_MAX: Final = 20_000
# below every id
FIRST_ID: Final = ""


@dataclass(frozen=True, slots=True)
class _Page:
    """The next payments: the last id that was looked at, and the rows of those that are closed.

    `last_id` is None after the last payment.
    """

    last_id: str | None
    rows: dict[str, list[StoredRow]]


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
        batches, last_id = await _read_month(app, after_id, month, before_us)
        after_id = last_id if last_id is not None else month.end_id
        if batches:
            file = await _write(app, folder, month, batches)
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
    except StoreUnavailable as error:
        _log.info("%s leaves the store row by row: %s", month.name, error)
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


async def _read_month(
    app: StorageContext, after_id: str, month: ArchiveMonth, before_us: int
) -> tuple[list[pa.RecordBatch], str | None]:
    """Return the closed payments of a month, up to a file, and the last id that was looked at."""
    from florin_server.money.archive.service import parquet  # noqa: PLC0415  (extra)

    batches: list[Any] = []
    last_id: str | None = after_id
    page = await app.store.scan(_read_page(after_id, month.end_id, before_us))
    while page.last_id is not None:
        last_id = page.last_id
        size = sum(batch.num_rows for batch in batches) + len(page.rows[rows.PAYMENTS.name])
        is_full = (
            size > FILE_MAX - PAGE or sum(batch.nbytes for batch in batches) >= _FILE_BYTES_MAX
        )
        building = asyncio.to_thread(parquet.build_batch, page.rows)
        if is_full:
            batches.append(await building)
            break
        # the store reads the next payments meanwhile
        following = app.store.scan(_read_page(last_id, month.end_id, before_us))
        batch, page = await asyncio.gather(building, following)
        batches.append(batch)
    else:
        last_id = None
    return [batch for batch in batches if batch.num_rows], last_id


@on_snapshot
def _read_page(after_id: str, end_id: str, before_us: int) -> Op[_Page]:
    ids = yield from closed.list_ids(after_id, end_id, PAGE)
    closed_ids = [payment.id for payment in (yield from closed.list_closed(ids, before_us))]
    page: dict[str, list[StoredRow]] = {}
    for table, read in rows.iterate_rows(closed_ids):
        page[table.name] = yield from read
    return _Page(ids[-1] if ids else None, page)


async def _write(
    app: StorageContext,
    folder: ArchiveFolder,
    month: ArchiveMonth,
    batches: Sequence[pa.RecordBatch],
) -> ArchiveFile:
    n = await app.store.read(files.find_next_n())
    name = f"{month.name}/{n:08}-{app.randbytes(4).hex()}.parquet"
    file = await asyncio.to_thread(_write_file, folder, n, name, batches, app.clock.now_us())
    await app.store.write(files.add(file))
    return file


def _write_file(
    folder: ArchiveFolder, n: int, name: str, batches: Sequence[pa.RecordBatch], now_us: int
) -> ArchiveFile:
    from florin_server.money.archive.service import parquet  # noqa: PLC0415  (extra)

    temporary = folder.get_temporary_path(name)
    parquet.write(temporary, batches)
    digest, size = compute_digest(temporary)
    file = ArchiveFile(
        n=n,
        name=name,
        sha256=digest,
        size=size,
        payments=sum(batch.num_rows for batch in batches),
        first_id=batches[0].column("id")[0].as_py(),
        last_id=batches[-1].column("id")[-1].as_py(),
        written_at_us=now_us,
    )
    folder.publish(file, parquet.count_rows(batches))
    return file
