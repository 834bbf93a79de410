"""Test that pending transactions follow geth's rules and return geth's error texts."""

from __future__ import annotations

import pytest

from tests.support.evm_devnet import (
    ETHER,
    GWEI,
    EvmNodeError,
    make_account,
    open_node,
    sign_transaction,
)

SENDER = make_account(2)


@pytest.fixture
async def node():
    """Open a chain that seals blocks only on request."""
    async with open_node() as node:
        await node.fund(SENDER.address)
        await node.ask("florin_fault", {"kind": "mining", "paused": True})
        yield node


async def put(node, nonce: int, **changes) -> str:
    return await node.ask(
        "eth_sendRawTransaction", sign_transaction(SENDER, {"nonce": nonce} | changes)
    )


async def pending(node) -> int:
    return int(await node.ask("eth_getTransactionCount", SENDER.address, "pending"), 16)


async def test_a_gap_in_the_nonces_is_waited_for(node):
    late = await put(node, 1)
    await node.mine()
    assert await pending(node) == 0
    assert (await node.ask("eth_getTransactionByHash", late))["blockNumber"] is None
    await put(node, 0)
    assert await pending(node) == 2
    await node.mine()
    assert await pending(node) == 2
    assert (await node.receipt(late))["status"] == "0x1"


async def test_a_replacement_must_offer_a_tenth_more_of_both_fees(node):
    old = await put(node, 0, maxFeePerGas=10 * GWEI)
    for fee, tip in ((11, 1), (10, 2), (10.9, 1.1)):
        with pytest.raises(EvmNodeError, match=r"^replacement transaction underpriced$"):
            await put(
                node,
                0,
                maxFeePerGas=int(fee * GWEI),
                maxPriorityFeePerGas=int(tip * GWEI),
            )
    new = await put(node, 0, maxFeePerGas=11 * GWEI, maxPriorityFeePerGas=11 * GWEI // 10)
    assert await node.ask("eth_getTransactionByHash", old) is None
    await node.mine()
    assert await node.receipt(new)


async def test_pending_transaction_is_reported_as_duplicate_until_mined(node):
    await put(node, 0)
    with pytest.raises(EvmNodeError, match=r"^already known$"):
        await put(node, 0)
    await node.mine()
    with pytest.raises(EvmNodeError, match=r"^nonce too low: next nonce 1, tx nonce 0$"):
        await put(node, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"maxPriorityFeePerGas": 0}, "transaction underpriced: gas tip cap 0, minimum needed 1"),
        ({"maxFeePerGas": 1, "maxPriorityFeePerGas": 2}, "higher than max fee per gas"),
        ({"gas": 20_999}, "intrinsic gas too low: gas 20999, minimum needed 21000"),
        ({"gas": 60_000_001}, "exceeds block gas limit"),
        ({"gas": 37_000, "data": "0x" + "01" * 500}, "floor data gas cost"),
        ({"chainId": 1}, "invalid chain id for signer: have 1 want 31337"),
        ({"value": 2 * ETHER}, r"insufficient funds for gas \* price \+ value: balance"),
    ],
)
async def test_unminable_transaction_is_refused(node, changes, message):
    with pytest.raises(EvmNodeError, match=message):
        await put(node, 0, **changes)
    assert await pending(node) == 0


async def test_waiting_transactions_share_the_balance(node):
    await put(node, 0, value=ETHER * 6 // 10)
    with pytest.raises(EvmNodeError, match="queued cost"):
        await put(node, 1, value=ETHER * 6 // 10)


async def test_transaction_that_can_no_longer_pay_is_evicted(node):
    poor = make_account(9)
    gift = await put(node, 0, to=poor.address, value=ETHER // 2)
    await node.mine()
    spent = await node.ask("eth_sendRawTransaction", sign_transaction(poor, {}))
    await node.mine()
    assert await node.receipt(spent)
    await node.ask("florin_fault", {"kind": "reorg", "depth": 2, "drop": [gift]})
    assert await node.ask("eth_getTransactionByHash", spent) is None
    assert await node.ask("eth_getTransactionByHash", gift) is None


async def test_a_fee_below_the_base_fee_waits_for_better_times(node):
    await node.ask("florin_fault", {"kind": "baseFee", "wei": hex(100 * GWEI)})
    cheap = await put(node, 0)
    await node.mine()
    assert await node.ask("eth_getTransactionReceipt", cheap) is None
    await node.ask("florin_fault", {"kind": "baseFee", "wei": hex(GWEI)})
    await node.mine()
    assert await node.receipt(cheap)


async def test_best_tip_is_mined_first_in_nonce_order_per_sender(node):
    generous = make_account(5)
    await node.fund(generous.address)
    first = await put(node, 0)
    second = await put(node, 1, maxPriorityFeePerGas=9 * GWEI)
    better = await node.ask(
        "eth_sendRawTransaction", sign_transaction(generous, {"maxPriorityFeePerGas": 5 * GWEI})
    )
    await node.mine()
    block = await node.ask("eth_getBlockByNumber", "latest", False)
    assert block["transactions"] == [better, first, second]


async def test_a_full_block_leaves_the_rest_for_the_next(node):
    await node.ask("florin_faucet", {"accounts": [SENDER.address], "nativeWei": hex(100 * ETHER)})
    await node.ask("florin_fault", {"kind": "mining", "paused": False})
    wasteful = await node.deploy(bytes.fromhex("fe"))  # INVALID takes all gas
    await node.ask("florin_fault", {"kind": "mining", "paused": True})
    hashes = [
        await put(node, nonce, to=wasteful, gas=25_000_000, maxFeePerGas=3 * GWEI)
        for nonce in range(3)
    ]
    await node.mine()
    block = await node.ask("eth_getBlockByNumber", "latest", False)
    assert block["transactions"] == hashes[:2]
    await node.mine()
    assert (await node.receipt(hashes[2]))["status"] == "0x0"
