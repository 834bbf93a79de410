"""The groups of commands that are about what runs, and their options."""

from __future__ import annotations

from typing import Annotated

import typer

from florin_server.cli.options import HomeOption, YesOption, given, group

executors = group("List, pause and resume what settles payments on the chains.")
faults = group("List and clear what was armed to go wrong on the embedded chains.")

leases = group("List and release leases: which process signs with which key.")
quarantine = group("List, retry and resolve items that were set aside after an unexpected error.")

GROUPS = {"executors": executors, "faults": faults, "leases": leases, "quarantine": quarantine}

_ITEM_IDS = "The id that `florin quarantine list` shows."

ExecutorId = Annotated[str, typer.Argument(help="The id that `florin executors list` shows.")]


@executors.command("list")
def executors_list(home: HomeOption = None) -> None:
    """List executors, and what they have under way."""
    from florin_server.cli.service import executors as command

    command.show(given(home=home))


@executors.command("pause")
def executors_pause(executor_id: ExecutorId, home: HomeOption = None) -> None:
    """Stop an executor from sending anything new; what it sent is still followed."""
    from florin_server.cli.service import executors as command

    command.pause(given(home=home), executor_id)


@executors.command("resume")
def executors_resume(executor_id: ExecutorId, home: HomeOption = None) -> None:
    """Let an executor send again."""
    from florin_server.cli.service import executors as command

    command.resume(given(home=home), executor_id)


@faults.command("list")
def faults_list(home: HomeOption = None) -> None:
    """List the faults that are armed; they last until they happen, or Florin stops."""
    from florin_server.cli.service import faults as command

    command.show(given(home=home))


@faults.command("clear")
def faults_clear(
    kind: Annotated[
        str | None,
        typer.Argument(help="answer, mining, revert, lag or landing.  [default: all]"),
    ] = None,
    home: HomeOption = None,
) -> None:
    """End all faults that are armed, or those of one kind."""
    from florin_server.cli.service import faults as command

    command.clear(given(home=home), kind)


@leases.command("list")
def leases_list(home: HomeOption = None) -> None:
    """List leases, who has them, and how long ago they were renewed."""
    from florin_server.cli.service import leases as command

    command.show(given(home=home))


@leases.command("release")
def leases_release(
    name: Annotated[str, typer.Argument(help="The lease that `florin leases list` shows.")],
    yes: YesOption = False,
    home: HomeOption = None,
) -> None:
    """Take a lease away from the process that has it; shows who that is, and asks.

    That process writes down and sends nothing new under it any more. Any process may take it next.
    """
    from florin_server.cli.service import leases as command

    command.release(given(home=home), name, yes=yes)


@quarantine.command("list")
def quarantine_list(
    all_: Annotated[
        bool, typer.Option("--all", help="Those that were retried or resolved, too.")
    ] = False,
    home: HomeOption = None,
) -> None:
    """List items that were set aside, with the step that failed and its error."""
    from florin_server.cli.service import quarantine as command

    command.show(given(home=home), all_=all_)


@quarantine.command("retry")
def quarantine_retry(
    item_ids: Annotated[list[str] | None, typer.Argument(help=_ITEM_IDS)] = None,
    all_: Annotated[bool, typer.Option("--all", help="All that are set aside.")] = False,
    home: HomeOption = None,
) -> None:
    """Give items back to their workers; what fails again is set aside again."""
    from florin_server.cli.service import quarantine as command

    if bool(item_ids) is all_:
        raise typer.BadParameter("name items, or --all")
    command.retry(given(home=home), item_ids or [], all_=all_)


@quarantine.command("resolve")
def quarantine_resolve(
    item_id: Annotated[str, typer.Argument(help=_ITEM_IDS)],
    note: Annotated[str, typer.Option(help="What you did about it.")],
    home: HomeOption = None,
) -> None:
    """Leave an item out for good, without an alarm; its own state stays as it is."""
    from florin_server.cli.service import quarantine as command

    command.resolve(given(home=home), item_id, note)
