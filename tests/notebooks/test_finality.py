"""A chain that is slower than promised is the only one that the analysis of finality names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from data import load

from tests.support.notebooks import FOLDER, get_printed, run_notebook

pytestmark = pytest.mark.slow

CHAINS = {"evm": "eip155:31337", "solana": "solana:FXEDJZXidWKiEDdE8MEdyteVkSbXE8BS"}
VERDICT = re.compile(r"^Slower than promised: (.+)\.$", re.MULTILINE)


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("planted", ["", "evm", "solana"])
async def test_a_slow_chain_is_named_and_no_other(desk, monkeypatch, planted):
    # enough on each chain for a verdict at 95 %
    home = load("payments", payments=80, days=1, slow_chain=planted).home
    monkeypatch.setenv("FLORIN_TARGET", str(home))
    printed = get_printed(await run_notebook(FOLDER / "11_finality.ipynb"))
    assert VERDICT.findall(printed) == [CHAINS.get(planted, "no chain")]
    # buyers' approvals take time before any transaction, and the promise includes them
    assert "\n0 late payments on chains that are not slow" in printed
