"""The command line."""

from __future__ import annotations

import os
import sys

from typer.completion import completion_init  # type: ignore[attr-defined]  # used by its users

from florin_server.boot import memory
from florin_server.cli.console import fail, use_json
from florin_server.cli.exits import Exit
from florin_server.cli.main import COMPLETES, app


def main() -> None:
    """Runs `florin`."""
    # what a command imports for its work comes after this
    memory.collect_rarely()
    if COMPLETES in os.environ:
        # a shell asks what may be typed next
        completion_init()
        app(prog_name="florin")
    if "--json" in sys.argv[1:]:
        _for_programs()
    else:
        app()


def _for_programs() -> None:
    """The same, but that wrong usage is told as JSON too."""
    try:
        status = app(standalone_mode=False)
    except Exception as error:
        # of the library's exceptions these are told to whoever typed the command
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        use_json(as_json=True)
        fail("Not done", message(), getattr(error, "exit_code", Exit.MISUSED))
    # nobody answers a program's questions, and Ctrl-C is a status
    raise SystemExit(status or 0)
