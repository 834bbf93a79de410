"""What the sources of an export in the store are asked, and answer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from florin_server.domain.exports.roots import Page, Root
from florin_server.store.engine.query import Operation

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
