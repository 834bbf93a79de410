"""Reorganisations deeper than what counts as final: the books take back, and it pays again.

The status of a payment never changes; each test ends by asking the chain and the books.
"""

from __future__ import annotations

import logging

import pytest
from florin_server.domain.ledger import journals
from florin_server.domain.payments.payment import Destination
from florin_server.domain.quarantine import ItemKind
from florin_server.flows.quarantine import items
from florin_server.store.accounts import destinations
from florin_server.store.ledger import ledger
from florin_server.store.settlement import chain_txs, reorg

from tests.support.evm_lab import CHAIN, PRICE, RELAYER, TOKEN, account_of, buyer
from tests.support.fee_steps import booked_gas, spent
from tests.support.settler_lab import MERCHANT, SHOP, Works, without_destination, works
from tests.support.settler_steps import front_run

WALLET = buyer(77)
CONFIRMATIONS = 3
VALID_S = 900 + 300


@pytest.fixture
async def shop(tmp_path):
    async with works(tmp_path) as running:
        yield running


async def booked(shop: Works) -> int:
    """What the merchant got, by the books."""
    return await shop.store.read(ledger.balance(f"external:{account_of(MERCHANT)}", TOKEN))


async def watched(shop: Works) -> list[str]:
    return [one.tx_hash for one in await shop.store.read(reorg.watched(CHAIN))]


async def agree(shop: Works, *paid) -> None:
    """Books and chain say the same, and the payments are as they were."""
    for payment in paid:
        assert await shop.now(payment) == payment
    assert await shop.store.read(ledger.check()) == []
    assert await booked(shop) == await shop.lab.balance(MERCHANT) == PRICE * len(paid)
    assert await booked_gas(shop) == await spent(shop, RELAYER.address)
    assert await shop.transactions() == []
    assert await shop.store.read(chain_txs.unsettled(CHAIN)) == []
    assert shop.settler.health().problem == ""


async def test_a_deep_reorganisation_is_taken_back_told_and_paid_again(shop, caplog):
    ended = await shop.end(await shop.accepted(WALLET))
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
    assert await booked_gas(shop) == 0
    assert await shop.store.read(ledger.check()) == []
    assert await shop.now(ended) == ended
    assert "a reorganisation undid payments that had succeeded" in shop.settler.health().problem
    shop.lab.node.changes.clear()
    await shop.mine(6)
    # the same bytes
    await agree(shop, ended)
    assert await watched(shop) == [ended.tx_id]


async def test_it_is_not_forgotten_when_the_process_ends_in_between(shop):
    ended = await shop.end(await shop.accepted(WALLET))
    await shop.lab.reorg(4, ended.tx_id)
    shop.lab.node.lost = frozenset({"eth_sendRawTransaction"})
    await shop.turn()
    assert await booked(shop) == 0
    await shop.restart()
    assert "a reorganisation undid payments that had succeeded" in shop.settler.health().problem
    shop.lab.node.lost = frozenset()
    await shop.mine(6)
    await agree(shop, ended)


async def test_a_reorganisation_while_nobody_looks(shop):
    ended = await shop.end(await shop.accepted(WALLET))
    await shop.stop()
    await shop.lab.reorg(4, ended.tx_id)
    assert await shop.lab.balance(MERCHANT) == 0
    await shop.restart()
    await shop.mine(6)
    await agree(shop, ended)


async def test_a_payment_that_only_moves_is_booked_where_it_is_now(shop):
    """The reorganised chain has the same transaction in another block."""
    ended = await shop.end(await shop.accepted(WALLET))
    await shop.lab.reorg(5, delay=5)
    await shop.turn()
    assert await booked(shop) == 0
    await shop.mine(4)
    await agree(shop, ended)


async def test_money_that_somebody_else_moved_is_moved_again_by_us(shop):
    payment = await shop.accepted(WALLET)
    theirs = await front_run(shop, payment)
    ended = await shop.end(payment)
    assert ended.tx_id == theirs
    depth = await shop.lab.depth_of(theirs)
    (ours,) = await shop.store.read(chain_txs.at_nonce(CHAIN, RELAYER.address, 0))
    await shop.lab.reorg(depth, theirs, ours.hash)
    assert await shop.lab.balance(MERCHANT) == 0
    await shop.mine(10)
    shop.lab.clock.advance(11)
    await shop.mine(6)
    await agree(shop, ended)


