"""Where an export reads roots, page by page, whatever answers it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from florin_server.domain.exports.columns import Row
from florin_server.domain.exports.roots import Page, Root

# roots of one page, and so of one snapshot: some milliseconds
PAGE = 500


class Feed(Protocol):
    """Some tables, root by root.

    Roots are new if they were made after a time, unless the feed is told `whole` each time.
    """

    @property
    def name(self) -> str:
        """The name of the feed in a cursor."""

    @property
    def tables(self) -> Sequence[str]:
        """The tables that it fills."""

    @property
    def whole(self) -> bool:
        """True if nobody but the reader can tell what is new."""

    def pages(self, after: str, since_us: int) -> Page:
        """Roots made after a time, behind a key."""

    def some(self, keys: Sequence[str]) -> list[Root]:
        """Roots by key, as far as they are there."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an export reads. `id` tells one origin from all others, `now_us` the time there.

    `kept` tells the rows of tables that are written anew by each export, and `decimals` those of a
    unit or an asset, None if they are not known.
    """

    id: str
    feeds: Sequence[Feed]
    decimals: Callable[[str], int | None]
    now_us: int
    kept: Callable[[], Iterator[Row]] | None = None

    @property
    def tables(self) -> set[str]:
        """All tables that it has."""
        return {name for feed in self.feeds for name in feed.tables}
