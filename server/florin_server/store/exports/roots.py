"""What the sources of an export answer.

A root is a row with all that belongs to it, read in one snapshot: a payment with its events,
options and confirm, say. It is `closed` if the service does not change any of it any more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from florin_server.store.engine.query import Operation, Row


@dataclass(slots=True)
class Root:
    """A row and what belongs to it; `rows` are by table, in the order of its declared columns.

    `at_us` is the time that the service gave it when it was made, and never changes.
    """

    key: str
    at_us: int
    closed: bool
    rows: list[tuple[str, Row]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Page:
    """Some roots, and the key behind which the next page begins; None if there is none."""

    roots: list[Root]
    after: str | None


Pages: TypeAlias = Callable[[str, int, int], Operation[Page]]
"""The roots behind a key that were made after a time, of at most so many keys, in their order."""

Some: TypeAlias = Callable[[Collection[str]], Operation[list[Root]]]
"""The roots of some keys, as far as they are there."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where some tables come from; a table may come from several."""

    name: str
    tables: tuple[str, ...]
    pages: Pages
    some: Some


def by_key(roots: Iterable[Root]) -> dict[str, Root]:
    """Roots by key."""
    return {one.key: one for one in roots}
