"""What a settler leaves alone: everything while it is paused, and what somebody simulated."""

from __future__ import annotations

import pytest
from florin_server.domain.money import Amount
from florin_server.domain.payments.payment import Payment
from florin_server.domain.payments.state import Event
from florin_server.flows.operator.executors import listed, pause, resume
from florin_server.store.payments import simulation

from tests.support.evm_lab import PRICE, RELAYER, buyer, refuse
from tests.support.settler_lab import CHAIN, MERCHANT, Works, works
from tests.support.settler_steps import front_run

WALLET, OTHER = buyer(77), buyer(78)
EXECUTOR = f"{CHAIN}:{RELAYER.address}"
VALID_S = 900 + 300


@pytest.fixture
async def shop(tmp_path):
    async with works(tmp_path) as running:
        yield running


def broadcasts(shop: Works) -> int:
    return shop.lab.node.asked.count("eth_sendRawTransaction")


async def simulate(shop: Works, payment: Payment, event: Event) -> Payment:
    op = simulation.simulate(payment.id, event, Amount("iso4217/USD", 1), shop.lab.clock.now_us())
    return await shop.store.write(op)


async def compare(shop: Works) -> None:
    """Lets the settler compare everything with the chain."""
    shop.lab.clock.advance(10)
    await shop.turn(2)


# pauses


async def test_a_paused_settler_sends_nothing_until_it_is_resumed(shop):
    await pause(shop.app, EXECUTOR)
    payment = await shop.accepted(WALLET)
    await compare(shop)
    await shop.mine(3)
    assert (broadcasts(shop), await shop.transactions()) == (0, [])
    assert await shop.status(payment) == "processing"
    assert shop.settler.health().problem == "paused by the operator"
    await resume(shop.app, EXECUTOR)
    assert shop.settler.health().problem == ""
    assert (await shop.end(payment)).status == "succeeded"


async def test_what_was_sent_before_a_pause_is_followed_to_its_end(shop):
    payment = await shop.accepted(WALLET)
    await shop.turn()
    (executor,) = await listed(shop.app)
    assert (executor.paused_at_us, executor.open_transactions) == (None, 1)
    paused = await pause(shop.app, EXECUTOR)
    assert paused.paused_at_us == shop.lab.clock.now_us()
    assert (await shop.end(payment)).status == "succeeded"
    assert await shop.transactions() == []
    assert broadcasts(shop) == 1


async def test_a_lost_transaction_is_not_sent_again_during_a_pause(shop):
    await shop.fault(kind="answer", method="eth_sendRawTransaction", effect="drop", times=1)
    payment = await shop.accepted(WALLET)
    await shop.turn()
    (sent,) = await shop.transactions()
    await pause(shop.app, EXECUTOR)
    await shop.mine(8)
    await compare(shop)
    assert broadcasts(shop) == 1
    assert await shop.status(payment) == "processing"
    await resume(shop.app, EXECUTOR)
    ended = await shop.end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", sent.hash)


async def test_a_pause_in_the_middle_of_a_submission(shop, monkeypatch):
    """What is signed by then stays at home; it goes out on resumption, without a new block."""
    sign = shop.lab.rail.relay.sign

    async def meanwhile(*what):
        await pause(shop.app, EXECUTOR)
        return await sign(*what)

    monkeypatch.setattr(shop.lab.rail.relay, "sign", meanwhile)
    payment = await shop.accepted(WALLET)
    await shop.turn()
    assert broadcasts(shop) == 0
    (signed,) = await shop.transactions()
    assert signed.state == "signed"
    await resume(shop.app, EXECUTOR)
    await shop.turn()
    assert broadcasts(shop) == 1
    assert (await shop.end(payment)).tx_id == signed.hash


async def test_a_pause_survives_a_restart(shop):
    await shop.fault(kind="answer", method="eth_sendRawTransaction", effect="drop", times=1)
    signed, waiting = await shop.accepted(WALLET), await shop.accepted(OTHER)
    await shop.turn()
    await pause(shop.app, EXECUTOR)
    await shop.restart()
    asked = broadcasts(shop)
    await shop.mine(4)
    await compare(shop)
    assert broadcasts(shop) == asked
    assert [await shop.status(one) for one in (signed, waiting)] == ["processing"] * 2
    assert "paused by the operator" in shop.settler.health().problem
    await resume(shop.app, EXECUTOR)
    for payment in (signed, waiting):
        assert (await shop.end(payment)).status == "succeeded"
    await shop.restart()
    assert shop.settler.health().problem == ""


