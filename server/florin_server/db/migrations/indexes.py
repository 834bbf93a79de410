"""Indexes of existing tables, built before a migration while other processes write.

A transaction that builds an index keeps writers of its table waiting until its end: seconds for
each million rows, after which their calls fail.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import asyncpg

from florin_server.db.engine.postgres.schema_lock import acquire_schema_lock
from florin_server.db.engine.where import DatabaseConfig

_log = logging.getLogger(__name__)

_NEW_TABLE: Final = re.compile(r"CREATE TABLE (\w+)")
_NEW_COLUMN: Final = re.compile(r"ALTER TABLE (\w+) ADD COLUMN (?:IF NOT EXISTS )?(\w+)")
# unique ones stay in the migration: an older process could break them
_INDEX: Final = re.compile(r"CREATE INDEX (\w+) ON (\w+)(.*)", re.DOTALL)
# a build that was interrupted leaves an index that is not used
_INVALID: Final = """
SELECT count(*) FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE relname = $1 AND NOT indisvalid AND pg_table_is_visible(indrelid)
"""
_PAUSE_S: Final = 1.0


class EarlyIndex(NamedTuple):
    """An index that can be built before the migration."""

    name: str
    statement: str


def split_indexes(statements: Sequence[str]) -> tuple[list[EarlyIndex], list[str]]:
    """Return the indexes of tables and columns that exist already, and the migration itself.

    The migration still has their statements, for what is missing then.
    """
    tables = {match[1] for text in statements if (match := _NEW_TABLE.match(text))}
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
            build = f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON {table}{rest}"
            early.append(EarlyIndex(name, build))
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
            if await builder.fetchval(_INVALID, index.name):
                await builder.execute(f"DROP INDEX CONCURRENTLY {index.name}")
            _log.info("building the index %s; calls are served meanwhile", index.name)
            await builder.execute(index.statement)
    finally:
        await builder.close()
        await guard.close()
