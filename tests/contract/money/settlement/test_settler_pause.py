"""Test what a settler leaves alone: everything while paused, and simulated payments."""

from __future__ import annotations

import pytest
from florin_server.domain.money import Amount
from florin_server.domain.payments.payment import Payment
from florin_server.domain.payments.state import PaymentStateEvent
from florin_server.money.payments.store import simulation
from florin_server.operations.service.executors import list_executors, pause, resume

from tests.support.evm_harness import PRICE, RELAYER, make_buyer, make_refusal
from tests.support.settlement_actions import front_run
from tests.support.settlement_harness import (
    CHAIN,
    MERCHANT,
    SettlementHarness,
    open_settlement_harness,
)

WALLET, OTHER = make_buyer(77), make_buyer(78)
EXECUTOR = f"{CHAIN}:{RELAYER.address}"
VALID_S = 900 + 300


@pytest.fixture
async def shop(tmp_path):
    async with open_settlement_harness(tmp_path) as running:
        yield running


def broadcasts(shop: SettlementHarness) -> int:
    return shop.lab.node.methods.count("eth_sendRawTransaction")


async def simulate(shop: SettlementHarness, payment: Payment, event: PaymentStateEvent) -> Payment:
    op = simulation.simulate(payment.id, event, Amount("iso4217/USD", 1), shop.lab.clock.now_us())
    return await shop.store.write(op)


async def compare(shop: SettlementHarness) -> None:
    """Let the settler compare everything with the chain."""
    shop.lab.clock.advance(10)
    await shop.turn(2)


# pauses


async def test_a_paused_settler_sends_nothing_until_it_is_resumed(shop):
    payment = await shop.create_processing_payment(WALLET, paused=[EXECUTOR])
    await compare(shop)
    await shop.mine(3)
    assert (broadcasts(shop), await shop.transactions()) == (0, [])
    assert await shop.status(payment) == "processing"
    assert shop.settler.health().problem == "paused by the operator"
    await resume(shop.app, EXECUTOR)
    assert shop.settler.health().problem == ""
    assert (await shop.run_to_end(payment)).status == "succeeded"


async def test_transaction_sent_before_a_pause_is_followed_to_its_end(shop):
    payment = await shop.create_processing_payment(WALLET)
    await shop.turn()
    (executor,) = await list_executors(shop.app)
    assert (executor.paused_at_us, executor.open_transactions) == (None, 1)
    paused = await pause(shop.app, EXECUTOR)
    assert paused.paused_at_us == shop.lab.clock.now_us()
    assert (await shop.run_to_end(payment)).status == "succeeded"
    assert await shop.transactions() == []
    assert broadcasts(shop) == 1


async def test_a_lost_transaction_is_not_sent_again_during_a_pause(shop):
    await shop.fault(kind="answer", method="eth_sendRawTransaction", effect="drop", times=1)
    payment = await shop.create_processing_payment(WALLET)
    await shop.turn()
    (sent,) = await shop.transactions()
    await pause(shop.app, EXECUTOR)
    await shop.mine(8)
    await compare(shop)
    assert broadcasts(shop) == 1
    assert await shop.status(payment) == "processing"
    await resume(shop.app, EXECUTOR)
    ended = await shop.run_to_end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", sent.hash)


async def test_a_pause_in_the_middle_of_a_submission(shop, monkeypatch):
    """A transaction signed by then is not sent; the resumed settler sends it with no new block."""
    sign = shop.lab.rail.relay.sign

    async def meanwhile(*what):
        await pause(shop.app, EXECUTOR)
        return await sign(*what)

    monkeypatch.setattr(shop.lab.rail.relay, "sign", meanwhile)
    payment = await shop.create_processing_payment(WALLET)
    await shop.turn()
    assert broadcasts(shop) == 0
    (signed,) = await shop.transactions()
    assert signed.state == "signed"
    await resume(shop.app, EXECUTOR)
    await shop.turn()
    assert broadcasts(shop) == 1
    assert (await shop.run_to_end(payment)).tx_id == signed.hash


async def test_a_pause_survives_a_restart(shop):
    await shop.fault(kind="answer", method="eth_sendRawTransaction", effect="drop", times=1)
    signed, waiting = (
        await shop.create_processing_payment(WALLET),
        await shop.create_processing_payment(OTHER),
    )
    await shop.turn()
    await pause(shop.app, EXECUTOR)
    await shop.restart()
    request = broadcasts(shop)
    await shop.mine(4)
    await compare(shop)
    assert broadcasts(shop) == request
    assert [await shop.status(item) for item in (signed, waiting)] == ["processing"] * 2
    assert "paused by the operator" in shop.settler.health().problem
    await resume(shop.app, EXECUTOR)
    for payment in (signed, waiting):
        assert (await shop.run_to_end(payment)).status == "succeeded"
    await shop.restart()
    assert shop.settler.health().problem == ""


