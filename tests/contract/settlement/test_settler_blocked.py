"""A payer who is blocked when its money is final: held, ended by a verdict, undone with the chain.

Each test ends by asking the books; what a reorganisation undid is as if it had never come.
"""

from __future__ import annotations

import logging

import pytest
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.ledger import accounts
from florin_server.domain.payments.state import Event
from florin_server.domain.payouts.held_money import HeldState
from florin_server.domain.payouts.payout import PayoutStatus
from florin_server.flows.operator import system
from florin_server.flows.payments.simulate import requested
from florin_server.flows.payouts import held_money, payouts
from florin_server.store.ledger import ledger
from florin_server.store.payments import payments, simulation
from florin_server.store.payouts import payouts as stored_payouts
from florin_server.store.settlement import chain_txs

from tests.support.evm_lab import CHAIN, FEES, PRICE, TOKEN, account_of, buyer, signed
from tests.support.held_steps import lapse, put
from tests.support.settler_lab import MERCHANT, SHOP, Works, without_destination, works
from tests.support.stranger_steps import settled, unconfirmed

WALLET = buyer(78)  # who signs in the tests of strangers
FEE = 7 + PRICE // 100
MINE = f"merchant:{SHOP.id}"
THEIRS = f"held:{account_of(WALLET)}"


@pytest.fixture(params=[False, True], ids=["treasury", "own"])
def own(request):
    """Whether the merchant has a destination of its own."""
    return request.param


@pytest.fixture
async def shop(tmp_path, monkeypatch, own):
    monkeypatch.setenv("FLORIN_FEE_FIXED", "7")
    monkeypatch.setenv("FLORIN_FEE_BASIS_POINTS", "100")
    async with works(tmp_path) as running:
        if not own:
            await running.store.write(without_destination())
        yield running


async def paid(shop: Works):
    """A payment that a stranger settles after its payer was listed; it is final and not bound."""
    payment, option, output = await unconfirmed(shop)
    await put(shop, WALLET)
    tx_hash = await settled(shop, option, output)
    await shop.mine(3)
    return payment, tx_hash


async def only(shop: Works, *, all_: bool = False):
    (one,) = await held_money.listed(shop.app, all_=all_)
    return one


async def booked(shop: Works, account: str) -> int:
    return await shop.store.read(ledger.balance(account, TOKEN))


async def whole(shop: Works) -> None:
    assert await shop.store.read(ledger.check()) == []
    treasury = await booked(shop, f"wallet:{account_of(FEES)}")
    assert treasury == await shop.lab.balance(FEES)


def has(own: bool) -> int:
    """What of a payment comes to the treasury."""
    return FEE if own else PRICE


async def causes(shop: Works, payment) -> list[str]:
    return [one.cause for one in await shop.store.read(payments.events(payment.id))]


async def test_what_a_stranger_submits_for_a_blocked_payer_is_held(shop, own, caplog):
    with caplog.at_level(logging.ERROR):
        payment, tx_hash = await paid(shop)
    assert await shop.status(payment) == "processing"
    one = await only(shop)
    assert (one.payment_id, one.tx_hash, one.payer) == (payment.id, tx_hash, account_of(WALLET))
    assert (one.value, one.held, one.fee, one.late) == (PRICE, has(own), FEE, False)
    assert one.why == "blocked by screening list sdn"
    told = [r for r in caplog.messages if payment.id in r and one.id in r]
    assert len(told) == 1
    problem = "payments held because their payers are blocked: 1, see `florin payments held`"
    assert await held_money.problem(shop.app, CHAIN) == problem
    (chain,) = await system.chains(shop.app)
    assert problem in chain.problem
    assert (await system.held_payments(shop.app), await system.processing(shop.app)) == (1, 1)
    assert await booked(shop, THEIRS) == -has(own)
    assert await booked(shop, MINE) == await booked(shop, accounts.FEE) == 0
    outside = f"external:{account_of(MERCHANT)}"
    assert await booked(shop, outside) == (PRICE - FEE if own else 0)
    assert await causes(shop, payment) == ["created", "seen_on_chain", "held"]
    # it has not ended, and is not counted among those that have
    counted, labels = "florin_settlement_duration_seconds_count", {"chain": CHAIN}
    registry = shop.app.meters.registry
    assert registry.get_sample_value(counted, {**labels, "status": "processing"}) is None
    await whole(shop)


