"""The store of the settings."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from pydantic import SecretStr

from florin_server.app.home import SetupError, StateFolder
from florin_server.db.engine.query import StoreError, StoreUnavailable
from florin_server.db.engine.read_only_store import ReadOnlyStore
from florin_server.db.engine.reading import SqliteStoreReader, StoreReader
from florin_server.db.engine.store import Store
from florin_server.db.engine.where import DatabaseConfig, parse_hosts
from florin_server.money.open_store import PAYMENT_QUERIES, open_store
from florin_server.settings import Settings

_log = logging.getLogger(__name__)

_SCHEMES = ("postgresql://", "postgres://")


async def open_configured_store(
    settings: Settings, *, fault_hook: Callable[[str], None] | None = None
) -> Store:
    """Open the store of an installation; StoreError as `open_store`, SetupError as `get_location`.

    StoreUnavailable names the database that is not reached.
    """
    place = get_location(settings)
    try:
        return await open_store(place, fault_hook=fault_hook)
    except StoreUnavailable as error:
        raise StoreUnavailable(f"{place}: {error}") from error


def open_reader(store: Path | DatabaseConfig) -> StoreReader:
    """Open a store for reading, even if a process uses it; StoreError for another version's."""
    if isinstance(store, Path):
        return SqliteStoreReader(store)
    # an installation on SQLite needs no driver
    from florin_server.db.engine.postgres.reading import PostgresStoreReader  # noqa: PLC0415

    return PostgresStoreReader(store)


def open_export_reader(settings: Settings) -> StoreReader:
    """Open the standby of the settings' store for reading if it is close behind, else the store.

    StoreError as `open_reader`; SetupError as `get_location`.
    """
    place = get_location(settings)
    if isinstance(place, DatabaseConfig) and place.standby_dsn:
        from florin_server.db.engine.postgres.reading import PostgresStoreReader  # noqa: PLC0415

        try:
            return PostgresStoreReader.open_standby(place)
        except StoreError as error:
            _log.warning("the standby is not read: %s", error)
    return open_reader(place)


async def open_read_only(settings: Settings) -> Store:
    """Open the store of an installation without changing it, even if a process uses it.

    StoreError as `open_reader`, or with the host of a database that cannot be reached; SetupError
    as `get_location`.
    """
    place = get_location(settings)
    try:
        return await ReadOnlyStore.open(partial(open_reader, place), PAYMENT_QUERIES)
    except StoreUnavailable as error:
        raise StoreUnavailable(f"{place}: {error}") from error


async def check_sessions(database: DatabaseConfig) -> tuple[bool, str]:
    """Return whether a pooler is in front of a database, and what is wrong with its sessions."""
    from florin_server.db.engine.postgres import session  # noqa: PLC0415
    from florin_server.db.engine.postgres.errors import DriverError  # noqa: PLC0415

    try:
        return await session.require_sessions(database), ""
    except DriverError as error:
        return isinstance(error, session.SessionError), str(error) or type(error).__name__


def get_location(settings: Settings) -> Path | DatabaseConfig:
    """Return the file in the state folder, or the database that the settings name.

    SetupError for what is neither, and if the driver is not installed.
    """
    named = _read_address(settings.store, settings.store_file)
    standby = _read_address(settings.store_standby, settings.store_standby_file)
    if standby:
        if not named:
            raise SetupError("FLORIN_STORE_STANDBY needs FLORIN_STORE: SQLite has no standby")
        _require_valid("FLORIN_STORE_STANDBY", standby)
    if not named:
        return StateFolder(settings.home).database_path
    return replace(parse_database(named, settings), standby_dsn=standby)


def parse_database(address: str, settings: Settings) -> DatabaseConfig:
    """Return the database of an address; SetupError as `get_location`."""
    _require_valid("FLORIN_STORE", address)
    if find_spec("asyncpg") is None:
        raise SetupError(
            "FLORIN_STORE needs PostgreSQL support: pip install 'florin-pay[postgres]'"
        )
    return DatabaseConfig(
        dsn=address,
        readers=settings.database.readers,
        writers=settings.database.writers,
        serializable=settings.database.isolation == "serializable",
        notify=settings.database.notify,
        standby_lag_max_s=settings.database.standby_lag_max_s,
    )


def _require_valid(variable: str, address: str) -> None:
    if not address.startswith(_SCHEMES):
        raise SetupError(f"{variable} must begin with postgresql://, or be empty for SQLite")
    try:
        parse_hosts(address)
    except ValueError:
        # its message would repeat the password
        raise SetupError(
            f"{variable} is not a valid URL: write special characters as %XX"
        ) from None


def _read_address(value: SecretStr | None, path: Path | None) -> str:
    if value is not None:
        return value.get_secret_value()
    if path is None:
        return ""
    try:
        return path.read_text().strip()
    except OSError as error:
        raise SetupError(f"the file with the store's URL cannot be read: {error}") from error
