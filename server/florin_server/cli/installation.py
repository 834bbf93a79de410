"""The groups of commands that are about the installation, and their options."""

from __future__ import annotations

from typing import Annotated

import typer

from florin_server.cli.options import HomeOption, given, group

executors = group("List, pause and resume what settles payments on the chains.")
customers = group("Export or erase what is kept about an account that pays.")

GROUPS = {"executors": executors, "customers": customers}

ExecutorId = Annotated[str, typer.Argument(help="The id that `florin executors list` shows.")]
Account = Annotated[str, typer.Argument(help="CAIP-10 account, e.g. eip155:1:0x….")]


@executors.command("list")
def executors_list(home: HomeOption = None) -> None:
    """List executors, and what they have under way."""
    from florin_server.cli import executors as command

    command.show(given(home=home))


@executors.command("pause")
def executors_pause(executor_id: ExecutorId, home: HomeOption = None) -> None:
    """Stop an executor from sending anything new; what it sent is still followed."""
    from florin_server.cli import executors as command

    command.pause(given(home=home), executor_id)


@executors.command("resume")
def executors_resume(executor_id: ExecutorId, home: HomeOption = None) -> None:
    """Let an executor send again."""
    from florin_server.cli import executors as command

    command.resume(given(home=home), executor_id)


@customers.command("export")
def customers_export(account: Account, home: HomeOption = None) -> None:
    """Show everything that is kept about an account, as JSON."""
    from florin_server.cli import customers as command

    command.export(given(home=home), account)


@customers.command("erase")
def customers_erase(account: Account, home: HomeOption = None) -> None:
    """Delete what is kept about an account, as far as the books allow."""
    from florin_server.cli import customers as command

    command.erase(given(home=home), account)
