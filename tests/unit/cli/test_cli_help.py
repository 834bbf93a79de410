"""The help of every command, on terminals of 80 columns and more."""

from __future__ import annotations

import io
import re
import shlex
from contextlib import redirect_stdout
from functools import cache

import pytest
from florin_server.cli.help import SECTIONS
from florin_server.cli.main import app
from typer.core import TyperArgument, TyperGroup, TyperOption
from typer.main import get_command

ROOT = get_command(app)


def commands(command, *path):
    yield path, command
    for name, item in getattr(command, "commands", {}).items():
        yield from commands(item, *path, name)


ALL = dict(commands(ROOT))
LEAVES = {path: command for path, command in ALL.items() if not hasattr(command, "commands")}


@cache
def list_help_lines(path, columns=80):
    """Return the lines of a command's help; to build all commands anew would take longer."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as output:
        patch.setenv("COLUMNS", str(columns))
        status = ROOT.main([*path, "--help"], prog_name="florin", standalone_mode=False)
    assert status == 0, output.getvalue()
    return tuple(output.getvalue().splitlines())


def shown(path, columns=80):
    """Return the help as one line, and the length of its longest line."""
    lines = list_help_lines(path, columns)
    return " ".join(" ".join(lines).split()), max(map(len, lines))


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
    lines = [" ".join(line.split()) for line in list_help_lines(path)]
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
