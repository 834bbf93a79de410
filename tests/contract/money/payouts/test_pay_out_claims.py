"""Test claims for money of unknown senders: who can make them, and that each unit is paid once."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

import pytest
from florin_sandbox.devnet.evm import DEVNET
from florin_server.accounts.service import customers
from florin_server.accounts.store import merchants
from florin_server.base.topics import Topic
from florin_server.domain.accounts.account import Partner
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.errors import ApiError
from florin_server.domain.ledger import accounts
from florin_server.domain.payouts.deposit_claims import (
    OPEN_PER_ITEM_MAX,
    PER_PAYMENT_MAX,
    ClaimDecider,
    DepositClaimState,
)
from florin_server.domain.payouts.held_money import HeldMoneyState
from florin_server.idempotency.service import discard_response
from florin_server.money.ledger.store import ledger
from florin_server.money.outbox.store import events
from florin_server.money.payments.service.addresses import open_addresses
from florin_server.money.payouts.service import deposit_claims as claims_service
from florin_server.money.payouts.service import held_money as held_service
from florin_server.money.payouts.service.claimable_money import list_claimable
from florin_server.money.payouts.store import deposit_claims, held_money, payouts
from florin_server.rails.evm.forwarder_settings import ForwarderSettings
from florin_server.rails.evm.sending.transactions import EvmSigner

from tests.support.deposit_claims import make_held_money
from tests.support.evm_harness import RELAYER, TOKEN, make_buyer, to_account
from tests.support.payment_addresses import (
    CHAIN_CHANGES,
    COIN_ASSET,
    STRANGER,
    fund_sender,
    transfer,
)
from tests.support.settlement_harness import BUYER as CALLER
from tests.support.settlement_harness import SHOP, open_settlement_harness

TREASURY = EvmSigner(b"\x74" * 32)
EXCHANGE, BUYER = make_buyer(42), make_buyer(43)
MERCHANT = Caller(live=False, partner_id=SHOP.partner_id, merchant=SHOP)
MUCH = 3_000_000


@contextlib.asynccontextmanager
async def open_shop(tmp_path, **changes):
    """Open a settler of a chain on which an exchange has money."""
    values = {
        **CHAIN_CHANGES,
        "former_settlers": (),
        "forwarder": ForwarderSettings(address=DEVNET.forwarder),
        "exchanges": (EXCHANGE.address,),
        **changes,
    }
    async with open_settlement_harness(tmp_path, treasury=TREASURY, **values) as harness:
        await fund_sender(harness.lab, EXCHANGE)
        await harness.lab.give_gas(STRANGER.address, 10)
        supported = replace(SHOP, support_email="help@shop.example")
        await harness.store.write(merchants.put_merchant(supported))
        yield harness


@pytest.fixture
async def shop(tmp_path):
    async with open_shop(tmp_path) as harness:
        yield harness


async def hold_money(shop, **more):
    """Return held money of a payment to whose address an exchange sent too late."""
    payment_id = await shop.create_unpaid()
    (address,) = await open_addresses(shop.app, CALLER, payment_id, [TOKEN], **more)
    route = shop.lab.rail.addresses.get_route(address.opened.option)
    await transfer(shop.lab, EXCHANGE, route.compute_address(), MUCH)
    await shop.mine(5)
    shop.lab.clock.advance(3 * 3600)

    async def list_held():
        shop.lab.clock.advance(11)
        return await shop.store.read(held_money.list_of_payment(payment_id))

    # not later: a reorganization can still remove it
    await shop.mine_until(list_held)
    (held,) = await list_held()
    return held


async def claim(shop, held, account=None, **more):
    (own_claim,) = await claims_service.claim_deposit(
        shop.app, CALLER, held.payment_id, held.asset, account or to_account(BUYER), **more
    )
    return own_claim


async def confirm(shop, own_claim, caller=MERCHANT):
    return await claims_service.confirm_claim(
        shop.app, caller, own_claim.payment_id, own_claim.id, discard_response
    )


async def reject(shop, own_claim):
    return await claims_service.reject_claim(
        shop.app, MERCHANT, own_claim.payment_id, own_claim.id, discard_response
    )


async def find(shop, own_claim):
    return await shop.store.read(deposit_claims.find(own_claim.id))


async def list_payouts(shop):
    return await shop.store.read(payouts.list_payouts(100, include_closed=True))


async def check_owed(shop, held):
    """Assert that the books are exact, and owe what is held or not paid out yet."""
    assert await shop.store.read(ledger.check()) == []
    owed = await shop.store.read(ledger.get_balance(held.account, held.asset))
    home = accounts.wallet(to_account(TREASURY.address))
    assert owed == -MUCH
    assert await shop.store.read(ledger.get_balance(home, held.asset)) == MUCH
    assert await shop.lab.balance(TREASURY.address) == MUCH


def number_account(number):
    return to_account(make_buyer(100 + number))


async def test_confirmed_claim_pays_its_account_and_rejects_the_others(shop):
    held = await hold_money(shop)
    stranger = await claim(shop, held, number_account(1))
    own_claim = await claim(shop, held, message="Withdrawal 8842115")
    assert (own_claim.asset, own_claim.value, own_claim.state) == (
        held.asset,
        MUCH,
        DepositClaimState.OPEN,
    )
    assert await claim(shop, held) == own_claim
    payment = await shop.store.payments.find(held.payment_id)
    reports = [
        (event.event_type, event.deposit.claim_id, event.deposit.value, event.deposit.address)
        for event in await shop.store.read(events.list_events(payment))
        if event.deposit is not None and event.deposit.claim_id is not None
    ]
    # each claim is reported once, without its account and message
    assert reports == [
        ("payment.deposit_claimed", item.id, MUCH, held.address) for item in (stranger, own_claim)
    ]
    confirmed = await confirm(shop, own_claim)
    assert (confirmed.state, confirmed.decided_by) == (
        DepositClaimState.CONFIRMED,
        ClaimDecider.MERCHANT,
    )
    assert await confirm(shop, own_claim) == confirmed
    (payout,) = await list_payouts(shop)
    assert (payout.account, payout.value, payout.held_id) == (to_account(BUYER), MUCH, held.id)
    assert (await find(shop, stranger)).state is DepositClaimState.REJECTED
    with pytest.raises(ApiError, match="is rejected and cannot be confirmed"):
        await confirm(shop, stranger)
    with pytest.raises(ApiError, match="is confirmed and cannot be rejected"):
        await reject(shop, own_claim)
    (stored,) = await shop.store.read(held_money.list_of_payment(held.payment_id))
    assert (stored.state, stored.payout_id) == (HeldMoneyState.RETURNED, payout.id)
    assert stored.note == f"the merchant confirmed claim {own_claim.id}"
    await check_owed(shop, held)
    with pytest.raises(ApiError, match="no money of .* that can be claimed"):
        await claim(shop, replace(held, asset=COIN_ASSET))
    # the buyer still reads the state of the claim, and no other caller gets a new one
    assert await claim(shop, held) == confirmed
    with pytest.raises(ApiError, match="no money of .* that can be claimed"):
        await claim(shop, held, number_account(2))


async def test_strangers_cannot_multiply_claims_and_a_rejection_makes_room(shop):
    held = await hold_money(shop)
    strangers = [await claim(shop, held, number_account(n)) for n in range(OPEN_PER_ITEM_MAX)]
    with pytest.raises(ApiError, match="contact Shop at help@shop.example") as refused:
        await claim(shop, held)
    assert refused.value.details == {"reason": "too_many_claims"}
    # the same account again is no new claim, and wakes no worker of webhooks
    is_notified = asyncio.Event()
    shop.app.notifier.subscribe(Topic.WEBHOOKS, is_notified)
    assert await claim(shop, held, number_account(0)) == strangers[0]
    assert not is_notified.is_set()
    rejected = await reject(shop, strangers[0])
    assert await reject(shop, strangers[0]) == rejected
    own_claim = await claim(shop, held)
    assert is_notified.is_set()
    assert await claim(shop, held, number_account(0)) == rejected
    number = OPEN_PER_ITEM_MAX
    await reject(shop, own_claim)
    while number < PER_PAYMENT_MAX - 1:
        shop.lab.clock.advance(60)
        await reject(shop, await claim(shop, held, number_account(number)))
        number += 1
    with pytest.raises(ApiError, match="contact Shop at help@shop.example"):
        await claim(shop, held, number_account(number))
    stored = await shop.store.read(deposit_claims.list_of_payment(held.payment_id))
    assert len(stored) == PER_PAYMENT_MAX
    assert await list_payouts(shop) == []


async def test_claims_of_many_callers_at_once_keep_the_bound(shop):
    held = await hold_money(shop)
    results = await asyncio.gather(
        *(claim(shop, held, number_account(n)) for n in range(4 * OPEN_PER_ITEM_MAX)),
        return_exceptions=True,
    )
    assert sum(not isinstance(result, ApiError) for result in results) == OPEN_PER_ITEM_MAX
    stored = await shop.store.read(deposit_claims.list_of_payment(held.payment_id))
    assert len(stored) == OPEN_PER_ITEM_MAX


async def test_two_confirms_at_once_pay_one_account(shop):
    held = await hold_money(shop)
    own_claim = [await claim(shop, held, number_account(n)) for n in range(2)]
    results = await asyncio.gather(
        *(confirm(shop, item) for item in (*own_claim, *own_claim)), return_exceptions=True
    )
    (payout,) = await list_payouts(shop)
    confirmed = {result.account for result in results if not isinstance(result, ApiError)}
    assert confirmed == {payout.account}
    states = sorted([(await find(shop, item)).state for item in own_claim])
    assert states == [DepositClaimState.CONFIRMED, DepositClaimState.REJECTED]
    await check_owed(shop, held)


@pytest.mark.parametrize("verdict", [HeldMoneyState.KEPT, HeldMoneyState.RETURNED])
async def test_confirm_and_operators_verdict_at_once_agree(shop, verdict):
    held = await hold_money(shop)
    own_claim = await claim(shop, held)
    other = number_account(1)
    decide = held_service.resolve(
        shop.app,
        held.id,
        verdict,
        "ask",
        return_to=other if verdict is HeldMoneyState.RETURNED else None,
    )
    confirmed, decided = await asyncio.gather(
        confirm(shop, own_claim), decide, return_exceptions=True
    )
    (stored,) = await shop.store.read(held_money.list_of_payment(held.payment_id))
    receivers = [payout.account for payout in await list_payouts(shop)]
    state = (await find(shop, own_claim)).state
    if isinstance(confirmed, ApiError):
        assert (stored.state, state) == (verdict, DepositClaimState.REJECTED)
        assert receivers == ([other] if verdict is HeldMoneyState.RETURNED else [])
    else:
        assert receivers == [to_account(BUYER)]
        assert (stored.state, state) == (HeldMoneyState.RETURNED, DepositClaimState.CONFIRMED)
        assert isinstance(decided, ApiError) is (verdict is HeldMoneyState.KEPT)
    await check_owed(shop, held)


async def test_operators_verdict_closes_claims_and_ends_claiming(shop):
    held = await hold_money(shop)
    own_claim, other = await claim(shop, held), await claim(shop, held, number_account(1))
    await held_service.resolve(
        shop.app, held.id, HeldMoneyState.RETURNED, "checked", return_to=to_account(BUYER)
    )
    assert [
        ((await find(shop, item)).state, (await find(shop, item)).decided_by)
        for item in (own_claim, other)
    ] == [
        (DepositClaimState.CONFIRMED, ClaimDecider.OPERATOR),
        (DepositClaimState.REJECTED, ClaimDecider.OPERATOR),
    ]
    with pytest.raises(ApiError):
        await confirm(shop, other)
    with pytest.raises(ApiError, match="no money"):
        await claim(shop, held, number_account(2))
    assert len(await list_payouts(shop)) == 1


async def test_kept_money_cannot_be_claimed_or_confirmed(shop):
    held = await hold_money(shop)
    own_claim = await claim(shop, held)
    await held_service.resolve(shop.app, held.id, HeldMoneyState.KEPT, "an authority asks")
    with pytest.raises(ApiError, match="is rejected"):
        await confirm(shop, own_claim)
    assert await list_claimable(shop.app, await shop.store.payments.find(held.payment_id)) == []
    # the operator can still return it, also to an account whose claim was rejected
    await held_service.resolve(
        shop.app, held.id, HeldMoneyState.RETURNED, "released", return_to=to_account(BUYER)
    )
    assert (await find(shop, own_claim)).state is DepositClaimState.CONFIRMED


async def test_claims_name_an_account_of_a_buyer_on_the_chain(shop):
    held = await hold_money(shop)
    address = held.address
    for wrong, why in (
        (f"eip155:1:{BUYER.address}", "must be an account"),
        (f"solana:x:{BUYER.address}", "must be an account"),
        (BUYER.address, "must be an account"),
        (to_account(TREASURY.address), "must"),
        (to_account(RELAYER.address), "must"),
        (to_account(DEVNET.forwarder), "must"),
        (to_account(DEVNET.token.address), "must"),
        (address, "address of a payment"),
        (to_account(EXCHANGE), "exchange"),
    ):
        with pytest.raises(ApiError) as refused:
            await claim(shop, held, wrong)
        assert refused.value.code == "params_validation", wrong
        assert why in refused.value.message.lower(), (wrong, refused.value.message)
    for message in ("x" * 257, "two\nlines", "\u202eback"):
        with pytest.raises(ApiError):
            await claim(shop, held, message=message)
    assert await shop.store.read(deposit_claims.list_of_payment(held.payment_id)) == []


async def test_blocked_account_cannot_claim_and_a_later_block_stops_the_confirm(shop, monkeypatch):
    held = await hold_money(shop)
    own_claim = await claim(shop, held)
    blocked = {to_account(BUYER)}
    monkeypatch.setattr(
        shop.app.blocklist.__class__, "is_blocked", lambda _, account: account in blocked
    )
    with pytest.raises(ApiError) as refused:
        await confirm(shop, own_claim)
    assert refused.value.code == "sanctioned_user"
    assert (await find(shop, own_claim)).state is DepositClaimState.OPEN
    assert await list_payouts(shop) == []
    blocked.add(number_account(1))
    with pytest.raises(ApiError) as refused:
        await claim(shop, held, number_account(1))
    assert refused.value.code == "sanctioned_user"
    # nor can anyone claim the money of an exchange that a list names by now
    blocked.clear()
    blocked.add(held.payer)
    with pytest.raises(ApiError, match="no money"):
        await claim(shop, held, number_account(2))
    with pytest.raises(ApiError, match="can no longer be claimed"):
        await confirm(shop, own_claim)


async def test_claim_of_an_account_that_became_an_exchange_cannot_be_confirmed(shop, monkeypatch):
    held = await hold_money(shop)
    own_claim = await claim(shop, held)
    reader = type(shop.lab.rail.deposits)
    monkeypatch.setattr(reader, "exchanges", frozenset({BUYER.address.lower()}))
    with pytest.raises(ApiError, match="can no longer receive money: reject the claim") as refused:
        await confirm(shop, own_claim)
    assert refused.value.code == "invalid_state"
    assert (await reject(shop, own_claim)).state is DepositClaimState.REJECTED
    assert await list_payouts(shop) == []


async def test_money_with_another_reason_than_its_sender_cannot_be_claimed(shop):
    held = await hold_money(shop)
    payment = await shop.store.payments.find(held.payment_id)
    for number, changes in enumerate(
        (
            {"address": None, "why": "blocked by the settings"},
            {"why": "blocked by the settings"},
            {"why": "not worth a transaction", "state": HeldMoneyState.KEPT},
            {"why": "sent by a wallet of this service"},
        )
    ):
        item = make_held_money(payment.id, held.address, f"held_{number}")
        await shop.store.write(held_money.put(replace(item, **changes)))
    assert [item.id for item in await list_claimable(shop.app, payment)] == [held.id]


async def test_money_that_went_to_another_home_cannot_be_claimed(tmp_path):
    forwarder = ForwarderSettings(address=DEVNET.forwarder, home="0x" + "c0" * 20)
    async with open_shop(tmp_path, forwarder=forwarder) as shop:
        held = await hold_money(shop)
        assert held.why == "sent by an exchange"
        with pytest.raises(ApiError, match="no money"):
            await claim(shop, held)


async def test_money_of_a_named_refund_account_cannot_be_claimed(shop):
    held = await hold_money(shop, refund_account=number_account(5))
    assert held.state is HeldMoneyState.RETURNED
    with pytest.raises(ApiError, match="no money"):
        await claim(shop, held)


async def test_claims_of_another_payment_or_merchant_are_unknown(shop):
    held = await hold_money(shop)
    own_claim = await claim(shop, held)
    elsewhere = await shop.create_unpaid()
    with pytest.raises(ApiError, match="no money"):
        await claim(shop, replace(held, payment_id=elsewhere))
    with pytest.raises(ApiError, match="Deposit claim not found"):
        await confirm(shop, replace(own_claim, payment_id=elsewhere))
    partner = Partner("prtn_other", "Other", "2026-02-18", "active", 0)
    other = replace(SHOP, id="mrch_other", partner_id=partner.id)
    await shop.store.write(merchants.put_partner(partner))
    await shop.store.write(merchants.put_merchant(other))
    stranger = Caller(live=False, partner_id=partner.id, merchant=other)
    with pytest.raises(ApiError) as refused:
        await confirm(shop, own_claim, stranger)
    assert refused.value.code == "payment_not_found"
    assert (await find(shop, own_claim)).state is DepositClaimState.OPEN


async def test_wrong_asset_has_nothing_to_claim(shop):
    held = await hold_money(shop)
    for asset in (TOKEN.replace("eip155:31337", "eip155:1"), "eip155:31337/slip44:60"):
        with pytest.raises(ApiError, match="no money"):
            await claim(shop, replace(held, asset=asset))
    with pytest.raises(ApiError) as refused:
        await claim(shop, replace(held, asset="dollars"))
    assert refused.value.code == "params_validation"


async def test_export_of_a_customer_has_only_its_own_claims_newest_first(shop):
    held, later = await hold_money(shop), await hold_money(shop)
    first = await claim(shop, held, message="I am Ada")
    await claim(shop, held, number_account(1), message="I am Bob")
    await confirm(shop, first)
    shop.lab.clock.advance(1)
    second = await claim(shop, later)
    exported = await customers.export(shop.app, to_account(BUYER))
    assert list(exported.claims) == [second, await find(shop, first)]
    assert exported.claims[1].message == "I am Ada"
    assert {payment.id for payment in exported.payments} == {held.payment_id, later.payment_id}


async def test_erased_customer_keeps_only_the_claim_that_was_paid(shop):
    held = await hold_money(shop)
    own_claim = await claim(shop, held, message="I am Ada")
    stranger = await claim(shop, held, number_account(1), message="I am Bob")
    assert (await customers.erase(shop.app, number_account(1))).claims == 1
    assert await find(shop, stranger) is None
    await confirm(shop, own_claim)
    assert (await customers.erase(shop.app, to_account(BUYER))).claims == 0
    paid_claim = await find(shop, own_claim)
    assert (paid_claim.state, paid_claim.account, paid_claim.message) == (
        DepositClaimState.CONFIRMED,
        to_account(BUYER),
        None,
    )


@pytest.mark.parametrize("confirmed", [False, True])
async def test_deep_reorg_that_removes_the_money_rejects_its_claims(shop, confirmed):
    held = await hold_money(shop)
    own_claim = await claim(shop, held)
    if confirmed:
        await confirm(shop, own_claim)
    await shop.lab.reorg(await shop.lab.depth_of(held.tx_hash), held.tx_hash)
    shop.lab.node.lost_methods = frozenset({"eth_sendRawTransaction"})
    await shop.turn()
    withdrawn = await find(shop, own_claim)
    assert (withdrawn.state, withdrawn.decided_by) == (
        DepositClaimState.REJECTED,
        ClaimDecider.FLORIN,
    )
    with pytest.raises(ApiError):
        await confirm(shop, own_claim)
    # the money comes home again, and can be claimed and confirmed once more
    shop.lab.node.lost_methods = frozenset()
    for _ in range(10):
        shop.lab.clock.advance(300)
        await shop.mine(2)
    again = await claim(shop, held)
    assert again.held_id != held.id
    await confirm(shop, again)
    waiting = [payout for payout in await list_payouts(shop) if payout.status == "waiting"]
    assert [(payout.account, payout.value) for payout in waiting] == [(to_account(BUYER), MUCH)]
    (current,) = await shop.store.read(held_money.list_of_payment(held.payment_id))
    await check_owed(shop, current)


async def test_reorg_after_the_return_pays_no_claim_a_second_time(shop):
    held = await hold_money(shop)
    own_claim = await claim(shop, held)
    await confirm(shop, own_claim)
    (payout,) = await list_payouts(shop)
    now_us = shop.lab.clock.now_us()
    await shop.store.write(payouts.claim(payout, "0xfeed", None, None, now_us))
    await shop.lab.reorg(await shop.lab.depth_of(held.tx_hash), held.tx_hash)
    shop.lab.node.lost_methods = frozenset({"eth_sendRawTransaction"})
    await shop.turn()
    (undone,) = await shop.store.read(held_money.list_of_payment(held.payment_id))
    assert undone.state is HeldMoneyState.UNDONE
    assert (await find(shop, own_claim)).state is DepositClaimState.CONFIRMED
    with pytest.raises(ApiError, match="no money"):
        await claim(shop, held, number_account(1))
    assert (await confirm(shop, own_claim)).state is DepositClaimState.CONFIRMED
    assert len(await list_payouts(shop)) == 1
