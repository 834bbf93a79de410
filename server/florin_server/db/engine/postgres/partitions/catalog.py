"""Read from PostgreSQL's catalog which partitions exist."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from florin_server.db.engine.partitions import MONTHS_AHEAD as _MONTHS_AHEAD
from florin_server.db.engine.partitions import PARTITION_KEYS as _KEYS
from florin_server.db.engine.partitions import PAST, STRAY_MAX, PartitionStatus
from florin_server.domain.payments.months import find_month, format_month, get_first_id, get_month

# sorts after every payment id
_MAX: Final = "\x7f"
_BOUND: Final = re.compile(r"FOR VALUES FROM \((.+)\) TO \((.+)\)")
_PARTITIONS: Final = """
SELECT parent.relname AS table_name, partition.relname AS name,
    pg_get_expr(partition.relpartbound, partition.oid) AS bound
FROM pg_class AS parent
LEFT JOIN pg_inherits ON inhparent = parent.oid AND NOT inhdetachpending
LEFT JOIN pg_class AS partition ON partition.oid = inhrelid
WHERE parent.relname = ANY($1) AND parent.relkind = 'p' AND pg_table_is_visible(parent.oid)
"""
# of a conversion that was interrupted
RANGE_CHECK: Final = "florin_partition_range"
_LEFT_CHECKS: Final = """
SELECT relname FROM pg_constraint JOIN pg_class ON pg_class.oid = conrelid
WHERE conname = $1 AND relname = ANY($2) AND pg_table_is_visible(conrelid) ORDER BY relname
"""


class RangePartition(NamedTuple):
    """A partition of one table; `first_id` is empty for the first."""

    name: str
    first_id: str
    end_id: str


class PartitionedTable(NamedTuple):
    """A partitioned table; `default` is empty if it has no default partition."""

    name: str
    key: str
    ranges: tuple[RangePartition, ...]
    default: str

    def find_range(self, first_id: str) -> RangePartition | None:
        """Return the partition that has the payments from an id on, if any."""
        for part in self.ranges:
            if part.first_id <= first_id < part.end_id:
                return part
        return None

    def has_range(self, first_id: str, end_id: str) -> bool:
        """Return whether one partition has all payments from an id on, up to another one."""
        part = self.find_range(first_id)
        return part is not None and part.end_id >= end_id

    def has_month(self, month: int) -> bool:
        """Return whether one partition has all payments of a month."""
        return self.has_range(get_first_id(month), get_first_id(month + 1))


PartitionedTables: TypeAlias = Mapping[str, PartitionedTable]


def format_partition(table: str, month: str) -> str:
    """Return the name of the partition of a table for a month (`2026-09`), or for `past`."""
    return f"{table}_{month.replace('-', '_')}"


async def read_tables(raw: Any) -> PartitionedTables:
    """Return the tables that are partitioned, in the order in which they are locked."""
    ranges: dict[str, list[RangePartition]] = {}
    defaults: dict[str, str] = {}
    for table, name, bound in await raw.fetch(_PARTITIONS, list(_KEYS)):
        table_ranges = ranges.setdefault(table, [])
        if bound == "DEFAULT":
            defaults[table] = name
        elif bound is not None and (match := _BOUND.fullmatch(bound)):
            table_ranges.append(RangePartition(name, _parse(match[1]), _parse(match[2])))
    return {
        table: PartitionedTable(
            table,
            key,
            tuple(sorted(ranges[table], key=lambda part: part.first_id)),
            defaults.get(table, ""),
        )
        for table, key in _KEYS.items()
        if table in ranges
    }


async def read_status(raw: Any, now_us: int) -> PartitionStatus | None:
    """Return the state of the partitions; None if the store has none and nothing is due."""
    tables = await read_tables(raw)
    if not tables:
        is_interrupted = bool(await list_left_checks(raw))
        return PartitionStatus(is_due=True) if is_interrupted else None
    now_month = get_month(now_us)
    due = list_due_months(tables, now_month)
    lost_defaults = [table for table in tables.values() if not table.default]
    return PartitionStatus(
        missing=tuple(_list_missing(tables, now_month)),
        stray_rows=await _count_stray_rows(raw, tables),
        is_due=bool(due or lost_defaults),
    )


async def list_left_checks(raw: Any) -> list[str]:
    """Return the tables that have the constraint of a conversion, running or interrupted."""
    return [name for (name,) in await raw.fetch(_LEFT_CHECKS, RANGE_CHECK, list(_KEYS))]


def list_due_months(tables: PartitionedTables, now_month: int) -> list[int]:
    """Return the months to create: those up to three months ahead, after the last partition."""
    ends = [part.end_id for table in tables.values() for part in table.ranges]
    newest = find_month(max(ends)) if ends else now_month
    if newest is None:
        # a partition without an end, which an operator made
        return []
    months = range(newest, now_month + _MONTHS_AHEAD + 1)
    return [month for month in months if not has_month(tables, month)]


def list_gaps(tables: PartitionedTables, now_month: int) -> list[int]:
    """Return the months that any table lacks between its first and the newest partition."""
    firsts = [find_month(part.end_id) for part in _list_past(tables)]
    ends = [find_month(part.end_id) for table in tables.values() for part in table.ranges]
    first = min((month for month in firsts if month is not None), default=now_month)
    end = max((month for month in ends if month is not None), default=now_month)
    # the next month is created long before it begins
    months = range(first, max(end, now_month + 2))
    return [month for month in months if not has_month(tables, month)]


def has_month(tables: PartitionedTables, month: int) -> bool:
    """Return whether all tables have a partition for a month."""
    return all(table.has_month(month) for table in tables.values())


def _list_past(tables: PartitionedTables) -> Iterable[RangePartition]:
    for table in tables.values():
        yield from (part for part in table.ranges if not part.first_id)


def _list_missing(tables: PartitionedTables, now_month: int) -> Iterable[str]:
    gaps = list_gaps(tables, now_month)
    for name in _KEYS:
        table = tables.get(name)
        if table is None:
            yield f"{name} has no partitions"
            continue
        months = [format_month(month) for month in gaps if not table.has_month(month)]
        if table.find_range("") is None:
            months.insert(0, PAST)
        if months:
            yield f"{name} lacks {', '.join(months)}"
        if not table.default:
            yield f"{name} has no default partition"


async def _count_stray_rows(raw: Any, tables: PartitionedTables) -> dict[str, int]:
    counts = [
        f"SELECT '{table.default}', count(*) FROM "  # noqa: S608  (names of the catalog)
        f"(SELECT FROM ONLY {table.default} LIMIT {STRAY_MAX}) AS stray"
        for table in tables.values()
        if table.default
    ]
    if not counts:
        return {}
    return {name: count for name, count in await raw.fetch(" UNION ALL ".join(counts)) if count}


def _parse(bound: str) -> str:
    if bound == "MINVALUE":
        return ""
    return _MAX if bound == "MAXVALUE" else bound.strip("'")
