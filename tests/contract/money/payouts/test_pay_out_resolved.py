"""Test payouts that no chain proves, and how an operator resolves them."""

from __future__ import annotations

import logging

import pytest
from florin_server.app.app import build_app, build_core
from florin_server.domain.errors import ApiError
from florin_server.domain.payouts.payout import Payout, PayoutStatus
from florin_server.money.ledger.store import ledger
from florin_server.money.payouts.service import payouts as service

from tests.support.evm_harness import CHAIN, TOKEN
from tests.support.payout_actions import RECEIPT, change_logs, is_notified
from tests.support.payout_harness import SHOP, PayoutHarness, open_payout_harness


@pytest.fixture
async def desk(tmp_path):
    async with open_payout_harness(tmp_path) as running:
        yield running


async def stuck(desk: PayoutHarness) -> Payout:
    """Return a payout whose receipt does not show what moved."""
    payout = await desk.create_payout()
    desk.lab.node.changes = {RECEIPT: change_logs(lambda _: [])}
    await desk.turn()
    await desk.mine(4)
    desk.lab.node.changes = {}
    found_payout = await desk.get_payout(payout)
    assert (found_payout.status, "not proven" in (found_payout.problem or "")) == (
        PayoutStatus.SUBMITTED,
        True,
    )
    return found_payout


async def charged(desk: PayoutHarness) -> int:
    return await desk.store.read(ledger.get_balance(f"merchant:{SHOP}", TOKEN))


async def test_payout_resolved_as_paid_is_completed_booked_and_reported(desk, caplog):
    payout = await stuck(desk)
    assert await charged(desk) == 0
    with caplog.at_level(logging.WARNING):
        resolved = await service.resolve(desk.app, payout.id, is_paid=True)
    assert f"the operator reported that {payout.tx_id} paid it" in caplog.text
    assert await desk.get_payout(payout) == resolved
    assert (resolved.status, resolved.tx_id) == (PayoutStatus.DONE, payout.tx_id)
    assert resolved.problem == f"the operator reported that {payout.tx_id} paid it"
    refund = await desk.refund(payout)
    assert (refund.status, refund.tx_id) == ("succeeded", payout.tx_id)
    assert refund.completed_at_us == resolved.completed_at_us == desk.lab.clock.now_us()
    assert await charged(desk) == 150
    treasury = f"wallet:{desk.lab.rail.treasury}"
    assert await desk.store.read(ledger.get_balance(treasury, TOKEN)) == -150
    assert await service.list_problems(desk.app, CHAIN) == []
    await desk.check_books()
    with pytest.raises(ApiError, match=f"Payout {payout.id} is done"):
        await service.resolve(desk.app, payout.id, is_paid=False)
    desk.lab.clock.advance(61)
    await desk.mine(4)
    assert await desk.transfers() == [150]


async def test_payout_resolved_as_unpaid_is_paid_by_a_new_transaction(desk):
    payout = await stuck(desk)
    assert await is_notified(desk, payout.id, service.resolve(desk.app, payout.id, is_paid=False))
    resolved = await desk.get_payout(payout)
    assert (resolved.status, resolved.tx_id) == (PayoutStatus.WAITING, None)
    assert resolved.problem == f"the operator reported that {payout.tx_id} moved nothing"
    assert (await desk.refund(payout)).status == "pending"
    assert await charged(desk) == 0
    done = await desk.wait_done(payout)
    assert done.tx_id != payout.tx_id
    assert (await desk.refund(payout)).status == "succeeded"
    # the operator's resolution was wrong here
    assert await desk.transfers() == [150, 150]
    assert await charged(desk) == 150


async def test_payout_resolved_as_unpaid_can_be_refused(desk):
    payout = await stuck(desk)
    await service.resolve(desk.app, payout.id, is_paid=False)
    assert (await service.refuse(desk.app, payout.id)).status is PayoutStatus.REFUSED
    assert (await desk.refund(payout)).status == "failed"
    await desk.mine(4)
    assert await desk.transfers() == [150]


@pytest.mark.parametrize("paid", [True, False])
async def test_operator_cannot_resolve_a_payout_that_the_chain_may_still_prove(desk, paid):
    await desk.lab.pause()
    payout = await desk.create_payout()
    for status in ("waiting", "submitted"):
        assert (await desk.get_payout(payout)).status == status
        with pytest.raises(ApiError, match=f"Payout {payout.id} is {status}"):
            await service.resolve(desk.app, payout.id, is_paid=paid)
        await desk.turn()
    assert await charged(desk) == 0
    await desk.wait_done(payout)
    assert await desk.transfers() == [150]


async def test_a_word_about_a_chain_that_is_not_served_or_an_unknown_payout_is_refused(desk):
    payout = await stuck(desk)
    with pytest.raises(ApiError, match="not found"):
        await service.resolve(desk.app, "pout_unknown", is_paid=True)
    nowhere = build_app(build_core(desk.app.settings, desk.store, desk.lab.clock, ()))
    with pytest.raises(ApiError, match="not in the settings"):
        await service.resolve(nowhere, payout.id, is_paid=True)
    assert await desk.get_payout(payout) == payout


async def test_a_word_is_taken_back_by_a_deep_reorganisation(desk):
    payout = await stuck(desk)
    await service.resolve(desk.app, payout.id, is_paid=True)
    await desk.lab.reorg(6, payout.tx_id or "")
    desk.lab.clock.advance(11)
    await desk.turn()
    assert (await desk.get_payout(payout)).status is PayoutStatus.SUBMITTED
    assert await charged(desk) == 0
    await desk.wait_done(payout)
    assert await desk.transfers() == [150]
    assert await charged(desk) == 150
