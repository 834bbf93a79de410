"""What an export reads from the store of an installation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from florin_server.domain.exports.columns import Row
from florin_server.domain.exports.roots import Page, Root
from florin_server.domain.sealed import Seal
from florin_server.flows.capture.collected import opened
from florin_server.flows.exports.feeds import PAGE, Origin
from florin_server.store.capture import collected_data
from florin_server.store.capture.collected_data import Collected
from florin_server.store.engine.reading import Reader
from florin_server.store.exports.roots import Source
from florin_server.store.exports.sources import SOURCES


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
