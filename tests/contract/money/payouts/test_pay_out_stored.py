"""Test how the store ends a payout after its transaction."""

from __future__ import annotations

import pytest
from florin_server.db.engine.query import operation
from florin_server.db.engine.store import Store
from florin_server.domain.accounts.destinations import (
    AssetAccount,
    DailyOpeningCaps,
    TokenAccountOpening,
)
from florin_server.domain.payouts.payout import Payout, PayoutKind, PayoutStatus
from florin_server.domain.settlement.chain_txs import LedgerPosting
from florin_server.money.ledger.store import books, ledger
from florin_server.money.payouts.store import balances, payouts
from florin_server.money.payouts.store.payouts import PayoutOutcome
from florin_server.money.settlement.store import token_accounts
from florin_server.money.settlement.store.chain_txs import ItemsUnavailable

from tests.support.store_factories import ASSET, CHAIN, LATER_US, NOW_US, PAYER

CAPS = DailyOpeningCaps(10, 10, 10)
PLACE = AssetAccount(ASSET, PAYER)
POSTING = LedgerPosting("merchant:mer_1", f"wallet:{CHAIN}:treasury", ASSET, 150)


async def submitted(store: Store) -> Payout:
    """Return a payout in a transaction that opens an account for it."""
    payout = Payout(
        "pout_1",
        PayoutKind.RETURN,
        "mer_1",
        "pay_1",
        False,
        CHAIN,
        ASSET,
        150,
        PAYER,
        NOW_US,
        PayoutStatus.SUBMITTED,
        tx_id="0x1",
    )
    await store.write(payouts.add(payout))
    await store.write(
        token_accounts.claim([TokenAccountOpening(PLACE, "mer_1")], CAPS, payout.id, NOW_US)
    )
    return payout


async def ended(store: Store, outcome: PayoutOutcome) -> Payout:
    await store.write(payouts.finalize([outcome], [], LATER_US, no_watch()))
    payout = await store.read(payouts.find(outcome.payout.id))
    assert payout is not None
    return payout


@operation
def no_watch():
    yield from ()


async def openable(store: Store) -> bool:
    """Return whether Florin can still open the account."""
    asset_accounts = await store.read(
        token_accounts.filter_openable([TokenAccountOpening(PLACE, "mer_1")], CAPS, NOW_US)
    )
    return PLACE in asset_accounts


async def test_paid_payout_is_completed_and_booked_for_its_payment(store):
    payout = await submitted(store)
    done = await ended(store, PayoutOutcome(payout, "0x2", POSTING))
    assert (done.status, done.tx_id) == (PayoutStatus.DONE, "0x2")
    assert (done.completed_at_us, done.problem) == (LATER_US, None)
    (entry,) = await store.read(books.list_entries("pay_1"))
    assert entry == books.LedgerEntry("return:pout_1", LATER_US, "0x2", None, POSTING)
    # the account is open, and is not opened twice
    assert not await openable(store)
    # a second end changes nothing
    assert await ended(store, PayoutOutcome(payout, "0x3", POSTING)) == done
    assert await store.read(books.list_entries("pay_1")) == [entry]


async def test_payout_that_moved_nothing_waits_and_leaves_its_account_unopened(store):
    payout = await submitted(store)
    outcome = PayoutOutcome(payout, retry_at_us=LATER_US + 5, problem="its transaction failed")
    waiting = await ended(store, outcome)
    assert (waiting.status, waiting.tx_id) == (PayoutStatus.WAITING, None)
    assert (waiting.retry_at_us, waiting.problem) == (LATER_US + 5, "its transaction failed")
    assert waiting.completed_at_us is None
    assert await store.read(books.list_entries("pay_1")) == []
    assert await openable(store)


async def test_unproven_payout_stays_submitted_and_its_account_may_be_open(store):
    payout = await submitted(store)
    stuck = await ended(store, PayoutOutcome(payout, "0x1", problem="what it moved is not proven"))
    assert (stuck.status, stuck.tx_id) == (PayoutStatus.SUBMITTED, "0x1")
    assert (stuck.problem, stuck.completed_at_us) == ("what it moved is not proven", None)
    assert await store.read(books.list_entries("pay_1")) == []
    assert not await openable(store)


