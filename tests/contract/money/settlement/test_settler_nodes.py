"""Test that payments end correctly when nodes lack data that no decision needs."""

from __future__ import annotations

import pytest

from tests.support.evm_harness import (
    make_buyer,
    make_refusal,
    make_reply,
)
from tests.support.settlement_actions import front_run
from tests.support.settlement_harness import (
    open_settlement_harness,
)

EVERYTHING = frozenset(
    {"eth_getBlockByNumber", "eth_blockNumber", "eth_sendRawTransaction", "eth_getTransactionCount"}
)
QUESTIONS = [
    "eth_blockNumber",
    "eth_call",
    "eth_getBlockByNumber",
    "eth_getBlockReceipts",
    "eth_getLogs",
    "eth_getTransactionByHash",
    "eth_getTransactionCount",
    "eth_getTransactionReceipt",
]

WALLET = make_buyer(77)
# calls of a node that fails now and then; a start needs more
ANSWERED = 5

pytestmark = pytest.mark.both_chains


@pytest.fixture
async def shop(tmp_path, evm):
    async with open_settlement_harness(tmp_path, evm=evm) as running:
        yield running


@pytest.mark.parametrize("receipts", [make_reply(None), make_reply([])], ids=["null", "none"])
async def test_payment_succeeds_where_a_node_lacks_the_receipts_of_blocks(shop, receipts):
    shop.lab.node.changes["eth_getBlockReceipts"] = receipts
    payment = await shop.create_processing_payment(WALLET)
    await shop.turn(2)
    await shop.mine(2)
    ended = await shop.get_payment(payment)
    assert ended.status == "succeeded"
    await shop.check(ended)
    assert shop.settler.health().problem == ""


@pytest.mark.parametrize("price", [None, "0x", 7])
async def test_payment_succeeds_when_no_node_reports_the_gas_cost(shop, price):
    def without_costs(_, answer):
        receipts = answer["result"]
        for receipt in receipts if isinstance(receipts, list) else [receipts]:
            receipt["effectiveGasPrice"] = price
        return answer

    for method in ("eth_getBlockReceipts", "eth_getTransactionReceipt"):
        shop.lab.node.changes[method] = without_costs
    payment = await shop.create_processing_payment(WALLET)
    await shop.turn(2)
    await shop.mine(2)
    assert (await shop.get_payment(payment)).status == "succeeded"
    assert shop.settler.health().problem == ""
    assert shop.settler.health().open_transactions == 0


async def test_an_outage_never_ends_a_payment(shop):
    """Neither lost answers nor refusals end it, however long and past every deadline."""
    payment = await shop.create_processing_payment(WALLET)
    theirs = await front_run(shop, payment)
    node = shop.lab.node
    node.lost_methods = EVERYTHING
    await shop.lab.mine(5)
    for _ in range(5):
        shop.lab.clock.advance(900)
        await shop.turn()
        assert shop.settler.health().problem
    assert await shop.status(payment) == "processing"
    node.lost_methods = frozenset()
    for answer in (
        make_refusal(-32603, "overloaded"),
        make_reply(None),
        make_reply("0x"),
        make_reply([]),
    ):
        node.changes = dict.fromkeys(QUESTIONS, answer)
        shop.lab.clock.advance(900)
        await shop.turn(2)
        assert shop.settler.health().problem
        assert await shop.status(payment) == "processing"
    node.changes = {}
    shop.lab.clock.advance(11)
    await shop.turn()
    ended = await shop.get_payment(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", theirs)
    assert shop.settler.health().problem == ""
    await shop.check(ended)


async def test_an_outage_while_starting(shop):
    payment = await shop.create_processing_payment(WALLET)
    shop.lab.node.lost_methods = EVERYTHING
    await shop.restart()
    await shop.turn(3)
    assert shop.settler.health().problem
    shop.lab.node.lost_methods = frozenset()
    assert (await shop.run_to_end(payment)).status == "succeeded"


async def test_a_start_continues_where_a_node_failed(shop):
    """A node that fails now and then answers each step, and never all of them."""
    payment = await shop.create_processing_payment(WALLET)
    await shop.turn()
    refuse = make_refusal(-32603, "internal error")
    count = 0

    def fail_now_and_then(params, answer):
        nonlocal count
        count += 1
        return answer if count % ANSWERED else refuse(params, answer)

    shop.lab.node.changes.update(dict.fromkeys(QUESTIONS, fail_now_and_then))
    await shop.restart()
    for _ in range(20):
        if shop.settler.leases:
            break
        await shop.turn()
    assert shop.settler.leases
    shop.lab.node.changes.clear()
    assert (await shop.run_to_end(payment)).status == "succeeded"
