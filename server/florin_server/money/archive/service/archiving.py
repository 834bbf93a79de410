"""Moves old payments of a store into files, and deletes their rows once a file is verified.

Two processes that did so at the same time would lose nothing: each file has a name of its own, and
rows are deleted in the transaction that finds their payment as a file has it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, on_snapshot, operation
from florin_server.domain.archive import ArchiveMonth, get_month_of_payment
from florin_server.money.archive.service.folder import ArchiveFolder, compute_digest
from florin_server.money.archive.store import closed, files, rows
from florin_server.money.archive.store.closed import PaymentVersion
from florin_server.money.archive.store.files import ArchiveFile
from florin_server.money.archive.store.rows import StoredRow

if TYPE_CHECKING:
    import pyarrow as pa

# payments of a file, and their bytes in memory
FILE_MAX: Final = 10_000
_FILE_BYTES_MAX: Final = 64 * 1024 * 1024
# payments that are read in one snapshot, and deleted in one transaction
PAGE: Final = 500
_REMOVED_AT_ONCE: Final = 100
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
        try:
            month = get_month_of_payment(first[0])
        except ValueError:
            # an id of another form stays in the store
            after_id = first[0]
            continue
        batches, last_id = await _read_month(app, after_id, month, before_us)
        after_id = last_id if last_id is not None else month.end_id
        if batches:
            file = await _write(app, folder, month, batches)
            return WrittenFile(after_id, file)


async def remove_payments(app: StorageContext, folder: ArchiveFolder, file: ArchiveFile) -> int:
    """Delete the rows of a file's payments; return how many were deleted.

    Payments that changed after they were read stay. Raise ArchiveError, before anything is deleted,
    unless the file is as it was written.
    """
    from florin_server.money.archive.service import parquet  # noqa: PLC0415  (extra)

    await asyncio.to_thread(folder.verify, file)
    count = 0
    groups = await asyncio.to_thread(list, parquet.iterate_versions(folder.get_path(file)))
    for group in groups:
        for start in range(0, len(group), _REMOVED_AT_ONCE):
            payments = group[start : start + _REMOVED_AT_ONCE]
            count += await app.store.write(_remove(file.n, payments))
    await app.store.write(files.mark_removed(file.n, app.clock.now_us()))
    return count


@operation
def _remove(file_n: int, payments: Sequence[PaymentVersion]) -> Op[int]:
    ids = yield from closed.lock_unchanged(payments)
    if ids:
        yield from files.put_keys(file_n, ids)
        yield from rows.delete_payments(ids)
    return len(ids)


async def _read_month(
    app: StorageContext, after_id: str, month: ArchiveMonth, before_us: int
) -> tuple[list[pa.RecordBatch], str | None]:
    """Return the closed payments of a month, up to a file, and the last id that was looked at."""
    from florin_server.money.archive.service import parquet  # noqa: PLC0415  (extra)

    batches: list[Any] = []
    last_id: str | None = after_id
    while (
        sum(batch.num_rows for batch in batches) <= FILE_MAX - PAGE
        and sum(batch.nbytes for batch in batches) < _FILE_BYTES_MAX
    ):
        page = await app.store.scan(_read_page(after_id, month.end_id, before_us))
        last_id = page.last_id
        if last_id is None:
            break
        after_id = last_id
        if page.rows[rows.PAYMENTS.name]:
            batches.append(await asyncio.to_thread(parquet.build_batch, page.rows))
    return batches, last_id


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
