"""The help of every command, on terminals of 80 columns and more."""

from __future__ import annotations

import re
import shlex

import pytest
from florin_server.cli.help import SECTIONS
from florin_server.cli.main import app
from typer.core import TyperArgument, TyperGroup, TyperOption
from typer.main import get_command
from typer.testing import CliRunner

ROOT = get_command(app)


def commands(command, *path):
    yield path, command
    for name, item in getattr(command, "commands", {}).items():
        yield from commands(item, *path, name)


ALL = dict(commands(ROOT))
LEAVES = {path: command for path, command in ALL.items() if not hasattr(command, "commands")}


def shown(path, columns=80):
    """Return the help as one line, and the length of its longest line."""
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
    # only "[ARGS]..." and "AMOUNT..." mark repeated arguments
    assert not re.search(r"[a-z,]\.\.\.", text)
    assert not re.search(r"<[^>]*>|\{|%Y|list\[|None", text)
    for param in ALL[path].params:
        if isinstance(param, TyperArgument) or (
            isinstance(param, TyperOption) and not param.is_flag
        ):
            assert re.fullmatch(r"[A-Z_@|=:\[\]-]+", param.metavar), param.metavar
            assert param.metavar in text


@pytest.mark.parametrize("path", ALL, ids=lambda path: " ".join(path) or "florin")
def test_every_summary_fits_on_one_line_of_80_columns(path):
    done = CliRunner().invoke(app, [*path, "--help"], env={"TERMINAL_WIDTH": "80"})
    lines = [" ".join(line.split()) for line in done.output.splitlines()]
    for name, command in getattr(ALL[path], "commands", {}).items():
        summary = command.help.split("\n\n")[0]
        assert len(summary) <= 60
        assert f"{name} {summary}" in lines


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_every_help_ends_with_an_example_that_the_command_accepts(path):
    *_, last = LEAVES[path].help.split("\n\n")
    example = re.fullmatch(r"Example: `florin ([^`]+)`", last.strip())
    assert example is not None
    # click indents it by two columns and leaves two more free
    assert len(last.strip()) <= 76
    words = shlex.split(example[1])
    assert tuple(words[: len(path)]) == path
    LEAVES[path].make_context(path[-1], words[len(path) :])


def test_every_command_is_in_a_single_help_section():
    assert isinstance(ROOT, TyperGroup)
    named = [name for names in SECTIONS.values() for name in names]
    assert sorted(named) == sorted(ROOT.commands)
    text, _ = shown(())
    assert [text.index(f"{title}:") for title in SECTIONS] == sorted(
        text.index(f"{title}:") for title in SECTIONS
    )
