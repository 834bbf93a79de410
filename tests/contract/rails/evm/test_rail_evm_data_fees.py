"""Test that the minimum of an address and the worth of a sweep include a rollup's data fee."""

from __future__ import annotations

from fractions import Fraction

import pytest
from eth_abi import decode
from florin_sandbox.devnet.evm import DEVNET
from florin_server.rails.evm.forwarder_settings import ForwarderSettings

from tests.support.evm_harness import open_lab

OP_ORACLE = "0x420000000000000000000000000000000000000f"
SCROLL_ORACLE = "0x5300000000000000000000000000000000000002"
ARBITRUM_ORACLE = "0x000000000000000000000000000000000000006c"
FEE = 3 * 10**14
FACTOR = 4


@pytest.fixture
async def lab():
    forwarder = ForwarderSettings(address=DEVNET.forwarder, sweep_factor=FACTOR)
    lab = await open_lab(timed=True, forwarder=forwarder)
    yield lab
    await lab.rail.close()
    await lab.chain.close()


def answer_as(oracle, *words, sizes=None):
    """Return a node's change: a contract answers with words, and notes the size of what it gets."""

    def change(params, answer):
        if params[0].get("to") != oracle:
            return answer
        data = bytes.fromhex(params[0]["data"][2:])
        if sizes is not None and len(data) > 4:
            sizes.append(len(decode(["bytes"], data[4:])[0]))
        result = "0x" + b"".join(word.to_bytes(32) for word in words).hex()
        return {"id": answer["id"], "result": result}

    return change


async def measure(lab):
    """Return what forwarding and sweeping cost more than now, once the chain has an oracle."""
    lab.clock.advance(60)
    return await lab.rail.addresses.estimate_cost(), await lab.rail.sweeper.estimate_cost()


@pytest.mark.parametrize("oracle", [OP_ORACLE, SCROLL_ORACLE])
async def test_fee_of_an_oracle_for_bytes_is_part_of_both_costs(lab, oracle):
    forward, swept = await measure(lab)
    sizes = []
    lab.node.changes["eth_call"] = answer_as(oracle, FEE, sizes=sizes)
    more_forward, more_swept = await measure(lab)
    assert more_forward - forward == Fraction(FEE * FACTOR, 10**18)
    assert more_swept - swept == FEE
    # a whole transaction, and what one address adds to a sweep
    assert all(400 < size < 1_000 for size in sizes)


async def test_price_per_byte_is_multiplied_by_the_size(lab):
    forward, _ = await measure(lab)
    lab.node.changes["eth_call"] = answer_as(ARBITRUM_ORACLE, 1, 10**9, 1)
    more, _ = await measure(lab)
    size = (more - forward) * 10**18 / FACTOR / 10**9
    assert 500 < size < 1_000


async def test_oracle_that_refuses_or_answers_too_little_costs_nothing(lab):
    forward, swept = await measure(lab)

    def refuse(params, answer):
        if params[0].get("to") == ARBITRUM_ORACLE:
            return {"id": answer["id"], "error": {"code": -32000, "message": "no precompile"}}
        return (
            {"id": answer["id"], "result": "0x01"} if params[0].get("to") == OP_ORACLE else answer
        )

    lab.node.changes["eth_call"] = refuse
    assert await measure(lab) == (forward, swept)
    lab.node.changes.clear()


async def test_fee_is_read_again_after_half_a_minute(lab):
    lab.node.changes["eth_call"] = answer_as(OP_ORACLE, FEE)
    _, before = await measure(lab)
    lab.node.changes["eth_call"] = answer_as(OP_ORACLE, 2 * FEE)
    assert await lab.rail.sweeper.estimate_cost() == before
    _, after = await measure(lab)
    assert after - before == FEE