async def test_an_authorization_that_lapsed_meanwhile_stays_taken_back(shop, caplog):
    """The merchant was told that it is paid: nothing tells otherwise but the books and the log."""
    ended = await shop.end(await shop.accepted(WALLET))
    shop.lab.node.lost = frozenset({"eth_sendRawTransaction"})
    shop.lab.clock.advance(VALID_S + 1)
    with caplog.at_level(logging.ERROR):
        await shop.lab.reorg(4, ended.tx_id)
        await shop.turn()
        for _ in range(4):
            shop.lab.clock.advance(11)
            await shop.mine()
    assert await shop.now(ended) == ended
    assert await booked(shop) == 0
    assert await shop.store.read(ledger.check()) == []
    assert await shop.store.read(chain_txs.unsettled(CHAIN)) == []
    what = f"payment {ended.id}, which a reorganisation undid, can never be paid again: "
    assert any(one.message.startswith(what) for one in caplog.records)


async def test_what_is_deep_enough_is_watched_no_longer(shop):
    ended = await shop.end(await shop.accepted(WALLET))
    await shop.mine(2 * CONFIRMATIONS - 1)
    shop.lab.clock.advance(11)
    await shop.turn()
    assert await watched(shop) == [ended.tx_id]
    await shop.mine(2)
    shop.lab.clock.advance(11)
    await shop.turn()
    assert await watched(shop) == []


async def test_a_node_that_lags_takes_nothing_back(shop):
    """It has no block with that number: that is no other block."""
    ended = await shop.end(await shop.accepted(WALLET))
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


async def test_later_transactions_do_not_wait_for_ever_behind_one_that_vanished(shop):
    """The nonce of what was undone is free again, and everything later waits for it."""
    first = await shop.end(await shop.accepted(WALLET))
    await shop.lab.pause()
    second = await shop.accepted(buyer(78))
    await shop.turn()
    await shop.lab.reorg(4, first.tx_id)
    await shop.mine(8)
    second = await shop.now(second)
    assert second.status == "succeeded"
    await agree(shop, first, second)


async def test_a_payment_is_looked_for_as_deep_as_blocks_may_be_replaced(shop):
    """What is sent after the confirm may end up in a block below the head of that moment."""
    await shop.mine(2 * CONFIRMATIONS)
    item = await shop.item(await shop.accepted(WALLET))
    assert item.from_block == shop.settler.head - shop.lab.rail.reorg_depth


async def test_reorg_that_the_books_cannot_take_back_is_set_aside_and_retried(shop):
    ended = await shop.end(await shop.accepted(WALLET))
    key = journals.settle(ended.id)
    await shop.store.write(ledger.reverse(key, 0))
    await shop.lab.reorg(4, ended.tx_id)
    await shop.turn(2)
    (item,) = await items.list_items(shop.app, all_=False)
    assert (item.kind, item.subject) == (ItemKind.WATCHED, ended.tx_id)
    assert f"{key} is to be reversed, and is not booked" in item.reason
    assert await watched(shop) == [ended.tx_id]
    # the chain settles on meanwhile, however long that takes, also after a restart
    other = await shop.end(await shop.accepted(buyer(78)))
    assert other.status == "succeeded"
    await shop.restart()
    await shop.mine(12)
    assert ended.tx_id in await watched(shop)
    # whoever mends the books has it undone
    await shop.store.write(ledger.repeat(key, 0))
    await items.retry(shop.app, item.id)
    await shop.mine(6)
    await agree(shop, ended, other)


@pytest.mark.parametrize("fee", ["0", "7"])
async def test_reorg_of_a_payment_to_the_payer_itself_is_undone_and_settled_again(
    tmp_path, monkeypatch, fee
):
    """Nothing moved between accounts of the books, and still the journal is undone and repeated."""
    monkeypatch.setenv("FLORIN_FEE_FIXED", fee)
    async with works(tmp_path) as shop:
        await shop.store.write(without_destination())
        place = Destination("crypto_2", SHOP.id, TOKEN, account_of(WALLET))
        await shop.store.write(destinations.put_destination(place))
        ended = await shop.end(await shop.accepted(WALLET))
        assert ended.status == "succeeded"
        for n in (1, 2):
            await shop.lab.reorg(4, (await shop.now(ended)).tx_id)
            await shop.turn()
            assert await shop.store.read(ledger.check()) == []
            undone = journals.reversal(journals.nth(journals.settle(ended.id), n))
            assert await shop.store.read(ledger.booked([undone])) == {undone}

            key = journals.nth(journals.settle(ended.id), n + 1)

            async def again(key: str = key) -> bool:
                return await shop.store.read(ledger.booked([key])) == {key}

            await shop.mine_until(again)
            await shop.check(ended)
