"""The group of commands that is about lists, and its options."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from florin_server.cli.options import HomeOption, given, group

sanctions = group("Import public lists of accounts that are not served, and look accounts up.")

GROUPS = {"sanctions": sanctions}

AnyAddress = Annotated[str, typer.Argument(help="CAIP-10 account, or an address alone.")]
ListFile = Annotated[
    Path, typer.Argument(help="The SDN list as advanced XML, or text with an address a line.")
]
ListName = Annotated[
    str | None, typer.Option("--name", help="What the list is called.  [default: the file's name]")
]
Published = Annotated[
    datetime | None,
    typer.Option(
        "--published", formats=["%Y-%m-%d"], help="Date of the list, if the file has none."
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Even if it is empty, much shorter, or an older one.")
]


@sanctions.command("import")
def sanctions_import(
    file: ListFile,
    name: ListName = None,
    published: Published = None,
    force: Force = False,
    home: HomeOption = None,
) -> None:
    """Put a list in force, in place of the one that has its name."""
    from florin_server.cli.screening import sanctions as command

    command.put(given(home=home), file, name, published, force=force)


@sanctions.command("list")
def sanctions_list(home: HomeOption = None) -> None:
    """List what is in force, and how old it is."""
    from florin_server.cli.screening import sanctions as command

    command.show(given(home=home))


@sanctions.command("check")
def sanctions_check(account: AnyAddress, home: HomeOption = None) -> None:
    """Tell whether an account is served, and which lists it is on."""
    from florin_server.cli.screening import sanctions as command

    command.check(given(home=home), account)


@sanctions.command("remove")
def sanctions_remove(
    name: Annotated[str, typer.Argument(help="Name of the list.")], home: HomeOption = None
) -> None:
    """Take a list out of force."""
    from florin_server.cli.screening import sanctions as command

    command.remove(given(home=home), name)
