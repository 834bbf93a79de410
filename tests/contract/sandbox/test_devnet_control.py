"""Test the controls of a development chain: test money, reorganizations, faults, snapshots."""

from __future__ import annotations

import asyncio

import pytest
from florin_sandbox.devnet.evm import DEVNET
from florin_sandbox.devnet.evm.control import SNAPSHOTS_MAX
from florin_sandbox.devnet.faults import FAULTS_MAX, RESULT_BYTES_MAX
from florin_server.base.clock import TestClock

from tests.support.evm_devnet import (
    ETHER,
    FAUCET,
    GWEI,
    MERCHANT,
    START_S,
    EvmNodeError,
    encode_call,
    make_account,
    make_payment,
    open_node,
    sign_transaction,
)

RELAYER = make_account(2)
BUYER = make_account(4)
GIFT = 10_000_000_000


@pytest.fixture
async def node():
    async with open_node() as node:
        await node.fund(RELAYER.address)
        yield node


async def coin(node, address: str) -> int:
    return int(await node.ask("eth_getBalance", address), 16)


async def fault(node, kind: str, **options):
    return await node.ask("florin_fault", {"kind": kind} | options)


# ---- test money


async def test_the_faucet_gives_once_and_in_a_block_at_once(node):
    await fault(node, "mining", paused=True)
    accounts = [BUYER.address, MERCHANT]
    value = await node.ask("florin_faucet", {"accounts": accounts})
    assert value["blockNumber"] == hex(await node.number())
    assert len(value["transactions"]) == 4
    for account in accounts:
        assert (await coin(node, account), await node.tokens(account)) == (ETHER, GIFT)
    for account in value["transactions"]:
        assert (await node.receipt(account))["status"] == "0x1"
    again = await node.ask("florin_faucet", {"accounts": accounts})
    assert again == {"transactions": [], "blockNumber": None}


async def test_the_faucet_gives_again_when_half_is_spent(node):
    await node.fund(BUYER.address)
    await node.settle(RELAYER, make_payment(BUYER, 1, value=GIFT // 2))
    await node.fund(BUYER.address)
    assert await node.tokens(BUYER.address) == GIFT // 2
    await node.settle(RELAYER, make_payment(BUYER, 2, value=1))
    await node.fund(BUYER.address)
    assert await node.tokens(BUYER.address) == GIFT


async def test_faucet_tops_up_to_the_requested_amount(node):
    request = {"accounts": [BUYER.address], "nativeWei": "0x0", "tokenUnits": hex(GIFT + 5)}
    await node.fund(BUYER.address)
    await node.ask("florin_faucet", request)
    assert await node.tokens(BUYER.address) == GIFT + 5
    only_coin = {"accounts": [MERCHANT], "tokens": [], "nativeWei": "0x7"}
    await node.ask("florin_faucet", only_coin)
    assert (await coin(node, MERCHANT), await node.tokens(MERCHANT)) == (7, 0)


async def test_faucet_leaves_pending_transactions_of_other_senders(node):
    await fault(node, "mining", paused=True)
    waiting = await node.send(RELAYER, MERCHANT, "0x")
    await node.fund(BUYER.address)
    assert (await node.ask("eth_getTransactionByHash", waiting))["blockNumber"] is None


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"accounts": "all"},
        {"accounts": ["0x12"]},
        {"accounts": ["0x" + "11" * 20] * 257},
        {"accounts": [MERCHANT], "tokens": [MERCHANT]},
        {"accounts": [MERCHANT], "amount": "0x1"},
    ],
)
async def test_the_faucet_refuses_nonsense(node, options):
    with pytest.raises(EvmNodeError) as refused:
        await node.ask("florin_faucet", options)
    assert refused.value.code == -32602


async def test_a_faucet_that_cannot_mint_says_so(node):
    await node.run(FAUCET, DEVNET.token.address, encode_call("pause()"))
    with pytest.raises(EvmNodeError, match="refused to mint"):
        await node.fund(BUYER.address)


