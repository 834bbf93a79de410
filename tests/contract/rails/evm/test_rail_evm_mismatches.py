"""Test that accounts whose code refused a signature also get direct calls, within bounds."""

from __future__ import annotations

import pytest
from florin_server.domain.errors import ApiError
from florin_server.rails.evm.paying.mismatches import SignatureMismatches
from florin_server.rails.types import PayableAsset

from tests.support.evm_harness import (
    ACCEPTS_NONE,
    PRICE,
    TOKEN,
    make_buyer,
    open_lab,
    sign_option,
    to_account,
)

WALLET = make_buyer(7)
PAYER = to_account(WALLET)
BY_SIGNATURE = PayableAsset(PAYER, TOKEN)
BY_CALLS = PayableAsset(PAYER, TOKEN, (PRICE,), "direct")


@pytest.fixture
async def lab():
    lab = await open_lab()
    await lab.fund(WALLET)
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def test_account_that_refused_a_signature_is_offered_the_calls_beside_it(lab):
    # responds like a signer but accepts nothing: like code that hashes again
    await lab.delegate(WALLET, ACCEPTS_NONE)
    assert await lab.payable([PAYER], {TOKEN: PRICE}) == [BY_SIGNATURE]
    option = lab.offer(WALLET)
    with pytest.raises(ApiError) as caught:
        await lab.rail.verifier.verify(option, (), [sign_option(WALLET, option)])
    assert caught.value.details["reason"] == "signature_mismatch"
    assert await lab.payable([PAYER], {TOKEN: PRICE}) == [BY_SIGNATURE, BY_CALLS]


async def test_wrong_signature_of_an_account_without_code_changes_no_offer(lab):
    option = lab.offer(WALLET)
    with pytest.raises(ApiError):
        await lab.rail.verifier.verify(option, (), [sign_option(make_buyer(8), option)])
    assert await lab.payable([PAYER], {TOKEN: PRICE}) == [BY_SIGNATURE]


def test_refused_signatures_are_remembered_for_an_hour_and_in_bounds():
    now = [0.0]
    mismatches = SignatureMismatches(lambda: now[0])
    names = [f"0x{number:040x}" for number in range(1001)]
    for name in names:
        mismatches.record_mismatch(name)
    assert mismatches.select_recorded(names) == frozenset(names[1:])
    now[0] = 3600.0
    assert mismatches.select_recorded(names) == frozenset()
