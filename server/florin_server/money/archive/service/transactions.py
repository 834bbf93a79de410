"""Moves transactions that nothing needs any more into files, as `archiving` moves payments.

A transaction is deleted only if its rows are still those of a file, and nothing needs it then.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, on_snapshot, operation
from florin_server.domain.archive import (
    get_archive_end_us,
    get_archive_month,
    get_archive_month_end_us,
)
from florin_server.money.archive.service import writing
from florin_server.money.archive.service.folder import ArchiveFolder
from florin_server.money.archive.service.writing import ArchivePage
from florin_server.money.archive.store import closed_transactions, files, rows
from florin_server.money.archive.store.closed_transactions import TransactionPosition
from florin_server.money.archive.store.files import TRANSACTION_FOLDER, ArchiveFile
from florin_server.money.archive.store.rows import TRANSACTION_TABLES, TRANSACTIONS, StoredRow

# transactions of one transaction of the store
_DELETED_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class WrittenTransactions:
    """A file that was written, None at the end; and the place after which the next one begins."""

    last: TransactionPosition
    file: ArchiveFile | None


async def write_file(
    app: StorageContext, folder: ArchiveFolder, after: TransactionPosition, before_us: int
) -> WrittenTransactions:
    """Write the next closed transactions of one month, after a place, to a file.

    The month has ended before `before_us`, and so have the payouts that they made. Raise
    ArchiveError if the file cannot be written.
    """
    end_us = get_archive_end_us(before_us)
    while True:
        first = await app.store.scan(closed_transactions.list_positions(after, end_us, 1))
        if not first:
            return WrittenTransactions(after, None)
        created_at_us = first[0].created_at_us
        month_end_us = get_archive_month_end_us(created_at_us)
        batches, last = await writing.read_pages(
            app,
            TRANSACTION_TABLES,
            after,
            partial(_read_page, end_us=month_end_us, before_us=before_us),
        )
        after = TransactionPosition(month_end_us, "") if last is None else last
        if batches:
            name = f"{TRANSACTION_FOLDER}{get_archive_month(created_at_us).name}"
            file = await writing.write_batches(app, folder, name, TRANSACTION_TABLES, batches)
            return WrittenTransactions(after, file)


async def remove_transactions(
    app: StorageContext, folder: ArchiveFolder, file: ArchiveFile, before_us: int
) -> int:
    """Delete the rows of a file's transactions; return how many were deleted.

    Those that changed, or that something needs again, stay. Raise ArchiveError, before anything is
    deleted, unless the file is as it was written.
    """
    from florin_server.money.archive.service import parquet  # noqa: PLC0415  (extra)

    await asyncio.to_thread(folder.verify, file)
    pages = parquet.iterate_rows(folder.get_path(file), TRANSACTION_TABLES, _DELETED_AT_ONCE)
    count = 0
    while (page := await asyncio.to_thread(next, pages, None)) is not None:
        count += await app.store.write(_delete(page, before_us))
    await app.store.write(files.mark_removed(file.n, app.clock.now_us()))
    return count


@on_snapshot
def _read_page(
    after: TransactionPosition, end_us: int, before_us: int
) -> Op[ArchivePage[TransactionPosition]]:
    positions = yield from closed_transactions.list_positions(after, end_us, writing.PAGE)
    ids = [position.id for position in positions]
    closed_ids = yield from closed_transactions.list_closed(ids, before_us)
    stored_rows = yield from rows.read_rows(TRANSACTION_TABLES, closed_ids)
    return ArchivePage(positions[-1] if positions else None, stored_rows)


@operation
def _delete(file_rows: Mapping[str, Sequence[StoredRow]], before_us: int) -> Op[int]:
    """Delete transactions that are as a file has them; return how many."""
    ids = [row[0] for row in file_rows[TRANSACTIONS.name]]
    closed_ids = yield from closed_transactions.lock_closed(ids, before_us)
    stored = _group_rows((yield from rows.read_rows(TRANSACTION_TABLES, closed_ids)))
    archived = _group_rows(file_rows)
    unchanged_ids = [tx_id for tx_id in closed_ids if stored[tx_id] == archived[tx_id]]
    if unchanged_ids:
        yield from rows.delete_transactions(unchanged_ids)
    return len(unchanged_ids)


def _group_rows(
    rows_by_table: Mapping[str, Sequence[StoredRow]],
) -> dict[str, list[tuple[str, StoredRow]]]:
    """Return the rows of each transaction, with their tables; each row begins with its id."""
    grouped: dict[str, list[tuple[str, StoredRow]]] = defaultdict(list)
    for name, table_rows in rows_by_table.items():
        for row in table_rows:
            grouped[row[0]].append((name, row))
    return grouped
