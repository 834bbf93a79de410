"""Test quarantined transactions: later transactions of their key do not wait for them."""

from __future__ import annotations

from functools import partial

import pytest
from eth_account import Account
from florin_server.domain.quarantine import QuarantinedItemKind
from florin_server.money.settlement.store import settlement_items

from tests.support.evm_harness import CHAIN, make_buyer
from tests.support.settlement_harness import SettlementHarness, open_settlement_harness

GWEI = 10**9
WALLET = make_buyer(77)


@pytest.fixture
async def shop(tmp_path):
    async with open_settlement_harness(tmp_path) as running:
        yield running


async def dead(shop: SettlementHarness, monkeypatch):
    """Return a quarantined transaction whose nonce another transaction used."""
    await shop.fault(kind="answer", method="eth_sendRawTransaction", effect="drop", times=1)
    await shop.create_processing_payment(make_buyer(78))
    await shop.turn()
    (lost,) = await shop.transactions()
    rival = {
        "chainId": 31337,
        "nonce": lost.nonce,
        "gas": 21_000,
        "maxFeePerGas": 100 * GWEI,
        "maxPriorityFeePerGas": 50 * GWEI,
        "value": 0,
        "to": bytes(19) + b"\x99",
    }
    raw = bytes(Account.sign_transaction(rival, b"\x52" * 32).raw_transaction)

    async def breaks(*_):
        raise ValueError("unexpected error")

    with monkeypatch.context() as broken:
        broken.setattr(shop.lab.rail.observer, "cannot_be_mined", breaks)
        await shop.lab.control.call("eth_sendRawTransaction", "0x" + raw.hex())
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


async def test_sender_prepares_again_once_its_preparation_is_quarantined(shop):
    await shop.lab.pause()
    (queue,) = shop.settler.context.senders.queues
    fill = partial(shop.lab.rail.account_nonces.sign_noop, queue.key.address)
    await queue.send([], fill, lambda: settlement_items.claim(()))
    assert queue.has_preparatory
    (tx,) = await shop.transactions()
    error = ValueError("unexpected error")
    await shop.app.quarantine.add(QuarantinedItemKind.TRANSACTION, CHAIN, tx.id, "end", error)
    assert not queue.has_preparatory
