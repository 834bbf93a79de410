"""Test the planned faults of the embedded Solana chain."""

from __future__ import annotations

import asyncio

import pytest
from florin_server.domain.chains.solana import spl

from tests.support.solana_devnet import SolanaNodeError, make_coin_transfer, make_wallet, open_node
from tests.support.until import wait_until

BUYER, RELAYER, MERCHANT = make_wallet(1), make_wallet(2), make_wallet(3).pubkey()
SOL = spl.LAMPORTS_PER_SOL


@pytest.fixture
async def node():
    async with open_node() as node:
        await node.fund(BUYER, RELAYER)
        yield node


async def test_faults_befall_the_calls_they_are_planned_for(node):
    wire = await node.make_transaction([BUYER], make_coin_transfer(BUYER, MERCHANT, SOL // 2))
    await node.fault("answer", method="sendTransaction", effect="drop")
    signature = await node.send(wire)
    assert await node.status(signature) is None
    await node.fault(
        "answer", method="sendTransaction", effect="error", message="busy", code=-32005
    )
    with pytest.raises(SolanaNodeError, match="busy"):
        await node.send(wire)
    assert await node.coin(MERCHANT) == 0
    await node.fault("answer", method="sendTransaction", effect="late_error")
    with pytest.raises(SolanaNodeError, match="injected fault"):
        await node.send(wire)
    assert await node.coin(MERCHANT) == SOL // 2
    lie = {"context": {"slot": 1}, "value": [None]}
    await node.fault("answer", method="getSignatureStatuses", effect="lie", result=lie)
    assert await node.status(signature) is None
    assert (await node.status(signature))["err"] is None


async def test_late_answers_wait_for_the_clock(node):
    await node.fault("answer", method="getSlot", effect="delay", delayMs=3000)
    task = asyncio.create_task(node.ask("getSlot"))
    await wait_until(lambda: node.clock.sleeper_count)
    assert await node.ask("getHealth") == "ok"
    assert not task.done()
    node.clock.advance(3)
    assert isinstance(await task, int)


async def test_while_nothing_lands_transactions_wait_or_lapse(node):
    await node.fault("landing", paused=True)
    lapses = await node.send(
        await node.make_transaction([BUYER], make_coin_transfer(BUYER, MERCHANT, SOL // 3))
    )
    await node.fault("slots", slots=151)
    lands = await node.send(
        await node.make_transaction([BUYER], make_coin_transfer(BUYER, MERCHANT, SOL // 4))
    )
    assert await node.status(lands) is None
    await node.fault("clear")
    assert (await node.status(lands))["err"] is None
    assert await node.status(lapses) is None
    assert await node.coin(MERCHANT) == SOL // 4


async def test_armed_faults_are_listed_and_cleared_by_kind(node):
    await node.fault("answer", method="getSlot", effect="delay", times=2)
    await node.fault("landing", paused=True)
    planned = {"kind": "answer", "method": "getSlot", "effect": "delay", "times": 2}
    waits = {"kind": "landing", "paused": True}
    assert await node.fault("list") == [planned, waits]
    await node.fault("clear", only="answer")
    assert await node.fault("list") == [waits]
    await node.fault("clear", only="landing")
    assert await node.fault("list") == []


async def test_no_more_is_armed_than_can_be_looked_through(node):
    for _ in range(256):
        await node.fault("answer", method="getSlot", effect="null", times=1_000_000)
    with pytest.raises(SolanaNodeError, match="256 faults are already armed"):
        await node.fault("answer", method="getHealth", effect="null")
    await node.fault("clear")
    assert await node.fault("list") == []


@pytest.mark.parametrize(
    "options",
    [
        {"kind": "clear", "only": "mining"},
        {"kind": "reorg"},
        {"kind": "answer"},
        {"kind": "answer", "method": "getSlot", "effect": "drop"},
        {"kind": "answer", "method": "getSlot", "effect": "vanish"},
        {"kind": "slots", "slots": -1},
        {"kind": "landing"},
    ],
)
async def test_faults_that_cannot_be_are_refused(node, options):
    with pytest.raises(SolanaNodeError) as refused:
        await node.ask("florin_fault", options)
    assert refused.value.code == -32602


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"kind": "prune", "slots": 149}, "slots: not a number between 150 and 10000000"),
        ({"kind": "slots", "slots": "0x10"}, "slots: not a number between 0 and 10000000"),
        ({"kind": "landing"}, "paused is missing"),
        ({"kind": "landing", "paused": 1}, "paused: not true or false"),
    ],
)
async def test_invalid_fault_value_is_refused_by_name(node, options, sentence):
    with pytest.raises(SolanaNodeError) as refused:
        await node.ask("florin_fault", options)
    assert str(refused.value) == f"{sentence} (-32602)"
