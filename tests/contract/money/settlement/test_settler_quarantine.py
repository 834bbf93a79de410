"""Test quarantined transactions: later transactions of their key do not wait for them."""

from __future__ import annotations

from functools import partial

import pytest
from eth_account import Account
from florin_server.domain.quarantine import QuarantinedItemKind
from florin_server.money.settlement.store import settlement_items
from florin_server.rails.types import RailUnavailable

from tests.support.evm_harness import CHAIN, make_buyer
from tests.support.settlement_harness import SettlementHarness, open_settlement_harness

GWEI = 10**9
WALLET = make_buyer(77)


@pytest.fixture
async def shop(tmp_path):
    async with open_settlement_harness(tmp_path) as running:
        yield running


async def use_nonce(shop: SettlementHarness, nonce: int) -> None:
    """Use a nonce of the relayer's key elsewhere."""
    rival = {
        "chainId": 31337,
        "nonce": nonce,
        "gas": 21_000,
        "maxFeePerGas": 100 * GWEI,
        "maxPriorityFeePerGas": 50 * GWEI,
        "value": 0,
        "to": bytes(19) + b"\x99",
    }
    raw = bytes(Account.sign_transaction(rival, b"\x52" * 32).raw_transaction)
    await shop.lab.control.call("eth_sendRawTransaction", "0x" + raw.hex())


async def dead(shop: SettlementHarness, monkeypatch):
    """Return a quarantined transaction whose nonce another transaction used."""
    await shop.fault(kind="answer", method="eth_sendRawTransaction", effect="drop", times=1)
    await shop.create_processing_payment(make_buyer(78))
    await shop.turn()
    (lost,) = await shop.transactions()

    async def breaks(*_):
        raise ValueError("unexpected error")

    with monkeypatch.context() as broken:
        broken.setattr(shop.lab.rail.observer, "cannot_be_mined", breaks)
        await use_nonce(shop, lost.nonce)
        await shop.mine(3)
        shop.lab.clock.advance(10)
        await shop.turn(2)
    assert shop.app.quarantine.contains(QuarantinedItemKind.TRANSACTION, CHAIN, lost.id)
    return lost


async def test_quarantined_transaction_keeps_no_other_from_a_higher_fee(shop, monkeypatch):
    lost = await dead(shop, monkeypatch)
    payment = await shop.create_processing_payment(WALLET)
    await shop.lab.pause()
    await shop.turn()
    await shop.base_fee(40 * GWEI)

    async def is_raised() -> bool:
        return any(tx.bumps for tx in await shop.transactions())

    await shop.mine_until(is_raised)
    left, raised = await shop.transactions()
    assert (left.id, left.bumps) == (lost.id, ())
    assert len(raised.bumps) == 1
    assert (await shop.run_to_end(payment)).status == "succeeded"


async def test_quarantined_transaction_takes_no_slot_of_its_key(shop, monkeypatch):
    await dead(shop, monkeypatch)
    monkeypatch.setattr(type(shop.lab.rail), "open_max", 1)
    payment = await shop.create_processing_payment(WALLET)
    await shop.turn(2)
    assert (await shop.run_to_end(payment)).status == "succeeded"


async def test_unanswered_question_about_one_transaction_keeps_no_other_open(shop, monkeypatch):
    await shop.fault(kind="answer", method="eth_sendRawTransaction", effect="drop", times=2)
    for buyer in (78, 79):
        await shop.create_processing_payment(make_buyer(buyer))
        await shop.turn()
    first, second = await shop.transactions()
    judge = shop.lab.rail.observer.cannot_be_mined

    async def judge_others(tx, builds):
        if tx.id == first.id:
            raise RailUnavailable("the node lacks the state of that block")
        return await judge(tx, builds)

    monkeypatch.setattr(shop.lab.rail.observer, "cannot_be_mined", judge_others)
    for lost in (first, second):
        await use_nonce(shop, lost.nonce)
    await shop.mine(3)
    shop.lab.clock.advance(10)
    await shop.turn(2)
    open_ids = [tx.id for tx in await shop.transactions()]
    assert (first.id in open_ids, second.id in open_ids) == (True, False)


async def test_sender_prepares_again_once_its_preparation_is_quarantined(shop):
    await shop.lab.pause()
    (queue,) = shop.settler.context.senders.queues
    fill = partial(shop.lab.rail.account_nonces.sign_noop, queue.key.address)
    await queue.send([], fill, lambda: settlement_items.claim(()))
    assert len(queue.list_without_items()) == 1
    (tx,) = await shop.transactions()
    error = ValueError("unexpected error")
    await shop.app.quarantine.add(QuarantinedItemKind.TRANSACTION, CHAIN, tx.id, "end", error)
    assert queue.list_without_items() == []
