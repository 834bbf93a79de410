"""Brings a database to the present schema; of several processes that begin at once, one does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from florin_server.store.engine import schema
from florin_server.store.engine.postgres.errors import DriverError, to_store_error
from florin_server.store.engine.postgres.session import open_session, require_sessions
from florin_server.store.engine.query import POSTGRESQL, StoreError
from florin_server.store.engine.where import Database

# made by another process in the same moment
_THERE = (
    asyncpg.UniqueViolationError,
    asyncpg.DuplicateTableError,
    asyncpg.DuplicateObjectError,
)
_TABLES = (
    "SELECT table_name FROM information_schema.tables "
    "WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'"
)
# ids and other texts are compared as bytes, and letters have to have a case
_FIT = "SELECT 'Z' < 'a', lower('É') = 'é', current_setting('server_encoding') = 'UTF8'"
_MAJOR_MIN = 14
_CONNECT_S = 10.0
# also of a table that has no such column yet
_COMPATIBLE_FROM = (
    "SELECT coalesce(to_jsonb(stamp) ->> 'compatible_from', '') FROM alembic_version AS stamp"
)


async def prepare(database: Database) -> str:
    """Makes the tables of an empty database, or migrates them; tells the server's version.

    StoreError for one that is not ours, that a newer Florin wrote and this one cannot use, or that
    sorts texts in another order than bytes; it stays as it is. The same behind a pooler that shares
    connections.
    """
    try:
        await require_sessions(database)
        async with connected(database) as raw:
            server = f"PostgreSQL {raw.get_settings().server_version}"
            if await _is_usable(raw):
                return server
            await _check(raw)
            if not await _is_ours(raw):
                raise StoreError(f"{database} has tables, and they are not Florin's")
            await _begin(raw)
            async with raw.transaction():
                # whoever comes second waits here, and finds that it is done
                await raw.execute("LOCK TABLE alembic_version IN ACCESS EXCLUSIVE MODE")
                found = await version(raw)
                if found is None:
                    await _create(raw)
                usable = found is None or await _is_usable(raw)
            if not usable:
                # Alembic is slow to load and almost never needed
                from florin_server.store.migrations.postgres import upgrade  # noqa: PLC0415

                await upgrade(database)
    except DriverError as error:
        raise to_store_error(error) from error
    return server


async def require(database: Database) -> None:
    """StoreError, with what to do, for a database that would have to be made or migrated first."""
    try:
        async with connected(database) as raw:
            if not await _is_ours(raw):
                raise StoreError(f"{database} has tables, and they are not Florin's")
            found, usable = await version(raw), await _is_usable(raw)
    except DriverError as error:
        raise to_store_error(error) from error
    if not usable:
        raise schema.not_present(str(database), found)


async def read_stamp(database: Database) -> tuple[str | None, bool]:
    """Return the version of a database's schema, and whether this Florin works on it.

    The version is None if there are no tables. StoreError for a database that is not ours.
    """
    try:
        async with connected(database) as raw:
            if not await _is_ours(raw):
                raise StoreError(f"{database} has tables, and they are not Florin's")
            return await version(raw), await _is_usable(raw)
    except DriverError as error:
        raise to_store_error(error) from error


@asynccontextmanager
async def connected(database: Database) -> AsyncIterator[Any]:
    """A connection for what is done once."""
    raw = await open_session(database, "florin-schema", {}, timeout_s=_CONNECT_S)
    try:
        yield raw
    finally:
        await raw.close(timeout=5)


async def version(raw: Any) -> str | None:
    """The schema's version; None if there is none."""
    if await raw.fetchval("SELECT to_regclass('alembic_version')") is None:
        return None
    found: str | None = await raw.fetchval("SELECT version_num FROM alembic_version")
    return found


async def _is_usable(raw: Any) -> bool:
    found = await version(raw)
    if found is None:
        return False
    return schema.is_usable(found, await raw.fetchval(_COMPATIBLE_FROM))


async def _check(raw: Any) -> None:
    if raw.get_server_version().major < _MAJOR_MIN:
        raise StoreError(f"PostgreSQL {raw.get_server_version().major} is too old: 14 or newer")
    if not all(await raw.fetchrow(_FIT)):
        raise StoreError(
            "the database does not compare texts as Florin needs it: make one by CREATE DATABASE "
            "florin TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C.UTF-8'"
        )


async def _is_ours(raw: Any) -> bool:
    tables = {name for (name,) in await raw.fetch(_TABLES)}
    return not tables or "alembic_version" in tables


async def _begin(raw: Any) -> None:
    """The table that tells the version, which is locked while anything is made or migrated."""
    try:
        await raw.execute(schema.STAMP.replace("TABLE", "TABLE IF NOT EXISTS", 1))
    except _THERE:
        return


async def _create(raw: Any) -> None:
    for statement in schema.definitions(POSTGRESQL):
        await raw.execute(statement)
    await raw.execute(schema.stamped())
