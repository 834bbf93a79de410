"""A coin's price that jumps, and whether the analysis of prices finds it, and when."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest
from data import FIRST_DAY, load
from florin_server.simulation.knobs import Knobs
from florin_server.simulation.rates import Walk

from tests.support.notebooks import FOLDER, printed, run

pytestmark = pytest.mark.slow

KNOBS = {"payments": 150, "days": 1, "volatility": 3.0}
JUMPED = re.compile(r"^(\w+) in coin \S+ jumped by (\S+) % between (\S+) and (\S+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("jump", [0.0, -10.0])
async def test_a_jump_is_found_where_it_was_planted_and_nowhere_else(desk, monkeypatch, jump):
    monkeypatch.setenv("FLORIN_TARGET", str(load("payments", jump=jump, **KNOBS).home))
    told = printed(await run(FOLDER / "14_prices.ipynb"))
    found = JUMPED.findall(told)
    assert f"\nJumps: {len(found) or 'none'}.\n" in told
    # one step of each currency of which there are quotes enough
    assert sorted(currency for currency, *_ in found) == (["EUR", "USD"] if jump else [])
    planted = Walk(Knobs(seed=7, jump=jump, **KNOBS), {"USD": "2500.00"}).jumps_us
    for _, percent, since, until in found:
        at = pd.Timestamp(FIRST_DAY, tz="UTC") + pd.Timedelta(planted, "us")
        assert pd.Timestamp(since) < at <= pd.Timestamp(until)
        assert float(percent) == pytest.approx(jump, abs=2)
    # whatever the market does, a quote holds
    assert re.search(r"^Slippage: 0 of \d+ paid another price", told, re.MULTILINE)
