"""The roots of an export: each is a row with everything that belongs to it.

A root is read in one snapshot: for example a payment with its events, options and confirm. It is
`closed` if the service never changes any of it again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from florin_server.domain.exports.columns import ExportRow


@dataclass(slots=True)
class ExportRoot:
    """A row and what belongs to it; `rows` are by table, in the order of its declared columns.

    `at_us` is the time that the service gave it when it was made, and never changes.
    """

    key: str
    at_us: int
    closed: bool
    rows: list[tuple[str, ExportRow]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ExportPage:
    """Some roots, and the key after which the next page begins; None at the end."""

    roots: list[ExportRoot]
    next_key: str | None
