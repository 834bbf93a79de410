"""Test payers blocked by the time of finality: money is held, released, and undone by reorgs.

Each test ends by checking the books. Undone money counts as if it had never arrived.
"""

from __future__ import annotations

import logging

import pytest
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.ledger import accounts
from florin_server.domain.payments.state import PaymentStateEvent
from florin_server.domain.payouts.held_money import HeldMoneyState
from florin_server.domain.payouts.payout import PayoutStatus
from florin_server.features.monitoring.service import system
from florin_server.money.ledger.store import ledger
from florin_server.money.payments.service.simulate import get_requested_amount
from florin_server.money.payments.store import payments, simulation
from florin_server.money.payouts.service import held_money, payouts
from florin_server.money.payouts.store import balances
from florin_server.money.payouts.store import payouts as stored_payouts
from florin_server.money.settlement.store import settlement_items

from tests.support.blocked_payers import let_payment_lapse, put_blocklist
from tests.support.evm_harness import CHAIN, FEES, PRICE, TOKEN, make_buyer, sign_option, to_account
from tests.support.settlement_harness import (
    MERCHANT,
    SHOP,
    SettlementHarness,
    open_settlement_harness,
    remove_destination,
)
from tests.support.third_party_actions import make_unconfirmed, settle_directly

WALLET = make_buyer(78)  # the signer in the tests of strangers
FEE = 7 + PRICE // 100
MINE = f"merchant:{SHOP.id}"
THEIRS = f"held:{to_account(WALLET)}"


@pytest.fixture(params=[False, True], ids=["treasury", "own"])
def own(request):
    """Return whether the merchant has its own destination."""
    return request.param


@pytest.fixture
async def shop(tmp_path, monkeypatch, own):
    monkeypatch.setenv("FLORIN_FEE_FIXED", "7")
    monkeypatch.setenv("FLORIN_FEE_BASIS_POINTS", "100")
    async with open_settlement_harness(tmp_path) as running:
        if not own:
            await running.store.write(remove_destination())
        yield running


async def paid(shop: SettlementHarness):
    """A stranger settles a payment after its payer was listed; it is final and not bound."""
    payment, option, output = await make_unconfirmed(shop)
    await put_blocklist(shop, WALLET)
    tx_hash = await settle_directly(shop, option, output)
    await shop.mine(3)
    return payment, tx_hash


async def only(shop: SettlementHarness, *, all_: bool = False):
    (item,) = await held_money.list_held_money(shop.app, include_closed=all_)
    return item


async def booked(shop: SettlementHarness, account: str) -> int:
    return await shop.store.read(ledger.get_balance(account, TOKEN))


async def whole(shop: SettlementHarness) -> None:
    assert await shop.store.read(ledger.check()) == []
    treasury = await booked(shop, f"wallet:{to_account(FEES)}")
    assert treasury == await shop.lab.balance(FEES)


def has(own: bool) -> int:
    """Return the part of a payment that the treasury receives."""
    return FEE if own else PRICE


async def causes(shop: SettlementHarness, payment) -> list[str]:
    return [
        event_record.cause
        for event_record in await shop.store.read(payments.list_events(payment.id))
    ]


