"""hledger and Beancount read the journals that Florin writes for them, where they are installed.

Elsewhere these tests are skipped; `test_journals` checks the same journals with a strict parser.
Debian has `hledger`, and PyPI has `beancount` with its program `bean-check`.
"""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
from collections import Counter
from contextlib import closing
from fractions import Fraction

import pytest
from florin_server.app.exports.report import StoreReports
from florin_server.db.engine.reading import SqliteStoreReader
from florin_server.domain.reports.period import parse_period
from florin_server.features.reports.service.journals import JournalFormat
from florin_server.features.reports.store.scope import ReportScope

from tests.support.journal_parser import parse_journal
from tests.support.report_ledger import OCTOBER, LedgerWriter, find_asset
from tests.support.store_factories import open_engine_store

TEST_MODE = ReportScope(live=False)
# Beancount adds up numbers of 28 digits
BEANCOUNT_LARGEST = 10**20


def run(folder, *command):
    """Run a program in a folder; return its output, or skip the test without the program."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"NOT TESTED with {command[0]}: it is not installed")
    env = {**os.environ, "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


async def write_journal(folder, program, largest, *, daily):
    """Write the journal of a year with random entries to `ledger`; return it parsed."""
    async with open_engine_store("sqlite", folder) as store:
        writer = LedgerWriter(store, seed=5, largest=largest)
        await writer.add_accounts()
        await writer.book(150)
        with closing(SqliteStoreReader(folder / "florin.db")) as reader:
            reports = StoreReports(reader, find_asset, OCTOBER.end_us)
            year = parse_period("2026")
            lines = list(reports.list_journal_lines(TEST_MODE, year, program, daily=daily))
    (folder / "ledger").write_text("\n".join(lines) + "\n")
    return parse_journal(lines, program)


@pytest.mark.parametrize("daily", [False, True])
async def test_hledger_accepts_a_journal_and_has_the_same_balances(tmp_path, daily):
    journal = await write_journal(tmp_path, JournalFormat.HLEDGER, 10**30, daily=daily)
    run(tmp_path, "hledger", "-f", "ledger", "check", "--strict")
    command = ("hledger", "-f", "ledger", "balance", "--flat", "--no-total", "--layout", "bare")
    rows = csv.DictReader(run(tmp_path, *command, "-O", "csv").splitlines())
    balances = Counter(
        {(row["account"], row["commodity"]): Fraction(row["balance"]) for row in rows}
    )
    assert len(balances) > 15
    assert balances == journal.sum_accounts()


@pytest.mark.parametrize("daily", [False, True])
async def test_beancount_accepts_a_journal(tmp_path, daily):
    largest = BEANCOUNT_LARGEST
    journal = await write_journal(tmp_path, JournalFormat.BEANCOUNT, largest, daily=daily)
    assert len(journal.entries) > 30
    run(tmp_path, "bean-check", "--no-cache", "ledger")
