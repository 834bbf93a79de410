"""The shared parts of notebooks: a Florin with days of payments in it."""

from __future__ import annotations

import os

import lab
import psutil
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def desk(monkeypatch, tmp_path):
    """Set up an analyst's environment: without Florin's variables."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in list(os.environ):
        if name.startswith("FLORIN_"):
            monkeypatch.delenv(name)
    return tmp_path


async def test_a_simulated_florin_answers_with_its_payments_and_the_same_for_the_same_seed(desk):
    before = set(psutil.Process().children(recursive=True))
    result = []
    for _ in range(2):
        used = await lab.simulate(seed=3, payments=10, days=1, slow_chain="solana")
        try:
            rows = [each_payment async for each_payment in used.merchant.list_payments()]
            result.append([(row.reference_id, row.status) for row in rows])
            # it continues where the days ended
            wallet = used.wallet()
            payment = await used.merchant.create_payment(amount=("iso4217/USD", 100))
            assert (await used.pay(payment.payment_id, wallet)).info.tx_id
        finally:
            await used.close()
    # with the first one of the test merchant, which was not paid
    assert len(result[0]) == 11
    assert result[0] == result[1]
    assert len(list((desk / "florin-lab").iterdir())) == 1
    assert set(psutil.Process().children(recursive=True)) == before


async def test_impossible_simulation_is_refused_in_a_sentence():
    with pytest.raises(lab.LabError) as refused:
        await lab.simulate(payments=0)
    assert str(refused.value) == (
        "this cannot be simulated: payments is 0: it must be from 1 to 100000"
    )
