"""Migrates a database to the current schema; of several starting processes, one does it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from florin_server.db.engine import schema
from florin_server.db.engine.postgres.errors import DriverError, to_store_error
from florin_server.db.engine.postgres.session import open_session, require_sessions
from florin_server.db.engine.query import POSTGRESQL, StoreError
from florin_server.db.engine.where import DatabaseConfig

# another process created it at the same moment
_ALREADY_EXISTS = (
    asyncpg.UniqueViolationError,
    asyncpg.DuplicateTableError,
    asyncpg.DuplicateObjectError,
)
_TABLES = (
    "SELECT table_name FROM information_schema.tables "
    "WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'"
)
# ids and other texts compare as bytes, and letter case must work beyond ASCII
_COLLATION_CHECK = "SELECT 'Z' < 'a', lower('É') = 'é', current_setting('server_encoding') = 'UTF8'"
_MAJOR_MIN = 14
_CONNECT_S = 10.0
# also for a table that does not have this column yet
_COMPATIBLE_FROM = (
    "SELECT coalesce(to_jsonb(stamp) ->> 'compatible_from', '') FROM alembic_version AS stamp"
)


async def prepare(database: DatabaseConfig) -> str:
    """Create the tables of an empty database, or migrate them; return the server's version.

    Raise StoreError, without changes, for a database that is not Florin's, that a newer Florin made
    unusable, or that does not sort texts as bytes. Also raise it behind a pooler that shares
    connections.
    """
    try:
        await require_sessions(database)
        async with open_connection(database) as raw:
            server = f"PostgreSQL {raw.get_settings().server_version}"
            if await _is_usable(raw):
                return server
            await _require_supported(raw)
            if not await _is_florin_database(raw):
                raise StoreError(f"{database} has tables that are not Florin's")
            if await read_version(raw) is None:
                await _create_tables(raw)
            usable = await _is_usable(raw)
            if not usable:
                # Alembic loads slowly and is almost never needed
                from florin_server.db.migrations.postgres import upgrade  # noqa: PLC0415

                await upgrade(database)
    except DriverError as error:
        raise to_store_error(error) from error
    return server


async def require_current(database: DatabaseConfig) -> None:
    """Raise StoreError, with what to do, if a database must be created or migrated first."""
    try:
        async with open_connection(database) as raw:
            if not await _is_florin_database(raw):
                raise StoreError(f"{database} has tables that are not Florin's")
            version, usable = await read_version(raw), await _is_usable(raw)
    except DriverError as error:
        raise to_store_error(error) from error
    if not usable:
        raise schema.to_schema_error(str(database), version)


async def read_stamp(database: DatabaseConfig) -> tuple[str | None, bool]:
    """Return the version of a database's schema, and whether this Florin works on it.

    The version is None if it has no tables. Raise StoreError if it is not Florin's database.
    """
    try:
        async with open_connection(database) as raw:
            if not await _is_florin_database(raw):
                raise StoreError(f"{database} has tables that are not Florin's")
            return await read_version(raw), await _is_usable(raw)
    except DriverError as error:
        raise to_store_error(error) from error


@asynccontextmanager
async def open_connection(database: DatabaseConfig) -> AsyncIterator[Any]:
    """Open a connection for a one-time task."""
    raw = await open_session(database, "florin-schema", {}, timeout_s=_CONNECT_S)
    try:
        yield raw
    finally:
        await raw.close(timeout=5)


async def read_version(raw: Any) -> str | None:
    """Return the schema's version; None if it has none."""
    if await raw.fetchval("SELECT to_regclass('alembic_version')") is None:
        return None
    version: str | None = await raw.fetchval("SELECT version_num FROM alembic_version")
    return version


async def _is_usable(raw: Any) -> bool:
    version = await read_version(raw)
    if version is None:
        return False
    return schema.is_usable(version, await raw.fetchval(_COMPATIBLE_FROM))


async def _require_supported(raw: Any) -> None:
    if raw.get_server_version().major < _MAJOR_MIN:
        raise StoreError(f"PostgreSQL {raw.get_server_version().major} is too old: use 14 or newer")
    if not all(await raw.fetchrow(_COLLATION_CHECK)):
        raise StoreError(
            "the database does not compare texts as Florin needs: create it with CREATE DATABASE "
            "florin TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C.UTF-8'"
        )


async def _is_florin_database(raw: Any) -> bool:
    tables = {name for (name,) in await raw.fetch(_TABLES)}
    return not tables or "alembic_version" in tables


async def _create_tables(raw: Any) -> None:
    """Create all tables, unless another process does so at the same moment."""
    try:
        async with raw.transaction():
            # the second process waits here until the first commits: not every engine locks tables
            await raw.execute(schema.VERSION_TABLE)
            for statement in schema.list_definitions(POSTGRESQL):
                await raw.execute(statement)
            await raw.execute(schema.stamped())
    except _ALREADY_EXISTS:
        return
