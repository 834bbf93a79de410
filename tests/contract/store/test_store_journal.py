"""Settling: written down before it is sent, ended once, by whoever holds the lease."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_server.domain.ledger import journals
from florin_server.domain.payments.payment import Status
from florin_server.domain.payments.state import Event
from florin_server.domain.settlement.chain_txs import (
    Finding,
    Posting,
    TxEnd,
    TxState,
    Watched,
    Watcher,
)
from florin_server.store.ledger import ledger
from florin_server.store.operator import executors
from florin_server.store.payments import payments
from florin_server.store.settlement import chain_txs, leases, reorg, used_nonces
from florin_server.store.settlement.chain_txs import LostLease, NotWaiting

from tests.support.store_kit import (
    ASSET,
    CHAIN,
    COIN,
    LATER_US,
    LEASE,
    NOW_US,
    SENDER,
    accepted,
    confirmation,
    created,
    issued,
    leased,
    option,
    submitted,
    success,
    tx,
)

GAS = Posting("expense:gas", "wallet:relayer", COIN, 21_000 * 10**9)


async def waiting(store, limit=10, now_us=LATER_US):
    return [one.payment.id for one in await store.read(chain_txs.waiting(CHAIN, limit, now_us))]


async def unsettled(store):
    return [one.payment.id for one in await store.read(chain_txs.unsettled(CHAIN))]


async def test_accepted_payments_wait_the_oldest_first(store):
    second, first = [await accepted(store, at_us=NOW_US + n) for n in (2, 1)]
    await created(store)
    assert await waiting(store) == [first.id, second.id]
    assert await waiting(store, limit=1) == [first.id]
    assert await store.read(chain_txs.waiting("eip155:1", 10, LATER_US)) == []
    (item, _) = await store.read(chain_txs.unsettled(CHAIN))
    assert item.payment == first
    assert item.option == option(first)
    assert item.confirmation == confirmation(first, at_us=NOW_US + 1)
    assert item.from_block == 7


async def test_what_was_accepted_in_one_instant_waits_by_its_id(store):
    ids = [f"pay_{n:027}" for n in (900_002, 900_003, 900_001)]
    for one in ids:
        await accepted(store, await created(store, id=one), at_us=NOW_US)
    assert await waiting(store) == await unsettled(store) == sorted(ids)
    assert await waiting(store, limit=1) == [min(ids)]


async def test_what_is_left_to_the_buyer_waits_no_more_and_is_still_to_be_settled(store):
    left, other = await accepted(store), await accepted(store)
    await store.write(chain_txs.leave([left.id]))
    assert await waiting(store) == [other.id]
    assert await unsettled(store) == [left.id, other.id]
    with pytest.raises(NotWaiting):
        await submitted(store, left)
    await store.write(chain_txs.conclude([success(left)], [], LATER_US))
    await store.write(chain_txs.leave([left.id]))
    assert await unsettled(store) == [other.id]


async def test_released_payments_wait_until_their_time(store):
    of = await accepted(store)
    await store.write(chain_txs.release([of.id], LATER_US + 5))
    assert await waiting(store) == []
    assert await waiting(store, now_us=LATER_US + 5) == [of.id]
    assert await unsettled(store) == [of.id]


async def test_what_was_issued_for_a_payments_bound_option_is_told(store):
    one, other, inline = [await accepted(store) for _ in range(3)]
    kept = []
    for of, n in ((one, 0), (one, 1), (other, 0)):
        kept.append(issued(of, n=n))
        await store.write(payments.put_issued(kept[-1]))
    # an option that the payment is not bound to
    await store.write(payments.put_issued(issued(one, option_id="opt_2")))
    found = await store.read(chain_txs.issued([one.id, inline.id]))
    assert found == [kept[1], kept[0]]
    assert await store.read(chain_txs.issued([other.id])) == [kept[2]]
    assert await store.read(chain_txs.issued([inline.id])) == []


async def test_a_written_transaction_takes_its_payments_and_its_nonce(store):
    one, two, other = [await accepted(store) for _ in range(3)]
    assert await store.read(used_nonces.next_nonce(CHAIN, SENDER)) is None
    written = await submitted(store, two, one, nonce=41)
    assert await waiting(store) == [other.id]
    assert set(await unsettled(store)) == {one.id, two.id, other.id}
    assert await store.read(used_nonces.next_nonce(CHAIN, SENDER)) == 42
    assert await store.read(chain_txs.open_txs(CHAIN, SENDER)) == [written]
    assert written.item_ids == (two.id, one.id)
    assert await store.read(chain_txs.open_txs("eip155:1", SENDER)) == []


async def test_a_transaction_tells_where_it_stands(store):
    first = await submitted(store, await accepted(store), nonce=2)
    second = await submitted(store, await accepted(store), nonce=1)
    await store.write(chain_txs.sent({first.id: 100}))
    sent = replace(first, state=TxState.SENT, sent_block=100)
    assert await store.read(chain_txs.open_txs(CHAIN, SENDER)) == [second, sent]
    # it is in no block for long: it is broadcast again
    await store.write(chain_txs.sent({first.id: 103}))
    again = replace(sent, sent_block=103)
    assert await store.read(chain_txs.open_txs(CHAIN, SENDER)) == [second, again]


async def test_nobody_writes_with_a_lease_that_was_taken_over(store):
    of = await accepted(store)
    mine = await leased(store)
    theirs = await store.write(leases.acquire(LEASE, "they", NOW_US, 1, steal=True))
    assert theirs == mine + 1
    with pytest.raises(LostLease):
        await store.write(chain_txs.append(tx(of), mine, LEASE, chain_txs.claim([of.id])))
    with pytest.raises(LostLease):
        await store.write(chain_txs.append(tx(of), mine, "unknown", chain_txs.claim([of.id])))
    assert await waiting(store) == [of.id]
    assert await store.read(chain_txs.open_txs(CHAIN, SENDER)) == []
    await store.write(chain_txs.append(tx(of), theirs, LEASE, chain_txs.claim([of.id])))


async def test_a_payment_is_in_one_transaction_at_a_time(store):
    one, two = await accepted(store), await accepted(store)
    written = await submitted(store, one)
    with pytest.raises(NotWaiting, match=one.id):
        await submitted(store, two, one)
    assert await waiting(store) == [two.id]
    assert await store.read(chain_txs.open_txs(CHAIN, SENDER)) == [written]
    # it is told to be in line again by one that knows nothing of the transaction
    await store.write(chain_txs.release([one.id], NOW_US))
    assert await waiting(store) == [two.id]
    await store.write(chain_txs.conclude([], [TxEnd(written.id, TxState.REPLACED)], LATER_US))
    await store.write(chain_txs.release([one.id], NOW_US))
    await submitted(store, two, one)


async def test_two_open_transactions_never_share_a_nonce(store):
    written = await submitted(store, await accepted(store), nonce=5)
    other = await accepted(store)
    with pytest.raises(Exception, match="(?i)unique"):
        await submitted(store, other, nonce=5)
    await store.write(chain_txs.conclude([], [TxEnd(written.id, TxState.REPLACED)], LATER_US))
    await submitted(store, other, nonce=5)


async def test_open_transactions_are_counted_by_who_sent_them(store):
    count = executors.open_transactions
    assert await store.read(count()) == {}
    made = [await submitted(store, await accepted(store), nonce=n) for n in (5, 6)]
    assert await store.read(count()) == {f"{CHAIN}:{SENDER}": 2}
    ends = [TxEnd(made[0].id, TxState.FINAL, 9, "0xblock", (GAS,))]
    await store.write(chain_txs.conclude([], ends, LATER_US))
    assert await store.read(count()) == {f"{CHAIN}:{SENDER}": 1}
    await store.write(chain_txs.conclude([], [TxEnd(made[1].id, TxState.REPLACED)], LATER_US))
    assert await store.read(count()) == {}


async def test_a_proven_payment_ends_with_its_event_its_books_and_its_transaction(store):
    of = await accepted(store)
    written = await submitted(store, of)
    end = TxEnd(written.id, TxState.FINAL, 9, "0xblock", (GAS,))
    (ended,) = await store.write(chain_txs.conclude([success(of)], [end], LATER_US + 1))
    assert ended == replace(
        of,
        status=Status.SUCCEEDED,
        version=2,
        updated_at_us=LATER_US + 1,
        tx_id="0xpaid",
        option_unit=f"caip19/{ASSET}",
        option_value=50_000_000,
        settled_value=50_000_000,
    )
    assert await store.reader.payment(of.id) == ended
    assert (await store.read(payments.events(of.id)))[-1].cause == Event.EFFECT_FINAL
    assert await unsettled(store) == []
    assert await store.read(chain_txs.open_txs(CHAIN, SENDER)) == []
    assert await store.read(ledger.balance("external:shop", ASSET)) == 50_000_000
    assert await store.read(ledger.balance("expense:gas", COIN)) == GAS.amount
    assert await store.read(ledger.check()) == []


async def test_the_same_proof_twice_changes_nothing(store):
    of = await accepted(store)
    written = await submitted(store, of)
    end = TxEnd(written.id, TxState.FINAL, 9, "0xblock", (GAS,))
    await store.write(chain_txs.conclude([success(of)], [end], LATER_US))
    before = await store.reader.payment(of.id)
    lapsed = Finding(of.id, Status.FAILED, failure_detail="lapsed")
    for finding in (success(of), lapsed):
        assert await store.write(chain_txs.conclude([finding], [end], LATER_US + 9)) == []
    assert await store.reader.payment(of.id) == before
    assert await store.read(ledger.balance("external:shop", ASSET)) == 50_000_000
    assert await store.read(ledger.balance("expense:gas", COIN)) == GAS.amount


async def test_what_is_not_in_the_books_cannot_be_undone(store):
    of = await accepted(store)
    written = await submitted(store, of)
    # one that cost nothing: there is no journal of its gas to take back
    end = TxEnd(written.id, TxState.FINAL, 9, "0xblock")
    watch = reorg.watch(CHAIN, Watcher.SETTLER, [Watched("0xpaid", 9, "0xblock")])
    await store.write(chain_txs.conclude([success(of)], [end], LATER_US, watch))
    undone = reorg.undo_settled(CHAIN, ["0xpaid"], ([of.id], [written.id]), LATER_US)
    key = journals.settle(of.id)
    # somebody took it back before, and told nobody
    await store.write(ledger.reverse(key, LATER_US))
    with pytest.raises(ledger.NotBooked, match=f"{key} is to be reversed, and is not booked"):
        await store.write(undone)
    # nothing of it was kept: the transaction is final, and is watched on
    assert await store.read(chain_txs.open_txs(CHAIN, SENDER)) == []
    assert len(await store.read(reorg.watched(CHAIN))) == 1
    await store.write(ledger.repeat(key, LATER_US))
    undone = reorg.undo_settled(CHAIN, ["0xpaid"], ([of.id], [written.id]), LATER_US)
    assert await store.write(undone) == [of.id]
    assert [one.id for one in await store.read(chain_txs.open_txs(CHAIN, SENDER))] == [written.id]
    assert await store.read(ledger.check()) == []


async def test_a_payment_that_can_never_be_paid_fails_without_booking(store):
    of = await accepted(store)
    lapsed = Finding(of.id, Status.FAILED, failure_detail="lapsed")
    (ended,) = await store.write(chain_txs.conclude([lapsed], [], LATER_US))
    assert (ended.status, ended.failure_detail) == (Status.FAILED, "lapsed")
    last = (await store.read(payments.events(of.id)))[-1]
    assert (last.cause, last.detail) == (Event.UNSPENDABLE, {"reason": "lapsed"})
    assert await store.read(ledger.balance("external:shop", ASSET)) == 0
    assert await unsettled(store) == []


async def test_proof_ends_only_what_is_processing(store):
    open_, processing = await created(store), await accepted(store)
    changed = await store.write(
        chain_txs.conclude([success(open_), success(processing)], [], LATER_US)
    )
    assert [one.id for one in changed] == [processing.id]
    assert (await store.reader.payment(open_.id)).status is Status.REQUIRES_ACTION
    assert await store.read(ledger.balance("external:shop", ASSET)) == 50_000_000


async def test_a_final_payment_cannot_be_put_back_in_line(store):
    of = await accepted(store)
    await store.write(chain_txs.conclude([success(of)], [], LATER_US))
    await store.write(chain_txs.release([of.id], NOW_US))
    assert await unsettled(store) == []


async def test_payments_in_processing_are_counted_over_all_chains(store):
    assert await store.read(chain_txs.count_unsettled()) == 0
    paid, _ = await accepted(store), await accepted(store)
    assert await store.read(chain_txs.count_unsettled()) == 2
    await store.write(chain_txs.conclude([success(paid)], [], LATER_US))
    assert await store.read(chain_txs.count_unsettled()) == 1


async def test_a_lease_has_one_owner_until_it_lapses(store):
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
    assert await store.read(leases.leased(names, 50)) == {"one", "two", "three"}
    await store.write(leases.free(["dead", "nobody"]))
    assert await store.read(leases.leased(names, 50)) == {"three"}
    assert not await store.write(leases.renew("one", "dead", 1, 50, 100))
    assert await store.write(leases.acquire("one", "next", 50, 100, steal=False)) == 2
    assert await store.write(leases.acquire("three", "next", 50, 100, steal=False)) is None
    assert await store.read(leases.leased(names, 149)) == {"one"}
    assert await store.read(leases.leased(names, 150)) == set()
