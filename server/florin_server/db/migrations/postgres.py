"""The schema changes on PostgreSQL, through the service's driver."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import asyncpg
from alembic import command
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from florin_server.db.engine.postgres.schema_lock import LOCK_MS, format_table_locks
from florin_server.db.engine.query import StoreError
from florin_server.db.engine.where import DatabaseConfig
from florin_server.db.migrations import (
    OFFLINE_FROM,
    config,
    list_offline_statements,
    list_revisions,
    listen,
)
from florin_server.db.migrations.changed_tables import list_changed_tables
from florin_server.db.migrations.indexes import EarlyIndex, build_indexes, split_indexes

_log = logging.getLogger(__name__)

# A session that waits for an exclusive lock blocks all others behind it. While a long read has the
# table, the migration therefore steps back, so that other processes are served in between.
_PAUSE_S: Final = 1.0
# builds of indexes block no one while they wait for older transactions
_BUILD_MS: Final = 60_000
_TRIES: Final = 200
# lock_not_available, deadlock_detected, query_canceled
_BUSY: Final = {"55P03", "40P01", "57014"}
_VERSION: Final = text("SELECT version_num FROM alembic_version")


async def upgrade(database: DatabaseConfig, to: str = "head") -> None:
    """Migrate a database to a version, all or nothing; one process at a time.

    Other processes can use it meanwhile: their calls wait for up to `LOCK_MS`, then for the
    migration itself. Indexes of existing tables are built before, without such a wait. Raise
    StoreError if the database's version does not exist here (a newer Florin wrote it), or if other
    sessions keep tables locked for minutes.
    """
    async with _opened(database) as engine:
        for _ in range(_TRIES):
            script = await _prepare_script(engine, to)
            try:
                if script is not None:
                    await build_indexes(database, script.version, script.indexes, _BUILD_MS)
                async with engine.begin() as connection:
                    await _migrate(connection, to, script)
            except (DBAPIError, asyncpg.PostgresError) as error:
                if not _is_busy(error):
                    raise
                _log.info("the migration waits for other sessions that have locked tables")
                await asyncio.sleep(_PAUSE_S)
            else:
                return
    raise _locked()


async def preview(database: DatabaseConfig) -> list[str]:
    """Return the statements of the migration; those of old schemas run, and are rolled back."""
    statements: list[str] = []
    async with _opened(database) as engine:
        if (script := await _prepare_script(engine, "head")) is not None:
            return [*(index.statement for index in script.indexes), *script.statements]
        listen(engine.sync_engine, statements.append)
        async with engine.connect() as connection:
            try:
                await _migrate(connection, "head", None)
            except DBAPIError as error:
                raise (_locked() if _is_busy(error) else error) from error
            await connection.rollback()
    return statements


def _is_busy(error: DBAPIError | asyncpg.PostgresError) -> bool:
    raw = error.orig if isinstance(error, DBAPIError) else error
    return getattr(raw, "sqlstate", None) in _BUSY


def _locked() -> StoreError:
    return StoreError(
        "other sessions keep tables of the store locked: end them, then start Florin again "
        "(pg_stat_activity lists them)"
    )


@asynccontextmanager
async def _opened(database: DatabaseConfig) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=lambda: asyncpg.connect(database.dsn, timeout=10),
        poolclass=NullPool,
    )
    try:
        yield engine
    finally:
        await engine.dispose()


class _Script(NamedTuple):
    """The statements that migrate a database of a version, and the indexes to build before."""

    version: str
    indexes: list[EarlyIndex]
    statements: list[str]


async def _prepare_script(engine: AsyncEngine, to: str) -> _Script | None:
    """Return the statements, or None if they depend on the rows of the database."""
    async with engine.connect() as connection:
        version = await connection.scalar(_VERSION)
    statements = _list_statements(version, to)
    return None if statements is None else _Script(version, *split_indexes(statements))


def _list_statements(version: str, to: str) -> list[str] | None:
    if not version or version < OFFLINE_FROM or version not in list_revisions():
        return None
    return list_offline_statements("postgresql", version, to)


async def _migrate(connection: AsyncConnection, to: str, script: _Script | None) -> None:
    await connection.execute(text("LOCK TABLE alembic_version IN ACCESS EXCLUSIVE MODE"))
    await connection.execute(text(f"SET LOCAL lock_timeout = {LOCK_MS}"))
    version = await connection.scalar(_VERSION)
    # another process may have migrated it meanwhile
    if script is not None and script.version == version:
        statements: list[str] | None = script.statements
    else:
        statements = _list_statements(version, to)
    if statements is None:
        await connection.run_sync(_upgrade, to)
        return
    if not statements:
        return
    # Locks are held until the end. In one request, no statement waits for this process, whose
    # processor may be busy, while the calls of others wait for the locks.
    driver_connection: Any = (await connection.get_raw_connection()).driver_connection
    locks = format_table_locks(list_changed_tables(statements), "ACCESS EXCLUSIVE", LOCK_MS)
    await driver_connection.execute(";\n".join([locks, *statements]))


def _upgrade(connection: Connection, to: str) -> None:
    version = connection.scalar(_VERSION)
    if version and version not in list_revisions():
        raise StoreError(f"the store has schema {version}, which a newer Florin made")
    command.upgrade(config(connection), to)