async def test_a_pause_hides_no_other_trouble(shop):
    await pause(shop.app, EXECUTOR)
    shop.lab.node.changes["eth_getBlockByNumber"] = make_refusal(-32000, "out of order")
    await compare(shop)
    assert shop.settler.health().problem.startswith("paused by the operator; ")


async def test_payment_settled_by_a_stranger_during_a_pause_succeeds(shop):
    payment = await shop.create_processing_payment(WALLET, paused=[EXECUTOR])
    await front_run(shop, payment)
    await shop.lab.mine(3)
    await compare(shop)
    assert (await shop.get_payment(payment)).status == "succeeded"
    await shop.check(await shop.get_payment(payment))


async def test_an_authorization_that_lapses_during_a_pause(shop):
    payment = await shop.create_processing_payment(WALLET, paused=[EXECUTOR])
    shop.lab.clock.advance(VALID_S + 1)
    await shop.lab.mine(4)
    await compare(shop)
    assert (await shop.get_payment(payment)).status == "failed"
    await resume(shop.app, EXECUTOR)
    await shop.mine(2)
    assert broadcasts(shop) == 0
    await shop.check(await shop.get_payment(payment))


async def test_pausing_and_resuming_twice_changes_nothing(shop):
    first = await pause(shop.app, EXECUTOR)
    shop.lab.clock.advance(1)
    spelled = f"{CHAIN}:0x{RELAYER.address[2:].upper()}"
    assert await pause(shop.app, spelled) == first
    resumed = await resume(shop.app, EXECUTOR)
    assert (await resume(shop.app, EXECUTOR)) == resumed
    assert resumed.paused_at_us is None


# simulations


async def test_simulated_payment_is_not_sent(shop):
    stalled, failed = (
        await shop.create_processing_payment(WALLET),
        await shop.create_processing_payment(OTHER),
    )
    await simulate(shop, stalled, PaymentStateEvent.SIMULATE_STALL)
    await simulate(shop, failed, PaymentStateEvent.SIMULATE_FAILED)
    await shop.mine(3)
    await compare(shop)
    assert broadcasts(shop) == 0
    assert await shop.lab.balance(MERCHANT) == 0
    assert await shop.status(stalled) == "processing"


@pytest.mark.parametrize("event", ["simulate_stall", "simulate_expired", "simulate_succeeded"])
async def test_proof_does_not_change_a_simulated_payment(shop, event):
    payment = await shop.create_processing_payment(WALLET)
    await shop.turn(2)
    assert await shop.lab.balance(MERCHANT) == PRICE
    simulated = await simulate(shop, payment, PaymentStateEvent(event))
    await shop.mine(4)
    await compare(shop)
    assert await shop.get_payment(payment) == simulated
    # the transaction itself has ended, and nothing is booked for the payment
    assert await shop.transactions() == []
    await shop.restart()
    await compare(shop)
    assert await shop.get_payment(payment) == simulated


async def test_a_lapsed_authorization_does_not_end_a_stalled_payment(shop):
    await shop.lab.pause()
    payment = await shop.create_processing_payment(WALLET)
    await shop.turn()
    stalled = await simulate(shop, payment, PaymentStateEvent.SIMULATE_STALL)
    shop.lab.clock.advance(VALID_S + 1)
    await shop.lab.mine(4)
    await compare(shop)
    assert await shop.get_payment(payment) == stalled


async def test_settler_drops_a_simulated_payment(shop):
    """Otherwise the settler would look for its proof forever."""
    await shop.lab.pause()
    payment = await shop.create_processing_payment(WALLET)
    await shop.turn()
    await simulate(shop, payment, PaymentStateEvent.SIMULATE_STALL)
    assert shop.settler.health().open_payments == 1
    await compare(shop)
    assert shop.settler.health().open_payments == 0


async def test_a_simulation_in_the_middle_of_a_submission(shop, monkeypatch):
    """The payment was read as waiting, then its outcome was simulated; nothing is sent for it."""
    payment, other = (
        await shop.create_processing_payment(WALLET),
        await shop.create_processing_payment(OTHER),
    )
    sign = shop.lab.rail.relay.sign

    async def meanwhile(*what):
        await simulate(shop, payment, PaymentStateEvent.SIMULATE_STALL)
        return await sign(*what)

    monkeypatch.setattr(shop.lab.rail.relay, "sign", meanwhile)
    assert (await shop.run_to_end(other)).status == "succeeded"
    assert await shop.status(payment) == "processing"
    assert await shop.lab.balance(MERCHANT) == PRICE
