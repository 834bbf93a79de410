"""Which store the settings name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from florin_server.boot.home import Home, Refused
from florin_server.config import Settings
from florin_server.store.engine.opening import open_store
from florin_server.store.engine.query import StoreUnavailable
from florin_server.store.engine.read_only_store import ReadOnlyStore
from florin_server.store.engine.reading import Reader, Reading
from florin_server.store.engine.store import Store
from florin_server.store.engine.where import Database, hosts_of

_SCHEMES = ("postgresql://", "postgres://")


async def opened(settings: Settings, *, fault: Callable[[str], None] | None = None) -> Store:
    """Opens the store of an installation; StoreError as `open_store`, Refused as `where`.

    StoreUnavailable names the database that is not reached.
    """
    place = where(settings)
    try:
        return await open_store(place, fault=fault)
    except StoreUnavailable as error:
        raise StoreUnavailable(f"{place}: {error}") from error


def reading(store: Path | Database) -> Reader:
    """Opens a store to look at it, whoever has it; StoreError if it is none of this version's."""
    if isinstance(store, Path):
        return Reading(store)
    # whoever has SQLite needs no driver
    from florin_server.store.engine.postgres.reading import DatabaseReading  # noqa: PLC0415

    return DatabaseReading(store)


async def look_at(settings: Settings) -> Store:
    """Open the store of an installation without changing it, whoever has it.

    StoreError as `reading`, or with the host of a database that is not reached; Refused as `where`.
    """
    place = where(settings)
    try:
        return await ReadOnlyStore.open(partial(reading, place))
    except StoreUnavailable as error:
        raise StoreUnavailable(f"{place}: {error}") from error


async def check_sessions(database: Database) -> tuple[bool, str]:
    """Return whether a pooler is in front of a database, and what is wrong with its sessions."""
    from florin_server.store.engine.postgres import session  # noqa: PLC0415
    from florin_server.store.engine.postgres.errors import DriverError  # noqa: PLC0415

    try:
        return await session.require_sessions(database), ""
    except DriverError as error:
        return isinstance(error, session.SessionError), str(error) or type(error).__name__


def where(settings: Settings) -> Path | Database:
    """The file in the state folder, or the database that the settings name.

    Refused for what is neither, and if the driver is not installed.
    """
    named = _named(settings)
    if not named:
        return Home(settings.home).database
    return database(named, settings)


def database(named: str, settings: Settings) -> Database:
    """The database of an address; Refused as `where`."""
    if not named.startswith(_SCHEMES):
        raise Refused("FLORIN_STORE has to begin with postgresql://, or to be empty for SQLite")
    try:
        hosts_of(named)
    except ValueError:
        # its words would repeat the password
        raise Refused("FLORIN_STORE is no address: write special signs as %XX") from None
    if find_spec("asyncpg") is None:
        raise Refused("FLORIN_STORE names PostgreSQL: pip install 'florin-pay[postgres]'")
    return Database(
        dsn=named,
        readers=settings.database.readers,
        writers=settings.database.writers,
        serializable=settings.database.isolation == "serializable",
        notify=settings.database.notify,
    )


def _named(settings: Settings) -> str:
    if settings.store is not None:
        return settings.store.get_secret_value()
    path = settings.store_file
    if path is None:
        return ""
    try:
        return path.read_text().strip()
    except OSError as error:
        raise Refused(f"the store's address cannot be read: {error}") from error
