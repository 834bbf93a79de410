"""Test settling: recorded before it is sent, ended once, by the holder of the lease."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_server.domain.ledger import journals
from florin_server.domain.payments.payment import PaymentStatus
from florin_server.domain.payments.state import PaymentStateEvent
from florin_server.domain.settlement.chain_txs import (
    LedgerPosting,
    PaymentOutcome,
    ReorgWatcher,
    TransactionOutcome,
    TxState,
    WatchedTransaction,
)
from florin_server.money.ledger.store import ledger
from florin_server.money.payments.store import payments
from florin_server.money.settlement.store import (
    chain_txs,
    payment_outcomes,
    reorg,
    settlement_items,
    used_nonces,
)
from florin_server.money.settlement.store.chain_txs import ItemsUnavailable, LostLease
from florin_server.operations.store import executors, leases

from tests.support.store_factories import (
    ASSET,
    CHAIN,
    COIN,
    LATER_US,
    LEASE,
    NOW_US,
    SENDER,
    acquire_lease,
    create_chain_tx,
    create_payment,
    create_processing_payment,
    make_chain_tx,
    make_confirmation,
    make_option,
    make_resolved_build,
    make_success,
)

GAS = LedgerPosting("expense:gas", "wallet:relayer", COIN, 21_000 * 10**9)


async def waiting(store, limit=10, now_us=LATER_US):
    return [
        item.payment.id
        for item in await store.read(settlement_items.list_waiting(CHAIN, limit, now_us))
    ]


async def unsettled(store):
    return [item.payment.id for item in await store.read(settlement_items.list_unsettled(CHAIN))]


async def test_accepted_payments_wait_the_oldest_first(store):
    second, first = [await create_processing_payment(store, at_us=NOW_US + n) for n in (2, 1)]
    await create_payment(store)
    assert await waiting(store) == [first.id, second.id]
    assert await waiting(store, limit=1) == [first.id]
    assert await store.read(settlement_items.list_waiting("eip155:1", 10, LATER_US)) == []
    (item, _) = await store.read(settlement_items.list_unsettled(CHAIN))
    assert item.payment == first
    assert item.option == make_option(first)
    assert item.confirmation == make_confirmation(first, at_us=NOW_US + 1)
    assert item.from_block == 7


async def test_payments_accepted_at_the_same_instant_wait_in_id_order(store):
    ids = [f"pay_{n:027}" for n in (900_002, 900_003, 900_001)]
    for text in ids:
        await create_processing_payment(store, await create_payment(store, id=text), at_us=NOW_US)
    assert await waiting(store) == await unsettled(store) == sorted(ids)
    assert await waiting(store, limit=1) == [min(ids)]


async def test_payment_left_to_the_buyer_no_longer_waits_but_stays_unsettled(store):
    left, other = await create_processing_payment(store), await create_processing_payment(store)
    await store.write(settlement_items.leave_to_buyer([left.id]))
    assert await waiting(store) == [other.id]
    assert await unsettled(store) == [left.id, other.id]
    with pytest.raises(ItemsUnavailable):
        await create_chain_tx(store, left)
    await store.write(payment_outcomes.finalize([make_success(left)], [], LATER_US))
    await store.write(settlement_items.leave_to_buyer([left.id]))
    assert await unsettled(store) == [other.id]


async def test_released_payments_wait_until_their_time(store):
    of = await create_processing_payment(store)
    await store.write(settlement_items.release([of.id], LATER_US + 5))
    assert await waiting(store) == []
    assert await waiting(store, now_us=LATER_US + 5) == [of.id]
    assert await unsettled(store) == [of.id]


async def test_resolved_builds_of_the_bound_option_are_listed(store):
    payment, other, inline = [await create_processing_payment(store) for _ in range(3)]
    resolved_builds = []
    for of, n in ((payment, 0), (payment, 1), (other, 0)):
        resolved_builds.append(make_resolved_build(of, n=n))
        await store.write(payments.put_resolved_build(resolved_builds[-1]))
    # an option to which the payment is not bound
    await store.write(payments.put_resolved_build(make_resolved_build(payment, option_id="opt_2")))
    result = await store.read(settlement_items.list_resolved_builds([payment.id, inline.id]))
    assert result == [resolved_builds[1], resolved_builds[0]]
    assert await store.read(settlement_items.list_resolved_builds([other.id])) == [
        resolved_builds[2]
    ]
    assert await store.read(settlement_items.list_resolved_builds([inline.id])) == []


async def test_a_written_transaction_takes_its_payments_and_its_nonce(store):
    payment, two, other = [await create_processing_payment(store) for _ in range(3)]
    assert await store.read(used_nonces.find_next_nonce(CHAIN, SENDER)) is None
    written = await create_chain_tx(store, two, payment, nonce=41)
    assert await waiting(store) == [other.id]
    assert set(await unsettled(store)) == {payment.id, two.id, other.id}
    assert await store.read(used_nonces.find_next_nonce(CHAIN, SENDER)) == 42
    assert await store.read(chain_txs.list_open(CHAIN, SENDER)) == [written]
    assert written.item_ids == (two.id, payment.id)
    assert await store.read(chain_txs.list_open("eip155:1", SENDER)) == []


async def test_chain_tx_reports_its_state(store):
    first = await create_chain_tx(store, await create_processing_payment(store), nonce=2)
    second = await create_chain_tx(store, await create_processing_payment(store), nonce=1)
    await store.write(chain_txs.record_broadcasts({first.id: 100}))
    sent = replace(first, state=TxState.SENT, sent_block=100)
    assert await store.read(chain_txs.list_open(CHAIN, SENDER)) == [second, sent]
    # it is in no block for long, so it is broadcast again
    await store.write(chain_txs.record_broadcasts({first.id: 103}))
    again = replace(sent, sent_block=103)
    assert await store.read(chain_txs.list_open(CHAIN, SENDER)) == [second, again]


async def test_write_with_a_lost_lease_is_refused(store):
    of = await create_processing_payment(store)
    mine = await acquire_lease(store)
    theirs = await store.write(leases.acquire(LEASE, "they", NOW_US, 1, steal=True))
    assert theirs == mine + 1
    with pytest.raises(LostLease):
        await store.write(
            chain_txs.append(make_chain_tx(of), mine, LEASE, settlement_items.claim([of.id]))
        )
    with pytest.raises(LostLease):
        await store.write(
            chain_txs.append(make_chain_tx(of), mine, "unknown", settlement_items.claim([of.id]))
        )
    assert await waiting(store) == [of.id]
    assert await store.read(chain_txs.list_open(CHAIN, SENDER)) == []
    await store.write(
        chain_txs.append(make_chain_tx(of), theirs, LEASE, settlement_items.claim([of.id]))
    )


async def test_payment_is_in_a_single_transaction_at_a_time(store):
    payment, two = await create_processing_payment(store), await create_processing_payment(store)
    written = await create_chain_tx(store, payment)
    with pytest.raises(ItemsUnavailable, match=payment.id):
        await create_chain_tx(store, two, payment)
    assert await waiting(store) == [two.id]
    assert await store.read(chain_txs.list_open(CHAIN, SENDER)) == [written]
    # a process that does not know the transaction tries to put it back in the queue
    await store.write(settlement_items.release([payment.id], NOW_US))
    assert await waiting(store) == [two.id]
    await store.write(
        payment_outcomes.finalize([], [TransactionOutcome(written.id, TxState.REPLACED)], LATER_US)
    )
    await store.write(settlement_items.release([payment.id], NOW_US))
    await create_chain_tx(store, two, payment)


async def test_two_open_transactions_never_share_a_nonce(store):
    written = await create_chain_tx(store, await create_processing_payment(store), nonce=5)
    other = await create_processing_payment(store)
    with pytest.raises(Exception, match="(?i)unique"):
        await create_chain_tx(store, other, nonce=5)
    await store.write(
        payment_outcomes.finalize([], [TransactionOutcome(written.id, TxState.REPLACED)], LATER_US)
    )
    await create_chain_tx(store, other, nonce=5)


async def test_open_transactions_are_counted_by_sender(store):
    count = executors.count_open_transactions
    assert await store.read(count()) == {}
    txes = [
        await create_chain_tx(store, await create_processing_payment(store), nonce=n)
        for n in (5, 6)
    ]
    assert await store.read(count()) == {f"{CHAIN}:{SENDER}": 2}
    ends = [TransactionOutcome(txes[0].id, TxState.FINAL, 9, "0xblock", (GAS,))]
    await store.write(payment_outcomes.finalize([], ends, LATER_US))
    assert await store.read(count()) == {f"{CHAIN}:{SENDER}": 1}
    await store.write(
        payment_outcomes.finalize([], [TransactionOutcome(txes[1].id, TxState.REPLACED)], LATER_US)
    )
    assert await store.read(count()) == {}


async def test_a_proven_payment_ends_with_its_event_its_books_and_its_transaction(store):
    of = await create_processing_payment(store)
    written = await create_chain_tx(store, of)
    end = TransactionOutcome(written.id, TxState.FINAL, 9, "0xblock", (GAS,))
    (ended,) = await store.write(payment_outcomes.finalize([make_success(of)], [end], LATER_US + 1))
    assert ended == replace(
        of,
        status=PaymentStatus.SUCCEEDED,
        version=2,
        updated_at_us=LATER_US + 1,
        tx_id="0xpaid",
        option_unit=f"caip19/{ASSET}",
        option_value=50_000_000,
        settled_value=50_000_000,
    )
    assert await store.payments.find(of.id) == ended
    assert (await store.read(payments.list_events(of.id)))[
        -1
    ].cause == PaymentStateEvent.EFFECT_FINAL
    assert await unsettled(store) == []
    assert await store.read(chain_txs.list_open(CHAIN, SENDER)) == []
    assert await store.read(ledger.get_balance("external:shop", ASSET)) == 50_000_000
    assert await store.read(ledger.get_balance("expense:gas", COIN)) == GAS.amount
    assert await store.read(ledger.check()) == []


async def test_the_same_proof_twice_changes_nothing(store):
    of = await create_processing_payment(store)
    written = await create_chain_tx(store, of)
    end = TransactionOutcome(written.id, TxState.FINAL, 9, "0xblock", (GAS,))
    await store.write(payment_outcomes.finalize([make_success(of)], [end], LATER_US))
    before = await store.payments.find(of.id)
    lapsed = PaymentOutcome(of.id, PaymentStatus.FAILED, failure_detail="lapsed")
    for finding in (make_success(of), lapsed):
        assert await store.write(payment_outcomes.finalize([finding], [end], LATER_US + 9)) == []
    assert await store.payments.find(of.id) == before
    assert await store.read(ledger.get_balance("external:shop", ASSET)) == 50_000_000
    assert await store.read(ledger.get_balance("expense:gas", COIN)) == GAS.amount


async def test_undoing_an_unbooked_settlement_raises_journal_not_booked(store):
    of = await create_processing_payment(store)
    written = await create_chain_tx(store, of)
    # a transaction without cost has no gas journal to reverse
    end = TransactionOutcome(written.id, TxState.FINAL, 9, "0xblock")
    watch = reorg.watch(CHAIN, ReorgWatcher.SETTLER, [WatchedTransaction("0xpaid", 9, "0xblock")])
    await store.write(payment_outcomes.finalize([make_success(of)], [end], LATER_US, watch))
    undone = reorg.undo_settlements(CHAIN, ["0xpaid"], ([of.id], [written.id]), LATER_US)
    key = journals.settle_key(of.id)
    # the journal was already reversed, without a notification
    await store.write(ledger.reverse(key, LATER_US))
    with pytest.raises(
        ledger.JournalNotBooked, match=f"{key} cannot be reversed, as it is not booked"
    ):
        await store.write(undone)
    # the failed write changed nothing: the transaction is final and stays watched
    assert await store.read(chain_txs.list_open(CHAIN, SENDER)) == []
    assert len(await store.read(reorg.list_watched(CHAIN))) == 1
    await store.write(ledger.post_reversed_again(key, LATER_US))
    undone = reorg.undo_settlements(CHAIN, ["0xpaid"], ([of.id], [written.id]), LATER_US)
    assert await store.write(undone) == [of.id]
    assert [item.id for item in await store.read(chain_txs.list_open(CHAIN, SENDER))] == [
        written.id
    ]
    assert await store.read(ledger.check()) == []


async def test_a_payment_that_can_never_be_paid_fails_without_booking(store):
    of = await create_processing_payment(store)
    lapsed = PaymentOutcome(of.id, PaymentStatus.FAILED, failure_detail="lapsed")
    (ended,) = await store.write(payment_outcomes.finalize([lapsed], [], LATER_US))
    assert (ended.status, ended.failure_detail) == (PaymentStatus.FAILED, "lapsed")
    last = (await store.read(payments.list_events(of.id)))[-1]
    assert (last.cause, last.detail) == (PaymentStateEvent.UNSPENDABLE, {"reason": "lapsed"})
    assert await store.read(ledger.get_balance("external:shop", ASSET)) == 0
    assert await unsettled(store) == []


async def test_proof_ends_only_processing_payments(store):
    open_, processing = await create_payment(store), await create_processing_payment(store)
    changed = await store.write(
        payment_outcomes.finalize([make_success(open_), make_success(processing)], [], LATER_US)
    )
    assert [item.id for item in changed] == [processing.id]
    assert (await store.payments.find(open_.id)).status is PaymentStatus.REQUIRES_ACTION
    assert await store.read(ledger.get_balance("external:shop", ASSET)) == 50_000_000


async def test_a_final_payment_cannot_be_put_back_in_line(store):
    of = await create_processing_payment(store)
    await store.write(payment_outcomes.finalize([make_success(of)], [], LATER_US))
    await store.write(settlement_items.release([of.id], NOW_US))
    assert await unsettled(store) == []


async def test_payments_in_processing_are_counted_over_all_chains(store):
    assert await store.read(settlement_items.count_unsettled()) == 0
    paid, _ = await create_processing_payment(store), await create_processing_payment(store)
    assert await store.read(settlement_items.count_unsettled()) == 2
    await store.write(payment_outcomes.finalize([make_success(paid)], [], LATER_US))
    assert await store.read(settlement_items.count_unsettled()) == 1


async def test_lease_has_a_single_owner_until_it_expires(store):
    async def take(owner, now_us, steal=False):
        return await store.write(leases.acquire("job", owner, now_us, 10, steal))

    assert await take("a", 0) == 1
    assert await take("b", 9) is None
    assert await take("a", 9) == 1
    assert await take("b", 19) == 2
    assert not await store.write(leases.renew("job", "a", 1, 20, 10))
    assert await store.write(leases.renew("job", "b", 2, 20, 10))
    assert await take("a", 29) is None
    assert await take("a", 29, steal=True) == 3
    assert not await store.write(leases.release("job", "b", 2))
    assert await store.write(leases.release("job", "a", 3))
    assert await take("b", 29) == 4


async def test_leases_of_the_dead_are_free_at_once_and_fenced_off(store):
    for name, owner in (("one", "dead"), ("two", "dead"), ("three", "alive")):
        assert await store.write(leases.acquire(name, owner, 0, 100, steal=False)) == 1
    names = ["one", "two", "three", "unknown"]
    assert await store.read(leases.filter_held(names, 50)) == {"one", "two", "three"}
    await store.write(leases.release_all(["dead", "unknown"]))
    assert await store.read(leases.filter_held(names, 50)) == {"three"}
    assert not await store.write(leases.renew("one", "dead", 1, 50, 100))
    assert await store.write(leases.acquire("one", "next", 50, 100, steal=False)) == 2
    assert await store.write(leases.acquire("three", "next", 50, 100, steal=False)) is None
    assert await store.read(leases.filter_held(names, 149)) == {"one"}
    assert await store.read(leases.filter_held(names, 150)) == set()
