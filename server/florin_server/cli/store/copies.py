"""`florin store backup`, `restore` and `copy`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from florin_server.app import copies, stores
from florin_server.app.copies import TableDigests
from florin_server.app.home import SetupError, StateFolder
from florin_server.cli.console import (
    console,
    fail,
    print_hint,
    print_json,
    show_progress,
)
from florin_server.cli.settings import get_settings
from florin_server.db.engine.query import StoreError
from florin_server.db.engine.where import DatabaseConfig
from florin_server.settings import Settings

_SQLITE = b"SQLite format 3\x00"


def backup_store(overrides: dict[str, Any], file: Path) -> None:
    """Write a backup, and print its number of rows."""
    settings = get_settings(overrides)
    try:
        StateFolder(settings.home).require_existing()
        with show_progress("Writing the backup"):
            copied = copies.backup(stores.get_location(settings), file)
    except (SetupError, StoreError, OSError) as error:
        fail("Not backed up", error)
    _print_copied(copied, str(file))


def restore_store(overrides: dict[str, Any], file: Path) -> None:
    """Fill the store from a backup."""
    settings = get_settings(overrides)
    try:
        if not _is_sqlite(file):
            raise SetupError(
                f"{file} is not a backup: pass a file that `florin store backup` wrote"
            )
        copied = _fill_store(settings, file)
    except (SetupError, StoreError, OSError) as error:
        fail("Not restored", error)
    _print_copied(copied, "the store")
    print_hint(
        "Payouts are paused when Florin starts on this store: it would repeat the payouts made "
        "since the backup. Run `florin doctor`: it says what to do."
    )


def copy_store(overrides: dict[str, Any], source: Path) -> None:
    """Fill the store from another store."""
    settings = get_settings(overrides)
    try:
        database: Path | DatabaseConfig = source
        if not _is_sqlite(source):
            database = stores.parse_database(source.read_text().strip(), settings)
        copied = _fill_store(settings, database)
    except (SetupError, StoreError, OSError, UnicodeDecodeError) as error:
        fail("Not copied", error)
    _print_copied(copied, "the store")


def _fill_store(settings: Settings, source: Path | DatabaseConfig) -> TableDigests:
    home = StateFolder(settings.home)
    if home.find_addresses() is not None:
        raise SetupError("Florin runs on this state folder: stop it first")
    home.open()
    with show_progress("Filling the store"):
        return asyncio.run(copies.restore(source, stores.get_location(settings)))


def _is_sqlite(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(len(_SQLITE)) == _SQLITE


def _print_copied(digests: TableDigests, location: str) -> None:
    rows = sum(content.rows for content in digests.values())
    if not print_json(
        {
            "rows": rows,
            "tables": {name: table_digest.rows for name, table_digest in digests.items()},
        }
    ):
        console.print(
            f"Copied {rows} rows of {len(digests)} tables to {location}, and compared them."
        )
