"""The commands of `florin`."""

from __future__ import annotations

from collections.abc import Iterator

import typer
from florin_server.cli.main import app
from typer.core import TyperGroup


def list_commands() -> list[str]:
    """List every command of `florin`, without the names of their groups."""
    return list(_list_leaves(typer.main.get_command(app)))


def _list_leaves(command: TyperGroup, path: str = "") -> Iterator[str]:
    for name, found_command in command.commands.items():
        full = f"{path} {name}".strip()
        if isinstance(found_command, TyperGroup):
            yield from _list_leaves(found_command, full)
        else:
            yield full
