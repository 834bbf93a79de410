"""florin store backup, restore and copy."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from florin_server.boot import copies, stores
from florin_server.boot.copies import Copied
from florin_server.boot.home import Home, Refused
from florin_server.cli.console import console, fail, note, told, working
from florin_server.cli.settings import settings_of
from florin_server.config import Settings
from florin_server.store.engine.query import StoreError
from florin_server.store.engine.where import Database

_SQLITE = b"SQLite format 3\x00"


def backup(given: dict[str, Any], file: Path) -> None:
    """Writes a file, and tells what is in it."""
    settings = settings_of(given)
    try:
        Home(settings.home).require()
        with working("Writing a copy"):
            copied = copies.backup(stores.where(settings), file)
    except (Refused, StoreError, OSError) as error:
        fail("Not backed up", error)
    _tell(copied, str(file))


def restore(given: dict[str, Any], file: Path) -> None:
    """Fills the store from a file."""
    settings = settings_of(given)
    try:
        if not _is_sqlite(file):
            raise Refused(f"{file} is no backup")
        copied = _filled(settings, file)
    except (Refused, StoreError, OSError) as error:
        fail("Not restored", error)
    _tell(copied, "the store")
    note(
        "When Florin starts on it payouts are paused: what was paid out since the backup would be "
        "paid again. `florin doctor` says what to do."
    )


def copy(given: dict[str, Any], source: Path) -> None:
    """Fills the store from another one."""
    settings = settings_of(given)
    try:
        found: Path | Database = source
        if not _is_sqlite(source):
            found = stores.database(source.read_text().strip(), settings)
        copied = _filled(settings, found)
    except (Refused, StoreError, OSError, UnicodeDecodeError) as error:
        fail("Not copied", error)
    _tell(copied, "the store")


def _filled(settings: Settings, source: Path | Database) -> Copied:
    home = Home(settings.home)
    if home.addresses() is not None:
        raise Refused("Florin runs: stop it first")
    home.open()
    with working("Filling the store"):
        return asyncio.run(copies.restore(source, stores.where(settings)))


def _is_sqlite(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(len(_SQLITE)) == _SQLITE


def _tell(copied: Copied, where: str) -> None:
    rows = sum(content.rows for content in copied.values())
    if not told({"rows": rows, "tables": {name: one.rows for name, one in copied.items()}}):
        console.print(f"{rows} rows in {len(copied)} tables: {where} holds the same.")
