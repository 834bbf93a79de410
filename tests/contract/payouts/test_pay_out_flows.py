"""What the operator asks of payouts: to be told, begun and called off."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.payments.payment import Destination, Merchant
from florin_server.domain.payouts.payout import Payout, PayoutKind, PayoutStatus
from florin_server.domain.settlement.chain_txs import Posting
from florin_server.flows.payouts import payouts as flows
from florin_server.rails.types import RailUnavailable
from florin_server.store.accounts import destinations, merchants
from florin_server.store.ledger import ledger
from florin_server.store.payouts import payouts

from tests.support.evm_lab import CHAIN, EURO, MERCHANT, TOKEN, account_of
from tests.support.payout_lab import BUYER, SHOP, Office, office
from tests.support.payout_steps import rings, waits

S = 1_000_000
MISSING = "the treasury's key on this chain is not here"


@pytest.fixture
async def desk(tmp_path):
    async with office(tmp_path) as running:
        yield running


async def owed(desk: Office, value: int) -> None:
    """A merchant with a destination, and what it is owed."""
    shop = Merchant(SHOP, "prtn_1", "Shop", "a@shop.example", None, "active", True, 1)
    await desk.store.write(merchants.put_merchant(shop))
    place = Destination("crypto_1", SHOP, TOKEN, account_of(MERCHANT))
    await desk.store.write(destinations.put_destination(place))
    if value:
        await desk.owe(value)


# told


async def test_what_is_over_is_told_to_who_asks_for_all(desk):
    done = await desk.done(await desk.asked())
    desk.app.blocked.add([BUYER])
    desk.lab.clock.advance(1)
    waiting = await desk.asked(7)
    await desk.turn()
    assert [one.id for one in await flows.listed(desk.app, all_=False)] == [waiting.id]
    found = await flows.listed(desk.app, all_=True)
    assert [one.id for one in found] == [waiting.id, done.id]
    # what is done lacks nothing, whoever has the key now
    desk.lab.rail.payouts = None
    assert [one.problem for one in await flows.listed(desk.app, all_=True)] == [
        "the account that it goes to is blocked",
        None,
    ]


async def test_one_payout_is_told_without_what_is_the_workers_own(desk):
    assert await flows.seen(desk.app, "pout_unknown") is None
    waiting = await desk.asked(retry_at_us=9, lapses_at=8)
    told = await flows.seen(desk.app, waiting.id)
    assert told == replace(waiting, retry_at_us=0, lapses_at=None)
    desk.lab.rail.payouts = None
    assert (await flows.seen(desk.app, waiting.id)).problem == MISSING
    set_aside = await desk.asked(problem="the account that it goes to is blocked")
    assert (await flows.seen(desk.app, set_aside.id)).problem == set_aside.problem


async def test_what_keeps_payouts_waiting_is_counted_by_its_reason(desk):
    desk.app.blocked.add([BUYER])
    for _ in range(2):
        await desk.asked()
    await desk.asked(account=desk.lab.rail.treasury)
    await desk.turn()
    blocked, reserved = "the account that it goes to is blocked", "the account that it goes to is"
    first, second = await flows.problems(desk.app, CHAIN)
    assert {first, second} >= {f"payouts that wait: 2, because {blocked}"}
    (other,) = {first, second} - {f"payouts that wait: 2, because {blocked}"}
    assert other.startswith(f"payouts that wait: 1, because {reserved} ")
    assert await flows.problems(desk.app, "eip155:5") == []


async def test_reasons_that_are_told_alike_are_counted_together(desk):
    await desk.asked(problem=MISSING, retry_at_us=2**62)
    await desk.asked(retry_at_us=2**62)
    desk.lab.rail.payouts = None
    why = f"payouts that wait: 2, because {MISSING}"
    assert await flows.problems(desk.app, CHAIN) == [why]


async def test_a_payout_on_a_chain_that_is_not_served_says_so(desk):
    payout = await desk.asked(chain_id="eip155:5", asset="eip155:5/slip44:60")
    told = await flows.seen(desk.app, payout.id)
    assert told.problem == "the chain is not in the settings"


async def test_health_tells_head_transactions_and_every_problem(desk):
    await desk.lab.mine(5)
    await desk.lab.pause()
    await desk.asked()
    await desk.turn(2)
    health = desk.worker.health()
    assert (health.head, health.open_transactions) == (desk.worker.head, 1)
    assert health.problem == ""
    assert desk.worker.head >= 5
    desk.worker.sender.pause()
    desk.lab.node.lost = frozenset({"eth_blockNumber", "eth_getBlockByNumber"})
    await desk.turn()
    told = desk.worker.health().problem
    assert told == "payouts: paused by the operator; payouts: the question was lost"


async def test_why_a_payout_waits_is_logged_when_it_changes(desk, caplog):
    desk.app.blocked.add([BUYER])
    payout = await desk.asked()
    with caplog.at_level(logging.WARNING):
        assert await rings(desk, payout.id, desk.turn())
        for _ in range(3):
            desk.lab.clock.advance(61)
            await desk.turn()
    assert await waits(desk, payout) == "the account that it goes to is blocked"
    assert caplog.text.count(payout.id) == 1


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RailUnavailable("the node is away"), "the node is away"),
        (RailUnavailable(), "RailUnavailable"),
    ],
)
async def test_a_chain_that_does_not_answer_has_others_take_their_turn(
    desk, monkeypatch, error, told
):
    async def away(*_: object) -> None:
        raise error

    first = await desk.asked()
    with monkeypatch.context() as node:
        node.setattr(desk.lab.rail.payouts, "obstacle", away)
        await desk.turn()
    assert await waits(desk, first) == told
    second = await desk.asked(7)
    await desk.turn()
    assert (await desk.now(second)).status is PayoutStatus.SUBMITTED
    assert await waits(desk, first) == told
    desk.lab.clock.advance(6)
    await desk.done(first)
    assert sorted(await desk.transfers()) == [7, 150]


async def test_what_is_spent_while_it_is_signed_is_not_paid_out(desk, monkeypatch):
    await desk.owe(500)
    balance = {"id": "pout_1", "kind": PayoutKind.BALANCE, "payment_id": None}
    payout = await desk.asked(500, account=account_of(MERCHANT), **balance)
    sign = desk.lab.rail.payouts.sign

    async def meanwhile(*asked: object):
        left = Posting(f"merchant:{SHOP}", f"wallet:{desk.lab.rail.treasury}", TOKEN, 3)
        await desk.store.write(ledger.post("else", "payout", None, None, (left,), 0))
        return await sign(*asked)

    with monkeypatch.context() as others:
        others.setattr(desk.lab.rail.payouts, "sign", meanwhile)
        await desk.turn()
    assert await waits(desk, payout) == str(payouts.Uncovered(3))
    assert await desk.transactions() == []
    assert await desk.transfers(MERCHANT) == []
    await desk.owe(3)
    desk.lab.clock.advance(6)
    await desk.done(payout)
    assert await desk.transfers(MERCHANT) == [500]


async def test_live_payouts_wait_for_the_lists_that_are_required(tmp_path):
    async with office(tmp_path, screening_required=True) as desk:
        live, test = await desk.asked(live=True), await desk.asked(7)
        await desk.turn()
        assert await waits(desk, live) == "the screening lists are missing or too old"
        assert (await desk.now(test)).status is PayoutStatus.SUBMITTED


@pytest.mark.parametrize(
    ("age_us", "wait_us"),
    [(0, 5 * S), (20 * S, 5 * S), (40 * S + 3, 10 * S), (240 * S, 60 * S), (9**9 * S, 60 * S)],
)
async def test_what_waits_is_tried_again_after_a_quarter_of_its_age(desk, age_us, wait_us):
    desk.app.blocked.add([BUYER])
    now_us = desk.lab.clock.now_us()
    payout = await desk.asked(created_at_us=now_us - age_us)
    await desk.turn()
    assert (await desk.now(payout)).retry_at_us == now_us + wait_us


# begun


@pytest.mark.parametrize("asset", [TOKEN, f"caip19/{TOKEN}"])
async def test_a_merchant_is_paid_all_that_it_is_owed_if_no_amount_is_told(desk, asset):
    await owed(desk, 1)
    payout = await flows.create(desk.app, SHOP, asset, None)
    assert payout == Payout(
        payout.id,
        PayoutKind.BALANCE,
        SHOP,
        None,
        True,
        CHAIN,
        TOKEN,
        1,
        account_of(MERCHANT),
        desk.lab.clock.now_us(),
    )
    assert payout.id.startswith("pout_")
    assert await desk.now(payout) == payout


@pytest.mark.parametrize(("amount", "value"), [(None, 5), (3, 3)])
async def test_preview_shows_amount_receiver_and_fee_payer_and_sends_nothing(desk, amount, value):
    await owed(desk, 5)
    found = await flows.preview(desk.app, SHOP, f"caip19/{TOKEN}", amount)
    plan = found.plan
    assert (plan.merchant.name, plan.asset, plan.value, plan.owed) == ("Shop", TOKEN, value, 5)
    assert (plan.account, found.problem) == (account_of(MERCHANT), "")
    assert found.fee_payer == f"{CHAIN}:{desk.lab.rail.payouts.gas_payer}"
    assert found.terms == desk.lab.rail.assets[TOKEN]
    assert await flows.listed(desk.app, all_=True) == []
    # without the key it would wait
    desk.lab.rail.payouts = None
    found = await flows.preview(desk.app, SHOP, TOKEN, amount)
    assert (found.fee_payer, found.problem) == ("", MISSING)


async def test_preview_is_refused_as_the_payout_would_be(desk):
    await owed(desk, 5)
    for merchant, amount in (("mrch_unknown", None), (SHOP, 6), (SHOP, 0)):
        with pytest.raises(FlorinError) as caught:
            await flows.preview(desk.app, merchant, TOKEN, amount)
        with pytest.raises(FlorinError) as expected:
            await flows.create(desk.app, merchant, TOKEN, amount)
        assert str(caught.value) == str(expected.value)


async def test_payout_to_another_account_than_was_shown_is_refused(desk):
    await owed(desk, 5)
    with pytest.raises(FlorinError, match="settlement destination is .* now"):
        await flows.create(desk.app, SHOP, TOKEN, 5, BUYER)
    assert (await flows.create(desk.app, SHOP, TOKEN, 5, account_of(MERCHANT))).value == 5


@pytest.mark.parametrize("amount", [-1, 0, 6])
async def test_more_than_is_owed_or_nothing_is_not_paid(desk, amount):
    await owed(desk, 5)
    with pytest.raises(FlorinError, match="can be paid 5 minor units now"):
        await flows.create(desk.app, SHOP, TOKEN, amount)
    part = await flows.create(desk.app, SHOP, TOKEN, 1)
    assert part.value == 1
    # what was asked for is not there twice
    with pytest.raises(FlorinError, match="can be paid 4 minor units now"):
        await flows.create(desk.app, SHOP, TOKEN, 5)
    assert await flows.listed(desk.app, all_=True) == [part]


@pytest.mark.parametrize("amount", [None, 1])
async def test_a_merchant_that_is_owed_nothing_or_owes_is_paid_nothing(desk, amount):
    await owed(desk, 0)
    with pytest.raises(FlorinError, match="can be paid 0 minor units now"):
        await flows.create(desk.app, SHOP, TOKEN, amount)
    await desk.done(await desk.asked(150))
    with pytest.raises(FlorinError, match="can be paid 0 minor units now"):
        await flows.create(desk.app, SHOP, TOKEN, amount)


async def test_a_payout_that_cannot_be_made_tells_what_is_wrong(desk):
    await owed(desk, 5)
    for merchant, asset, code in (
        ("mrch_unknown", TOKEN, Code.MERCHANT_NOT_FOUND),
        (SHOP, EURO, Code.PARAMS_VALIDATION),
        (SHOP, "dollars", Code.PARAMS_VALIDATION),
    ):
        with pytest.raises(FlorinError) as caught:
            await flows.create(desk.app, merchant, asset, None)
        assert caught.value.code is code
    place = Destination("crypto_2", SHOP, EURO, desk.lab.rail.treasury)
    await desk.store.write(destinations.put_destination(place))
    with pytest.raises(FlorinError, match="settlement destination is"):
        await flows.create(desk.app, SHOP, EURO, None)


# called off


async def test_a_payout_that_is_called_off_is_over_at_that_moment(desk):
    desk.app.blocked.add([BUYER])
    payout = await desk.asked()
    await desk.turn()
    desk.lab.clock.advance(3)
    assert await rings(desk, payout.id, flows.refuse(desk.app, payout.id))
    found = await desk.now(payout)
    now_us = desk.lab.clock.now_us()
    assert (found.status, found.completed_at_us) == (PayoutStatus.REFUSED, now_us)
    refund = await desk.refund(payout)
    assert (refund.status, refund.completed_at_us) == ("failed", now_us)


async def test_only_what_waits_is_called_off(desk):
    with pytest.raises(FlorinError) as caught:
        await flows.refuse(desk.app, "pout_unknown")
    assert (caught.value.code, caught.value.message) == (Code.INVALID_PARAMS, "Payout not found")
    done = await desk.done(await desk.asked())
    with pytest.raises(FlorinError) as caught:
        await flows.refuse(desk.app, done.id)
    assert caught.value.code is Code.INVALID_STATE
    assert caught.value.message == "Payout is done and cannot be refused"
    # one that returns what pays for nothing has no refund
    late = await desk.asked(id="pout_1", kind=PayoutKind.RETURN, payment_id=None, retry_at_us=2**62)
    assert (await flows.refuse(desk.app, late.id)).status is PayoutStatus.REFUSED