async def test_payment_of_a_blocked_payer_submitted_by_a_stranger_is_held(shop, own, caplog):
    with caplog.at_level(logging.ERROR):
        payment, tx_hash = await paid(shop)
    assert await shop.status(payment) == "processing"
    item = await only(shop)
    assert (item.payment_id, item.tx_hash, item.payer) == (payment.id, tx_hash, to_account(WALLET))
    assert (item.value, item.held, item.fee, item.late) == (PRICE, has(own), FEE, False)
    assert item.why == "blocked by screening list sdn"
    result = [r for r in caplog.messages if payment.id in r and item.id in r]
    assert len(result) == 1
    problem = (
        "payments held because their payers are blocked: 1; list them with `florin payments held`"
    )
    assert await held_money.describe_problem(shop.app, CHAIN) == problem
    (chain,) = (await system.get_status(shop.app)).chains
    assert problem in chain.problem
    assert (
        await system.count_held_payments(shop.app),
        await system.count_processing(shop.app),
    ) == (1, 1)
    assert await booked(shop, THEIRS) == -has(own)
    assert await booked(shop, MINE) == await booked(shop, accounts.FEE) == 0
    outside = f"external:{to_account(MERCHANT)}"
    assert await booked(shop, outside) == (PRICE - FEE if own else 0)
    assert await causes(shop, payment) == ["created", "seen_on_chain", "held"]
    # it has not ended, and is not counted as ended
    counted, labels = "florin_settlement_duration_seconds_count", {"chain": CHAIN}
    registry = shop.app.meters.registry
    assert registry.get_sample_value(counted, {**labels, "status": "processing"}) is None
    await whole(shop)


async def test_nothing_but_a_verdict_ends_it(shop, own):
    payment, _ = await paid(shop)
    (before,) = await held_money.list_held_money(shop.app, include_closed=True)
    await shop.restart()
    shop.lab.clock.advance(2000)
    await shop.mine(4)
    shop.lab.clock.advance(10)
    await shop.mine(2)
    # not even unblocking the payer ends it
    await put_blocklist(shop)
    shop.lab.clock.advance(70)
    await shop.mine(2)
    assert await shop.status(payment) == "processing"
    for event in PaymentStateEvent:
        if event.startswith("simulate_"):
            now = await shop.get_payment(payment)
            amount = get_requested_amount(shop.app, now)
            with pytest.raises(ApiError) as caught:
                await shop.store.write(simulation.simulate(payment.id, event, amount, 0))
            assert caught.value.code is ErrorCode.INVALID_STATE
    assert await held_money.list_held_money(shop.app, include_closed=True) == [before]
    assert await shop.transactions() == []
    assert await booked(shop, THEIRS) == -has(own)
    await whole(shop)


async def test_a_release_settles_it(shop, own):
    payment, tx_hash = await paid(shop)
    item = await only(shop)
    done = await held_money.resolve(
        shop.app, item.id, HeldMoneyState.RELEASED, "a namesake of the listed person"
    )
    assert (done.state, done.note) == (HeldMoneyState.RELEASED, "a namesake of the listed person")
    ended = await shop.get_payment(payment)
    assert (ended.status, ended.tx_id, ended.failure_code) == ("succeeded", tx_hash, None)
    assert ended.settled_value == (PRICE - FEE if own else None)
    assert await booked(shop, THEIRS) == 0
    assert await booked(shop, MINE) == (0 if own else -(PRICE - FEE))
    assert await booked(shop, accounts.FEE) == -FEE
    assert await causes(shop, payment) == ["created", "seen_on_chain", "held", "released"]
    await shop.check(ended)
    # only once
    assert await held_money.resolve(shop.app, item.id, HeldMoneyState.RELEASED, "again") == done
    for verdict in (HeldMoneyState.RETURNED, HeldMoneyState.KEPT):
        with pytest.raises(ApiError) as caught:
            await held_money.resolve(shop.app, item.id, verdict, "no", even_if_blocked=True)
        assert caught.value.code is ErrorCode.INVALID_STATE
    assert await held_money.list_held_money(shop.app, include_closed=False) == []
    assert await only(shop, all_=True) == done
    await shop.restart()
    await shop.mine(2)
    assert await shop.get_payment(payment) == ended
    await whole(shop)


