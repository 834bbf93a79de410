"""The `florin` command line."""

from __future__ import annotations

import os
import sys

from typer.completion import completion_init  # type: ignore[attr-defined]  # not exported

from florin_server.app import memory
from florin_server.cli.console import fail, use_json
from florin_server.cli.exits import ExitStatus
from florin_server.cli.main import COMPLETION_VARIABLE, app


def main() -> None:
    """Run `florin`: complete a command for the shell, or execute it."""
    # before the imports that a command makes
    memory.reduce_collections()
    if COMPLETION_VARIABLE in os.environ:
        # a completion script of a shell calls
        completion_init()
        app(prog_name="florin")
    if "--json" in sys.argv[1:]:
        _run_with_json_errors()
    else:
        app()


def _run_with_json_errors() -> None:
    """Run the command; report usage errors as JSON too."""
    try:
        status = app(standalone_mode=False)
    except Exception as error:
        # only the library's usage errors have it; every other exception is a bug
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        use_json(as_json=True)
        fail("Not done", message(), getattr(error, "exit_code", ExitStatus.USAGE_ERROR))
    # with JSON no prompt can abort, and the library returns Ctrl-C as a status
    raise SystemExit(status or 0)
