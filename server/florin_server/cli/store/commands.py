"""Define the commands that back up, restore and copy the store, and those of the archive."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from florin_server.cli.options import HomeOption, build_overrides, create_group

store = create_group("Back up, restore and copy the store.")

archive = create_group("List, verify and restore archived payments.")

GROUPS = {"archive": archive, "store": store}


@archive.command("list")
def archive_list(home: HomeOption = None) -> None:
    """List the files of the archive.

    Example: `florin archive list`
    """
    from florin_server.cli.store import archive as command

    command.list_archive(build_overrides(home=home))


@archive.command("verify")
def archive_verify(
    month: Annotated[
        str | None, typer.Argument(help="Month as 2026-10.  [default: all months]")
    ] = None,
    home: HomeOption = None,
) -> None:
    """Compare the files of the archive with the store.

    Reads each file completely. Exits with 1 if a file is missing or was changed.

    Example: `florin archive verify 2026-10`
    """
    from florin_server.cli.store import archive as command

    command.verify_archive(build_overrides(home=home), month)


@archive.command("restore")
def archive_restore(
    payment_id: Annotated[str, typer.Argument(help="Id of an archived payment.")],
    home: HomeOption = None,
) -> None:
    """Put an archived payment back into the store.

    After that it can be refunded. It is archived again with the next pass, once nothing is open.

    Example: `florin archive restore pay_…`
    """
    from florin_server.cli.store import archive as command

    command.restore_archived(build_overrides(home=home), payment_id)


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


@store.command("partition")
def store_partition(home: HomeOption = None) -> None:
    """Keep payments in partitions by month (PostgreSQL only).

    Florin can run meanwhile. Payments that exist stay in one partition, and later ones get a
    partition for each month. If the command is interrupted, run it again: it continues. On a store
    with partitions it creates the months that are missing.

    Example: `florin store partition`
    """
    from florin_server.cli.store import partitions as command

    command.partition_store(build_overrides(home=home))
