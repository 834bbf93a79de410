"""Test that the gas figures in contracts/README.md are those of today's contracts."""

from __future__ import annotations

import pytest

from tests.bench import gas_table
from tests.bench.document import between
from tests.bench.gas_table import GasRow

# the goals of settlements and forwarded payments in a batch of 50
GOALS = {"eip3009": 58_000, "permit2": 59_000, "forward": 71_242}


def test_rows_without_a_batch_have_empty_cells():
    rows = [GasRow("eip3009", "signed", 107_000, 56_000), GasRow("bare", "x402", 75_000)]
    *_, first, second = gas_table.format_table(rows).splitlines()
    assert first == "| signed | 107,000 | 108,695 | 56,000 | 68,425 |"
    assert second == "| x402 | 75,000 |  |  |  |"


@pytest.mark.slow
async def test_contracts_readme_has_the_measured_gas():
    rows = await gas_table.measure_rows()
    text = gas_table.DOCUMENT.read_text()
    expected = "run: python -m tests.bench.gas_table --write"
    assert between(text, "gas").strip() == gas_table.format_table(rows), expected
    each = {row.way: row.each for row in rows}
    assert all((each[way] or 0) <= goal for way, goal in GOALS.items())
