"""Merge the oldest month into the partition `past`, so that old months cost no planning.

1. A new table gets the rows of both partitions, while others read and write.
2. One transaction locks the tables, which all calls then wait for, compares the two partitions with
   what was copied, and replaces them by the new table. It gives way to sessions that use them.

An interruption leaves the new tables, which no call reads, and which the next merge drops.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

from florin_server.db.engine.partitions import PAST
from florin_server.db.engine.postgres.partitions.catalog import (
    RANGE_CHECK,
    PartitionedTable,
    PartitionedTables,
    RangePartition,
    read_tables,
)
from florin_server.db.engine.postgres.partitions.extending import list_columns
from florin_server.db.engine.postgres.partitions.replacing import list_parts, require_no_snapshots
from florin_server.db.engine.postgres.partitions.session import change_tables, lock_tables
from florin_server.db.engine.query import StoreError, StoreUnavailable

_TRIES: Final = 5
# Each change of a row gives it another place or transaction. A month is only as large as may be
# copied, so to read it again takes a fraction of a second.
_DIGEST: Final = "count(*), coalesce(sum(hashtextextended(ctid::text || xmin::text, 0)), 0)::text"

# of each partition: its rows, and a digest of their versions
_Digests: TypeAlias = list[tuple[int, str]]


class _Merge(NamedTuple):
    """The two partitions of a table that become one."""

    table: PartitionedTable
    past: RangePartition
    oldest: RangePartition

    @property
    def new_name(self) -> str:
        """Return the name of the new partition until it replaces the others."""
        return f"florin_merged_{self.table.name}"


async def merge(raw: Any, month: str, payments_max: int) -> bool:
    """Drop the partitions of the oldest month: their payments, and its range, go to `past`.

    False, without changes, if the two have more payments than allowed. StoreError if the month is
    not the oldest, StoreUnavailable if others change it or use the tables for too long.
    """
    for _ in range(_TRIES):
        merges = _list_merges(await read_tables(raw), month)
        if await _has_more_payments(raw, merges[0], payments_max):
            return False
        is_merged = False
        try:
            digests = await copy_partitions(raw, merges)
            is_merged = await change_tables(
                raw,
                lambda: _swap(raw, month, merges, digests),  # noqa: B023  (it ends before)
                _TRIES,
            )
        finally:
            if not is_merged and not raw.is_closed():
                await _drop_copies(raw, merges)
        if is_merged:
            return True
    raise StoreUnavailable(f"payments of {month} or before change: they are merged later")


async def copy_partitions(raw: Any, merges: list[_Merge]) -> _Digests:
    """Create the new tables from one snapshot; return digests of what they were copied from."""
    await _drop_copies(raw, merges)
    async with raw.transaction(isolation="repeatable_read"):
        for each in merges:
            columns = await list_columns(raw, each.table.name)
            await raw.execute(";\n".join(_list_copy_statements(each, columns)))
        return await _read_digests(raw, merges)


def _list_merges(tables: PartitionedTables, month: str) -> list[_Merge]:
    merges = [
        _Merge(table, past, oldest)
        for (table, past), (_, oldest) in zip(
            list_parts(tables, PAST), list_parts(tables, month), strict=True
        )
    ]
    if merges[0].past.end_id != merges[0].oldest.first_id:
        raise StoreError(f"{month} does not follow the partition {PAST}")
    return merges


async def _has_more_payments(raw: Any, merge: _Merge, payments_max: int) -> bool:
    rows = f"SELECT FROM {merge.past.name} UNION ALL SELECT FROM {merge.oldest.name}"  # noqa: S608
    limited = f"SELECT FROM ({rows}) AS payments LIMIT {payments_max + 1}"
    count: int = await raw.fetchval(f"SELECT count(*) FROM ({limited}) AS limited")  # noqa: S608
    return count > payments_max


async def _drop_copies(raw: Any, merges: list[_Merge]) -> None:
    await raw.execute(f"DROP TABLE IF EXISTS {', '.join(each.new_name for each in merges)}")


async def _read_digests(raw: Any, merges: list[_Merge]) -> _Digests:
    names = [part.name for each in merges for part in (each.past, each.oldest)]
    selects = [f"SELECT {number}, {_DIGEST} FROM {name}" for number, name in enumerate(names)]  # noqa: S608
    rows = await raw.fetch(f"{' UNION ALL '.join(selects)} ORDER BY 1")
    return [(count, digest) for _, count, digest in rows]


async def _swap(raw: Any, month: str, merges: list[_Merge], digests: _Digests) -> bool:
    """Replace the partitions by the new tables; False, without changes, if they have changed."""
    # all calls wait from here on
    await lock_tables(raw, [each.table.name for each in merges], "ACCESS EXCLUSIVE")
    # the copied rows are not in older snapshots
    await require_no_snapshots(raw)
    if _list_merges(await read_tables(raw), month) != merges:
        return False
    if await _read_digests(raw, merges) != digests:
        return False
    await raw.execute(";\n".join(sql for each in merges for sql in _list_swap_statements(each)))
    return True


def _list_copy_statements(merge: _Merge, columns: list[str]) -> list[str]:
    name, names = merge.new_name, ", ".join(columns)
    # with it no row is read when the partition is attached
    check = f"CHECK ({merge.table.key} < '{merge.oldest.end_id}')"
    return [
        f"CREATE TABLE {name} (LIKE {merge.table.name} INCLUDING ALL)",
        f"ALTER TABLE {name} ADD CONSTRAINT {RANGE_CHECK} {check}",
        *(
            f"INSERT INTO {name} ({names}) SELECT {names} FROM {part.name}"  # noqa: S608
            for part in (merge.past, merge.oldest)
        ),
    ]


def _list_swap_statements(merge: _Merge) -> list[str]:
    table, past, oldest = merge.table.name, merge.past.name, merge.oldest
    bounds = f"FROM (MINVALUE) TO ('{oldest.end_id}')"
    return [
        f"DROP TABLE {past}, {oldest.name}",
        f"ALTER TABLE {merge.new_name} RENAME TO {past}",
        f"ALTER TABLE {table} ATTACH PARTITION {past} FOR VALUES {bounds}",
        f"ALTER TABLE {past} DROP CONSTRAINT {RANGE_CHECK}",
    ]
