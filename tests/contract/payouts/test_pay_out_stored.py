"""What the store does with a payout whose transaction is over."""

from __future__ import annotations

import pytest
from florin_server.domain.accounts.destinations import AssetAccount, DailyCaps, Opening
from florin_server.domain.payouts.payout import Payout, PayoutKind, PayoutStatus
from florin_server.domain.settlement.chain_txs import Posting
from florin_server.store.engine.query import operation
from florin_server.store.engine.store import Store
from florin_server.store.ledger import books, ledger
from florin_server.store.payouts import payouts
from florin_server.store.payouts.payouts import Outcome
from florin_server.store.settlement import token_accounts
from florin_server.store.settlement.chain_txs import NotWaiting

from tests.support.store_kit import ASSET, CHAIN, LATER_US, NOW_US, PAYER

CAPS = DailyCaps(10, 10, 10)
PLACE = AssetAccount(ASSET, PAYER)
POSTING = Posting("merchant:mer_1", f"wallet:{CHAIN}:treasury", ASSET, 150)


async def submitted(store: Store) -> Payout:
    """A payout in a transaction that opens an account for it."""
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
    await store.write(token_accounts.claim([Opening(PLACE, "mer_1")], CAPS, payout.id, NOW_US))
    return payout


async def ended(store: Store, outcome: Outcome) -> Payout:
    await store.write(payouts.conclude([outcome], [], LATER_US, no_watch()))
    found = await store.read(payouts.get(outcome.payout.id))
    assert found is not None
    return found


@operation
def no_watch():
    yield from ()


async def openable(store: Store) -> bool:
    """Whether the place may still be opened."""
    found = await store.read(token_accounts.openable([Opening(PLACE, "mer_1")], CAPS, NOW_US))
    return PLACE in found


async def test_what_is_paid_is_done_and_booked_for_its_payment(store):
    payout = await submitted(store)
    done = await ended(store, Outcome(payout, "0x2", POSTING))
    assert (done.status, done.tx_id) == (PayoutStatus.DONE, "0x2")
    assert (done.completed_at_us, done.problem) == (LATER_US, None)
    (entry,) = await store.read(books.entries("pay_1"))
    assert entry == books.Entry("return:pout_1", LATER_US, "0x2", None, POSTING)
    # the account is open, and nobody opens it twice
    assert not await openable(store)
    # a second end changes nothing
    assert await ended(store, Outcome(payout, "0x3", POSTING)) == done
    assert await store.read(books.entries("pay_1")) == [entry]


async def test_what_moved_nothing_waits_and_has_opened_nothing(store):
    payout = await submitted(store)
    outcome = Outcome(payout, retry_at_us=LATER_US + 5, problem="its transaction failed")
    waiting = await ended(store, outcome)
    assert (waiting.status, waiting.tx_id) == (PayoutStatus.WAITING, None)
    assert (waiting.retry_at_us, waiting.problem) == (LATER_US + 5, "its transaction failed")
    assert waiting.completed_at_us is None
    assert await store.read(books.entries("pay_1")) == []
    assert await openable(store)


async def test_what_is_not_proven_stays_where_it_is_with_what_it_may_have_opened(store):
    payout = await submitted(store)
    stuck = await ended(store, Outcome(payout, "0x1", problem="it is not proven what it moved"))
    assert (stuck.status, stuck.tx_id) == (PayoutStatus.SUBMITTED, "0x1")
    assert (stuck.problem, stuck.completed_at_us) == ("it is not proven what it moved", None)
    assert await store.read(books.entries("pay_1")) == []
    assert not await openable(store)


@pytest.mark.parametrize("page", [1, 2, 3, 500])
async def test_what_is_done_and_not_booked_is_found(store, page):
    for number, kind in enumerate(PayoutKind):
        one = Payout(
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
        await store.write(payouts.add(one))
    assert await store.read(payouts.check(page)) == [
        f"payout pout_{number} is done and not booked" for number in range(3)
    ]
    for key in ("payout:pout_1", "refund:pout_2"):
        await store.write(ledger.post(key, "any", None, None, (POSTING,), NOW_US))
    # a journal is that of one payout, by kind and id
    assert await store.read(payouts.check(page)) == [
        f"payout pout_{number} is done and not booked" for number in (0, 2)
    ]


async def test_who_claims_what_does_not_wait_is_told_what_that_is(store):
    payout = await submitted(store)
    with pytest.raises(NotWaiting, match="^not waiting to be paid out: pout_1$"):
        await store.write(payouts.claim(payout, "0x2", None, None, NOW_US))
    assert await store.read(payouts.get(payout.id)) == payout


async def test_what_is_claimed_tells_its_transaction_and_when_that_lapses(store):
    outcome = Outcome(await submitted(store), retry_at_us=LATER_US, problem="it failed")
    waiting = await ended(store, outcome)
    await store.write(payouts.claim(waiting, "0x2", 77, None, NOW_US))
    found = await store.read(payouts.get(waiting.id))
    assert (found.status, found.tx_id) == (PayoutStatus.SUBMITTED, "0x2")
    assert (found.lapses_at, found.problem) == (77, None)


OTHER = f"{CHAIN}/erc20:0x{'cc' * 20}"


@pytest.mark.parametrize(
    "changes",
    [
        {"merchant_id": "mer_2"},
        {"asset": OTHER},
        # what was held for a payer was never the merchant's
        {"kind": PayoutKind.RETURN, "held_id": "held_1", "backed": True},
        # booked already
        {"status": PayoutStatus.DONE},
        {"status": PayoutStatus.REFUSED},
    ],
    ids=["another merchant", "another asset", "held money", "done", "refused"],
)
async def test_a_merchant_may_have_all_that_nothing_else_of_its_own_is_asked_for(store, changes):
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
    came = Posting(f"wallet:{CHAIN}:treasury", "merchant:mer_1", ASSET, 100)
    await store.write(ledger.post("came", "settle", None, None, (came,), NOW_US))
    await store.write(payouts.add(Payout(**{**mine, **changes})))
    assert await store.read(payouts.available("mer_1", ASSET)) == 100
    rest = Payout(**{**mine, "id": "pout_2", "value": 101, "status": PayoutStatus.WAITING})
    assert str(await store.read(payouts.uncovered(rest, None))).count(" lack 1 minor") == 1
    # the same of its own counts
    await store.write(payouts.add(Payout(**{**mine, "id": "pout_3"})))
    assert await store.read(payouts.available("mer_1", ASSET)) == 30
    assert str(await store.read(payouts.uncovered(rest, None))).count(" lack 71 minor") == 1


async def test_what_a_former_owner_tells_of_an_older_transaction_sends_nothing_again(store):
    """It saw the first transaction, lost its lease, and tells when the second is under way."""
    first = await submitted(store)
    replaced = Outcome(first, retry_at_us=LATER_US, problem="replaced")
    waiting = await ended(store, replaced)
    assert waiting.status is PayoutStatus.WAITING
    await store.write(payouts.claim(waiting, "0x2", None, None, NOW_US))
    again = await ended(store, replaced)
    assert (again.status, again.tx_id) == (PayoutStatus.SUBMITTED, "0x2")
    paid = await ended(store, Outcome(again, "0x2", POSTING))
    assert paid.status is PayoutStatus.DONE
    assert await store.read(ledger.check()) == []
