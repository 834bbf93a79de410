"""The commands about the store as a whole, and their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from florin_server.cli.options import HomeOption, given, group

store = group("Back the store up, restore it, and copy it from SQLite to PostgreSQL or back.")

GROUPS = {"store": store}


@store.command("backup")
def store_backup(
    file: Annotated[Path, typer.Argument(help="A new file, of SQLite whatever the store is.")],
    home: HomeOption = None,
) -> None:
    """Write all rows into a file, as they are at one moment; Florin may run meanwhile.

    The file is read again and checked. The state folder has to be kept beside it: without
    secrets.json no key works.
    """
    from florin_server.cli.store import copies as command

    command.backup(given(home=home), file)


@store.command("restore")
def store_restore(
    file: Annotated[Path, typer.Argument(help="What `florin store backup` wrote.")],
    home: HomeOption = None,
) -> None:
    """Fill the store that the settings name, which must have no rows, from a backup."""
    from florin_server.cli.store import copies as command

    command.restore(given(home=home), file)


@store.command("copy")
def store_copy(
    source: Annotated[
        Path,
        typer.Argument(help="florin.db, or a file that holds the address of a database."),
    ],
    home: HomeOption = None,
) -> None:
    """Fill the store that the settings name, which must have no rows, from another store.

    Stop every Florin first. All rows are compared in the end.
    """
    from florin_server.cli.store import copies as command

    command.copy(given(home=home), source)
