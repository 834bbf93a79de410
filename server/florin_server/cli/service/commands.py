"""The groups of commands that are about what runs, and their options."""

from __future__ import annotations

from typing import Annotated

import typer

from florin_server.cli.options import HomeOption, given, group

executors = group("List, pause and resume what settles payments on the chains.")
faults = group("List and clear what was armed to go wrong on the embedded chains.")

GROUPS = {"executors": executors, "faults": faults}

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
