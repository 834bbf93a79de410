"""Create the partitions of months, with the rows that the default partitions have for them."""

from __future__ import annotations

import logging
from typing import Any, Final, NamedTuple

from florin_server.db.engine.partitions import PAST
from florin_server.db.engine.postgres.partitions.catalog import (
    PartitionedTable,
    PartitionedTables,
    RangePartition,
    format_partition,
    read_tables,
)
from florin_server.db.engine.postgres.partitions.session import change_tables, lock_tables
from florin_server.db.engine.query import StoreError
from florin_server.domain.payments.months import format_month, get_first_id

_log = logging.getLogger(__name__)

# rows of a table that one transaction moves out of its default partition
MOVED_MAX: Final = 5_000
_COLUMNS: Final = """
SELECT attname FROM pg_attribute
WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""


class _Extension(NamedTuple):
    """A table's new partition, or the one that grows; both begin at `first_id`."""

    table: PartitionedTable
    name: str
    first_id: str
    existing: RangePartition | None


class _Range(NamedTuple):
    """The ids of a month, or of all payments before the first one."""

    month: str
    first_id: str
    end_id: str


async def create_month(raw: Any, month: int, tries: int, moved_max: int = MOVED_MAX) -> None:
    """Create the partitions that tables lack for a month.

    Rows of the default partitions move in transactions of about `moved_max` rows. A partition grows
    with each of them, so an interruption leaves a shorter partition, and the next call continues.
    StoreError if a table of that name is not attached.
    """
    ids = _Range(format_month(month), get_first_id(month), get_first_id(month + 1))
    await _create_range(raw, ids, tries, moved_max)
    _log.info("created the partitions of payments of %s", ids.month)


async def create_past(raw: Any, tries: int) -> None:
    """Create the partitions before the first month that tables lack, like those of months."""
    tables = await read_tables(raw)
    ends = [part.end_id for table in tables.values() for part in table.ranges if not part.first_id]
    firsts = [table.ranges[0].first_id for table in tables.values() if table.ranges]
    if end_id := min(ends, default=min(firsts, default="")):
        await _create_range(raw, _Range(PAST, "", end_id), tries, MOVED_MAX)


async def _create_range(raw: Any, ids: _Range, tries: int, moved_max: int) -> None:
    while extensions := _list_extensions(await read_tables(raw), ids):
        await _require_free_names(raw, extensions)
        end_id = await _find_end(raw, extensions, ids, moved_max)
        await change_tables(raw, lambda: _extend(raw, extensions, end_id), tries)  # noqa: B023


async def create_defaults(raw: Any, tries: int) -> None:
    """Create the default partitions that tables lack."""
    lacking = [table for table in (await read_tables(raw)).values() if not table.default]

    async def create() -> None:
        for table in lacking:
            for statement in list_default_statements(table.name):
                await raw.execute(statement)

    if lacking:
        await change_tables(raw, create, tries)


def list_default_statements(table: str) -> list[str]:
    """Return the statements that create the default partition of a table."""
    name = f"{table}_default"
    return [
        f"CREATE TABLE {name} (LIKE {table} INCLUDING ALL)",
        f"ALTER TABLE {table} ATTACH PARTITION {name} DEFAULT",
    ]


async def list_columns(raw: Any, table: str) -> list[str]:
    """Return the columns of a table; none of their names needs quotes."""
    return [name for (name,) in await raw.fetch(_COLUMNS, table)]


def _list_extensions(tables: PartitionedTables, ids: _Range) -> list[_Extension]:
    extensions = []
    for table in tables.values():
        if table.has_range(ids.first_id, ids.end_id):
            continue
        existing = table.find_range(ids.first_id)
        extensions.append(
            _Extension(
                table,
                existing.name if existing else format_partition(table.name, ids.month),
                existing.first_id if existing else ids.first_id,
                existing,
            )
        )
    return extensions


async def _require_free_names(raw: Any, extensions: list[_Extension]) -> None:
    for extension in extensions:
        exists = await raw.fetchval("SELECT to_regclass($1) IS NOT NULL", extension.name)
        if extension.existing is None and exists:
            raise StoreError(
                f"the table {extension.name} exists, but is no partition: attach it (ALTER TABLE "
                f"{extension.table.name} ATTACH PARTITION), or rename it and run `florin store "
                "partition`"
            )


async def _find_end(raw: Any, extensions: list[_Extension], ids: _Range, moved_max: int) -> str:
    """Return up to which id one transaction moves rows; the end of the month if they are few."""
    end_id = ids.end_id
    for table, _, first_id, existing in extensions:
        if not table.default:
            continue
        start_id = existing.end_id if existing else first_id
        last = await raw.fetchval(
            f"SELECT {table.key} FROM ONLY {table.default} WHERE {table.key} >= $1 "  # noqa: S608
            f"AND {table.key} < $2 ORDER BY {table.key} OFFSET $3 LIMIT 1",
            start_id,
            end_id,
            moved_max - 1,
        )
        if last is not None:
            # after this id, and before the next one
            end_id = min(end_id, f"{last}!")
    # a partition that grows has rows up to its end
    return max([end_id, *(existing.end_id for *_, existing in extensions if existing)])


async def _extend(raw: Any, extensions: list[_Extension], end_id: str) -> None:
    # PostgreSQL locks them anyway: nothing may be added to them meanwhile
    locked = [extension.table.default for extension in extensions if extension.table.default]
    for table, name, _, existing in extensions:
        if existing is None:
            await raw.execute(f"CREATE TABLE {name} (LIKE {table.name} INCLUDING ALL)")
        else:
            locked += [f"ONLY {table.name}", name]
    if locked:
        await lock_tables(raw, locked, "ACCESS EXCLUSIVE")
    for table, name, first_id, existing in extensions:
        if existing is not None:
            await raw.execute(f"ALTER TABLE {table.name} DETACH PARTITION {name}")
        start_id = existing.end_id if existing else first_id
        if table.default:
            columns = ", ".join(await list_columns(raw, table.name))
            await raw.execute(
                f"WITH moved AS (DELETE FROM ONLY {table.default} WHERE "  # noqa: S608
                f"{table.key} >= $1 AND {table.key} < $2 RETURNING {columns}) "
                f"INSERT INTO {name} ({columns}) SELECT {columns} FROM moved",
                start_id,
                end_id,
            )
        start = f"'{first_id}'" if first_id else "MINVALUE"
        await raw.execute(
            f"ALTER TABLE {table.name} ATTACH PARTITION {name} "
            f"FOR VALUES FROM ({start}) TO ('{end_id}')"
        )
