"""A chain that stops, and its times in the notebook of failures."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from data import FIRST_DAY
from florin_sandbox.simulation.config import SimulationConfig
from florin_sandbox.simulation.population import generate_plan

from tests.support.notebooks import FOLDER, get_printed, run_notebook

pytestmark = pytest.mark.slow

NOTEBOOK = FOLDER / "13_failures.ipynb"
FOUND = re.compile(
    r"^(\w+):\S+ stopped between (.+) and\n  (.+), and was back between (.+) and\n  (.+): "
    r"(\d+) payments stuck, (\d+) failed",
    re.MULTILINE,
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


async def run_failures_notebook(**planted: Any) -> str:
    changes = {name.upper(): value for name, value in planted.items()}
    return get_printed(await run_notebook(NOTEBOOK, **changes))


def seconds(text: str) -> int:
    """Return the seconds since midnight of the only day."""
    day, hours, minutes, rest = re.split("[ :]", text)
    assert day == f"{FIRST_DAY:%a}"
    return int(hours) * 3600 + int(minutes) * 60 + int(rest)


@pytest.mark.parametrize(("chain", "kind"), [("evm", "eip155"), ("solana", "solana")])
async def test_an_outage_is_seen_and_placed(desk, chain, kind):
    planted = {"payments": 160, "outage_chain": chain, "outage_minutes": 90, "reorgs": 0.0}
    text = await run_failures_notebook(**planted)
    begin = datetime.combine(FIRST_DAY, datetime.min.time(), UTC)
    config = SimulationConfig(seed=7, days=1, **planted)
    (outage,) = generate_plan(config, int(begin.timestamp() * 1_000_000)).outages
    from_s, until_s = outage.start_us / 1_000_000, outage.end_us / 1_000_000
    ((name, after, by, back_after, back_by, stuck, failed),) = FOUND.findall(text)
    assert name == kind
    # the text's times have no fractions
    assert seconds(after) <= from_s <= seconds(by) + 1
    assert seconds(back_after) <= until_s <= seconds(back_by) + 1
    assert int(stuck) >= int(failed) >= 2
    assert "1 outages found" in text
    # all lapsed payments are attributed to it
    assert re.search(r"1 outages; (\d+) payments lapsed, \1 in them", text)


async def test_without_an_outage_none_is_claimed_and_replaced_blocks_lose_nothing(desk):
    text = await run_failures_notebook(payments=160, outage_minutes=0, reorgs=0.3)
    assert FOUND.findall(text) == []
    assert "0 outages found" in text
    assert "0 outages; 0 payments lapsed, 0 in them" in text
    paid, late = re.search(r"(\d+) of (\d+) that landed late were paid", text).groups()
    assert int(paid) == int(late) > 10
