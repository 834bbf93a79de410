"""Test what the facilitator knows about the life of a transaction that a client signed."""

from __future__ import annotations

import pytest
from florin_server.domain.x402.messages import parse_payment, parse_requirements

from tests.support.solana import SolanaTestWallet
from tests.support.solana_devnet import START_S
from tests.support.solana_rail_harness import MERCHANT, RELAYER, open_lab
from tests.support.solana_requests import open_receivers
from tests.support.x402_solana import list_steps, make_requirements, sign_steps


@pytest.fixture
async def lab():
    async with open_lab() as lab:
        await open_receivers(lab)
        yield lab


async def test_node_that_lags_does_not_shorten_the_life_of_a_blockhash(lab):
    wallet = SolanaTestWallet()
    await lab.node.fund(wallet.key)
    await lab.slots(100)
    requirements = make_requirements(MERCHANT, RELAYER.address)
    latest = await lab.node.ask("getLatestBlockhash", {"commitment": "finalized"})
    steps = list_steps(wallet, requirements)
    content = await sign_steps(lab.node, wallet, requirements, steps)

    def lag(_params: object, answer: dict[str, int]) -> dict[str, int]:
        return {**answer, "result": answer["result"] - lab.rail.chain.lag_max}

    lab.transport.changes["getBlockHeight"] = lag
    facilitator = lab.rail.facilitator
    transfer = facilitator.read_transfer(
        parse_payment(content), parse_requirements(requirements, "accepted"), START_S
    )
    checked = await facilitator.check(transfer, START_S)
    assert checked.content["last_valid"] >= latest["value"]["lastValidBlockHeight"]
