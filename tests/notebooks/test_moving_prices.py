"""A coin's price that jumps: the analysis of prices finds the jump and its time."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest
from data import FIRST_DAY, load
from florin_sandbox.simulation.config import SimulationConfig
from florin_sandbox.simulation.rates import PriceWalk

from tests.support.notebooks import FOLDER, get_printed, run_notebook

pytestmark = pytest.mark.slow

CONFIG = {"payments": 150, "days": 1, "volatility": 3.0}
JUMPED = re.compile(
    r"^(\w+) in test ETH, .+ jumped by (\S+) % between (\S+) and (\S+)$", re.MULTILINE
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("jump", [0.0, -10.0])
async def test_price_jump_is_detected_only_where_it_was_planted(desk, monkeypatch, jump):
    monkeypatch.setenv("FLORIN_TARGET", str(load("payments", jump=jump, **CONFIG).home))
    printed = get_printed(await run_notebook(FOLDER / "14_prices.ipynb"))
    results = JUMPED.findall(printed)
    assert f"\nJumps: {len(results) or 'none'}.\n" in printed
    # one step of each currency with enough quotes
    assert sorted(currency for currency, *_ in results) == (["EUR", "USD"] if jump else [])
    planted = PriceWalk(SimulationConfig(seed=7, jump=jump, **CONFIG), {"USD": "2500.00"}).jumps_us
    for _, percent, since, until in results:
        at = pd.Timestamp(FIRST_DAY, tz="UTC") + pd.Timedelta(planted, "us")
        assert pd.Timestamp(since) < at <= pd.Timestamp(until)
        assert float(percent) == pytest.approx(jump, abs=2)
    # a quote holds in any market
    assert re.search(r"^Slippage: 0 of \d+ paid another price", printed, re.MULTILINE)