async def test_a_pause_hides_no_other_trouble(shop):
    await pause(shop.app, EXECUTOR)
    shop.lab.node.changes["eth_getBlockByNumber"] = refuse(-32000, "out of order")
    await compare(shop)
    assert shop.settler.health().problem.startswith("paused by the operator; ")


async def test_a_payment_that_others_settle_during_a_pause(shop):
    await pause(shop.app, EXECUTOR)
    payment = await shop.accepted(WALLET)
    await front_run(shop, payment)
    await shop.lab.mine(3)
    await compare(shop)
    assert (await shop.now(payment)).status == "succeeded"
    await shop.check(await shop.now(payment))


async def test_an_authorization_that_lapses_during_a_pause(shop):
    await pause(shop.app, EXECUTOR)
    payment = await shop.accepted(WALLET)
    shop.lab.clock.advance(VALID_S + 1)
    await shop.lab.mine(4)
    await compare(shop)
    assert (await shop.now(payment)).status == "failed"
    await resume(shop.app, EXECUTOR)
    await shop.mine(2)
    assert broadcasts(shop) == 0
    await shop.check(await shop.now(payment))


async def test_pausing_and_resuming_twice_changes_nothing(shop):
    first = await pause(shop.app, EXECUTOR)
    shop.lab.clock.advance(1)
    spelled = f"{CHAIN}:0x{RELAYER.address[2:].upper()}"
    assert await pause(shop.app, spelled) == first
    resumed = await resume(shop.app, EXECUTOR)
    assert (await resume(shop.app, EXECUTOR)) == resumed
    assert resumed.paused_at_us is None


# simulations


async def test_what_was_simulated_before_it_was_sent_is_not_sent(shop):
    stalled, failed = await shop.accepted(WALLET), await shop.accepted(OTHER)
    await simulate(shop, stalled, Event.SIMULATE_STALL)
    await simulate(shop, failed, Event.SIMULATE_FAILED)
    await shop.mine(3)
    await compare(shop)
    assert broadcasts(shop) == 0
    assert await shop.lab.balance(MERCHANT) == 0
    assert await shop.status(stalled) == "processing"


@pytest.mark.parametrize("event", ["simulate_stall", "simulate_expired", "simulate_succeeded"])
async def test_a_proof_does_not_change_what_was_simulated(shop, event):
    payment = await shop.accepted(WALLET)
    await shop.turn(2)
    assert await shop.lab.balance(MERCHANT) == PRICE
    simulated = await simulate(shop, payment, Event(event))
    await shop.mine(4)
    await compare(shop)
    assert await shop.now(payment) == simulated
    # the transaction itself is done with, and nothing is booked for the payment
    assert await shop.transactions() == []
    await shop.restart()
    await compare(shop)
    assert await shop.now(payment) == simulated


async def test_a_lapsed_authorization_does_not_end_a_stalled_payment(shop):
    await shop.lab.pause()
    payment = await shop.accepted(WALLET)
    await shop.turn()
    stalled = await simulate(shop, payment, Event.SIMULATE_STALL)
    shop.lab.clock.advance(VALID_S + 1)
    await shop.lab.mine(4)
    await compare(shop)
    assert await shop.now(payment) == stalled


async def test_a_settler_forgets_what_was_simulated(shop):
    """It would look for its proof for ever."""
    await shop.lab.pause()
    payment = await shop.accepted(WALLET)
    await shop.turn()
    await simulate(shop, payment, Event.SIMULATE_STALL)
    assert shop.settler.health().open_payments == 1
    await compare(shop)
    assert shop.settler.health().open_payments == 0


async def test_a_simulation_in_the_middle_of_a_submission(shop, monkeypatch):
    """The payment was read as waiting; then its outcome was simulated; nothing is sent for it."""
    payment, other = await shop.accepted(WALLET), await shop.accepted(OTHER)
    sign = shop.lab.rail.relay.sign

    async def meanwhile(*what):
        await simulate(shop, payment, Event.SIMULATE_STALL)
        return await sign(*what)

    monkeypatch.setattr(shop.lab.rail.relay, "sign", meanwhile)
    assert (await shop.end(other)).status == "succeeded"
    assert await shop.status(payment) == "processing"
    assert await shop.lab.balance(MERCHANT) == PRICE