async def test_return_of_held_money_is_a_payout(shop, own):
    payment, _ = await paid(shop)
    item = await only(shop)
    with pytest.raises(ApiError) as caught:
        await held_money.resolve(shop.app, item.id, HeldMoneyState.RETURNED, "back")
    assert (caught.value.code, await only(shop)) == (ErrorCode.INVALID_STATE, item)
    assert "still blocked" in caught.value.message
    await put_blocklist(shop)
    done = await held_money.resolve(shop.app, item.id, HeldMoneyState.RETURNED, "back")
    assert await held_money.resolve(shop.app, item.id, HeldMoneyState.RETURNED, "again") == done
    (back,) = await payouts.list_payouts(shop.app, include_closed=True)
    assert (back.id, back.value, back.account) == (done.payout_id, has(own), item.payer)
    assert (back.backed, back.held_id, back.status) == (True, item.id, PayoutStatus.WAITING)
    ended = await shop.get_payment(payment)
    assert (ended.status, ended.failure_code, ended.tx_id) == ("failed", "declined_user", None)
    assert await causes(shop, payment) == ["created", "seen_on_chain", "held", "returned"]
    # no merchant pays for it, or receives less
    assert await shop.store.read(balances.get_available(SHOP.id, TOKEN)) == 0
    for _ in range(2):
        await shop.restart()
        await shop.mine(2)
    assert (await payouts.list_payouts(shop.app, include_closed=True)) == [back]
    assert await only(shop, all_=True) == done
    await whole(shop)


async def test_retained_held_money_stays_and_may_be_returned_later(shop, own):
    payment, _ = await paid(shop)
    item = await only(shop)
    await held_money.resolve(shop.app, item.id, HeldMoneyState.KEPT, "the authority said so")
    ended = await shop.get_payment(payment)
    assert (ended.status, ended.failure_code) == ("failed", "declined_user")
    assert await payouts.list_payouts(shop.app, include_closed=True) == []
    assert await held_money.describe_problem(shop.app, CHAIN) == ""
    assert await system.count_held_payments(shop.app) == 0
    await shop.restart()
    await shop.mine(2)
    assert (await only(shop)).state is HeldMoneyState.KEPT
    assert await booked(shop, THEIRS) == -has(own)
    with pytest.raises(ApiError):
        await held_money.resolve(shop.app, item.id, HeldMoneyState.RELEASED, "no")
    done = await held_money.resolve(
        shop.app, item.id, HeldMoneyState.RETURNED, "free", even_if_blocked=True
    )
    assert done.even_if_blocked
    assert await shop.get_payment(payment) == ended
    (back,) = await payouts.list_payouts(shop.app, include_closed=True)
    assert back.value == has(own)
    # after a canceled payout it stays held, and can be returned again
    await payouts.refuse(shop.app, back.id)
    again = await only(shop)
    assert (again.state, again.payout_id) == (HeldMoneyState.KEPT, None)
    await put_blocklist(shop)
    done = await held_money.resolve(shop.app, item.id, HeldMoneyState.RETURNED, "free again")
    assert done.payout_id not in {None, back.id}
    await whole(shop)


async def test_unsent_payment_of_a_blocked_payer_submitted_by_a_stranger_is_held(shop):
    """It was confirmed but never sent by Florin: the payer was blocked in between."""
    payment = await shop.create_processing_payment(WALLET)
    await put_blocklist(shop, WALLET)
    await shop.turn()
    item = await shop.get_item(payment)
    await settle_directly(shop, item.option, item.confirmation.outputs[0])
    await shop.mine(3)
    assert await shop.status(payment) == "processing"
    this_item = await only(shop)
    assert (this_item.payment_id, this_item.late) == (payment.id, False)
    assert shop.settler.health().problem == ""
    assert await causes(shop, payment) == ["created", "confirm_accepted", "held"]
    await whole(shop)


async def test_payment_sent_before_its_payer_was_blocked_succeeds_with_an_alert(shop, caplog):
    payment = await shop.create_processing_payment(WALLET)
    await shop.turn()
    (tx,) = await shop.transactions()
    await put_blocklist(shop, WALLET)
    with caplog.at_level(logging.ERROR):
        ended = await shop.run_to_end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", tx.hash)
    assert [r for r in caplog.messages if payment.id in r and "sent before its payer" in r]
    assert await held_money.list_held_money(shop.app, include_closed=True) == []
    await whole(shop)


