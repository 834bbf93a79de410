"""A chain that changed its settlement contract: events of both count, each settles its own."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_server.devnet.evm import DEVNET
from florin_server.devnet.genesis import artifact
from florin_server.rails.evm.rail import EvmRail

from tests.support.evm_lab import RELAYER, TOKEN, open_lab, settings

pytestmark = pytest.mark.both_chains

CONFIRMATIONS = 3


@pytest.fixture
async def lab(evm):
    lab = await open_lab(evm=evm, confirmations=CONFIRMATIONS)
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def settled(lab, number=1):
    """A settled payment, its event and its reference."""
    item = await lab.sold(number)
    await lab.settle(item)
    reference = lab.rail.terms.reference(item.option)
    (paid,) = await lab.rail.direct.paid([reference], 0)
    return item, paid, reference


async def test_events_of_a_former_settlement_contract_still_count(lab):
    made = await lab.send(data=artifact("PaySettler").bytecode, gas=3_000_000)
    changed = settings(settler=made["contractAddress"], former_settlers=(DEVNET.settler,))
    item, paid, reference = await settled(lab)
    now = EvmRail(changed, RELAYER, lab.node)
    await now.start()
    assert list(now.assets) == [TOKEN]
    assert await now.direct.paid([reference], 0) == [paid]
    assert now.terms.proves(item.option, paid)
    stranger = replace(item.option, terms={**item.option.terms, "settler": "0x" + "13" * 20})
    await lab.mine(CONFIRMATIONS)
    assert await now.observer.evidence.spent_or_lapsed(stranger) is None
    assert "was used" in await now.observer.evidence.spent_or_lapsed(item.option)
