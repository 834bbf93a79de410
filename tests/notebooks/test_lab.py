"""What notebooks share: a Florin with days of payments in it."""

from __future__ import annotations

import os

import lab
import psutil
import pytest

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def desk(monkeypatch):
    """An analyst's environment: nothing of Florin in it."""
    for name in list(os.environ):
        if name.startswith("FLORIN_"):
            monkeypatch.delenv(name)


async def test_a_simulated_florin_answers_with_its_payments_and_the_same_for_the_same_seed():
    before = set(psutil.Process().children(recursive=True))
    first = await lab.simulate(seed=3, payments=10, days=1, slow_chain="solana")
    try:
        # with the first one of the test merchant, which nobody paid
        assert len([one async for one in first.merchant.list_payments()]) == 11
        assert first.report["problems"] == []
        assert sum(first.report["report"]["outcomes"].values()) == 10
    finally:
        await first.close()
    second = await lab.simulate(seed=3, payments=10, days=1, slow_chain="solana")
    await second.close()
    assert second.report["report"] == first.report["report"]
    assert second.report["beginUs"] == first.report["beginUs"]
    assert set(psutil.Process().children(recursive=True)) == before


async def test_what_cannot_be_simulated_is_told_in_the_command_s_sentence():
    with pytest.raises(lab.LabError) as refused:
        await lab.simulate(payments=0)
    assert str(refused.value) == (
        "Nothing is simulated: payments is 0: it must be from 1 to 100000"
    )
