"""The locks of a process that changes the schema while others use the store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import asyncpg

# Less than PostgreSQL's deadlock_timeout: where a change and a call wait for each other, the change
# gives up first. Calls wait no longer than this for a change that waits, which is less than the
# lock_timeout of each release.
LOCK_MS: Final = 500


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


def format_table_locks(
    tables: Iterable[str], mode: str, wait_ms: int, statement_timeout: str = "0"
) -> str:
    """Return the statements that lock tables in a transaction within `wait_ms` altogether.

    Otherwise they fail with QueryCanceledError or LockNotAvailableError. `lock_timeout` alone
    begins anew with each table, while calls wait for those that are locked already. Statements
    after them have `statement_timeout`.
    """
    return (
        f"SET LOCAL statement_timeout = {wait_ms};\n"
        f"LOCK TABLE {', '.join(tables)} IN {mode} MODE;\n"
        f"SET LOCAL statement_timeout = '{statement_timeout}'"
    )
