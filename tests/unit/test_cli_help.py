"""The help of every command, as people read it on terminals of 80 columns and more."""

from __future__ import annotations

import re

import pytest
from florin_server.cli.help import SECTIONS
from florin_server.cli.main import app
from typer.core import TyperArgument, TyperGroup, TyperOption
from typer.main import get_command
from typer.testing import CliRunner

ROOT = get_command(app)


def commands(command, *path):
    yield path, command
    for name, one in getattr(command, "commands", {}).items():
        yield from commands(one, *path, name)


ALL = dict(commands(ROOT))


def shown(path, columns=80):
    """The help as one line, and its longest line."""
    done = CliRunner().invoke(app, [*path, "--help"], env={"TERMINAL_WIDTH": str(columns)})
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split()), max(map(len, done.output.splitlines()))


@pytest.mark.parametrize("path", ALL, ids=lambda path: " ".join(path) or "florin")
@pytest.mark.parametrize("columns", [80, 120])
def test_no_summary_is_cut_and_no_placeholder_is_a_type_of_python(path, columns):
    text, width = shown(path, columns)
    assert width <= columns
    for name, command in getattr(ALL[path], "commands", {}).items():
        summary = " ".join(command.help.split("\n\n")[0].split())
        assert name in text
        assert summary.rstrip(".") in text
    # "[ARGS]..." and "AMOUNT..." stand for several
    assert not re.search(r"[a-z,]\.\.\.", text)
    assert not re.search(r"<[^>]*>|\{|%Y|list\[|None", text)
    for one in ALL[path].params:
        if isinstance(one, TyperArgument) or (isinstance(one, TyperOption) and not one.is_flag):
            assert re.fullmatch(r"[A-Z_@|=:\[\]-]+", one.metavar), one.metavar
            assert one.metavar in text


def test_every_command_is_in_one_section():
    assert isinstance(ROOT, TyperGroup)
    named = [name for names in SECTIONS.values() for name in names]
    assert sorted(named) == sorted(ROOT.commands)
    text, _ = shown(())
    assert [text.index(f"{title}:") for title in SECTIONS] == sorted(
        text.index(f"{title}:") for title in SECTIONS
    )
