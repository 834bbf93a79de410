"""Test that payments end correctly when nodes lack data that no decision needs."""

from __future__ import annotations

import pytest

from tests.support.evm_lab import make_buyer, make_reply
from tests.support.settler_lab import open_settlement_harness

WALLET = make_buyer(77)

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
