"""An error of one unit in the books is found by the reconciliation."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from data import load
from nbclient.exceptions import CellExecutionError

from tests.support.notebooks import FOLDER, run_notebook

pytestmark = pytest.mark.slow

# the last booked posting of a kind
POSTING = """
    SELECT t.idem_key, t.n, t.amount FROM ledger_transfer t JOIN ledger_journal j USING (idem_key)
    WHERE j.type = ? ORDER BY j.at_us DESC, t.idem_key, t.n LIMIT 1
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def copy(desk, tmp_path, monkeypatch) -> Path:
    home = load("payments", payments=40, days=1).home
    assert home is not None
    monkeypatch.setenv("FLORIN_TARGET", str(tmp_path / "copy"))
    return Path(shutil.copytree(home, tmp_path / "copy"))


@pytest.mark.parametrize(("kind", "units"), [("settle", 1), ("gas", -1), ("opening", 1)])
async def test_error_of_a_single_unit_is_detected_with_its_journal(copy, kind, units):
    with closing(sqlite3.connect(copy / "florin.db")) as books, books:
        journal, n, amount = books.execute(POSTING, (kind,)).fetchone()
        changed = (str(int(amount) + units), journal, n)
        books.execute("UPDATE ledger_transfer SET amount = ? WHERE idem_key = ? AND n = ?", changed)
    before = {item.name: item.read_bytes() for item in copy.iterdir()}
    with pytest.raises(CellExecutionError, match=f"does not match: .*{journal}") as failed:
        await run_notebook(FOLDER / "15_reconciliation.ipynb")
    # the last cell reports it
    assert "assert not problems" in str(failed.value)
    # an analysis changes nothing
    assert {item.name: item.read_bytes() for item in copy.iterdir()} == before


async def test_unbooked_money_is_detected(copy):
    with closing(sqlite3.connect(copy / "florin.db")) as books, books:
        journal, *_ = books.execute(POSTING, ("settle",)).fetchone()
        for table in ("ledger_transfer", "ledger_journal"):
            books.execute(f"DELETE FROM {table} WHERE idem_key = ?", (journal,))
    with pytest.raises(CellExecutionError, match=journal.removeprefix("settle:")):
        await run_notebook(FOLDER / "15_reconciliation.ipynb")
