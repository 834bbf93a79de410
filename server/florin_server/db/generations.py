"""Version counters of cached data, so that every process notices a change.

Each change of such data increments its counter in the same transaction. A process that sees another
number reads the data again; with an equal number its cache is valid.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from sqlalchemy import select

from florin_server.db.engine.query import Command, Op, Statement, insert, operation
from florin_server.db.tables.tables import generation_table


class CacheKind(StrEnum):
    """The kinds of data that processes cache."""

    # keys, partners, merchants, wallet apps, and their version pins
    ACCOUNTS = "accounts"
    SCREENING = "screening"
    # which chains' executors are paused
    EXECUTORS = "executors"
    # which items are quarantined
    QUARANTINE = "quarantine"


class _Version(NamedTuple):
    kind: str
    n: int


_BUMP = Command(
    insert(generation_table).on_conflict_do_update(
        index_elements=["kind"], set_={"n": generation_table.c.n + 1}
    )
)
_ALL = Statement(select(generation_table.c.kind, generation_table.c.n), _Version)


@operation
def bump(kind: CacheKind) -> Op[None]:
    """Increment a version; part of an operation that changes cached data.

    Other operations that change data of the kind wait until it ends.
    """
    yield _BUMP(kind=kind.value, n=1)


@operation
def get_versions() -> Op[dict[str, int]]:
    """Return the version of each kind that was ever changed."""
    return dict((yield from _ALL.all()))
