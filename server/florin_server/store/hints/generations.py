"""How often things were changed that processes remember, so that each of them learns of it.

Whatever changes such a thing counts it in the same transaction: a process that finds another number
than it knew has to read the things again, and one that finds the same need not.
"""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import select

from florin_server.store.engine.query import Op, Statement, insert, operation
from florin_server.store.tables.tables import generation


class Kind(StrEnum):
    """What processes remember."""

    # keys, partners, merchants, wallet apps, and the pins of all of them
    ACCOUNTS = "accounts"
    SCREENING = "screening"
    # which of them are paused
    EXECUTORS = "executors"
    # which items are set aside
    QUARANTINE = "quarantine"


_BUMP = Statement(
    insert(generation).on_conflict_do_update(
        index_elements=["kind"], set_={"n": generation.c.n + 1}
    )
)
_ALL = Statement(select(generation.c.kind, generation.c.n))


@operation
def bump(kind: Kind) -> Op[None]:
    """Part of an operation that changes what is remembered.

    Whoever else changes something of the kind waits until it ends.
    """
    yield _BUMP(kind=kind.value, n=1)


@operation
def current() -> Op[dict[str, int]]:
    """The number of each kind that was ever changed."""
    return dict([row[:2] for row in (yield _ALL())])
