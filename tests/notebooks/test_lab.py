"""What notebooks share: a Florin with days of payments in it."""

from __future__ import annotations

import os

import lab
import psutil
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def desk(monkeypatch, tmp_path):
    """An analyst's environment: nothing of Florin in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in list(os.environ):
        if name.startswith("FLORIN_"):
            monkeypatch.delenv(name)
    return tmp_path


async def test_a_simulated_florin_answers_with_its_payments_and_the_same_for_the_same_seed(desk):
    before = set(psutil.Process().children(recursive=True))
    told = []
    for _ in range(2):
        used = await lab.simulate(seed=3, payments=10, days=1, slow_chain="solana")
        try:
            rows = [one async for one in used.merchant.list_payments()]
            told.append([(one.reference_id, one.status) for one in rows])
            # it goes on where the days ended
            wallet = used.wallet()
            made = await used.merchant.create_payment(amount=("iso4217/USD", 100))
            assert (await used.pay(made.payment_id, wallet)).info.tx_id
        finally:
            await used.close()
    # with the first one of the test merchant, which nobody paid
    assert len(told[0]) == 11
    assert told[0] == told[1]
    assert len(list((desk / "florin-lab").iterdir())) == 1
    assert set(psutil.Process().children(recursive=True)) == before


async def test_what_cannot_be_simulated_is_told_in_a_sentence():
    with pytest.raises(lab.LabError) as refused:
        await lab.simulate(payments=0)
    assert str(refused.value) == (
        "this cannot be simulated: payments is 0: it must be from 1 to 100000"
    )
