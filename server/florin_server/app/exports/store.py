"""An export from the store of an installation, which may run meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from florin_server.app.exports.assets import build_decimals_finder
from florin_server.app.home import StateFolder
from florin_server.app.stores import open_export_reader
from florin_server.base.clock import SystemClock
from florin_server.db import installation
from florin_server.db.engine.query import StoreError
from florin_server.db.engine.reading import StoreReader
from florin_server.domain.cipher import Cipher
from florin_server.domain.exports.error import ExportError
from florin_server.features.exports.service.feeds import ExportOrigin
from florin_server.features.exports.service.store_feed import create_store_origin
from florin_server.settings import Settings


@contextmanager
def open_store_origin(settings: Settings) -> Iterator[ExportOrigin]:
    """Return everything in the store; nothing in the folder is created or changed.

    SetupError, or ExportError, if no store exists that this release can read.
    """
    home = StateFolder(settings.home).require_existing()
    if not (home.path / "secrets.json").exists():
        raise ExportError(
            f"secrets.json is missing in {home.path}, which identifies the store of an export: "
            "restore it from the same backup as the store"
        )
    with open_settings_reader(settings) as (store, now_us):
        installation_secrets = home.get_or_create_secrets()
        seal = Cipher(installation_secrets.capture_keys)
        yield create_store_origin(
            store, installation_secrets.export_id, build_decimals_finder(settings), seal, now_us
        )


@contextmanager
def open_settings_reader(settings: Settings) -> Iterator[tuple[StoreReader, int]]:
    """Return the store of an installation and its present time; nothing is created or changed.

    SetupError, or ExportError, if no store exists that this release can read.
    """
    StateFolder(settings.home).require_existing()
    try:
        store = open_export_reader(settings)
    except StoreError as error:
        raise ExportError(str(error)) from error
    try:
        # the next export reads changes since this time: rows have the store's times
        database_us = store.time_us()
        store_us = SystemClock().now_us() if database_us is None else database_us
        # tests may have advanced the clock of test data
        yield store, store_us + store.read(installation.get_clock_offset())
    except StoreError as error:
        raise ExportError(str(error)) from error
    finally:
        store.close()
