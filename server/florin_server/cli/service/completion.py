"""`florin completion`: the script that makes a shell complete what is typed."""

from __future__ import annotations

import sys

from typer.completion import get_completion_script  # type: ignore[attr-defined]  # documented, not listed

from florin_server.cli.operation import misused

_SHELLS = ("bash", "zsh", "fish")


def show(shell: str, variable: str) -> None:
    """Prints the script, which asks `florin` with a variable in the environment."""
    if shell not in _SHELLS:
        misused(f"there is no shell {shell[:80]!r} here; there are {', '.join(_SHELLS)}")
    script = get_completion_script(prog_name="florin", complete_var=variable, shell=shell)
    sys.stdout.write(script + "\n")
