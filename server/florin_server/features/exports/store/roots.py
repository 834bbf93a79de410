"""The interface of an export's sources in the store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from florin_server.db.engine.query import Operation
from florin_server.domain.exports.roots import ExportPage, ExportRoot

PageOperation: TypeAlias = Callable[[str, int, int], Operation[ExportPage]]
"""Return the roots after a key that were created after a time, in key order, up to a limit."""

RootsOperation: TypeAlias = Callable[[Collection[str]], Operation[list[ExportRoot]]]
"""Return the roots of some keys, if they exist."""


@dataclass(frozen=True, slots=True)
class ExportSource:
    """The source of some tables; a table can have several sources."""

    name: str
    tables: tuple[str, ...]
    read_page: PageOperation
    read_roots: RootsOperation


def index_by_key(roots: Iterable[ExportRoot]) -> dict[str, ExportRoot]:
    """Return roots by key."""
    return {root.key: root for root in roots}
