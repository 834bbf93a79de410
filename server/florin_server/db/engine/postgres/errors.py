"""PostgreSQL and connection errors, and what they mean for an operation."""

from __future__ import annotations

import asyncpg

from florin_server.db.engine.query import StoreError, StoreUnavailable

# every error of the driver, except our own mistakes in Python
DriverError = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    # the server sent an unexpected message: it ends the connection
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)

# a conflict with another transaction: serialization, deadlock, or a lock timeout
_CONFLICT_STATES = frozenset({"40001", "40P01", "55P03"})
# the server ended it: it stops, crashed, starts or is now a replica, or the statement or the open
# transaction took too long
_ENDED = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "25P04", "25006", "57014"})
# connections, resources, the machine under it
_PASSING_CLASSES = frozenset({"08", "53", "58"})


def is_conflict(error: BaseException) -> bool:
    """Return True if the transaction lost against another and can be retried."""
    return getattr(error, "sqlstate", None) in _CONFLICT_STATES


def is_lost(error: BaseException) -> bool:
    """Return True if the connection broke, the server ended it, or its statements are outdated."""
    if isinstance(error, asyncpg.PostgresError):
        return _is_transient(error)
    return isinstance(error, DriverError)


def to_store_error(error: Exception) -> Exception:
    """Return a driver error as a store error, and other errors unchanged."""
    if not isinstance(error, DriverError):
        return error
    passes = is_conflict(error) or is_lost(error)
    if isinstance(error, asyncpg.PostgresError):
        # the detail repeats whole rows, and errors are logged
        error.detail = None
    message = str(error) or type(error).__name__
    wrapped = (StoreUnavailable if passes else StoreError)(message)
    wrapped.__cause__ = error
    return wrapped


def _is_transient(error: asyncpg.PostgresError) -> bool:
    if isinstance(error, asyncpg.InvalidCachedStatementError):
        return True
    state = error.sqlstate or ""
    return state in _ENDED or state[:2] in _PASSING_CLASSES
