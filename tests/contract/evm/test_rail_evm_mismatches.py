"""Accounts whose code refused a signature are offered the calls beside it, within bounds."""

from __future__ import annotations

import pytest
from florin_server.domain.errors import FlorinError
from florin_server.rails.evm.paying.mismatches import Mismatches
from florin_server.rails.types import Payable

from tests.support.evm_lab import (
    ACCEPTS_NONE,
    PRICE,
    TOKEN,
    account_of,
    buyer,
    open_lab,
    signed,
)

WALLET = buyer(7)
PAYER = account_of(WALLET)
BY_SIGNATURE = Payable(PAYER, TOKEN)
BY_CALLS = Payable(PAYER, TOKEN, (PRICE,), "direct")


@pytest.fixture
async def lab():
    lab = await open_lab()
    await lab.fund(WALLET)
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def test_account_that_refused_a_signature_is_offered_the_calls_beside_it(lab):
    # it answers as a signer does, and accepts nothing: as code that hashes again
    await lab.delegate(WALLET, ACCEPTS_NONE)
    assert await lab.payable([PAYER], {TOKEN: PRICE}) == [BY_SIGNATURE]
    option = lab.offer(WALLET)
    with pytest.raises(FlorinError) as caught:
        await lab.rail.verifier.verify(option, (), [signed(WALLET, option)])
    assert caught.value.details["reason"] == "signature_mismatch"
    assert await lab.payable([PAYER], {TOKEN: PRICE}) == [BY_SIGNATURE, BY_CALLS]


async def test_wrong_signature_of_an_account_without_code_changes_no_offer(lab):
    option = lab.offer(WALLET)
    with pytest.raises(FlorinError):
        await lab.rail.verifier.verify(option, (), [signed(buyer(8), option)])
    assert await lab.payable([PAYER], {TOKEN: PRICE}) == [BY_SIGNATURE]


def test_refused_signatures_are_remembered_for_an_hour_and_in_bounds():
    now = [0.0]
    mismatches = Mismatches(lambda: now[0])
    names = [f"0x{number:040x}" for number in range(1001)]
    for name in names:
        mismatches.record(name)
    assert mismatches.select(names) == frozenset(names[1:])
    now[0] = 3600.0
    assert mismatches.select(names) == frozenset()
