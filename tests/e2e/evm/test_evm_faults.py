"""Payments while the embedded EVM chain has injected faults, as merchants' own tests can cause."""

from __future__ import annotations

import pytest
import pytest_asyncio
from florin_server.domain.settlement.chain_txs import TxState

from tests.support.evm_pos import EUR, PRICE, USD, EvmPos
from tests.support.service_harness import ServiceHarness, open_service
from tests.support.until import wait_until

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    async with open_service(tmp_path_factory.mktemp("faults") / "home") as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def pos(desk: ServiceHarness):
    pos = EvmPos(desk, await desk.tenant())
    await desk.chain.fund(pos.wallet.address)
    yield pos
    await desk.chain.ask("florin_fault", {"kind": "clear"})


async def status(desk: ServiceHarness, tx_hash: str) -> str:
    receipt = await desk.chain.ask("eth_getTransactionReceipt", tx_hash)
    return str(receipt["status"])


@pytest.mark.parametrize("amount", [USD, EUR])
async def test_payment_with_a_failed_settlement_is_settled_by_a_later_transaction(
    desk, pos, amount
):
    payment_id, option = await pos.offer(amount)
    token = option["amount"]["unit"].rpartition(":")[2]
    outputs = await pos.perform(option)
    held = await desk.chain.balance(pos.wallet.address, token)
    await desk.chain.ask("florin_fault", {"kind": "revert", "times": 1})
    await pos.confirm(payment_id, option, outputs)
    payment = await desk.wait_ended(payment_id)
    assert payment["status"] == "succeeded"
    sent = desk.select(
        "SELECT t.hash, t.state FROM chain_tx t JOIN chain_tx_item i ON i.tx_id = t.id"
        " WHERE i.payment_id = ? ORDER BY t.nonce",
        payment_id,
    )
    (failed, first), (settled, second) = sent
    assert (first, second) == (TxState.FINAL, TxState.FINAL)
    assert [await status(desk, item) for item in (failed, settled)] == ["0x0", "0x1"]
    assert held - await desk.chain.balance(pos.wallet.address, token) == PRICE


async def test_a_payment_waits_for_a_node_that_lags_and_is_settled_once(desk, pos):
    payment_id, option = await pos.offer(USD)
    outputs = await pos.perform(option)
    held = await desk.chain.balance(pos.wallet.address)
    await desk.chain.ask("evm_mine", {"blocks": 3})
    await desk.chain.ask("florin_fault", {"kind": "lag", "blocks": 2})
    await pos.confirm(payment_id, option, outputs)
    sent = (
        "SELECT t.hash FROM chain_tx t JOIN chain_tx_item i ON i.tx_id = t.id"
        " WHERE i.payment_id = ? AND t.state = ?"
    )
    hashes = await wait_until(lambda: desk.select(sent, payment_id, TxState.SENT))
    # it is mined already, two blocks ahead of what the node reports
    for _ in range(5):
        desk.clock.advance(11)
        assert (await desk.rest.status(payment_id))["status"] == "processing"
    assert await desk.chain.ask("eth_getTransactionReceipt", hashes[0][0]) is None
    await desk.chain.ask("florin_fault", {"kind": "clear"})
    assert (await desk.wait_ended(payment_id))["status"] == "succeeded"
    assert await status(desk, hashes[0][0]) == "0x1"
    assert held - await desk.chain.balance(pos.wallet.address) == PRICE