async def test_nothing_but_a_verdict_ends_it(shop, own):
    payment, _ = await paid(shop)
    (before,) = await held_money.listed(shop.app, all_=True)
    await shop.restart()
    shop.lab.clock.advance(2000)
    await shop.mine(4)
    shop.lab.clock.advance(10)
    await shop.mine(2)
    # not even that the payer is blocked no longer
    await put(shop)
    shop.lab.clock.advance(70)
    await shop.mine(2)
    assert await shop.status(payment) == "processing"
    for event in Event:
        if event.startswith("simulate_"):
            now = await shop.now(payment)
            asked = requested(shop.app, now)
            with pytest.raises(FlorinError) as caught:
                await shop.store.write(simulation.simulate(payment.id, event, asked, 0))
            assert caught.value.code is Code.INVALID_STATE
    assert await held_money.listed(shop.app, all_=True) == [before]
    assert await shop.transactions() == []
    assert await booked(shop, THEIRS) == -has(own)
    await whole(shop)


async def test_a_release_settles_it(shop, own):
    payment, tx_hash = await paid(shop)
    one = await only(shop)
    done = await held_money.resolve(
        shop.app, one.id, HeldState.RELEASED, "somebody else of that name"
    )
    assert (done.state, done.note) == (HeldState.RELEASED, "somebody else of that name")
    ended = await shop.now(payment)
    assert (ended.status, ended.tx_id, ended.failure_code) == ("succeeded", tx_hash, None)
    assert ended.settled_value == (PRICE - FEE if own else None)
    assert await booked(shop, THEIRS) == 0
    assert await booked(shop, MINE) == (0 if own else -(PRICE - FEE))
    assert await booked(shop, accounts.FEE) == -FEE
    assert await causes(shop, payment) == ["created", "seen_on_chain", "held", "released"]
    await shop.check(ended)
    # once
    assert await held_money.resolve(shop.app, one.id, HeldState.RELEASED, "again") == done
    for verdict in (HeldState.RETURNED, HeldState.KEPT):
        with pytest.raises(FlorinError) as caught:
            await held_money.resolve(shop.app, one.id, verdict, "no", even_if_blocked=True)
        assert caught.value.code is Code.INVALID_STATE
    assert await held_money.listed(shop.app, all_=False) == []
    assert await only(shop, all_=True) == done
    await shop.restart()
    await shop.mine(2)
    assert await shop.now(payment) == ended
    await whole(shop)


async def test_a_return_is_a_payout_of_what_is_held(shop, own):
    payment, _ = await paid(shop)
    one = await only(shop)
    with pytest.raises(FlorinError) as caught:
        await held_money.resolve(shop.app, one.id, HeldState.RETURNED, "back")
    assert (caught.value.code, await only(shop)) == (Code.INVALID_STATE, one)
    assert "still blocked" in caught.value.message
    await put(shop)
    done = await held_money.resolve(shop.app, one.id, HeldState.RETURNED, "back")
    assert await held_money.resolve(shop.app, one.id, HeldState.RETURNED, "again") == done
    (back,) = await payouts.listed(shop.app, all_=True)
    assert (back.id, back.value, back.account) == (done.payout_id, has(own), one.payer)
    assert (back.backed, back.held_id, back.status) == (True, one.id, PayoutStatus.WAITING)
    ended = await shop.now(payment)
    assert (ended.status, ended.failure_code, ended.tx_id) == ("failed", "declined_user", None)
    assert await causes(shop, payment) == ["created", "seen_on_chain", "held", "returned"]
    # no merchant pays for it, or is paid less
    assert await shop.store.read(stored_payouts.available(SHOP.id, TOKEN)) == 0
    for _ in range(2):
        await shop.restart()
        await shop.mine(2)
    assert (await payouts.listed(shop.app, all_=True)) == [back]
    assert await only(shop, all_=True) == done
    await whole(shop)


async def test_what_is_kept_stays_and_may_be_returned_later(shop, own):
    payment, _ = await paid(shop)
    one = await only(shop)
    await held_money.resolve(shop.app, one.id, HeldState.KEPT, "the authority said so")
    ended = await shop.now(payment)
    assert (ended.status, ended.failure_code) == ("failed", "declined_user")
    assert await payouts.listed(shop.app, all_=True) == []
    assert await held_money.problem(shop.app, CHAIN) == ""
    assert await system.held_payments(shop.app) == 0
    await shop.restart()
    await shop.mine(2)
    assert (await only(shop)).state is HeldState.KEPT
    assert await booked(shop, THEIRS) == -has(own)
    with pytest.raises(FlorinError):
        await held_money.resolve(shop.app, one.id, HeldState.RELEASED, "no")
    done = await held_money.resolve(
        shop.app, one.id, HeldState.RETURNED, "free", even_if_blocked=True
    )
    assert done.even_if_blocked
    assert await shop.now(payment) == ended
    (back,) = await payouts.listed(shop.app, all_=True)
    assert back.value == has(own)
    # a payout that is called off leaves it kept, and it can be returned once more
    await payouts.refuse(shop.app, back.id)
    again = await only(shop)
    assert (again.state, again.payout_id) == (HeldState.KEPT, None)
    await put(shop)
    done = await held_money.resolve(shop.app, one.id, HeldState.RETURNED, "free again")
    assert done.payout_id not in {None, back.id}
    await whole(shop)


