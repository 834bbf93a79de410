"""The same schema changes on PostgreSQL, through the driver that the service uses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from alembic import command
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from florin_server.store.engine.query import StoreError
from florin_server.store.engine.where import Database
from florin_server.store.migrations import config, known, listen


async def upgrade(database: Database, to: str = "head") -> None:
    """Brings a database to a version, all or nothing; one process at a time.

    StoreError if there is no such version here, which means that a newer Florin wrote it.
    """
    async with _opened(database) as engine, engine.begin() as connection:
        await _migrate(connection, to)


async def preview(database: Database) -> list[str]:
    """The statements of that, which are rolled back."""
    said: list[str] = []
    async with _opened(database) as engine, engine.connect() as connection:
        listen(engine.sync_engine, said.append)
        await _migrate(connection, "head")
        await connection.rollback()
    return said


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
    await connection.run_sync(_upgrade, to)


def _upgrade(connection: Connection, to: str) -> None:
    settings = config(connection)
    version = connection.scalar(text("SELECT version_num FROM alembic_version"))
    if version and version not in known(settings):
        raise StoreError(f"the store has schema {version}, which a newer Florin made")
    command.upgrade(settings, to)
