"""A chain that is slower than it promises, and whether the analysis of finality names it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from data import load

from tests.support.notebooks import FOLDER, printed, run

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
    told = printed(await run(FOLDER / "11_finality.ipynb"))
    assert VERDICT.findall(told) == [CHAINS.get(planted, "no chain")]
    # buyers' approvals take their time before anything is sent, which is promised with them
    assert "\n0 late payments on chains that are not slow" in told