async def test_what_was_held_back_and_a_stranger_submits_is_held(shop):
    """It was confirmed, and never sent by us: the payer was blocked in between."""
    payment = await shop.accepted(WALLET)
    await put(shop, WALLET)
    await shop.turn()
    item = await shop.item(payment)
    await settled(shop, item.option, item.confirmation.outputs[0])
    await shop.mine(3)
    assert await shop.status(payment) == "processing"
    one = await only(shop)
    assert (one.payment_id, one.late) == (payment.id, False)
    assert shop.settler.health().problem == ""
    assert await causes(shop, payment) == ["created", "confirm_accepted", "held"]
    await whole(shop)


async def test_what_we_sent_before_succeeds_with_an_alarm(shop, caplog):
    payment = await shop.accepted(WALLET)
    await shop.turn()
    (tx,) = await shop.transactions()
    await put(shop, WALLET)
    with caplog.at_level(logging.ERROR):
        ended = await shop.end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", tx.hash)
    assert [r for r in caplog.messages if payment.id in r and "sent before its payer" in r]
    assert await held_money.listed(shop.app, all_=True) == []
    await whole(shop)


async def test_what_we_signed_again_for_a_higher_fee_is_ours_too(shop):
    payment = await shop.accepted(WALLET)
    await shop.lab.pause()
    await shop.turn()
    await shop.base_fee(40 * 10**9)
    await shop.mine(3)
    (tx,) = await shop.transactions()
    (variant,) = tx.bumps
    await put(shop, WALLET)
    assert (await shop.end(payment)).tx_id == variant.hash
    assert await held_money.listed(shop.app, all_=True) == []


async def test_who_is_listed_no_more_when_it_is_final_succeeds(shop):
    payment, option, output = await unconfirmed(shop)
    await put(shop, WALLET)
    await settled(shop, option, output)
    await shop.mine(1)
    await put(shop)
    assert (await shop.end(payment)).status == "succeeded"
    assert await held_money.listed(shop.app, all_=True) == []


async def test_a_confirm_that_is_never_sent_still_lapses(shop):
    payment = await shop.accepted(WALLET)
    await put(shop, WALLET)
    assert (await lapse(shop, payment)).failure_code == "declined_user"
    assert await held_money.listed(shop.app, all_=True) == []


# late


async def test_late_money_of_a_blocked_payer_is_held(shop, own, caplog):
    payment, option, output = await unconfirmed(shop)
    await put(shop, WALLET)
    shop.lab.clock.advance(901)
    assert await shop.store.write(payments.expire([payment.id], shop.lab.clock.now_us()))
    ended = await shop.now(payment)
    await settled(shop, option, output)
    with caplog.at_level(logging.ERROR):
        await shop.mine(3)
    one = await only(shop)
    assert (one.late, one.held, one.payment_id) == (True, has(own), payment.id)
    assert [r for r in caplog.messages if one.id in r and "paid late" in r]
    assert await payouts.listed(shop.app, all_=True) == []
    assert await booked(shop, THEIRS) == -has(own)
    assert await booked(shop, MINE) == 0
    for _ in range(2):
        await shop.restart()
        await shop.mine(2)
    assert await only(shop, all_=True) == one
    with pytest.raises(FlorinError) as caught:
        await held_money.resolve(shop.app, one.id, HeldState.RELEASED, "no")
    assert "late" in caught.value.message
    await held_money.resolve(shop.app, one.id, HeldState.KEPT, "kept")
    await held_money.resolve(shop.app, one.id, HeldState.RETURNED, "back", even_if_blocked=True)
    (back,) = await payouts.listed(shop.app, all_=True)
    assert back.value == has(own)
    # listed no more, it is still not returned twice
    await put(shop)
    await shop.restart()
    await shop.mine(2)
    assert await payouts.listed(shop.app, all_=True) == [back]
    assert await shop.now(payment) == ended
    await whole(shop)


