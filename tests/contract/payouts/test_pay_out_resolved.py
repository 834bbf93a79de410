"""Payouts that no chain proves, and what an operator's word does to them."""

from __future__ import annotations

import logging

import pytest
from florin_server.boot.app import app_of, core_of
from florin_server.domain.errors import FlorinError
from florin_server.domain.payouts.payout import Payout, PayoutStatus
from florin_server.flows.payouts import payouts as flows
from florin_server.store.ledger import ledger

from tests.support.evm_lab import CHAIN, TOKEN
from tests.support.payout_lab import SHOP, Office, office
from tests.support.payout_steps import RECEIPT, rings, with_logs


@pytest.fixture
async def desk(tmp_path):
    async with office(tmp_path) as running:
        yield running


async def stuck(desk: Office) -> Payout:
    """A payout whose receipt does not tell what moved."""
    payout = await desk.asked()
    desk.lab.node.changes = {RECEIPT: with_logs(lambda _: [])}
    await desk.turn()
    await desk.mine(4)
    desk.lab.node.changes = {}
    found = await desk.now(payout)
    assert (found.status, "not proven" in (found.problem or "")) == (PayoutStatus.SUBMITTED, True)
    return found


async def charged(desk: Office) -> int:
    return await desk.store.read(ledger.balance(f"merchant:{SHOP}", TOKEN))


async def test_what_was_paid_is_done_booked_and_told(desk, caplog):
    payout = await stuck(desk)
    assert await charged(desk) == 0
    with caplog.at_level(logging.WARNING):
        resolved = await flows.resolve(desk.app, payout.id, paid=True)
    assert f"the operator told that {payout.tx_id} paid it" in caplog.text
    assert await desk.now(payout) == resolved
    assert (resolved.status, resolved.tx_id) == (PayoutStatus.DONE, payout.tx_id)
    assert resolved.problem == f"the operator told that {payout.tx_id} paid it"
    refund = await desk.refund(payout)
    assert (refund.status, refund.tx_id) == ("succeeded", payout.tx_id)
    assert refund.completed_at_us == resolved.completed_at_us == desk.lab.clock.now_us()
    assert await charged(desk) == 150
    treasury = f"wallet:{desk.lab.rail.treasury}"
    assert await desk.store.read(ledger.balance(treasury, TOKEN)) == -150
    assert await flows.problems(desk.app, CHAIN) == []
    await desk.books()
    with pytest.raises(FlorinError, match="Payout is done"):
        await flows.resolve(desk.app, payout.id, paid=False)
    desk.lab.clock.advance(61)
    await desk.mine(4)
    assert await desk.transfers() == [150]


async def test_what_was_not_paid_is_paid_by_another_transaction(desk):
    payout = await stuck(desk)
    assert await rings(desk, payout.id, flows.resolve(desk.app, payout.id, paid=False))
    resolved = await desk.now(payout)
    assert (resolved.status, resolved.tx_id) == (PayoutStatus.WAITING, None)
    assert resolved.problem == f"the operator told that {payout.tx_id} moved nothing"
    assert (await desk.refund(payout)).status == "pending"
    assert await charged(desk) == 0
    done = await desk.done(payout)
    assert done.tx_id != payout.tx_id
    assert (await desk.refund(payout)).status == "succeeded"
    # the operator's word was wrong here
    assert await desk.transfers() == [150, 150]
    assert await charged(desk) == 150


async def test_what_was_not_paid_can_be_called_off(desk):
    payout = await stuck(desk)
    await flows.resolve(desk.app, payout.id, paid=False)
    assert (await flows.refuse(desk.app, payout.id)).status is PayoutStatus.REFUSED
    assert (await desk.refund(payout)).status == "failed"
    await desk.mine(4)
    assert await desk.transfers() == [150]


@pytest.mark.parametrize("paid", [True, False])
async def test_the_operator_does_not_end_what_the_chain_may_still_tell(desk, paid):
    await desk.lab.pause()
    payout = await desk.asked()
    for status in ("waiting", "submitted"):
        assert (await desk.now(payout)).status == status
        with pytest.raises(FlorinError, match=f"Payout is {status}"):
            await flows.resolve(desk.app, payout.id, paid=paid)
        await desk.turn()
    assert await charged(desk) == 0
    await desk.done(payout)
    assert await desk.transfers() == [150]


async def test_a_word_about_a_chain_that_is_not_served_or_an_unknown_payout_is_refused(desk):
    payout = await stuck(desk)
    with pytest.raises(FlorinError, match="not found"):
        await flows.resolve(desk.app, "pout_unknown", paid=True)
    nowhere = app_of(core_of(desk.app.settings, desk.store, desk.lab.clock, ()))
    with pytest.raises(FlorinError, match="not served"):
        await flows.resolve(nowhere, payout.id, paid=True)
    assert await desk.now(payout) == payout


async def test_a_word_is_taken_back_by_a_deep_reorganisation(desk):
    payout = await stuck(desk)
    await flows.resolve(desk.app, payout.id, paid=True)
    await desk.lab.reorg(6, payout.tx_id or "")
    desk.lab.clock.advance(11)
    await desk.turn()
    assert (await desk.now(payout)).status is PayoutStatus.SUBMITTED
    assert await charged(desk) == 0
    await desk.done(payout)
    assert await desk.transfers() == [150]
    assert await charged(desk) == 150
