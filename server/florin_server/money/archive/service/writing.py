"""Reads pages of a store, and writes them to a file of the archive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Operation
from florin_server.money.archive.service.folder import ArchiveFolder, compute_digest
from florin_server.money.archive.store import files
from florin_server.money.archive.store.closed_transactions import TransactionPosition
from florin_server.money.archive.store.files import ArchiveFile
from florin_server.money.archive.store.rows import ArchivedTable, StoredRow

if TYPE_CHECKING:
    import pyarrow as pa

# an id of a payment, or the place of a transaction
_PositionT = TypeVar("_PositionT", str, TransactionPosition)

# payments or transactions of a file, and their bytes in memory
FILE_MAX: Final = 10_000
_FILE_BYTES_MAX: Final = 64 * 1024 * 1024
# payments or transactions that are read in one snapshot
PAGE: Final = 1_000


@dataclass(frozen=True, slots=True)
class ArchivePage(Generic[_PositionT]):
    """The next payments or transactions, and the rows of those that are closed.

    `last` is the last one that was looked at, None after the end.
    """

    last: _PositionT | None
    rows: Mapping[str, Sequence[StoredRow]]


async def read_pages(
    app: StorageContext,
    tables: Sequence[ArchivedTable],
    after: _PositionT,
    read_page: Callable[[_PositionT], Operation[ArchivePage[_PositionT]]],
) -> tuple[list[pa.RecordBatch], _PositionT | None]:
    """Return what is closed, up to a file, and the last one that was looked at; None at the end."""
    from florin_server.money.archive.service import parquet  # noqa: PLC0415  (extra)

    batches: list[Any] = []
    last: _PositionT | None = after
    page = await app.store.scan(read_page(after))
    while page.last is not None:
        last = page.last
        size = sum(batch.num_rows for batch in batches) + len(page.rows[tables[0].name])
        is_full = (
            size > FILE_MAX - PAGE or sum(batch.nbytes for batch in batches) >= _FILE_BYTES_MAX
        )
        building = asyncio.to_thread(parquet.build_batch, tables, page.rows)
        if is_full:
            batches.append(await building)
            break
        # the store reads the next page meanwhile
        following = app.store.scan(read_page(page.last))
        batch, page = await asyncio.gather(building, following)
        batches.append(batch)
    else:
        last = None
    return [batch for batch in batches if batch.num_rows], last


async def write_batches(
    app: StorageContext,
    folder: ArchiveFolder,
    name: str,
    tables: Sequence[ArchivedTable],
    batches: Sequence[pa.RecordBatch],
) -> ArchiveFile:
    """Write a file in the folder of a name, and register it; ArchiveError if it cannot be."""
    n = await app.store.read(files.find_next_n())
    path = f"{name}/{n:08}-{app.randbytes(4).hex()}.parquet"
    now_us = app.clock.now_us()
    file = await asyncio.to_thread(_write_file, folder, n, path, tables, batches, now_us)
    await app.store.write(files.add(file))
    return file


def _write_file(  # noqa: PLR0917  (one of each, none alike)
    folder: ArchiveFolder,
    n: int,
    name: str,
    tables: Sequence[ArchivedTable],
    batches: Sequence[pa.RecordBatch],
    now_us: int,
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
    folder.publish(file, parquet.count_rows(tables, batches))
    return file
