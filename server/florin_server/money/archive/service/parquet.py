"""Files of Parquet: one row for each payment or transaction, with lists of what belongs to it.

The values are the stored ones, as SQLite stores them: times are integers, amounts are digits and
JSON is text. A file is read again and compared before anything relies on it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import BigInteger, Boolean, Column, LargeBinary

from florin_server.base.durable_files import create_file
from florin_server.db.engine import schema
from florin_server.db.engine.columns import U256
from florin_server.domain.archive import ArchivedCustomerPayment, ArchiveError
from florin_server.domain.payments.payment import PaymentStatus
from florin_server.money.archive.store.closed import PaymentVersion
from florin_server.money.archive.store.rows import ARCHIVED_TABLES, ArchivedTable, StoredRow

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
except ImportError as missing:
    raise ArchiveError("the archive needs pyarrow: pip install 'florin-pay[export]'") from missing

RowsByTable = Mapping[str, Sequence[StoredRow]]
"""The rows of some payments or transactions by the names of tables, in the order of these."""

# payments that a reader of one has to decompress, or transactions
ROW_GROUP: Final = 1_000
_SCHEMA_KEY: Final = b"florin_schema"
_CUSTOMER_COLUMNS: Final = list(ArchivedCustomerPayment._fields)


def build_batch(tables: Sequence[ArchivedTable], rows: RowsByTable) -> pa.RecordBatch:
    """Return payments or transactions with their rows."""
    own, *lists = tables
    ids = [row[0] for row in rows[own.name]]
    columns = _build_columns(own, rows[own.name])
    columns += [_build_lists(table, rows[table.name], ids) for table in lists]
    return pa.RecordBatch.from_arrays(columns, schema=_build_schema(own, lists))


def write(path: Path, batches: Sequence[pa.RecordBatch]) -> None:
    """Write a new file that only its owner can read, and compare it; ArchiveError if it differs."""
    try:
        with create_file(path) as file:
            with pq.ParquetWriter(
                file, batches[0].schema, compression="zstd", write_page_checksum=True
            ) as writer:
                for batch in batches:
                    writer.write_batch(batch, row_group_size=ROW_GROUP)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise ArchiveError(f"{path} cannot be written: {error}") from error
    expected = pa.Table.from_batches(batches)
    with _open(path) as reader:
        if not reader.read().equals(expected):
            raise ArchiveError(f"{path} differs from what was written to it")


def count_rows(
    tables: Sequence[ArchivedTable], batches: Sequence[pa.RecordBatch]
) -> dict[str, int]:
    """Return how many rows of each table are in batches."""
    own, *lists = tables
    counts = {own.name: sum(batch.num_rows for batch in batches)}
    for table in lists:
        counts[table.name] = sum(len(batch.column(table.name).values) for batch in batches)
    return counts


def iterate_versions(path: Path) -> Iterator[list[PaymentVersion]]:
    """Yield the payments of a file with their versions, a group at a time."""
    with _open(path) as reader:
        for group in range(reader.num_row_groups):
            table = reader.read_row_group(group, columns=["id", "version"])
            columns = (table.column(name).to_pylist() for name in ("id", "version"))
            yield list(map(PaymentVersion._make, zip(*columns, strict=True)))


def find_payment(path: Path, payment_id: str) -> RowsByTable | None:
    """Return the rows of one payment; None if the file does not contain it."""
    with _open(path) as reader:
        for group in range(reader.num_row_groups):
            if not _can_contain(reader, group, "id", payment_id):
                continue
            row = reader.read_row_group(group, columns=["id"]).column("id").index(payment_id)
            if row.as_py() >= 0:
                record = reader.read_row_group(group).slice(row.as_py(), 1)
                return _to_rows(ARCHIVED_TABLES, record.to_pylist())
    return None


def iterate_rows(
    path: Path, tables: Sequence[ArchivedTable], size: int
) -> Iterator[dict[str, list[StoredRow]]]:
    """Yield the rows of a file, of up to `size` payments or transactions at a time."""
    with _open(path) as reader:
        for group in range(reader.num_row_groups):
            records = reader.read_row_group(group)
            for start in range(0, records.num_rows, size):
                yield _to_rows(tables, records.slice(start, size).to_pylist())


def iterate_customer_payments(
    path: Path, account: str, payment_ids: Collection[str]
) -> Iterator[ArchivedCustomerPayment]:
    """Yield the payments of a file that an account paid, or that have one of some ids.

    Has one group in memory at a time, and of most groups only the payers.
    """
    with _open(path, dictionaries=["payer"]) as reader:
        for group in range(reader.num_row_groups):
            ids = [each for each in payment_ids if _can_contain(reader, group, "id", each)]
            if not ids and not _has_payer(reader, group, account):
                continue
            table = reader.read_row_group(group, columns=_CUSTOMER_COLUMNS)
            paid = pc.equal(table.column("payer"), account)
            listed = pc.is_in(table.column("id"), pa.array(ids, pa.string()))
            for row in table.filter(pc.or_kleene(paid, listed)).to_pylist():
                yield ArchivedCustomerPayment(**row | {"status": PaymentStatus(row["status"])})


@contextmanager
def _open(path: Path, dictionaries: Sequence[str] = ()) -> Iterator[pq.ParquetFile]:
    """Open a file; ArchiveError if it cannot be opened, or what the block reads is damaged.

    Columns of `dictionaries` are read as dictionaries of their values.
    """
    try:
        with pq.ParquetFile(
            path, page_checksum_verification=True, read_dictionary=list(dictionaries)
        ) as reader:
            yield reader
    except (OSError, pa.ArrowException) as error:
        raise ArchiveError(f"{path} cannot be read: {error}") from error


def _can_contain(reader: pq.ParquetFile, group: int, name: str, value: str) -> bool:
    """Return False if the statistics of a group exclude a value of a column of text."""
    column = reader.schema_arrow.get_field_index(name)
    statistics = reader.metadata.row_group(group).column(column).statistics
    if statistics is None:
        return True
    if not statistics.has_min_max:
        # only nulls, or texts that are too long for statistics
        return bool(statistics.num_values)
    return bool(statistics.min <= value <= statistics.max)


def _has_payer(reader: pq.ParquetFile, group: int, account: str) -> bool:
    if not _can_contain(reader, group, "payer", account):
        return False
    payers = reader.read_row_group(group, columns=["payer"]).column("payer")
    return any(chunk.dictionary.index(account).as_py() >= 0 for chunk in payers.chunks)


def _get_type(column: Column[Any]) -> pa.DataType:
    if isinstance(column.type, U256):
        return pa.string()
    if isinstance(column.type, BigInteger):
        return pa.int64()
    if isinstance(column.type, Boolean):
        return pa.bool_()
    return pa.binary() if isinstance(column.type, LargeBinary) else pa.string()


def _list_fields(table: ArchivedTable) -> list[pa.Field]:
    return [pa.field(column.name, _get_type(column)) for column in table.list_columns()]


def _build_schema(own: ArchivedTable, lists: Sequence[ArchivedTable]) -> pa.Schema:
    return pa.schema(
        [
            *_list_fields(own),
            *(pa.field(table.name, pa.list_(pa.struct(_list_fields(table)))) for table in lists),
        ],
        metadata={_SCHEMA_KEY: schema.HEAD.encode()},
    )


def _build_columns(table: ArchivedTable, rows: Sequence[StoredRow]) -> list[pa.Array]:
    positions = [
        (position, column)
        for position, column in enumerate(table.table.columns)
        if column in set(table.list_columns())
    ]
    by_column = list(zip(*rows, strict=True)) or [()] * len(table.table.columns)
    arrays = []
    for position, column in positions:
        values: Sequence[Any] = by_column[position]
        if isinstance(column.type, U256):
            values = [None if value is None else str(value) for value in values]
        arrays.append(pa.array(values, _get_type(column)))
    return arrays


def _build_lists(table: ArchivedTable, rows: Sequence[StoredRow], ids: Sequence[str]) -> pa.Array:
    at = list(table.table.columns).index(table.id_column)
    counts = Counter(row[at] for row in rows)
    offsets = [0]
    for payment_id in ids:
        offsets.append(offsets[-1] + counts.pop(payment_id, 0))
    if counts:
        raise ArchiveError(f"rows of {table.table.name} have no owner: {next(iter(counts))}")
    items = pa.StructArray.from_arrays(_build_columns(table, rows), fields=_list_fields(table))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items)


def _to_rows(
    tables: Sequence[ArchivedTable], records: Sequence[Mapping[str, Any]]
) -> dict[str, list[StoredRow]]:
    """Return records' rows with the columns of today; an older file may lack some."""
    rows: dict[str, list[StoredRow]] = {table.name: [] for table in tables}
    for record in records:
        for table in tables:
            items = [record] if table.is_own else record.get(table.name) or []
            rows[table.name] += [
                tuple(
                    record["id"]
                    if column is table.id_column
                    else item.get(column.name, _get_default(column))
                    for column in table.table.columns
                )
                for item in items
            ]
    return rows


def _get_default(column: Column[Any]) -> Any:
    """Return the value of a column in rows that are older than it."""
    default: Any = getattr(column.server_default, "arg", None)
    if default is None or not isinstance(column.type, BigInteger):
        return default
    return int(default)
