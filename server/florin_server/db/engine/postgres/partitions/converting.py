"""Turn the tables of payments into partitioned ones while other processes use them.

1. A constraint says that a table's rows are older than the first month. PostgreSQL checks the rows
   while others write.
2. One transaction renames the tables, creates partitioned ones with their names, and attaches the
   old ones, whose rows it need not read because of the constraint. It is the only step that locks
   the tables, and it changes only the catalog.
3. Months are created like those of later months.

Each step is whole or did not happen, and the next call continues after the last.
"""

from __future__ import annotations

import logging
from typing import Any, Final, NamedTuple

from florin_server.db.engine.partitions import PARTITION_KEYS as _KEYS
from florin_server.db.engine.partitions import PAST
from florin_server.db.engine.postgres.partitions.catalog import (
    RANGE_CHECK,
    PartitionedTables,
    list_due_months,
    list_gaps,
    list_left_checks,
    read_tables,
)
from florin_server.db.engine.postgres.partitions.extending import (
    create_defaults,
    create_month,
    create_past,
    list_default_statements,
)
from florin_server.db.engine.postgres.partitions.session import (
    change_tables,
    hold_schema,
    lock_tables,
    open_partition_session,
)
from florin_server.db.engine.query import StoreError
from florin_server.db.engine.where import DatabaseConfig
from florin_server.domain.payments.months import get_first_id, get_month

_log = logging.getLogger(__name__)

_TRIES: Final = 100
_TIME_US: Final = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
# what would still refer to the old table, or to one partition only, after the tables are swapped
_OBSTACLES: Final = """
SELECT DISTINCT 'the view ' || view.relname FROM pg_depend
JOIN pg_rewrite ON pg_rewrite.oid = objid JOIN pg_class AS view ON view.oid = ev_class
WHERE classid = 'pg_rewrite'::regclass AND refobjid = ANY($1::regclass[])
UNION ALL SELECT 'the foreign key ' || conname FROM pg_constraint
WHERE contype = 'f' AND confrelid = ANY($1::regclass[])
UNION ALL SELECT 'the trigger ' || tgname FROM pg_trigger
WHERE NOT tgisinternal AND tgrelid = ANY($1::regclass[])
UNION ALL SELECT 'the policy ' || polname FROM pg_policy WHERE polrelid = ANY($1::regclass[])
UNION ALL SELECT 'the publication ' || pubname FROM pg_publication_rel
JOIN pg_publication ON pg_publication.oid = prpubid WHERE prrelid = ANY($1::regclass[])
UNION ALL SELECT 'the table ' || name FROM unnest($2::text[]) AS name
WHERE to_regclass(name) IS NOT NULL
"""
_INDEXES: Final = """
SELECT relname, pg_get_indexdef(pg_index.indexrelid), conname,
    pg_get_constraintdef(pg_constraint.oid)
FROM pg_index JOIN pg_class ON pg_class.oid = pg_index.indexrelid
LEFT JOIN pg_constraint ON conindid = pg_index.indexrelid AND conrelid = pg_index.indrelid
WHERE pg_index.indrelid = $1::regclass AND indisvalid ORDER BY relname
"""
_GRANTS: Final = """
SELECT format('GRANT %s ON TABLE %I TO %s%s', privilege_type, $1::text,
    CASE WHEN grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END,
    CASE WHEN is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
FROM pg_class, aclexplode(relacl) WHERE pg_class.oid = $1::regclass AND grantee <> relowner
"""
_COUNT_INDEXES: Final = "SELECT count(*) FROM pg_index WHERE indrelid = ANY($1::regclass[])"


class ConversionResult(NamedTuple):
    """The result of a conversion: if the tables were converted now, and the created months."""

    is_converted: bool
    created_months: int


class _Swap(NamedTuple):
    """The tables to swap, and the statements for it."""

    tables: list[str]
    statements: list[str]


async def convert(database: DatabaseConfig) -> ConversionResult:
    """Partition the tables of a database, and create the months up to three months ahead.

    The tables are empty, or their rows become the first partition. Missing months of tables that
    are partitioned already are created again. StoreError, without changes, if something depends on
    the tables that would not see the partitions, or if a clock that was ahead made later ids.
    """
    async with hold_schema(database, _TRIES), open_partition_session(database) as raw:
        now_month = get_month(await raw.fetchval(_TIME_US))
        partitioned = await read_tables(raw)
        plain = [table for table in _KEYS if table not in partitioned]
        if plain:
            await _convert_tables(raw, plain, partitioned, now_month)
        await create_defaults(raw, _TRIES)
        await create_past(raw, _TRIES)
        tables = await read_tables(raw)
        months = sorted({*list_gaps(tables, now_month), *list_due_months(tables, now_month)})
        for month in months:
            await create_month(raw, month, _TRIES)
        for table in _KEYS if plain or months else ():
            # autovacuum analyzes partitions, but no partitioned table
            await raw.execute(f"ANALYZE {table}")
    return ConversionResult(bool(plain), len(months))


async def drop_left_checks(raw: Any, tries: int) -> None:
    """Drop the constraints of a conversion that ended in between: they would refuse later ids."""
    for table in await list_left_checks(raw):
        await _drop_check(raw, table, tries)