@pytest.mark.parametrize("page", [1, 2, 3, 500])
async def test_completed_payout_without_a_booking_is_detected(store, page):
    for number, kind in enumerate(PayoutKind):
        payout = Payout(
            f"pout_{number}",
            kind,
            "mer_1",
            None,
            False,
            CHAIN,
            ASSET,
            150,
            PAYER,
            NOW_US,
            PayoutStatus.DONE,
        )
        await store.write(payouts.add(payout))
    assert await store.read(payouts.check(page)) == [
        f"payout pout_{number} is done but not booked" for number in range(3)
    ]
    for key in ("payout:pout_1", "refund:pout_2"):
        await store.write(ledger.post(key, "any", None, None, (POSTING,), NOW_US))
    # a journal belongs to one payout, by kind and ID
    assert await store.read(payouts.check(page)) == [
        f"payout pout_{number} is done but not booked" for number in (0, 2)
    ]


async def test_claim_of_a_submitted_payout_names_it(store):
    payout = await submitted(store)
    with pytest.raises(ItemsUnavailable, match="^not waiting to be paid out: pout_1$"):
        await store.write(payouts.claim(payout, "0x2", None, None, NOW_US))
    assert await store.read(payouts.find(payout.id)) == payout


async def test_claimed_payout_stores_its_transaction_and_deadline(store):
    outcome = PayoutOutcome(await submitted(store), retry_at_us=LATER_US, problem="it failed")
    waiting = await ended(store, outcome)
    await store.write(payouts.claim(waiting, "0x2", 77, None, NOW_US))
    result = await store.read(payouts.find(waiting.id))
    assert (result.status, result.tx_id) == (PayoutStatus.SUBMITTED, "0x2")
    assert (result.lapses_at, result.problem) == (77, None)


OTHER = f"{CHAIN}/erc20:0x{'cc' * 20}"


@pytest.mark.parametrize(
    "changes",
    [
        {"merchant_id": "mer_2"},
        {"asset": OTHER},
        # money held for a payer was never the merchant's
        {"kind": PayoutKind.RETURN, "held_id": "held_1", "backed": True},
        # already booked
        {"status": PayoutStatus.DONE},
        {"status": PayoutStatus.REFUSED},
    ],
    ids=["another merchant", "another asset", "held money", "done", "refused"],
)
async def test_available_balance_excludes_only_the_merchants_own_open_payouts(store, changes):
    mine = {
        "id": "pout_1",
        "kind": PayoutKind.BALANCE,
        "merchant_id": "mer_1",
        "payment_id": None,
        "live": True,
        "chain_id": CHAIN,
        "asset": ASSET,
        "value": 70,
        "account": PAYER,
        "created_at_us": NOW_US,
        "status": PayoutStatus.SUBMITTED,
    }
    came = LedgerPosting(f"wallet:{CHAIN}:treasury", "merchant:mer_1", ASSET, 100)
    await store.write(ledger.post("came", "settle", None, None, (came,), NOW_US))
    await store.write(payouts.add(Payout(**{**mine, **changes})))
    assert await store.read(balances.get_available("mer_1", ASSET)) == 100
    rest = Payout(**{**mine, "id": "pout_2", "value": 101, "status": PayoutStatus.WAITING})
    assert str(await store.read(balances.find_shortfall(rest, None))).count(" lack 1 minor") == 1
    # another payout of the same payment counts
    await store.write(payouts.add(Payout(**{**mine, "id": "pout_3"})))
    assert await store.read(balances.get_available("mer_1", ASSET)) == 30
    assert str(await store.read(balances.find_shortfall(rest, None))).count(" lack 71 minor") == 1


async def test_late_outcome_of_an_earlier_owner_does_not_resend_a_payout(store):
    """A former lease holder saw the first transaction, and reports during the second."""
    first = await submitted(store)
    replaced = PayoutOutcome(first, retry_at_us=LATER_US, problem="replaced")
    waiting = await ended(store, replaced)
    assert waiting.status is PayoutStatus.WAITING
    await store.write(payouts.claim(waiting, "0x2", None, None, NOW_US))
    again = await ended(store, replaced)
    assert (again.status, again.tx_id) == (PayoutStatus.SUBMITTED, "0x2")
    paid = await ended(store, PayoutOutcome(again, "0x2", POSTING))
    assert paid.status is PayoutStatus.DONE
    assert await store.read(ledger.check()) == []
