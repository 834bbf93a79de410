"""The same schema changes on PostgreSQL, through the driver that the service uses."""

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

from florin_server.store.engine.query import StoreError
from florin_server.store.engine.where import Database
from florin_server.store.migrations import config, known, listen

_log = logging.getLogger(__name__)

# Whoever wants a table for itself has all others wait behind it. While a long read keeps the table,
# it steps back, so that other processes are served in between.
LOCK_MS: Final = 2_000
_PAUSE_S: Final = 1.0
_TRIES: Final = 100
# lock_not_available, deadlock_detected
_BUSY: Final = {"55P03", "40P01"}


async def upgrade(database: Database, to: str = "head") -> None:
    """Brings a database to a version, all or nothing; one process at a time.

    Others may work on it meanwhile: calls wait for up to `LOCK_MS` and for the migration itself.
    StoreError if there is no such version here, which means that a newer Florin wrote it, and if
    other sessions keep tables locked for minutes.
    """
    async with _opened(database) as engine:
        for _ in range(_TRIES):
            try:
                async with engine.begin() as connection:
                    await _migrate(connection, to)
            except DBAPIError as error:
                if not _is_busy(error):
                    raise
                _log.info("the migration waits for other sessions, which have tables locked")
                await asyncio.sleep(_PAUSE_S)
            else:
                return
    raise _locked()


async def preview(database: Database) -> list[str]:
    """The statements of that, which are rolled back."""
    said: list[str] = []
    async with _opened(database) as engine, engine.connect() as connection:
        listen(engine.sync_engine, said.append)
        try:
            await _migrate(connection, "head")
        except DBAPIError as error:
            raise (_locked() if _is_busy(error) else error) from error
        await connection.rollback()
    return said


def _is_busy(error: DBAPIError) -> bool:
    return getattr(error.orig, "sqlstate", None) in _BUSY


def _locked() -> StoreError:
    return StoreError(
        "other sessions keep tables of the store locked: end them, and start Florin again "
        "(pg_stat_activity lists them)"
    )


@asynccontextmanager
async def _opened(database: Database) -> AsyncIterator[AsyncEngine]:
    import asyncpg  # noqa: PLC0415  (only whoever has PostgreSQL needs it)

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
    if version and version not in known(settings):
        raise StoreError(f"the store has schema {version}, which a newer Florin made")
    command.upgrade(settings, to)
