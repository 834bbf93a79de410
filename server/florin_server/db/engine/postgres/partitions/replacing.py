"""Replace a partition by those of its payments that are kept."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from typing import Any, Final

from florin_server.db.engine.partitions import PAST, PartitionReplacement
from florin_server.db.engine.postgres.partitions.catalog import (
    PartitionedTable,
    PartitionedTables,
    RangePartition,
    read_tables,
)
from florin_server.db.engine.postgres.partitions.extending import list_columns
from florin_server.db.engine.postgres.partitions.session import (
    PartitionBusy,
    change_tables,
    lock_tables,
)
from florin_server.db.engine.postgres.schema_lock import LOCK_MS
from florin_server.db.engine.query import Query, StoreError
from florin_server.domain.payments.months import find_month, format_month

_TRIES: Final = 5
# copied rows up to this size stay in memory
_SPOOL_BYTES: Final = 16 * 1024 * 1024
# Snapshots in which the partition would be empty: an emptied table is empty for all of them. The
# store's own writers see what was committed before each statement.
_SNAPSHOTS: Final = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_xmin IS NOT NULL
    AND backend_type = 'client backend' AND application_name <> 'florin-write'
    AND xact_start < now()
"""
_RETAINED: Final = "CREATE TEMPORARY TABLE florin_kept (id text PRIMARY KEY) ON COMMIT DROP"
_SIZE: Final = "SELECT sum(pg_total_relation_size(name::regclass)) FROM unnest($1::text[]) AS name"


class _TooManyKept(Exception):  # noqa: N818  (a result, which also rolls back)
    """More payments would be kept than allowed."""


async def replace(raw: Any, month: str, retained: Query, kept_max: int) -> PartitionReplacement:
    """Empty the partitions of a month except for the payments that a query selects.

    It is one transaction, which no writer of these payments overlaps. Tables are emptied in place:
    their indexes and bounds stay as they are, and no lock of all payments is needed.
    """
    try:
        return await change_tables(raw, lambda: _replace(raw, month, retained, kept_max), _TRIES)
    except _TooManyKept:
        return PartitionReplacement(is_replaced=False, kept_count=kept_max + 1)


def list_months(tables: PartitionedTables) -> list[tuple[str, RangePartition, list[str]]]:
    """Return the months of `payment`, with the partitions of all tables in their ranges."""
    if "payment" not in tables:
        return []
    months = []
    for part in tables["payment"].ranges:
        names = [
            other.name
            for table in tables.values()
            for other in table.ranges
            if part.first_id <= other.first_id and other.end_id <= part.end_id
        ]
        months.append((_format_range(part), part, names))
    return months


def _format_range(part: RangePartition) -> str:
    month = find_month(part.first_id)
    return PAST if month is None else format_month(month)


def list_parts(
    tables: PartitionedTables, month: str
) -> list[tuple[PartitionedTable, RangePartition]]:
    """Return the partition of each table for a month or `past`; StoreError if ranges differ."""
    if not tables:
        raise StoreError("the store has no partitions: run `florin store partition`")
    parts: list[tuple[PartitionedTable, RangePartition]] = []
    for table in tables.values():
        part = next((part for part in table.ranges if _format_range(part) == month), None)
        if part is None or (parts and part[1:] != parts[0][1][1:]):
            raise StoreError(f"{table.name} has no partition for {month}")
        parts.append((table, part))
    return parts


async def require_no_snapshots(raw: Any) -> None:
    """Raise PartitionBusy if another session has a snapshot from before this transaction."""
    if await raw.fetchval(_SNAPSHOTS):
        raise PartitionBusy


async def _replace(raw: Any, month: str, retained: Query, kept_max: int) -> PartitionReplacement:
    parts = list_parts(await read_tables(raw), month)
    names = [part.name for _, part in parts]
    # Operations that change a payment lock its row first, and wait from here on. Workers that look
    # for rows of other tables, and lock those of later months, do not wait.
    await lock_tables(raw, names[:1], "EXCLUSIVE", LOCK_MS // 2)
    await lock_tables(raw, names[1:], "SHARE ROW EXCLUSIVE", LOCK_MS // 2)
    if list_parts(await read_tables(raw), month) != parts:
        # the range has grown meanwhile
        raise PartitionBusy
    before = await raw.fetchval(_SIZE, names)
    kept_count = await _select_kept(raw, parts[0][1], retained, kept_max)
    if kept_count > kept_max:
        raise _TooManyKept
    with ExitStack() as spools:
        copies = []
        for table, part in parts if kept_count else ():
            spool = spools.enter_context(tempfile.SpooledTemporaryFile(_SPOOL_BYTES))
            copies.append((part.name, await _copy_out(raw, table, part, spool), spool))
        await raw.execute(f"TRUNCATE {', '.join(names)}")
        for name, columns, spool in copies:
            spool.seek(0)
            # frozen rows are also in older snapshots, where the deleted ones no longer are
            await raw.copy_to_table(
                name, source=spool, columns=columns, format="binary", freeze=True
            )
    await require_no_snapshots(raw)
    freed_bytes = before - await raw.fetchval(_SIZE, names)
    return PartitionReplacement(
        is_replaced=True, kept_count=kept_count, freed_bytes=int(freed_bytes)
    )


async def _select_kept(raw: Any, part: RangePartition, retained: Query, kept_max: int) -> int:
    """Collect the payments to keep, up to one more than allowed; return their number."""
    await raw.execute(_RETAINED)
    compiled = retained.statement.postgres
    status = await raw.execute(
        f"INSERT INTO florin_kept SELECT DISTINCT kept.id FROM ({compiled.sql}) AS kept (id) "  # noqa: S608
        f"WHERE kept.id >= '{part.first_id}' AND kept.id < '{part.end_id}' LIMIT {kept_max + 1}",
        *compiled.encode_params(retained.params),
    )
    return int(status.rpartition(" ")[2])


async def _copy_out(
    raw: Any, table: PartitionedTable, part: RangePartition, spool: Any
) -> list[str]:
    """Write the rows to keep of one table to a file; return their columns."""
    columns = await list_columns(raw, table.name)
    await raw.copy_from_query(
        f"SELECT {', '.join(columns)} FROM {part.name} "  # noqa: S608
        f"WHERE {table.key} IN (SELECT id FROM florin_kept)",
        output=spool,
        format="binary",
    )
    return columns
