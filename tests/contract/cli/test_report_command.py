"""`florin report` reads a store that another process uses, and writes each format."""

from __future__ import annotations

import csv
import json

import pytest
from florin_server.app.home import StateFolder
from florin_server.cli.main import app
from typer.testing import CliRunner

from tests.support.journal_parser import parse_journal
from tests.support.report_ledger import LedgerWriter
from tests.support.store_factories import open_engine_store


@pytest.fixture
async def home(tmp_path):
    folder = tmp_path / "home"
    StateFolder(folder).path.mkdir(mode=0o700)
    async with open_engine_store("sqlite", folder) as store:
        writer = LedgerWriter(store, seed=2)
        await writer.add_accounts()
        await writer.book(40)
        yield folder


def run(home, *arguments):
    return CliRunner().invoke(app, ["report", *arguments, "--home", str(home)])


def test_each_format_is_written(home, tmp_path):
    result = run(home, "--month", "2026", "--merchant", "mer_1")
    assert result.exit_code == 0, result.output
    assert "Closing balance" in result.output
    document = json.loads(run(home, "--month", "2026", "--format", "json").output)
    assert document["differences"] == []
    assert document["assets"]
    same = json.loads(run(home, "--month", "2026", "--json").output)
    assert same == document
    for program in ("hledger", "beancount"):
        file = tmp_path / program
        done = run(home, "--month", "2026", "--format", program, "--to", str(file))
        assert done.exit_code == 0, done.output
        assert file.stat().st_mode & 0o777 == 0o600
        assert parse_journal(file.read_text().splitlines(), program).entries
    for name in ("csv", "payments"):
        rows = list(csv.reader(run(home, "--month", "2026", "--format", name).output.splitlines()))
        assert len({len(row) for row in rows}) == 1
        assert len(rows) > 2


@pytest.mark.parametrize(
    ("arguments", "status", "reason"),
    [
        (("--month", "2026-13"), 2, "the month must be as 2026-10"),
        (("--month", "2026", "--zone", "Mars/Base"), 2, "unknown time zone"),
        (("--month", "2026", "--format", "xlsx"), 2, "unknown format"),
        (("--month", "2026", "--daily"), 2, "--daily is for"),
        (("--month", "2026", "--merchant", "m", "--partner", "p"), 2, "not both"),
        (("--month", "2026", "--merchant", "mrch_none"), 1, "does not exist"),
        (("--month", "2026", "--partner", "prtn_none"), 1, "does not exist"),
    ],
)
def test_invalid_report_is_refused(home, arguments, status, reason):
    result = run(home, *arguments)
    assert result.exit_code == status
    assert reason in " ".join(result.output.split())
