"""Indexes of existing tables, built before a migration while other processes write.

A transaction that builds an index keeps writers of its table waiting until its end: seconds for
each million rows, after which their calls fail.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import asyncpg

from florin_server.db.engine.postgres.schema_lock import acquire_schema_lock
from florin_server.db.engine.where import DatabaseConfig
from florin_server.db.migrations.changed_tables import find_new_tables

_log = logging.getLogger(__name__)

_NEW_COLUMN: Final = re.compile(r"ALTER TABLE (\w+) ADD COLUMN (?:IF NOT EXISTS )?(\w+)")
# unique ones stay in the migration: an older process could break them
_INDEX: Final = re.compile(r"CREATE INDEX (\w+) ON (\w+)(.*)", re.DOTALL)
# a build that was interrupted leaves an index that is not used
_INVALID: Final = """
SELECT count(*) FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE relname = $1 AND relkind = 'i' AND NOT indisvalid AND pg_table_is_visible(indrelid)
"""
_IS_PARTITIONED: Final = """
SELECT count(*) FROM pg_class
WHERE relname = $1 AND relkind = 'p' AND pg_table_is_visible(oid)
"""
# partitions whose index is not attached, with the number that distinguishes their indexes
_LACKING: Final = """
SELECT partition.oid::int8, partition.relname FROM pg_inherits AS partitions
JOIN pg_class AS parent ON parent.oid = partitions.inhparent
JOIN pg_class AS partition ON partition.oid = partitions.inhrelid
WHERE parent.relname = $1 AND pg_table_is_visible(parent.oid) AND NOT EXISTS (
    SELECT FROM pg_inherits AS indexes
    JOIN pg_class AS index ON index.oid = indexes.inhparent
    JOIN pg_index ON indexrelid = indexes.inhrelid
    WHERE index.relname = $2 AND indrelid = partition.oid
) ORDER BY partition.relname
"""
_PAUSE_S: Final = 1.0


class EarlyIndex(NamedTuple):
    """An index that can be built before the migration."""

    name: str
    table: str
    columns: str

    @property
    def statement(self) -> str:
        """Return the statement that builds it while others write."""
        return self.format_statement(self.name, self.table)

    def format_statement(self, name: str, table: str) -> str:
        """Return the statement that builds an index of this kind for any table."""
        return f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON {table}{self.columns}"


def split_indexes(statements: Sequence[str]) -> tuple[list[EarlyIndex], list[str]]:
    """Return the indexes of tables and columns that exist already, and the migration itself.

    The migration still has their statements, for what is missing then.
    """
    tables = find_new_tables(statements)
    columns = {match.groups() for text in statements if (match := _NEW_COLUMN.match(text))}
    early: list[EarlyIndex] = []
    remaining: list[str] = []
    for text in statements:
        match = _INDEX.fullmatch(text)
        if match is None:
            remaining.append(text)
            continue
        name, table, rest = match.groups()
        remaining.append(f"CREATE INDEX IF NOT EXISTS {name} ON {table}{rest}")
        words = {(table, word) for word in re.findall(r"\w+", rest)}
        if table not in tables and not words & columns:
            early.append(EarlyIndex(name, table, rest))
    return early, remaining


async def build_indexes(
    database: DatabaseConfig, version: str, indexes: Sequence[EarlyIndex], wait_ms: int
) -> None:
    """Build indexes of a database that has this schema version; one process at a time.

    Do nothing if another process has migrated it. Raise asyncpg.LockNotAvailableError if older
    transactions of other sessions last for longer than `wait_ms`.
    """
    if not indexes:
        return
    guard = await asyncpg.connect(database.dsn, timeout=10)
    builder = await asyncpg.connect(database.dsn, timeout=10)
    try:
        while not await acquire_schema_lock(guard):
            _log.info("another process builds indexes")
            await asyncio.sleep(_PAUSE_S)
        # the guard reads nothing: a build waits for all transactions that have a snapshot
        if await builder.fetchval("SELECT version_num FROM alembic_version") != version:
            return
        await builder.execute(f"SET lock_timeout = {wait_ms}")
        for index in indexes:
            _log.info("building the index %s; calls are served meanwhile", index.name)
            if await builder.fetchval(_IS_PARTITIONED, index.table):
                await _build_on_partitions(builder, index)
            else:
                await _build(builder, index.name, index.statement)
    finally:
        await builder.close()
        await guard.close()


async def _build_on_partitions(builder: asyncpg.Connection[Any], index: EarlyIndex) -> None:
    """Build an index on each partition, and attach them; the index is used once it has all."""
    await builder.execute(
        f"CREATE INDEX IF NOT EXISTS {index.name} ON ONLY {index.table}{index.columns}"
    )
    for number, partition in await builder.fetch(_LACKING, index.table, index.name):
        # the names of both together can be too long
        name = f"{index.name}_{number}"
        await _build(builder, name, index.format_statement(name, partition))
        await builder.execute(f"ALTER INDEX {index.name} ATTACH PARTITION {name}")


async def _build(builder: asyncpg.Connection[Any], name: str, statement: str) -> None:
    """Build an index of one table; replace one whose build was interrupted."""
    if await builder.fetchval(_INVALID, name):
        await builder.execute(f"DROP INDEX CONCURRENTLY {name}")
    await builder.execute(statement)