async def _convert_tables(
    raw: Any, tables: list[str], partitioned: PartitionedTables, now_month: int
) -> None:
    await _require_no_obstacles(raw, tables)
    firsts = [part.end_id for table in partitioned.values() for part in table.ranges[:1]]
    is_empty = not await _has_rows(raw, tables)
    # time enough to check the rows before the first month begins
    bound = firsts[0] if firsts else get_first_id(now_month if is_empty else now_month + 2)
    try:
        if not is_empty:
            for table in tables:
                await _check_range(raw, table, bound)
        swap = await _prepare_swap(raw, tables, bound)

        async def run() -> bool:
            return await _swap_tables(raw, swap, is_empty=is_empty)

        if not await change_tables(raw, run, _TRIES):
            raise StoreError("another process wrote the first payments: run the command again")
    except BaseException:
        if not raw.is_closed():
            await drop_left_checks(raw, _TRIES)
        raise
    _log.info("partitioned the tables of payments")


async def _require_no_obstacles(raw: Any, tables: list[str]) -> None:
    created = [f"{table}_{suffix}" for table in tables for suffix in (PAST, "default")]
    if obstacles := sorted(name for (name,) in await raw.fetch(_OBSTACLES, tables, created)):
        raise StoreError(
            f"{', '.join(obstacles)} would not follow the partitions: drop them, run this command, "
            "and create them again"
        )


async def _has_rows(raw: Any, tables: list[str]) -> bool:
    rows = " OR ".join(f"EXISTS (SELECT FROM {table})" for table in tables)
    has_rows: bool = await raw.fetchval(f"SELECT {rows}")
    return has_rows


async def _check_range(raw: Any, table: str, bound: str) -> None:
    """Prove that all rows of a table are below a bound; others write meanwhile."""
    key = _KEYS[table]
    if (newest := await raw.fetchval(f"SELECT max({key}) FROM {table}") or "") >= bound:  # noqa: S608
        raise StoreError(
            f"{table} has the id {newest}, which a clock made that was months ahead: partitions "
            "cannot be made before its time has come"
        )
    # an earlier run may have had an earlier bound
    await _drop_check(raw, table, _TRIES)

    async def add() -> None:
        await raw.execute(
            f"ALTER TABLE {table} ADD CONSTRAINT {RANGE_CHECK} CHECK ({key} < '{bound}') NOT VALID"
        )

    await change_tables(raw, add, _TRIES)
    _log.info("checking the rows of %s; calls are served meanwhile", table)
    await raw.execute(f"ALTER TABLE {table} VALIDATE CONSTRAINT {RANGE_CHECK}")


async def _drop_check(raw: Any, table: str, tries: int) -> None:
    async def drop() -> None:
        await raw.execute(f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {RANGE_CHECK}")

    await change_tables(raw, drop, tries)


async def _prepare_swap(raw: Any, tables: list[str], bound: str) -> _Swap:
    statements = [
        statement
        for table in tables
        for statement in await _list_swap_statements(raw, table, bound)
    ]
    return _Swap(tables, statements)


async def _list_swap_statements(raw: Any, table: str, bound: str) -> list[str]:
    past = f"{table}_{PAST}"
    rename, create = [f"ALTER TABLE {table} RENAME TO {past}"], []
    for index, definition, constraint, constraint_definition in await raw.fetch(_INDEXES, table):
        # attaching the old table takes its indexes over where they equal the new table's
        if constraint is None:
            rename.append(f"ALTER INDEX {index} RENAME TO {index}_{PAST}")
            create.append(definition)
        else:
            rename.append(
                f"ALTER TABLE {past} RENAME CONSTRAINT {constraint} TO {constraint}_{PAST}"
            )
            create.append(
                f"ALTER TABLE {table} ADD CONSTRAINT {constraint} {constraint_definition}"
            )
    like = f"LIKE {past} INCLUDING ALL EXCLUDING INDEXES"
    return [
        *rename,
        f"CREATE TABLE {table} ({like}) PARTITION BY RANGE ({_KEYS[table]})",
        f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {RANGE_CHECK}",
        *create,
        *(grant for (grant,) in await raw.fetch(_GRANTS, table)),
        f"ALTER TABLE {table} ATTACH PARTITION {past} FOR VALUES FROM (MINVALUE) TO ('{bound}')",
        f"ALTER TABLE {past} DROP CONSTRAINT IF EXISTS {RANGE_CHECK}",
        *list_default_statements(table),
    ]


async def _swap_tables(raw: Any, swap: _Swap, *, is_empty: bool) -> bool:
    """Swap the tables; False, without changes, if they were empty and are no longer."""
    await lock_tables(raw, swap.tables, "ACCESS EXCLUSIVE")
    if is_empty and await _has_rows(raw, swap.tables):
        return False
    before = await raw.fetchval(_COUNT_INDEXES, swap.tables)
    # in one request, no statement waits for this process while the calls of others wait
    await raw.execute(";\n".join(swap.statements))
    past = [f"{table}_{PAST}" for table in swap.tables]
    if await raw.fetchval(_COUNT_INDEXES, past) != before:
        raise StoreError("the indexes of the partitions would differ: report this")
    return True
