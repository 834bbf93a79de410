"""What errors of PostgreSQL and of connections to it mean for an operation."""

from __future__ import annotations

import asyncpg

from florin_server.store.engine.query import StoreError, StoreUnavailable

# whatever the driver raises, beside mistakes of ours in Python
DriverError = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    # the server said something that nobody had asked for: that it ends the connection
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)

# it met another one: serialization, deadlock, a lock that was not given in time
_MET = frozenset({"40001", "40P01", "55P03"})
# the server ended what ran: it stops, crashed, starts, is another's replica now, or the statement
# or the open transaction took too long
_ENDED = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "25P04", "25006", "57014"})
# connections, resources, the machine under it
_PASSING_CLASSES = frozenset({"08", "53", "58"})


def met_another(error: BaseException) -> bool:
    """True if the transaction was given up for another one, and can be begun anew."""
    return getattr(error, "sqlstate", None) in _MET


def is_lost(error: BaseException) -> bool:
    """True if the connection broke, or the server ended it."""
    if isinstance(error, asyncpg.PostgresError):
        return _passes(error)
    return isinstance(error, DriverError)


def to_store_error(error: Exception) -> Exception:
    """The driver's errors as the store's, others as they are."""
    if not isinstance(error, DriverError):
        return error
    passes = met_another(error) or is_lost(error)
    if isinstance(error, asyncpg.PostgresError):
        # the detail repeats whole rows, and errors are logged
        error.detail = None
    told = str(error) or type(error).__name__
    wrapped = (StoreUnavailable if passes else StoreError)(told)
    wrapped.__cause__ = error
    return wrapped


def _passes(error: asyncpg.PostgresError) -> bool:
    state = error.sqlstate or ""
    return state in _ENDED or state[:2] in _PASSING_CLASSES
