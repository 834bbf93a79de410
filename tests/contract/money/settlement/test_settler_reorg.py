"""Test reorganizations beyond final depth: the books are reversed, and payments settle again.

The status of a payment never changes. Each test ends by checking the chain and the books.
"""

from __future__ import annotations

import logging

import pytest
from florin_server.accounts.store import destinations
from florin_server.domain.ledger import journals
from florin_server.domain.payments.payment import Destination
from florin_server.domain.quarantine import QuarantinedItemKind
from florin_server.features.monitoring.service import quarantine as items
from florin_server.money.ledger.store import ledger
from florin_server.money.settlement.store import chain_txs, reorg, settlement_items

from tests.support.booked_gas import get_booked_gas, get_spent
from tests.support.evm_harness import CHAIN, PRICE, RELAYER, TOKEN, make_buyer, to_account
from tests.support.settlement_actions import front_run
from tests.support.settlement_harness import (
    MERCHANT,
    SHOP,
    SettlementHarness,
    open_settlement_harness,
    remove_destination,
)

WALLET = make_buyer(77)
CONFIRMATIONS = 3
VALID_S = 900 + 300


@pytest.fixture
async def shop(tmp_path):
    async with open_settlement_harness(tmp_path) as running:
        yield running


async def booked(shop: SettlementHarness) -> int:
    """Return what the merchant received, according to the books."""
    return await shop.store.read(ledger.get_balance(f"external:{to_account(MERCHANT)}", TOKEN))


async def watched(shop: SettlementHarness) -> list[str]:
    return [watched_tx.tx_hash for watched_tx in await shop.store.read(reorg.list_watched(CHAIN))]


async def agree(shop: SettlementHarness, *paid) -> None:
    """Check that books and chain agree, and that the payments are unchanged."""
    for payment in paid:
        assert await shop.get_payment(payment) == payment
    assert await shop.store.read(ledger.check()) == []
    assert await booked(shop) == await shop.lab.balance(MERCHANT) == PRICE * len(paid)
    assert await get_booked_gas(shop) == await get_spent(shop, RELAYER.address)
    assert await shop.transactions() == []
    assert await shop.store.read(settlement_items.list_unsettled(CHAIN)) == []
    assert shop.settler.health().problem == ""


async def test_deep_reorg_is_unbooked_reported_and_settled_again(shop, caplog):
    ended = await shop.run_to_end(await shop.create_processing_payment(WALLET))
    assert await watched(shop) == [ended.tx_id]
    with caplog.at_level(logging.ERROR):
        await shop.lab.reorg(4, ended.tx_id)
        assert await shop.lab.balance(MERCHANT) == 0
        shop.lab.node.changes["eth_sendRawTransaction"] = lambda _, answer: {
            "id": answer["id"],
            "error": {"code": -32000, "message": "not now"},
        }
        await shop.turn()
    assert ended.id in caplog.text
    assert ended.tx_id in caplog.text
    assert await booked(shop) == 0
    assert await get_booked_gas(shop) == 0
    assert await shop.store.read(ledger.check()) == []
    assert await shop.get_payment(ended) == ended
    assert "a reorganization removed payments that had succeeded" in shop.settler.health().problem
    shop.lab.node.changes.clear()
    await shop.mine(6)
    # the same bytes
    await agree(shop, ended)
    assert await watched(shop) == [ended.tx_id]


async def test_it_is_not_forgotten_when_the_process_ends_in_between(shop):
    ended = await shop.run_to_end(await shop.create_processing_payment(WALLET))
    await shop.lab.reorg(4, ended.tx_id)
    shop.lab.node.lost_methods = frozenset({"eth_sendRawTransaction"})
    await shop.turn()
    assert await booked(shop) == 0
    await shop.restart()
    assert "a reorganization removed payments that had succeeded" in shop.settler.health().problem
    shop.lab.node.lost_methods = frozenset()
    await shop.mine(6)
    await agree(shop, ended)


async def test_reorg_during_downtime_is_settled_again_after_restart(shop):
    ended = await shop.run_to_end(await shop.create_processing_payment(WALLET))
    await shop.stop()
    await shop.lab.reorg(4, ended.tx_id)
    assert await shop.lab.balance(MERCHANT) == 0
    await shop.restart()
    await shop.mine(6)
    await agree(shop, ended)


async def test_a_payment_that_only_moves_is_booked_where_it_is_now(shop):
    """The reorganized chain has the same transaction in another block."""
    ended = await shop.run_to_end(await shop.create_processing_payment(WALLET))
    await shop.lab.reorg(5, delay=5)
    await shop.turn()
    assert await booked(shop) == 0
    await shop.mine(4)
    await agree(shop, ended)


async def test_payment_submitted_by_a_stranger_is_resubmitted_after_a_reorg(shop):
    payment = await shop.create_processing_payment(WALLET)
    theirs = await front_run(shop, payment)
    ended = await shop.run_to_end(payment)
    assert ended.tx_id == theirs
    depth = await shop.lab.depth_of(theirs)
    (ours,) = await shop.store.read(chain_txs.list_at_nonce(CHAIN, RELAYER.address, 0))
    await shop.lab.reorg(depth, theirs, ours.hash)
    assert await shop.lab.balance(MERCHANT) == 0
    await shop.mine(10)
    shop.lab.clock.advance(11)
    await shop.mine(6)
    await agree(shop, ended)


