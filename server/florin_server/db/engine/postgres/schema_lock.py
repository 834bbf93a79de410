"""The lock of a process that changes the schema while others use the store."""

from __future__ import annotations

from typing import Any

import asyncpg


async def acquire_schema_lock(guard: asyncpg.Connection[Any]) -> bool:
    """Return whether this process may change the schema until the connection is closed."""
    await guard.execute("BEGIN")
    try:
        # Processes of every release still read the table; a migration waits. A session that waits
        # for a lock has a snapshot.
        await guard.execute("LOCK TABLE alembic_version IN SHARE UPDATE EXCLUSIVE MODE NOWAIT")
    except asyncpg.LockNotAvailableError:
        await guard.execute("ROLLBACK")
        return False
    return True
