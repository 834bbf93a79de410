"""The rows that an export reads from the store of an installation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from florin_server.compliance.buyer_data import store as collected_data
from florin_server.compliance.buyer_data.service.collected import decrypt_data
from florin_server.compliance.buyer_data.store import BuyerDataRecord
from florin_server.db.engine.reading import StoreReader
from florin_server.domain.cipher import Cipher
from florin_server.domain.exports.columns import ExportRow
from florin_server.domain.exports.roots import ExportPage, ExportRoot
from florin_server.features.exports.service.feeds import PAGE_SIZE, ExportOrigin
from florin_server.features.exports.store.roots import ExportSource
from florin_server.features.exports.store.sources import SOURCES


class StoreFeed:
    """The roots of one source of the store, each page a snapshot."""

    is_complete = False

    def __init__(self, source: ExportSource, store: StoreReader) -> None:
        self._source = source
        self._store = store

    @property
    def name(self) -> str:
        """Return the name of the source."""
        return self._source.name

    @property
    def tables(self) -> Sequence[str]:
        """Return the tables of the source."""
        return self._source.tables

    def read_page(self, after_key: str, since_us: int) -> ExportPage:
        """Return one page."""
        return self._store.read(self._source.read_page(after_key, since_us, PAGE_SIZE))

    def read_roots(self, keys: Sequence[str]) -> list[ExportRoot]:
        """Return roots by key."""
        return self._store.read(self._source.read_roots(keys))


def create_store_origin(
    store: StoreReader,
    origin_id: str,
    find_decimals: Callable[[str], int | None],
    cipher: Cipher,
    now_us: int,
) -> ExportOrigin:
    """Return a source of everything in a store; `cipher` decrypts data about buyers."""
    feeds = [StoreFeed(source, store) for source in SOURCES]
    return ExportOrigin(
        origin_id, feeds, find_decimals, now_us, lambda: _read_buyer_data(store, cipher)
    )


def _read_buyer_data(store: StoreReader, cipher: Cipher) -> Iterator[ExportRow]:
    last: BuyerDataRecord | None = None
    while records := store.read(collected_data.list_page(last, PAGE_SIZE)):
        for record in records:
            buyer_data = decrypt_data(cipher, record)
            times = (record.created_at_us, record.kept_until_us)
            yield (
                record.payment_id,
                record.account,
                record.source,
                record.app,
                *times,
                record.proven,
                buyer_data,
            )
        last = records[-1]
