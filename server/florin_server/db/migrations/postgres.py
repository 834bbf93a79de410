"""The schema changes on PostgreSQL, through the service's driver."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from alembic import command
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from florin_server.db.engine.query import StoreError
from florin_server.db.engine.where import DatabaseConfig
from florin_server.db.migrations import config, list_revisions, listen

_log = logging.getLogger(__name__)

# A session that waits for an exclusive lock blocks all others behind it. While a long read has the
# table, the migration therefore steps back, so that other processes are served in between.
LOCK_MS: Final = 2_000
_PAUSE_S: Final = 1.0
_TRIES: Final = 100
# lock_not_available, deadlock_detected
_BUSY: Final = {"55P03", "40P01"}


async def upgrade(database: DatabaseConfig, to: str = "head") -> None:
    """Migrate a database to a version, all or nothing; one process at a time.

    Other processes can use it meanwhile: their calls wait for up to `LOCK_MS` and for the migration
    itself. Raise StoreError if the database's version does not exist here (a newer Florin wrote
    it), or if other sessions keep tables locked for minutes.
    """
    async with _opened(database) as engine:
        for _ in range(_TRIES):
            try:
                async with engine.begin() as connection:
                    await _migrate(connection, to)
            except DBAPIError as error:
                if not _is_busy(error):
                    raise
                _log.info("the migration waits for other sessions that have locked tables")
                await asyncio.sleep(_PAUSE_S)
            else:
                return
    raise _locked()


async def preview(database: DatabaseConfig) -> list[str]:
    """Return the statements of the migration, which are rolled back."""
    statements: list[str] = []
    async with _opened(database) as engine, engine.connect() as connection:
        listen(engine.sync_engine, statements.append)
        try:
            await _migrate(connection, "head")
        except DBAPIError as error:
            raise (_locked() if _is_busy(error) else error) from error
        await connection.rollback()
    return statements


def _is_busy(error: DBAPIError) -> bool:
    return getattr(error.orig, "sqlstate", None) in _BUSY


def _locked() -> StoreError:
    return StoreError(
        "other sessions keep tables of the store locked: end them, then start Florin again "
        "(pg_stat_activity lists them)"
    )


@asynccontextmanager
async def _opened(database: DatabaseConfig) -> AsyncIterator[AsyncEngine]:
    import asyncpg  # noqa: PLC0415  (only PostgreSQL users need it)

    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=lambda: asyncpg.connect(database.dsn, timeout=10),
        poolclass=NullPool,
    )
    try:
        yield engine
    finally:
        await engine.dispose()


async def _migrate(connection: AsyncConnection, to: str) -> None:
    await connection.execute(text("LOCK TABLE alembic_version IN ACCESS EXCLUSIVE MODE"))
    await connection.execute(text(f"SET LOCAL lock_timeout = {LOCK_MS}"))
    await connection.run_sync(_upgrade, to)


def _upgrade(connection: Connection, to: str) -> None:
    settings = config(connection)
    version = connection.scalar(text("SELECT version_num FROM alembic_version"))
    if version and version not in list_revisions(settings):
        raise StoreError(f"the store has schema {version}, which a newer Florin made")
    command.upgrade(settings, to)