# reorganisations


async def undone(shop: Works, tx_hash: str, depth: int = 5) -> None:
    await shop.lab.reorg(depth, tx_hash)
    await shop.turn(2)


async def again(shop: Works, payment) -> str:
    """The same signature is submitted once more."""
    (option,) = await shop.store.read(payments.options(payment.id, [account_of(WALLET)]))
    tx_hash = await settled(shop, option, signed(WALLET, option))
    await shop.mine(3)
    return tx_hash


async def nothing_came(shop: Works) -> None:
    for account in (THEIRS, MINE, accounts.FEE, f"external:{account_of(MERCHANT)}"):
        assert await booked(shop, account) == 0
    await whole(shop)


async def test_held_money_that_a_reorganisation_undid_is_held_when_it_comes_again(shop, own):
    payment, tx_hash = await paid(shop)
    first = await only(shop)
    await undone(shop, tx_hash)
    assert await held_money.listed(shop.app, all_=True) == []
    assert await shop.status(payment) == "processing"
    await nothing_came(shop)
    await shop.restart()
    assert [i.payment.id for i in await shop.store.read(chain_txs.unsettled(CHAIN))] == [payment.id]
    other = await again(shop, payment)
    shop.lab.clock.advance(11)
    await shop.mine(2)
    second = await only(shop)
    assert (second.tx_hash, second.payment_id) == (other, payment.id)
    assert second.id != first.id
    assert await booked(shop, THEIRS) == -has(own)
    await held_money.resolve(shop.app, second.id, HeldState.RELEASED, "fine")
    assert (await shop.now(payment)).tx_id == other
    await whole(shop)


async def test_released_money_that_a_reorganisation_undid_is_settled_when_it_comes_again(
    shop, own, caplog
):
    payment, tx_hash = await paid(shop)
    await held_money.resolve(shop.app, (await only(shop)).id, HeldState.RELEASED, "fine")
    ended = await shop.now(payment)
    await undone(shop, tx_hash)
    await nothing_came(shop)
    await again(shop, payment)
    shop.lab.clock.advance(11)
    await shop.mine(2)
    # what was told as final stays so, though the payer is still listed
    assert await shop.now(payment) == ended
    assert await booked(shop, THEIRS) == 0
    assert await booked(shop, accounts.FEE) == -FEE
    assert [r for r in caplog.messages if "paid again, and its payer is blocked" in r]
    assert await held_money.listed(shop.app, all_=False) == []
    await whole(shop)


@pytest.mark.parametrize("verdict", [HeldState.RETURNED, HeldState.KEPT])
async def test_what_did_not_come_is_not_returned(shop, own, verdict):
    payment, tx_hash = await paid(shop)
    await held_money.resolve(shop.app, (await only(shop)).id, verdict, "so", even_if_blocked=True)
    ended = await shop.now(payment)
    await undone(shop, tx_hash)
    await nothing_came(shop)
    statuses = {one.status for one in await payouts.listed(shop.app, all_=True)}
    assert statuses <= {PayoutStatus.REFUSED}
    assert await held_money.listed(shop.app, all_=True) == []
    assert await shop.now(payment) == ended
    await again(shop, payment)
    one = await only(shop)
    assert (one.late, one.state, one.held) == (True, HeldState.HELD, has(own))
    assert await shop.now(payment) == ended
    await whole(shop)


async def test_what_was_returned_already_is_not_returned_again(shop, own, caplog):
    payment, _ = await paid(shop)
    one = await only(shop)
    await held_money.resolve(shop.app, one.id, HeldState.RETURNED, "so", even_if_blocked=True)
    (back,) = await payouts.listed(shop.app, all_=True)
    await shop.store.write(
        stored_payouts.claim(back, "0x" + "77" * 32, None, 0, back.created_at_us)
    )
    await shop.lab.reorg(5, delay=5)
    await shop.turn()
    assert f"payments: {payment.id}" in caplog.text
    # it was on its way back, for nothing, and is in a new block, which is not final
    assert await booked(shop, THEIRS) == 0
    assert await shop.store.read(ledger.check()) == []
    assert (await only(shop)).state is HeldState.UNDONE
    # the very same transaction comes back, and its event with it
    await shop.mine(8)
    after = await only(shop, all_=True)
    assert (after.id, after.state, after.payout_id) == (one.id, HeldState.RETURNED, back.id)
    assert await booked(shop, THEIRS) == -has(own)
    assert len(await payouts.listed(shop.app, all_=True)) == 1
    assert await shop.status(payment) == "failed"
    await whole(shop)