# ---- reorganizations


async def test_a_reorg_replaces_blocks_and_keeps_transactions(node):
    await node.fund(BUYER.address)
    first = await node.settle(RELAYER, make_payment(BUYER, 1))
    head = await node.number()
    done = await fault(node, "reorg", depth=1)
    assert done["number"] == hex(head + 1)
    second = await node.receipt(first["transactionHash"])
    assert second["blockNumber"] == first["blockNumber"]
    assert second["blockHash"] != first["blockHash"]
    assert await node.ask("eth_getBlockByHash", first["blockHash"], False) is None
    assert await node.tokens(MERCHANT) == 5_000_000
    block = await node.ask("eth_getBlockByNumber", hex(head + 1), False)
    assert block["parentHash"] == second["blockHash"]


async def test_a_reorg_can_lose_a_transaction_for_good(node):
    await node.fund(BUYER.address)
    lost = await node.settle(RELAYER, make_payment(BUYER, 1))
    await node.mine(2)
    await fault(node, "reorg", depth=3, drop=[lost["transactionHash"]])
    assert await node.ask("eth_getTransactionReceipt", lost["transactionHash"]) is None
    assert await node.ask("eth_getTransactionByHash", lost["transactionHash"]) is None
    assert await node.tokens(MERCHANT) == 0
    assert await node.ask("eth_getTransactionCount", RELAYER.address) == "0x0"
    assert (await node.settle(RELAYER, make_payment(BUYER, 1)))["status"] == "0x1"


async def test_a_reorg_can_delay_transactions(node):
    receipt = await node.run(RELAYER, MERCHANT, "0x")
    await fault(node, "reorg", depth=1, delay=1)
    again = await node.receipt(receipt["transactionHash"])
    assert int(again["blockNumber"], 16) == int(receipt["blockNumber"], 16) + 1


async def test_the_first_block_cannot_be_replaced(node):
    with pytest.raises(EvmNodeError, match="cannot replace"):
        await fault(node, "reorg", depth=await node.number() + 1)
    assert await node.number() == 1


# ---- snapshots


async def test_a_snapshot_brings_everything_back(node):
    await fault(node, "mining", paused=True)
    waiting = await node.send(RELAYER, MERCHANT, "0x", value=1)
    before = await node.ask("eth_getBlockByNumber", "latest", False)
    snapshot = await node.ask("evm_snapshot")
    await node.mine(200)  # deeper than a pruned node could go back
    assert await coin(node, MERCHANT) == 1
    assert await node.ask("evm_revert", snapshot) is True
    assert await node.ask("eth_getBlockByNumber", "latest", False) == before
    assert await coin(node, MERCHANT) == 0
    assert (await node.ask("eth_getTransactionByHash", waiting))["blockNumber"] is None
    assert await node.ask("evm_revert", snapshot) is False


async def test_a_snapshot_of_a_branch_that_is_gone_is_gone(node):
    await node.mine(3)
    snapshot = await node.ask("evm_snapshot")
    await fault(node, "reorg", depth=2)
    assert await node.ask("evm_revert", snapshot) is False


# ---- faults


async def test_a_call_can_be_refused_a_number_of_times(node):
    options = {"method": "eth_blockNumber", "effect": "error", "times": 2}
    await fault(node, "answer", **options, message="busy", code=-32005)
    for _ in range(2):
        with pytest.raises(EvmNodeError, match="busy") as refused:
            await node.ask("eth_blockNumber")
        assert refused.value.code == -32005
    assert await node.number() == 1


async def test_a_transaction_can_vanish_without_a_word(node):
    await fault(node, "answer", method="eth_sendRawTransaction", effect="drop")
    raw = sign_transaction(RELAYER, {})
    vanished = await node.ask("eth_sendRawTransaction", raw)
    assert await node.ask("eth_getTransactionByHash", vanished) is None
    assert await node.ask("eth_sendRawTransaction", raw) == vanished
    assert await node.receipt(vanished)


