"""Test that texts of others cannot control the terminal when commands print them."""

from __future__ import annotations

import io
import json

import pytest
from florin_server.cli import console as terminal
from florin_server.cli.prompt import OperatorPrompt
from rich.progress import Progress, TextColumn
from rich.table import Table
from rich.text import Text

STEERING = "a\x1b[2J\x9b31m\x9d0;title\x07\u202eb\u2066c\x7f\r"


def test_no_printed_text_steers_the_terminal(capsys):
    terminal.console.print(f"name {STEERING}", markup=False)
    terminal.print_table(("NAME",), [(STEERING,)])
    terminal.print_hint(STEERING)
    with pytest.raises(SystemExit):
        terminal.fail("Not done", STEERING)
    out, err = capsys.readouterr()
    for text in (out, err):
        assert "\\x9b31m" in text
        assert all(item.isprintable() or item == "\n" for item in text)


def test_tables_texts_and_progress_steer_no_terminal_and_are_no_markup(capsys):
    cells = Table(f"[b]{STEERING}", title=STEERING)
    cells.add_row(f"[red]{STEERING}", Text(STEERING))
    for shown in (terminal.console, terminal.stderr_console):
        shown.print(cells, Text(STEERING), {"name": STEERING})
        shown.print(f"[red]{STEERING}")
        shown.log(Text(STEERING))
        shown.out(STEERING)
        with Progress(TextColumn("{task.description}", markup=False), console=shown) as bar:
            bar.add_task(STEERING, total=None)
    for text in capsys.readouterr():
        assert text.count("[red]") == 2
        assert "[b]" in text
        assert all(item.isprintable() or item == "\n" for item in text)


def test_markup_of_a_call_that_asks_for_it_still_steers_nothing(capsys):
    terminal.console.print(f"[bold]{STEERING}[/]", markup=True)
    out = capsys.readouterr().out
    assert "[bold]" not in out
    assert all(item.isprintable() or item == "\n" for item in out)


def test_json_documents_keep_their_meaning_and_steer_nothing(capsys):
    terminal.use_json(as_json=True)
    try:
        assert terminal.print_json({"name": STEERING})
    finally:
        terminal.use_json(as_json=False)
    out = capsys.readouterr().out
    assert all(item.isprintable() or item == "\n" for item in out)
    assert json.loads(out) == {"name": STEERING}


def test_questions_steer_nothing(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert OperatorPrompt(is_quiet=False).ask_yes_no(f"Sign {STEERING}?", default=False)
    out, err = capsys.readouterr()
    assert all(item.isprintable() or item == "\n" for item in out + err)
