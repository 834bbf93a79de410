"""The sources of an export, which return roots page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from florin_server.domain.exports.columns import ExportRow
from florin_server.domain.exports.roots import ExportPage, ExportRoot

# roots of one page, and so of one snapshot: some milliseconds
PAGE_SIZE = 500


class ExportFeed(Protocol):
    """Some tables, root by root.

    Roots are new if they were created after a time, unless the feed is read as a `is_complete`
    each time.
    """

    @property
    def name(self) -> str:
        """Return the name of the feed in a cursor."""

    @property
    def tables(self) -> Sequence[str]:
        """Return the tables that it fills."""

    @property
    def is_complete(self) -> bool:
        """Return True if only the reader can find out what is new."""

    def read_page(self, after_key: str, since_us: int) -> ExportPage:
        """Return the roots created after a time, after a key."""

    def read_roots(self, keys: Sequence[str]) -> list[ExportRoot]:
        """Return roots by key, as far as they exist."""


@dataclass(frozen=True, slots=True)
class ExportOrigin:
    """A source of exports. `id` identifies it, `now_us` is its time.

    `read_buyer_data` returns the rows of tables that each export writes completely, and
    `find_decimals` those of a unit or an asset, None if they are unknown.
    """

    id: str
    feeds: Sequence[ExportFeed]
    find_decimals: Callable[[str], int | None]
    now_us: int
    read_buyer_data: Callable[[], Iterator[ExportRow]] | None = None

    @property
    def tables(self) -> set[str]:
        """Return all tables that it has."""
        return {name for feed in self.feeds for name in feed.tables}