async def test_a_transaction_can_be_taken_and_answered_with_an_error(node):
    await fault(node, "answer", method="eth_sendRawTransaction", effect="late_error")
    with pytest.raises(EvmNodeError, match="injected fault"):
        await node.send(RELAYER, MERCHANT, "0x")
    assert await node.ask("eth_getTransactionCount", RELAYER.address) == "0x1"


async def test_a_receipt_can_be_hidden(node):
    receipt = await node.run(RELAYER, MERCHANT, "0x")
    await fault(node, "answer", method="eth_getTransactionReceipt", effect="null")
    assert await node.ask("eth_getTransactionReceipt", receipt["transactionHash"]) is None
    assert await node.receipt(receipt["transactionHash"]) == receipt


async def test_delayed_response_does_not_delay_other_calls(node):
    await fault(node, "answer", method="eth_chainId", effect="delay", delayMs=5_000)
    late = asyncio.create_task(node.ask("eth_chainId"))
    await asyncio.sleep(0)
    assert await node.number() == 1
    assert await node.ask("eth_chainId")
    node.clock.advance(4.9)
    await node.number()
    assert not late.done()
    node.clock.advance(0.2)
    assert await late == hex(DEVNET.chain_id)


async def test_faults_happen_in_the_order_planned_and_can_be_cleared(node):
    await fault(node, "answer", method="eth_chainId", effect="null")
    await fault(node, "answer", method="eth_chainId", effect="error", times=9)
    assert await node.ask("eth_chainId") is None
    with pytest.raises(EvmNodeError):
        await node.ask("eth_chainId")
    await fault(node, "clear")
    assert await node.ask("eth_chainId")


async def test_armed_faults_are_listed_and_cleared_by_kind(node):
    assert await fault(node, "list") == []
    await fault(node, "answer", method="eth_chainId", effect="null", times=3)
    await fault(node, "answer", method="eth_gasPrice", effect="error")
    await fault(node, "mining", paused=True)
    await fault(node, "revert", times=2)
    await fault(node, "lag", blocks=1)
    await node.ask("eth_chainId")
    chain_id = {"kind": "answer", "method": "eth_chainId", "effect": "null", "times": 2}
    gas_price = {"kind": "answer", "method": "eth_gasPrice", "effect": "error", "times": 1}
    remaining = {
        "lag": {"kind": "lag", "blocks": 1},
        "mining": {"kind": "mining", "paused": True},
        "revert": {"kind": "revert", "times": 2},
    }
    assert await fault(node, "list") == [chain_id, gas_price, *remaining.values()]
    await fault(node, "clear", only="answer")
    assert await fault(node, "list") == list(remaining.values())
    for kind in list(remaining):
        await fault(node, "clear", only=kind)
        del remaining[kind]
        assert await fault(node, "list") == list(remaining.values())
    await fault(node, "answer", method="eth_chainId", effect="null")
    await fault(node, "lag", blocks=1)
    await fault(node, "clear")
    assert await fault(node, "list") == []
    assert await node.ask("eth_chainId")


async def test_no_more_is_armed_than_can_be_looked_through(node):
    for number in range(FAULTS_MAX):
        await fault(node, "answer", method=f"eth_{number}", effect="null", times=1_000_000)
    with pytest.raises(EvmNodeError, match="256 faults are already armed"):
        await fault(node, "answer", method="eth_chainId", effect="null")
    await fault(node, "clear", only="answer")
    long = "x" * (RESULT_BYTES_MAX + 1)
    for result in ({"effect": "lie", "result": long}, {"effect": "error", "message": long}):
        with pytest.raises(EvmNodeError, match="is limited to"):
            await fault(node, "answer", method="eth_chainId", **result)
    assert await fault(node, "list") == []


