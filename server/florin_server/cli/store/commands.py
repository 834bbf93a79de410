"""Define the commands that back up, restore and copy the store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from florin_server.cli.options import HomeOption, build_overrides, create_group

store = create_group("Back up, restore and copy the store.")

GROUPS = {"store": store}


@store.command("backup")
def store_backup(
    file: Annotated[Path, typer.Argument(help="New file; always SQLite, even for PostgreSQL.")],
    home: HomeOption = None,
) -> None:
    """Write a consistent copy of all rows to a file.

    Florin can run meanwhile. The command reads the file again and checks it. Keep the state folder
    beside the backup: without its secrets.json no key works.

    Example: `florin store backup florin-backup.db`
    """
    from florin_server.cli.store import copies as command

    command.backup_store(build_overrides(home=home), file)


@store.command("restore")
def store_restore(
    file: Annotated[Path, typer.Argument(help="File that `florin store backup` wrote.")],
    home: HomeOption = None,
) -> None:
    """Fill an empty store from a backup.

    The settings name the store; it must have no rows. Stop Florin first.

    Example: `florin store restore florin-backup.db`
    """
    from florin_server.cli.store import copies as command

    command.restore_store(build_overrides(home=home), file)


@store.command("copy")
def store_copy(
    source: Annotated[
        Path,
        typer.Argument(help="florin.db, or a file that contains the URL of a database."),
    ],
    home: HomeOption = None,
) -> None:
    """Fill an empty store from another store.

    The settings name the store to fill; it must have no rows. Stop every Florin first. The command
    compares all rows at the end.

    Example: `florin store copy .florin/florin.db`
    """
    from florin_server.cli.store import copies as command

    command.copy_store(build_overrides(home=home), source)
