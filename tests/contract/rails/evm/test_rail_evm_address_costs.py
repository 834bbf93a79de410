"""Test what an address must be worth, where the chain charges more for storage."""

from __future__ import annotations

from fractions import Fraction

import pytest
from florin_sandbox.devnet.evm import DEVNET
from florin_server.rails.evm.forwarder_settings import ForwarderSettings

from tests.support.evm_harness import open_lab

# EIP-8037: 97,920 for a new slot instead of 20,000
SURCHARGE = 77_920


@pytest.fixture
async def lab():
    lab = await open_lab(forwarder=ForwarderSettings(address=DEVNET.forwarder))
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def test_dear_storage_raises_the_least_payment_and_the_least_return(lab):
    addresses, sweeper, shares = lab.rail.addresses, lab.rail.sweeper, lab.rail.gas_shares
    before = await addresses.estimate_cost(), await sweeper.estimate_cost()
    shares.record_prices(SURCHARGE, 0, 40)
    after = await addresses.estimate_cost(), await sweeper.estimate_cost()
    # one address has its account and its code, about 211,000 gas more
    assert after[0] / before[0] == Fraction(140_000 + 3 * SURCHARGE, 140_000)
    assert Fraction(after[1], before[1]) == Fraction(70_000 + 3 * SURCHARGE, 70_000)
