"""Define the commands for screening lists, and their options."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from florin_server.cli.options import HomeOption, build_overrides, create_group

sanctions = create_group("Import lists of blocked accounts; check accounts.")

GROUPS = {"sanctions": sanctions}

AnyAddress = Annotated[str, typer.Argument(help="CAIP-10 account, or an address alone.")]
ListFile = Annotated[
    Path, typer.Argument(help="SDN list as advanced XML, or text with one address per line.")
]
ListName = Annotated[
    str | None, typer.Option("--name", help="Name of the list.  [default: name of the file]")
]
Published = Annotated[
    datetime | None,
    typer.Option(
        "--published", formats=["%Y-%m-%d"], help="Date of the list, if the file has none."
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Import even an empty, much shorter or older list.")
]


@sanctions.command("import")
def sanctions_import(
    file: ListFile,
    name: ListName = None,
    published: Published = None,
    force: Force = False,
    home: HomeOption = None,
) -> None:
    """Import a list; it replaces the list of the same name.

    Example: `florin sanctions import sdn_advanced.xml --name ofac`
    """
    from florin_server.cli.screening import sanctions as command

    command.import_list(build_overrides(home=home), file, name, published, force=force)


@sanctions.command("list")
def sanctions_list(home: HomeOption = None) -> None:
    """List the imported lists and their age.

    Example: `florin sanctions list`
    """
    from florin_server.cli.screening import sanctions as command

    command.list_lists(build_overrides(home=home))


@sanctions.command("check")
def sanctions_check(account: AnyAddress, home: HomeOption = None) -> None:
    """Show whether an account is blocked, and by which lists.

    Example: `florin sanctions check eip155:1:0x…`
    """
    from florin_server.cli.screening import sanctions as command

    command.check_account(build_overrides(home=home), account)


@sanctions.command("remove")
def sanctions_remove(
    name: Annotated[str, typer.Argument(help="Name of the list.")], home: HomeOption = None
) -> None:
    """Remove a list; its accounts are no longer blocked by it.

    Example: `florin sanctions remove ofac`
    """
    from florin_server.cli.screening import sanctions as command

    command.remove_list(build_overrides(home=home), name)