async def test_payment_by_a_fee_bump_sent_before_the_block_succeeds(shop):
    payment = await shop.create_processing_payment(WALLET)
    await shop.lab.pause()
    await shop.turn()
    await shop.base_fee(40 * 10**9)
    await shop.mine(3)
    (tx,) = await shop.transactions()
    (variant,) = tx.bumps
    await put_blocklist(shop, WALLET)
    assert (await shop.run_to_end(payment)).tx_id == variant.hash
    assert await held_money.list_held_money(shop.app, include_closed=True) == []


async def test_payer_unblocked_before_finality_succeeds(shop):
    payment, option, output = await make_unconfirmed(shop)
    await put_blocklist(shop, WALLET)
    await settle_directly(shop, option, output)
    await shop.mine(1)
    await put_blocklist(shop)
    assert (await shop.run_to_end(payment)).status == "succeeded"
    assert await held_money.list_held_money(shop.app, include_closed=True) == []


async def test_a_confirm_that_is_never_sent_still_lapses(shop):
    payment = await shop.create_processing_payment(WALLET)
    await put_blocklist(shop, WALLET)
    assert (await let_payment_lapse(shop, payment)).failure_code == "declined_user"
    assert await held_money.list_held_money(shop.app, include_closed=True) == []


# late money


async def test_late_money_of_a_blocked_payer_is_held(shop, own, caplog):
    payment, option, output = await make_unconfirmed(shop)
    await put_blocklist(shop, WALLET)
    shop.lab.clock.advance(901)
    assert await shop.store.write(payments.expire([payment.id], shop.lab.clock.now_us()))
    ended = await shop.get_payment(payment)
    await settle_directly(shop, option, output)
    with caplog.at_level(logging.ERROR):
        await shop.mine(3)
    item = await only(shop)
    assert (item.late, item.held, item.payment_id) == (True, has(own), payment.id)
    assert [r for r in caplog.messages if item.id in r and "paid late" in r]
    assert await payouts.list_payouts(shop.app, include_closed=True) == []
    assert await booked(shop, THEIRS) == -has(own)
    assert await booked(shop, MINE) == 0
    for _ in range(2):
        await shop.restart()
        await shop.mine(2)
    assert await only(shop, all_=True) == item
    with pytest.raises(ApiError) as caught:
        await held_money.resolve(shop.app, item.id, HeldMoneyState.RELEASED, "no")
    assert "late" in caught.value.message
    await held_money.resolve(shop.app, item.id, HeldMoneyState.KEPT, "kept")
    await held_money.resolve(
        shop.app, item.id, HeldMoneyState.RETURNED, "back", even_if_blocked=True
    )
    (back,) = await payouts.list_payouts(shop.app, include_closed=True)
    assert back.value == has(own)
    # removed from the list, it is still not returned twice
    await put_blocklist(shop)
    await shop.restart()
    await shop.mine(2)
    assert await payouts.list_payouts(shop.app, include_closed=True) == [back]
    assert await shop.get_payment(payment) == ended
    await whole(shop)


# reorganizations


async def undone(shop: SettlementHarness, tx_hash: str, depth: int = 5) -> None:
    await shop.lab.reorg(depth, tx_hash)
    await shop.turn(2)


async def again(shop: SettlementHarness, payment) -> str:
    """Submit the same signature once more."""
    (option,) = await shop.store.read(payments.list_options(payment.id, [to_account(WALLET)]))
    tx_hash = await settle_directly(shop, option, sign_option(WALLET, option))
    await shop.mine(3)
    return tx_hash


async def nothing_came(shop: SettlementHarness) -> None:
    for account in (THEIRS, MINE, accounts.FEE, f"external:{to_account(MERCHANT)}"):
        assert await booked(shop, account) == 0
    await whole(shop)


