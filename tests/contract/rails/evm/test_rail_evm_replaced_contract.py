"""Test a chain with a replaced settlement contract: events of both count, each settles its own."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_sandbox.devnet.evm import DEVNET
from florin_sandbox.devnet.genesis import load_artifact
from florin_server.rails.evm.rail import EvmRail

from tests.support.evm_lab import RELAYER, TOKEN, make_chain_settings, open_lab

pytestmark = pytest.mark.both_chains

CONFIRMATIONS = 3


@pytest.fixture
async def lab(evm):
    lab = await open_lab(evm=evm, confirmations=CONFIRMATIONS)
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def settled(lab, number=1):
    """Settle a payment; return it, its event and its reference."""
    item = await lab.create_verified_item(number)
    await lab.settle(item)
    reference = lab.rail.terms.get_reference(item.option)
    (paid,) = await lab.rail.direct_settlement.list_settlement_events([reference], 0)
    return item, paid, reference


async def test_events_of_a_former_settlement_contract_still_count(lab):
    created = await lab.send(data=load_artifact("PaySettler").init, gas=3_000_000)
    changed = make_chain_settings(
        settler=created["contractAddress"], former_settlers=(DEVNET.settler,)
    )
    item, paid, reference = await settled(lab)
    now = EvmRail(changed, RELAYER, lab.node)
    await now.start()
    assert list(now.assets) == [TOKEN]
    assert await now.direct_settlement.list_settlement_events([reference], 0) == [paid]
    assert now.terms.is_proven(item.option, paid)
    stranger = replace(item.option, terms={**item.option.terms, "settler": "0x" + "13" * 20})
    await lab.mine(CONFIRMATIONS)
    assert await now.observer.evidence.find_unpayable_reason(stranger) is None
    assert "was used" in await now.observer.evidence.find_unpayable_reason(item.option)
