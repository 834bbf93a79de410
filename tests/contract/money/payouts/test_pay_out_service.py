"""Test the operator's payout calls: list, start and cancel."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from florin_server.accounts.store import destinations, merchants
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import Destination, Merchant
from florin_server.domain.payouts.payout import Payout, PayoutKind, PayoutStatus
from florin_server.domain.settlement.chain_txs import LedgerPosting
from florin_server.money.ledger.store import ledger
from florin_server.money.payouts.service import payouts as service
from florin_server.money.payouts.store import balances
from florin_server.rails.types import RailUnavailable

from tests.support.evm_harness import CHAIN, EURO, MERCHANT, TOKEN, to_account
from tests.support.payout_actions import get_waiting_reason, is_notified
from tests.support.payout_harness import BUYER, SHOP, PayoutHarness, open_payout_harness

S = 1_000_000
MISSING = "this installation has no treasury key for the chain"


@pytest.fixture
async def desk(tmp_path):
    async with open_payout_harness(tmp_path) as running:
        yield running


async def owed(desk: PayoutHarness, value: int) -> None:
    """Create a merchant's destination, and owe the merchant `value`."""
    shop = Merchant(SHOP, "prtn_1", "Shop", "a@shop.example", None, "active", True, 1)
    await desk.store.write(merchants.put_merchant(shop))
    place = Destination("crypto_1", SHOP, TOKEN, to_account(MERCHANT))
    await desk.store.write(destinations.put_destination(place))
    if value:
        await desk.book_owed(value)


# list


async def test_completed_payouts_are_listed_only_with_all(desk):
    done = await desk.wait_done(await desk.create_payout())
    desk.app.blocklist.add([BUYER])
    desk.lab.clock.advance(1)
    waiting = await desk.create_payout(7)
    await desk.turn()
    assert [payout.id for payout in await service.list_payouts(desk.app, include_closed=False)] == [
        waiting.id
    ]
    found_payouts = await service.list_payouts(desk.app, include_closed=True)
    assert [payout.id for payout in found_payouts] == [waiting.id, done.id]
    # a finished payout is complete, even if this process lacks the key
    desk.lab.rail.payouts = None
    assert [
        payout.problem for payout in await service.list_payouts(desk.app, include_closed=True)
    ] == [
        "its destination is blocked",
        None,
    ]


async def test_payout_is_returned_without_worker_fields(desk):
    assert await service.find_payout(desk.app, "pout_unknown") is None
    waiting = await desk.create_payout(retry_at_us=9, lapses_at=8)
    payout = await service.find_payout(desk.app, waiting.id)
    assert payout == replace(waiting, retry_at_us=0, lapses_at=None)
    desk.lab.rail.payouts = None
    assert (await service.find_payout(desk.app, waiting.id)).problem == MISSING
    set_aside = await desk.create_payout(problem="its destination is blocked")
    assert (await service.find_payout(desk.app, set_aside.id)).problem == set_aside.problem


async def test_waiting_payouts_are_counted_by_reason(desk):
    desk.app.blocklist.add([BUYER])
    for _ in range(2):
        await desk.create_payout()
    await desk.create_payout(account=desk.lab.rail.treasury)
    await desk.turn()
    blocked, reserved = "its destination is blocked", "its destination is"
    first, second = await service.list_problems(desk.app, CHAIN)
    assert {first, second} >= {f"payouts waiting: 2, because {blocked}"}
    (other,) = {first, second} - {f"payouts waiting: 2, because {blocked}"}
    assert other.startswith(f"payouts waiting: 1, because {reserved} ")
    assert await service.list_problems(desk.app, "eip155:5") == []


async def test_payouts_with_equal_reasons_are_counted_together(desk):
    await desk.create_payout(problem=MISSING, retry_at_us=2**62)
    await desk.create_payout(retry_at_us=2**62)
    desk.lab.rail.payouts = None
    why = f"payouts waiting: 2, because {MISSING}"
    assert await service.list_problems(desk.app, CHAIN) == [why]


async def test_a_payout_on_a_chain_that_is_not_served_says_so(desk):
    payout = await desk.create_payout(chain_id="eip155:5", asset="eip155:5/slip44:60")
    reported_payout = await service.find_payout(desk.app, payout.id)
    assert reported_payout.problem == "the chain is not in the settings"


async def test_health_reports_head_open_transactions_and_every_problem(desk):
    await desk.lab.mine(5)
    await desk.lab.pause()
    await desk.create_payout()
    await desk.turn(2)
    health = desk.worker.health()
    assert (health.head, health.open_transactions) == (desk.worker.head, 1)
    assert health.problem == ""
    assert desk.worker.head >= 5
    desk.worker.key.pause()
    desk.lab.node.lost_methods = frozenset({"eth_blockNumber", "eth_getBlockByNumber"})
    await desk.turn()
    problem = desk.worker.health().problem
    assert problem == "payouts: paused by the operator; payouts: the question was lost"