async def test_held_money_that_a_reorganisation_undid_is_held_when_it_comes_again(shop, own):
    payment, tx_hash = await paid(shop)
    first = await only(shop)
    await undone(shop, tx_hash)
    assert await held_money.list_held_money(shop.app, include_closed=True) == []
    assert await shop.status(payment) == "processing"
    await nothing_came(shop)
    await shop.restart()
    assert [
        i.payment.id for i in await shop.store.read(settlement_items.list_unsettled(CHAIN))
    ] == [payment.id]
    other = await again(shop, payment)
    shop.lab.clock.advance(11)
    await shop.mine(2)
    second = await only(shop)
    assert (second.tx_hash, second.payment_id) == (other, payment.id)
    assert second.id != first.id
    assert await booked(shop, THEIRS) == -has(own)
    await held_money.resolve(shop.app, second.id, HeldMoneyState.RELEASED, "fine")
    assert (await shop.get_payment(payment)).tx_id == other
    await whole(shop)


async def test_released_money_that_a_reorganisation_undid_is_settled_when_it_comes_again(
    shop, own, caplog
):
    payment, tx_hash = await paid(shop)
    await held_money.resolve(shop.app, (await only(shop)).id, HeldMoneyState.RELEASED, "fine")
    ended = await shop.get_payment(payment)
    await undone(shop, tx_hash)
    await nothing_came(shop)
    await again(shop, payment)
    shop.lab.clock.advance(11)
    await shop.mine(2)
    # a status reported as final stays, though the payer is still listed
    assert await shop.get_payment(payment) == ended
    assert await booked(shop, THEIRS) == 0
    assert await booked(shop, accounts.FEE) == -FEE
    assert [r for r in caplog.messages if "paid again, and its payer is blocked" in r]
    assert await held_money.list_held_money(shop.app, include_closed=False) == []
    await whole(shop)


@pytest.mark.parametrize("verdict", [HeldMoneyState.RETURNED, HeldMoneyState.KEPT])
async def test_held_money_that_a_reorg_undoes_is_not_returned(shop, own, verdict):
    payment, tx_hash = await paid(shop)
    await held_money.resolve(shop.app, (await only(shop)).id, verdict, "so", even_if_blocked=True)
    ended = await shop.get_payment(payment)
    await undone(shop, tx_hash)
    await nothing_came(shop)
    statuses = {
        payout.status for payout in await payouts.list_payouts(shop.app, include_closed=True)
    }
    assert statuses <= {PayoutStatus.REFUSED}
    assert await held_money.list_held_money(shop.app, include_closed=True) == []
    assert await shop.get_payment(payment) == ended
    await again(shop, payment)
    item = await only(shop)
    assert (item.late, item.state, item.held) == (True, HeldMoneyState.HELD, has(own))
    assert await shop.get_payment(payment) == ended
    await whole(shop)


async def test_held_money_already_returned_is_not_returned_again_after_a_reorg(shop, own, caplog):
    payment, _ = await paid(shop)
    item = await only(shop)
    await held_money.resolve(shop.app, item.id, HeldMoneyState.RETURNED, "so", even_if_blocked=True)
    (back,) = await payouts.list_payouts(shop.app, include_closed=True)
    await shop.store.write(
        stored_payouts.claim(back, "0x" + "77" * 32, None, 0, back.created_at_us)
    )
    await shop.lab.reorg(5, delay=5)
    await shop.turn()
    assert f"payments: {payment.id}" in caplog.text
    # its return was pending for nothing; the money is in a new block, which is not final
    assert await booked(shop, THEIRS) == 0
    assert await shop.store.read(ledger.check()) == []
    assert (await only(shop)).state is HeldMoneyState.UNDONE
    # the same transaction comes back with its event
    await shop.mine(8)
    after = await only(shop, all_=True)
    assert (after.id, after.state, after.payout_id) == (item.id, HeldMoneyState.RETURNED, back.id)
    assert await booked(shop, THEIRS) == -has(own)
    assert len(await payouts.list_payouts(shop.app, include_closed=True)) == 1
    assert await shop.status(payment) == "failed"
    await whole(shop)
