"""What an export is made of: roots, page by page, from wherever they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from florin_server.domain.exports.columns import Row
from florin_server.domain.sealed import Seal
from florin_server.flows.capture.collected import opened
from florin_server.store.capture import collected_data
from florin_server.store.capture.collected_data import Collected
from florin_server.store.engine.reading import Reader
from florin_server.store.exports.roots import Page, Root, Source
from florin_server.store.exports.sources import SOURCES

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


class StoreFeed:
    """The roots of one source of the store, each page a snapshot."""

    whole = False

    def __init__(self, source: Source, store: Reader) -> None:
        self._source = source
        self._store = store

    @property
    def name(self) -> str:
        """The name of the source."""
        return self._source.name

    @property
    def tables(self) -> Sequence[str]:
        """The tables of the source."""
        return self._source.tables

    def pages(self, after: str, since_us: int) -> Page:
        """One page."""
        return self._store.read(self._source.pages(after, since_us, PAGE))

    def some(self, keys: Sequence[str]) -> list[Root]:
        """Roots by key."""
        return self._store.read(self._source.some(keys))


def of_store(
    store: Reader,
    origin_id: str,
    decimals: Callable[[str], int | None],
    seal: Seal,
    now_us: int,
) -> Origin:
    """Everything that a store holds; `seal` opens what buyers told."""
    feeds = [StoreFeed(source, store) for source in SOURCES]
    return Origin(origin_id, feeds, decimals, now_us, lambda: _buyer_data(store, seal))


def _buyer_data(store: Reader, seal: Seal) -> Iterator[Row]:
    last: Collected | None = None
    while found := store.read(collected_data.behind(last, PAGE)):
        for one in found:
            told = opened(seal, one)
            times = (one.created_at_us, one.kept_until_us)
            yield (one.payment_id, one.account, one.source, one.app, *times, one.proven, told)
        last = found[-1]
