"""The tables that analyses begin with."""

from __future__ import annotations

import florin_server
import pandas as pd
import pytest
from data import FIRST_DAY, load
from lab import LabError

pytestmark = pytest.mark.slow
FEW = {"payments": 20, "days": 1}


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("FLORIN_TARGET", raising=False)
    return tmp_path / "florin-lab"


def test_days_are_simulated_once_and_amounts_are_exact(cache, monkeypatch, tmp_path):
    first = load("payments", "refunds", **FEW)
    payments = first["payments"]
    # and the first payment of every sandbox
    assert len(payments) == FEW["payments"] + 1
    assert payments["created_at"].min() == pd.Timestamp(FIRST_DAY, tz="UTC")
    paid = payments["paid_minor"].dropna()
    assert paid.map(type).unique().tolist() == [int]
    assert payments["paid_minor"].isna().any()
    (folder,) = cache.iterdir()
    assert folder.stat().st_mode & 0o077 == 0
    # existing days are read
    again = load("payments", **FEW)
    assert again["payments"].equals(payments)
    assert [item.name for item in cache.iterdir()] == [folder.name]
    # but not those of another state of the code
    changed = tmp_path / "changed" / "__init__.py"
    changed.parent.mkdir()
    changed.touch()
    with monkeypatch.context() as other:
        other.setattr(florin_server, "__file__", str(changed))
        load("payments", **FEW)
    assert len(list(cache.iterdir())) == 2
    # a state folder is a target too
    monkeypatch.setenv("FLORIN_TARGET", str(folder / "home"))
    there = load("payments", "ledger")
    assert there["payments"].equals(payments)
    assert there.source == f"state in {folder / 'home'}"


def test_unreadable_data_is_reported_with_its_remedy(cache, monkeypatch, tmp_path):
    with pytest.raises(LabError, match="cannot be simulated: payments is 0"):
        load("payments", payments=0)
    with pytest.raises(LabError, match="cannot be simulated: .*colour"):
        load("payments", colour="red", **FEW)
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("FLORIN_TARGET", str(empty))
    with pytest.raises(LabError, match="empty"):
        load("payments")
    monkeypatch.setenv("FLORIN_TARGET", "127.0.0.1:1")
    for name in ("FLORIN_PARTNER_KEY", "FLORIN_MERCHANT_ID"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(LabError, match="FLORIN_PARTNER_KEY and FLORIN_MERCHANT_ID"):
        load("payments")
