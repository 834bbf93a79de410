"""Stores of other schemas, and the work that an upgrade leaves."""

from __future__ import annotations

import asyncpg
from alembic import command
from florin_server.db.engine.store import Store
from florin_server.db.migrations import config, listen
from florin_server.money.outbox.store import older_releases
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool, StaticPool


def migrate_file(path, revision: str, *, down: bool = False) -> None:
    """Migrate a file to a revision."""
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        (command.downgrade if down else command.upgrade)(config(connection), revision)
    engine.dispose()


async def upgrade_finished(store: Store) -> None:
    """Fill in what processes of older releases omitted; none of them is alive."""
    assert await store.write(older_releases.release(alone=store.is_exclusive))
    while await store.write(older_releases.fill_page()):
        pass
    assert not await store.read(older_releases.is_pending())


async def move_database(dsn: str, revision: str, *, down: bool = False) -> list[str]:
    """Migrate a database that no process uses to a revision; return the statements."""
    statements: list[str] = []
    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=lambda: asyncpg.connect(dsn), poolclass=NullPool
    )
    listen(engine.sync_engine, statements.append)
    migrate = command.downgrade if down else command.upgrade
    async with engine.begin() as connection:
        await connection.run_sync(lambda raw: migrate(config(raw), revision))
    await engine.dispose()
    return statements


def statements_between(first: str, last: str) -> list[str]:
    """Return the statements that migrate an empty file between two revisions, a line each."""
    statements: list[str] = []
    engine = create_engine("sqlite://", poolclass=StaticPool)
    with engine.begin() as connection:
        command.upgrade(config(connection), first)
        listen(engine, statements.append)
        command.upgrade(config(connection), last)
    engine.dispose()
    return [" ".join(statement.split()) for statement in statements]
