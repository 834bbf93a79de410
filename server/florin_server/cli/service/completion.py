"""`florin completion`: print the completion script for a shell."""

from __future__ import annotations

import sys

from typer.completion import get_completion_script  # type: ignore[attr-defined]  # documented, not listed

from florin_server.cli.operation import usage_error

_SHELLS = ("bash", "zsh", "fish")


def print_script(shell: str, variable: str) -> None:
    """Print the script, which calls `florin` with the environment variable set."""
    if shell not in _SHELLS:
        usage_error(f"unknown shell {shell[:80]!r}: use {', '.join(_SHELLS)}")
    script = get_completion_script(prog_name="florin", complete_var=variable, shell=shell)
    sys.stdout.write(script + "\n")