async def test_why_a_payout_waits_is_logged_when_it_changes(desk, caplog):
    desk.app.blocklist.add([BUYER])
    payout = await desk.create_payout()
    with caplog.at_level(logging.WARNING):
        assert await is_notified(desk, payout.id, desk.turn())
        for _ in range(3):
            desk.lab.clock.advance(61)
            await desk.turn()
    assert await get_waiting_reason(desk, payout) == "its destination is blocked"
    assert caplog.text.count(payout.id) == 1


@pytest.mark.parametrize(
    ("error", "expected_reason"),
    [
        (RailUnavailable("the node is away"), "the node is away"),
        (RailUnavailable(), "RailUnavailable"),
    ],
)
async def test_payout_on_an_unreachable_chain_lets_later_payouts_proceed(
    desk, monkeypatch, error, expected_reason
):
    async def away(*_: object) -> None:
        raise error

    first = await desk.create_payout()
    with monkeypatch.context() as node:
        node.setattr(desk.lab.rail.payouts, "check_transfer", away)
        await desk.turn()
    assert await get_waiting_reason(desk, first) == expected_reason
    second = await desk.create_payout(7)
    await desk.turn()
    assert (await desk.get_payout(second)).status is PayoutStatus.SUBMITTED
    assert await get_waiting_reason(desk, first) == expected_reason
    desk.lab.clock.advance(6)
    await desk.wait_done(first)
    assert sorted(await desk.transfers()) == [7, 150]


async def test_balance_spent_during_signing_is_not_paid_out(desk, monkeypatch):
    await desk.book_owed(500)
    balance = {"id": "pout_1", "kind": PayoutKind.BALANCE, "payment_id": None}
    payout = await desk.create_payout(500, account=to_account(MERCHANT), **balance)
    sign = desk.lab.rail.payouts.sign

    async def spend_and_sign(*args: object):
        left = LedgerPosting(f"merchant:{SHOP}", f"wallet:{desk.lab.rail.treasury}", TOKEN, 3)
        await desk.store.write(ledger.post("else", "payout", None, None, (left,), 0))
        return await sign(*args)

    with monkeypatch.context() as remaining:
        remaining.setattr(desk.lab.rail.payouts, "sign", spend_and_sign)
        await desk.turn()
    assert await get_waiting_reason(desk, payout) == str(balances.InsufficientBalance(3))
    assert await desk.transactions() == []
    assert await desk.transfers(MERCHANT) == []
    await desk.book_owed(3)
    desk.lab.clock.advance(6)
    await desk.wait_done(payout)
    assert await desk.transfers(MERCHANT) == [500]


async def test_live_payouts_wait_for_the_lists_that_are_required(tmp_path):
    async with open_payout_harness(tmp_path, screening_required=True) as desk:
        live, test = await desk.create_payout(live=True), await desk.create_payout(7)
        await desk.turn()
        assert await get_waiting_reason(desk, live) == "the screening lists are missing or too old"
        assert (await desk.get_payout(test)).status is PayoutStatus.SUBMITTED


@pytest.mark.parametrize(
    ("age_us", "wait_us"),
    [(0, 5 * S), (20 * S, 5 * S), (40 * S + 3, 10 * S), (240 * S, 60 * S), (9**9 * S, 60 * S)],
)
async def test_waiting_payout_is_retried_after_a_quarter_of_its_age(desk, age_us, wait_us):
    desk.app.blocklist.add([BUYER])
    now_us = desk.lab.clock.now_us()
    payout = await desk.create_payout(created_at_us=now_us - age_us)
    await desk.turn()
    assert (await desk.get_payout(payout)).retry_at_us == now_us + wait_us


# start


@pytest.mark.parametrize("asset", [TOKEN, f"caip19/{TOKEN}"])
async def test_payout_without_an_amount_pays_the_full_balance(desk, asset):
    await owed(desk, 1)
    payout = await service.create(desk.app, SHOP, asset, None)
    assert payout == Payout(
        payout.id,
        PayoutKind.BALANCE,
        SHOP,
        None,
        True,
        CHAIN,
        TOKEN,
        1,
        to_account(MERCHANT),
        desk.lab.clock.now_us(),
    )
    assert payout.id.startswith("pout_")
    assert await desk.get_payout(payout) == payout


@pytest.mark.parametrize(("amount", "value"), [(None, 5), (3, 3)])
async def test_preview_shows_amount_receiver_and_fee_payer_and_sends_nothing(desk, amount, value):
    await owed(desk, 5)
    preview = await service.preview(desk.app, SHOP, f"caip19/{TOKEN}", amount)
    plan = preview.plan
    assert (plan.merchant.name, plan.asset, plan.value, plan.owed_value) == (
        "Shop",
        TOKEN,
        value,
        5,
    )
    assert (plan.account, preview.problem) == (to_account(MERCHANT), "")
    assert preview.fee_payer == f"{CHAIN}:{desk.lab.rail.payouts.gas_payer}"
    assert preview.terms == desk.lab.rail.assets[TOKEN]
    assert await service.list_payouts(desk.app, include_closed=True) == []
    # without the key the payout would wait
    desk.lab.rail.payouts = None
    preview = await service.preview(desk.app, SHOP, TOKEN, amount)
    assert (preview.fee_payer, preview.problem) == ("", MISSING)