async def test_an_authorization_that_lapsed_meanwhile_stays_taken_back(shop, caplog):
    """The merchant was notified of the payment, so only the books and the log show the reversal."""
    ended = await shop.run_to_end(await shop.create_processing_payment(WALLET))
    shop.lab.node.lost_methods = frozenset({"eth_sendRawTransaction"})
    shop.lab.clock.advance(VALID_S + 1)
    with caplog.at_level(logging.ERROR):
        await shop.lab.reorg(4, ended.tx_id)
        await shop.turn()
        for _ in range(4):
            shop.lab.clock.advance(11)
            await shop.mine()
    assert await shop.get_payment(ended) == ended
    assert await booked(shop) == 0
    assert await shop.store.read(ledger.check()) == []
    assert await shop.store.read(settlement_items.list_unsettled(CHAIN)) == []
    what = f"payment {ended.id} was removed by a reorganization and can never be paid again: "
    assert any(record.message.startswith(what) for record in caplog.records)


async def test_payment_deep_enough_is_no_longer_watched(shop):
    ended = await shop.run_to_end(await shop.create_processing_payment(WALLET))
    await shop.mine(2 * CONFIRMATIONS - 1)
    shop.lab.clock.advance(11)
    await shop.turn()
    assert await watched(shop) == [ended.tx_id]
    await shop.mine(2)
    shop.lab.clock.advance(11)
    await shop.turn()
    assert await watched(shop) == []


async def test_a_node_that_lags_takes_nothing_back(shop):
    """The node has no block with that number, which is not a different block."""
    ended = await shop.run_to_end(await shop.create_processing_payment(WALLET))
    snapshot_head = int(await shop.lab.control.call("eth_blockNumber"), 16)
    behind = hex(snapshot_head - 6)
    inner = shop.lab.node.inner

    class Lagging:
        async def send(self, payload):
            text = payload.decode().replace('"latest"', f'"{behind}"')
            for number in range(snapshot_head - 5, snapshot_head + 1):
                text = text.replace(f'"{hex(number)}"', '"0xffff"')
            return await inner.send(text.encode())

        async def close(self):
            pass

    shop.lab.node.inner = Lagging()
    await shop.turn(3)
    assert await booked(shop) == PRICE
    shop.lab.node.inner = inner
    await shop.mine(2)
    await agree(shop, ended)


async def test_later_transactions_do_not_wait_behind_a_vanished_transaction(shop):
    """The undone transaction's nonce is free again, and all later transactions wait for it."""
    first = await shop.run_to_end(await shop.create_processing_payment(WALLET))
    await shop.lab.pause()
    second = await shop.create_processing_payment(make_buyer(78))
    await shop.turn()
    await shop.lab.reorg(4, first.tx_id)
    await shop.mine(8)
    second = await shop.get_payment(second)
    assert second.status == "succeeded"
    await agree(shop, first, second)


async def test_a_payment_is_looked_for_as_deep_as_blocks_may_be_replaced(shop):
    """A transaction sent after the confirm can land in a block below the head of that moment."""
    await shop.mine(2 * CONFIRMATIONS)
    item = await shop.get_item(await shop.create_processing_payment(WALLET))
    assert item.from_block == shop.settler.head - shop.lab.rail.reorg_depth


async def test_reorg_that_the_books_cannot_take_back_is_set_aside_and_retried(shop):
    ended = await shop.run_to_end(await shop.create_processing_payment(WALLET))
    key = journals.settle_key(ended.id)
    await shop.store.write(ledger.reverse(key, 0))
    await shop.lab.reorg(4, ended.tx_id)
    await shop.turn(2)
    (item,) = await items.list_items(shop.app, include_closed=False)
    assert (item.kind, item.subject) == (QuarantinedItemKind.WATCHED, ended.tx_id)
    assert f"{key} cannot be reversed, as it is not booked" in item.reason
    assert await watched(shop) == [ended.tx_id]
    # the chain keeps settling meanwhile, for any time, also after a restart
    other = await shop.run_to_end(await shop.create_processing_payment(make_buyer(78)))
    assert other.status == "succeeded"
    await shop.restart()
    await shop.mine(12)
    assert ended.tx_id in await watched(shop)
    # after the books are repaired, the operator retries the reversal
    await shop.store.write(ledger.post_reversed_again(key, 0))
    await items.retry(shop.app, item.id)
    await shop.mine(6)
    await agree(shop, ended, other)


@pytest.mark.parametrize("fee", ["0", "7"])
async def test_reorg_of_a_payment_to_the_payer_is_unbooked_and_settled_again(
    tmp_path, monkeypatch, fee
):
    """No balance in the books changed, but the journal is still reversed and repeated."""
    monkeypatch.setenv("FLORIN_FEE_FIXED", fee)
    async with open_settlement_harness(tmp_path) as shop:
        await shop.store.write(remove_destination())
        place = Destination("crypto_2", SHOP.id, TOKEN, to_account(WALLET))
        await shop.store.write(destinations.put_destination(place))
        ended = await shop.run_to_end(await shop.create_processing_payment(WALLET))
        assert ended.status == "succeeded"
        for n in (1, 2):
            await shop.lab.reorg(4, (await shop.get_payment(ended)).tx_id)
            await shop.turn()
            assert await shop.store.read(ledger.check()) == []
            undone = journals.reversal_key(journals.nth_key(journals.settle_key(ended.id), n))
            assert await shop.store.read(ledger.filter_booked([undone])) == {undone}

            key = journals.nth_key(journals.settle_key(ended.id), n + 1)

            async def again(key: str = key) -> bool:
                return await shop.store.read(ledger.filter_booked([key])) == {key}

            await shop.mine_until(again)
            await shop.check(ended)
