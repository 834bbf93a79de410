"""What an export is made of: roots, each a row with all that belongs to it.

A root is read in one snapshot: a payment with its events, options and confirm, say. It is `closed`
if the service does not change any of it any more.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from florin_server.domain.exports.columns import Row


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