async def test_preview_is_refused_as_the_payout_would_be(desk):
    await owed(desk, 5)
    for merchant, amount in (("mrch_unknown", None), (SHOP, 6), (SHOP, 0)):
        with pytest.raises(ApiError) as caught:
            await service.preview(desk.app, merchant, TOKEN, amount)
        with pytest.raises(ApiError) as expected:
            await service.create(desk.app, merchant, TOKEN, amount)
        assert str(caught.value) == str(expected.value)


async def test_payout_to_another_account_than_was_shown_is_refused(desk):
    await owed(desk, 5)
    with pytest.raises(ApiError, match="settlement destination is .* now"):
        await service.create(desk.app, SHOP, TOKEN, 5, BUYER)
    assert (await service.create(desk.app, SHOP, TOKEN, 5, to_account(MERCHANT))).value == 5


@pytest.mark.parametrize("amount", [-1, 0, 6])
async def test_more_than_is_owed_or_nothing_is_not_paid(desk, amount):
    await owed(desk, 5)
    with pytest.raises(ApiError, match="at most 5 minor units can be paid"):
        await service.create(desk.app, SHOP, TOKEN, amount)
    part = await service.create(desk.app, SHOP, TOKEN, 1)
    assert part.value == 1
    # money that is already requested is not available again
    with pytest.raises(ApiError, match="at most 4 minor units can be paid"):
        await service.create(desk.app, SHOP, TOKEN, 5)
    assert await service.list_payouts(desk.app, include_closed=True) == [part]


@pytest.mark.parametrize("amount", [None, 1])
async def test_a_merchant_that_is_owed_nothing_or_owes_is_paid_nothing(desk, amount):
    await owed(desk, 0)
    with pytest.raises(ApiError, match="at most 0 minor units can be paid"):
        await service.create(desk.app, SHOP, TOKEN, amount)
    await desk.wait_done(await desk.create_payout(150))
    with pytest.raises(ApiError, match="at most 0 minor units can be paid"):
        await service.create(desk.app, SHOP, TOKEN, amount)


async def test_invalid_payout_request_is_refused_with_its_reason(desk):
    await owed(desk, 5)
    for merchant, asset, code in (
        ("mrch_unknown", TOKEN, ErrorCode.MERCHANT_NOT_FOUND),
        (SHOP, EURO, ErrorCode.PARAMS_VALIDATION),
        (SHOP, "dollars", ErrorCode.PARAMS_VALIDATION),
    ):
        with pytest.raises(ApiError) as caught:
            await service.create(desk.app, merchant, asset, None)
        assert caught.value.code is code
    place = Destination("crypto_2", SHOP, EURO, desk.lab.rail.treasury)
    await desk.store.write(destinations.put_destination(place))
    with pytest.raises(ApiError, match="settlement destination is"):
        await service.create(desk.app, SHOP, EURO, None)


# cancel


async def test_a_payout_that_is_called_off_is_over_at_that_moment(desk):
    desk.app.blocklist.add([BUYER])
    payout = await desk.create_payout()
    await desk.turn()
    desk.lab.clock.advance(3)
    assert await is_notified(desk, payout.id, service.refuse(desk.app, payout.id))
    result = await desk.get_payout(payout)
    now_us = desk.lab.clock.now_us()
    assert (result.status, result.completed_at_us) == (PayoutStatus.REFUSED, now_us)
    refund = await desk.refund(payout)
    assert (refund.status, refund.completed_at_us) == ("failed", now_us)


async def test_only_a_waiting_payout_can_be_refused(desk):
    with pytest.raises(ApiError) as caught:
        await service.refuse(desk.app, "pout_unknown")
    assert (caught.value.code, caught.value.message) == (
        ErrorCode.INVALID_PARAMS,
        "Payout pout_unknown not found",
    )
    done = await desk.wait_done(await desk.create_payout())
    with pytest.raises(ApiError) as caught:
        await service.refuse(desk.app, done.id)
    assert caught.value.code is ErrorCode.INVALID_STATE
    assert caught.value.message == f"Payout {done.id} is done and cannot be refused"
    # the return of a payment that pays for nothing has no refund
    late = await desk.create_payout(
        id="pout_1", kind=PayoutKind.RETURN, payment_id=None, retry_at_us=2**62
    )
    assert (await service.refuse(desk.app, late.id)).status is PayoutStatus.REFUSED
