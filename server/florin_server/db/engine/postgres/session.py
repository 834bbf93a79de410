"""Sessions: settings are made after connecting, verified, and guarded behind a pooler.

Poolers refuse or drop settings in the startup packet, so only the name is sent there. A pooler that
lends a server connection per transaction mixes the callers' prepared statements and settings: such
a pooler is refused.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import asyncpg

from florin_server.db.engine.postgres.errors import DriverError
from florin_server.db.engine.where import DatabaseConfig

# session settings that an engine may lack; without them it is only slower
_OPTIONAL = {"jit": "off"}
_SETTINGS = "SELECT name, setting FROM pg_settings WHERE name = ANY($1)"
_BACKEND = "SELECT pg_backend_pid()"
# rounds of the search for a pooler that shares connections: others may use it meanwhile
_ROUNDS = 5
_CONNECT_S, _ANSWER_S = 5.0, 5.0
# a statement of another session has this name, or the statement is missing
_FOREIGN_STATEMENT = frozenset({"26000", "42P05"})
_ADVICE = (
    "the pooler in front of the database does not keep sessions separate ({}): set pool_mode = "
    "session"
    " in pgbouncer.ini, or name PostgreSQL itself in FLORIN_STORE"
)


class SessionError(asyncpg.InterfaceError):  # type: ignore[misc]  # the driver has no types
    """The session does not keep its settings, or shares its server connection with others."""

    def __init__(self, reason: str) -> None:
        super().__init__(_ADVICE.format(reason))


async def open_session(
    database: DatabaseConfig,
    name: str,
    settings: Mapping[str, str],
    *,
    timeout_s: float = _CONNECT_S,
    command_timeout_s: float | None = None,
) -> asyncpg.Connection[Any]:
    """Connect and apply a session's settings; values have the form of `pg_settings`.

    Raise SessionError if the server does not keep them.
    """
    raw = await asyncpg.connect(
        database.dsn,
        timeout=timeout_s,
        command_timeout=command_timeout_s,
        # `PostgresConnection` keeps each prepared statement once
        statement_cache_size=0,
        server_settings={"application_name": name},
    )
    try:
        await _configure(raw, settings)
    except BaseException:
        raw.terminate()
        raise
    return raw


def make_statement_prefix() -> str:
    """Return the start of the names of a session's statements.

    Without its own cache the driver names none, and the server then plans each run. The start is
    random, because a pooler may keep the statements of a session before.
    """
    return f"florin_{os.urandom(8).hex()}"


async def find_backend(raw: asyncpg.Connection[Any]) -> int | None:
    """Return the server process behind a pooler; None for a connection to the server itself."""
    try:
        pid: int = await raw.fetchval(_BACKEND)
    except asyncpg.PostgresError as error:
        raise _to_session_error(error) from error
    # a pooler answers the handshake with its own number
    return None if pid == raw.get_server_pid() else pid


async def require_sessions(database: DatabaseConfig) -> bool:
    """Return whether a pooler is in front; raise SessionError if it shares connections.

    One session must not run on another session's connection.
    """
    first = await open_session(database, "florin-check", {}, command_timeout_s=_ANSWER_S)
    try:
        if await find_backend(first) is None:
            return False
        second = await _open_second(database)
        try:
            for _ in range(_ROUNDS):
                await _require_separate(first, second)
        finally:
            await _close(second)
    except asyncpg.PostgresError as error:
        raise _to_session_error(error) from error
    finally:
        await _close(first)
    return True


async def _open_second(database: DatabaseConfig) -> asyncpg.Connection[Any]:
    try:
        return await open_session(database, "florin-check", {}, command_timeout_s=_ANSWER_S)
    except TimeoutError as error:
        raise asyncpg.InterfaceError(
            "the pooler in front of the database allows no second connection: raise"
            " default_pool_size in pgbouncer.ini"
        ) from error


async def _require_separate(
    first: asyncpg.Connection[Any], second: asyncpg.Connection[Any]
) -> None:
    before = await first.fetchval(_BACKEND)
    try:
        await second.execute("BEGIN")
    except asyncpg.PostgresConnectionError as error:
        raise SessionError(f"it ended a connection at BEGIN: {error}") from error
    try:
        # with a pooler of one connection the first session would wait for the second
        if await second.fetchval(_BACKEND) == before:
            raise SessionError("two sessions share a server connection")
        if await first.fetchval(_BACKEND) != before:
            raise SessionError("a session changes its server connection")
    finally:
        await second.execute("ROLLBACK")


async def _configure(raw: asyncpg.Connection[Any], settings: Mapping[str, str]) -> None:
    names = [*settings, *_OPTIONAL]
    try:
        available = dict(await raw.fetch(_SETTINGS, names))
        optional = {name: value for name, value in _OPTIONAL.items() if name in available}
        expected = {**settings, **optional}
        # one message; all values are constants of this package
        await raw.execute("; ".join(f"SET {name} = '{value}'" for name, value in expected.items()))
        actual = dict(await raw.fetch(_SETTINGS, names))
    except asyncpg.PostgresError as error:
        raise _to_session_error(error) from error
    for name, value in expected.items():
        if actual.get(name) != value:
            raise SessionError(f"{name} is {actual.get(name)!r}, but was set to {value!r}")


def _to_session_error(error: asyncpg.PostgresError) -> Exception:
    """Return SessionError for another session's prepared statement, else the error unchanged."""
    return SessionError(str(error)) if error.sqlstate in _FOREIGN_STATEMENT else error


async def _close(raw: asyncpg.Connection[Any]) -> None:
    with suppress(*DriverError):
        await raw.close(timeout=_ANSWER_S)
