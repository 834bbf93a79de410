"""Sessions that change partitions: locks are given up quickly, and the change is tried again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import asyncpg

from florin_server.db.engine.postgres.schema_lock import (
    LOCK_MS,
    acquire_schema_lock,
    format_table_locks,
)
from florin_server.db.engine.postgres.session import open_session
from florin_server.db.engine.query import StoreUnavailable, T
from florin_server.db.engine.where import DatabaseConfig

_PAUSE_S, _PAUSE_MAX_S = 0.1, 2.0
_IDLE_MS: Final = 60_000
_BUSY: Final = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)


class PartitionBusy(Exception):  # noqa: N818  (a state of the world, not a mistake)
    """Other transactions still need the rows as they are."""


@asynccontextmanager
async def open_partition_session(
    database: DatabaseConfig, statement_ms: int = 0
) -> AsyncIterator[Any]:
    """Open a session whose statements take at most so long, or as long as they need."""
    raw = await open_session(
        database,
        "florin-partitions",
        {
            "default_transaction_isolation": "read committed",
            "default_transaction_read_only": "off",
            "lock_timeout": str(LOCK_MS),
            "statement_timeout": str(statement_ms),
            "idle_in_transaction_session_timeout": str(_IDLE_MS),
        },
    )
    try:
        yield raw
    finally:
        await raw.close(timeout=5)


@asynccontextmanager
async def hold_schema(database: DatabaseConfig, tries: int) -> AsyncIterator[None]:
    """Keep other processes from changing the schema; StoreUnavailable if one of them does."""
    guard = await open_session(database, "florin-schema", {})
    try:
        for _ in range(tries):
            if await acquire_schema_lock(guard):
                break
            await asyncio.sleep(_PAUSE_MAX_S)
        else:
            raise StoreUnavailable("another process changes the schema of the store: try later")
        yield
    finally:
        await guard.close(timeout=5)


async def lock_tables(raw: Any, tables: Sequence[str], mode: str, wait_ms: int = LOCK_MS) -> None:
    """Lock tables in the current transaction; PartitionBusy after `wait_ms` altogether."""
    timeout = await raw.fetchval("SELECT current_setting('statement_timeout')")
    try:
        await raw.execute(format_table_locks(tables, mode, wait_ms, timeout))
    except asyncpg.QueryCanceledError as error:
        raise PartitionBusy from error


async def change_tables(raw: Any, change: Callable[[], Awaitable[T]], tries: int) -> T:
    """Run a change in one transaction, again after a pause while other sessions hold locks.

    StoreUnavailable after the last try.
    """
    for attempt in range(tries):
        if attempt:
            longest = min(_PAUSE_MAX_S, _PAUSE_S * 2.0**attempt)
            # only so that the same sessions do not meet again
            await asyncio.sleep(random.uniform(_PAUSE_S, longest))  # noqa: S311
        try:
            async with raw.transaction():
                return await change()
        except (*_BUSY, PartitionBusy):
            continue
    raise StoreUnavailable(
        "other sessions keep tables of the store locked: end them, then try again "
        "(pg_stat_activity lists them)"
    )