async def test_snapshot_limit_is_enforced(node):
    for _ in range(SNAPSHOTS_MAX):
        last = await node.ask("evm_snapshot")
    with pytest.raises(EvmNodeError, match="snapshots exist already"):
        await node.ask("evm_snapshot")
    assert await node.ask("evm_revert", last) is True
    assert await node.ask("evm_snapshot")


async def test_a_pause_holds_transactions_back_until_it_ends(node):
    await fault(node, "mining", paused=True)
    sent = await node.send(RELAYER, MERCHANT, "0x")
    assert await node.ask("eth_getTransactionReceipt", sent) is None
    await fault(node, "mining", paused=False)
    assert await node.receipt(sent)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kind": "flood"},
        {"kind": "answer", "effect": "error"},
        {"kind": "answer", "method": "eth_chainId", "effect": "explode"},
        {"kind": "answer", "method": "eth_chainId", "effect": "drop"},
        {"kind": "answer", "method": "eth_chainId", "effect": "error", "times": -1},
        {"kind": "mining"},
        {"kind": "reorg", "drop": "all"},
        {"kind": "evict"},
        {"kind": "evict", "transactions": ["0x12"]},
        {"kind": "clear", "now": True},
        {"kind": "clear", "only": "landing"},
        {"kind": "clear", "only": ["mining"]},
        {"kind": "list", "only": "mining"},
    ],
)
async def test_a_fault_that_makes_no_sense_is_refused(node, options):
    with pytest.raises(EvmNodeError) as refused:
        await node.ask("florin_fault", options)
    assert refused.value.code == -32602


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"kind": "baseFee"}, "wei is missing"),
        ({"kind": "baseFee", "wei": 3}, "wei: 3 is not a hex number"),
        ({"kind": "baseFee", "wei": "3"}, "wei: '3' is not a hex number"),
        ({"kind": "baseFee", "wei": hex(2**63)}, "wei: no base fee is above 0x4000000000000000"),
        ({"kind": "lag"}, "blocks is missing"),
        ({"kind": "lag", "blocks": True}, "blocks: True is not a whole number"),
        ({"kind": "revert", "times": 0.5}, "times: 0.5 is not a whole number"),
        ({"kind": "reorg", "depth": 9999}, "depth: 9999 is not between 0 and "),
        ({"kind": "reorg", "drop": ["0x12"]}, "drop: not a hash"),
        (
            {"kind": "answer", "method": "eth_chainId", "effect": "error", "code": "no"},
            "code: 'no' is not a hex number",
        ),
    ],
)
async def test_invalid_fault_value_is_refused_by_name(node, options, sentence):
    with pytest.raises(EvmNodeError) as refused:
        await node.ask("florin_fault", options)
    assert str(refused.value).startswith(sentence)
    assert refused.value.code == -32602


# ---- block times


async def mined_to(node, number: int) -> None:
    """Wait until the ticker has sealed the block; its work queues with the calls."""
    for _ in range(100):
        if await node.number() >= number:
            return
    pytest.fail(f"block {number} did not come")


async def test_blocks_come_at_their_interval():
    clock = TestClock(START_S * 1_000_000)
    async with open_node(clock=clock, block_interval_s=2) as node:
        await node.fund(RELAYER.address)
        start = await node.number()
        sent = await node.send(RELAYER, MERCHANT, "0x", gas=21_000, maxFeePerGas=3 * GWEI)
        assert await node.ask("eth_getTransactionReceipt", sent) is None
        clock.advance(2)
        await mined_to(node, start + 1)
        block = await node.ask("eth_getBlockByNumber", "latest", False)
        assert (block["transactions"], block["timestamp"]) == ([sent], hex(START_S + 2))


async def test_block_that_was_late_makes_no_later_block_late():
    clock = TestClock(START_S * 1_000_000)
    async with open_node(clock=clock, block_interval_s=2) as node:
        assert await node.number() == 0
        clock.advance(2.5)
        await mined_to(node, 1)
        clock.advance(1.5)
        await mined_to(node, 2)
        # missed blocks are skipped
        clock.advance(7)
        await mined_to(node, 3)
        clock.advance(1)
        await node.number()
        await asyncio.sleep(0)
        assert await node.number() == 3
        clock.advance(1)
        await mined_to(node, 4)


