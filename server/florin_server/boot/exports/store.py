"""An export from the store of an installation, which may run meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from florin_server.boot.exports.assets import decimals
from florin_server.boot.home import Home
from florin_server.boot.stores import reading, where
from florin_server.clock import SystemClock
from florin_server.config import Settings
from florin_server.domain.exports.error import NotExported
from florin_server.domain.sealed import Seal
from florin_server.flows.exports.feeds import Origin
from florin_server.flows.exports.kept import of_store
from florin_server.store.engine.query import StoreError
from florin_server.store.operator import installation


@contextmanager
def of_home(settings: Settings) -> Iterator[Origin]:
    """Everything that the store holds; nothing of the folder is made or changed.

    Refused, or NotExported, if there is none that this Florin can read.
    """
    home = Home(settings.home).require()
    if not (home.path / "secrets.json").exists():
        raise NotExported(
            f"there is no secrets.json in {home.path}, by which an export knows its store: "
            "restore it from the copy that the store is from"
        )
    try:
        store = reading(where(settings))
    except StoreError as error:
        raise NotExported(str(error)) from error
    try:
        kept = home.secrets()
        # what changed since this time the next export reads: rows have the store's times
        told_us = store.time_us()
        store_us = SystemClock().now_us() if told_us is None else told_us
        # the clock of test data may have been moved on
        now_us = store_us + store.read(installation.clock_ahead())
        seal = Seal(kept.capture_keys)
        yield of_store(store, kept.export_id, decimals(settings), seal, now_us)
    except StoreError as error:
        raise NotExported(str(error)) from error
    finally:
        store.close()