@pytest.mark.parametrize(("interval_s", "blocks"), [(0.25, 239), (1, 59), (4, 32)])
async def test_idle_chain_slows_down_after_32_blocks_and_60_seconds(interval_s, blocks):
    clock = TestClock(START_S * 1_000_000)
    async with open_node(clock=clock, block_interval_s=interval_s) as node:
        assert await node.number() == 0
        for number in range(1, blocks + 1):
            clock.advance(interval_s)
            await mined_to(node, number)
        last = await node.ask("eth_getBlockByNumber", "latest", False)
        # no block comes until the last is 15 seconds old
        while clock.now_us() / 1_000_000 + interval_s < int(last["timestamp"], 16) + 15:
            clock.advance(interval_s)
            await node.number()
            await asyncio.sleep(0)
            assert await node.number() == blocks
        clock.advance(interval_s)
        await mined_to(node, blocks + 1)
        block = await node.ask("eth_getBlockByNumber", "latest", False)
        assert int(block["timestamp"], 16) - int(last["timestamp"], 16) in range(15, 17)


# transactions that fail


async def test_the_next_transactions_fail_pay_their_gas_and_do_nothing(node):
    await fault(node, "revert", times=2)
    await node.fund(BUYER.address)  # test money still arrives
    assert await node.tokens(BUYER.address) == GIFT
    held = await coin(node, RELAYER.address)
    for _ in range(2):
        receipt = await node.receipt(await node.send(RELAYER, MERCHANT, "0x", value=ETHER // 10))
        assert (receipt["status"], receipt["logs"]) == ("0x0", [])
    cost = int(receipt["gasUsed"], 16) * int(receipt["effectiveGasPrice"], 16)
    assert await coin(node, MERCHANT) == 0
    assert 0 < held - await coin(node, RELAYER.address) <= 3 * cost
    await node.settle(RELAYER, make_payment(BUYER, 3, value=1))
    assert await node.tokens(BUYER.address) == GIFT - 1


async def test_a_settlement_that_fails_leaves_the_authorization_good(node):
    await node.fund(BUYER.address)
    await fault(node, "revert")
    paid = make_payment(BUYER, 1, value=5)
    assert (await node.settle(RELAYER, paid))["status"] == "0x0"
    assert (await node.settle(RELAYER, paid))["status"] == "0x1"


async def test_lagging_node_returns_only_older_blocks(node):
    old = await node.ask("eth_getBlockByNumber", "latest", False)
    sent = await node.send(RELAYER, MERCHANT, "0x", value=7)
    new = await node.ask("eth_getBlockByNumber", "latest", False)
    everything = {"fromBlock": "0x0", "toBlock": "latest"}
    await fault(node, "lag", blocks=1)
    assert await node.number() == int(old["number"], 16)
    assert await node.ask("eth_getBlockByNumber", "latest", False) == old
    for method, requests in (
        ("eth_getTransactionReceipt", [sent]),
        ("eth_getTransactionByHash", [sent]),
        ("eth_getBlockByNumber", [new["number"], False]),
        ("eth_getBlockByHash", [new["hash"], False]),
        ("eth_getBlockReceipts", [new["hash"]]),
    ):
        assert await node.ask(method, *requests) is None
    assert await coin(node, MERCHANT) == 0
    assert new["hash"] not in {
        item["blockHash"] for item in await node.ask("eth_getLogs", everything)
    }
    # what is sent arrives
    later = await node.send(RELAYER, MERCHANT, "0x", value=2, nonce=1)
    await fault(node, "clear")
    assert (await node.receipt(later))["status"] == "0x1"
    assert await coin(node, MERCHANT) == 9
