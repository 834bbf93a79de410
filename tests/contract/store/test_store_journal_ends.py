"""How transactions and the payments in them end, as it is written down."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_server.domain.accounts.destinations import AssetAccount, DailyCaps, Opening
from florin_server.domain.payments.payment import FailureCode, Status
from florin_server.domain.payments.state import Event
from florin_server.domain.payouts.held_money import HeldMoney
from florin_server.domain.settlement.chain_txs import (
    Finding,
    Posting,
    Spent,
    SpentKind,
    TxEnd,
    TxState,
    Variant,
    Watched,
    Watcher,
)
from florin_server.store.engine.query import Statement, operation
from florin_server.store.ledger import ledger
from florin_server.store.payments import payments, simulation
from florin_server.store.settlement import (
    chain_txs,
    gas,
    leases,
    reorg,
    token_accounts,
    used_nonces,
)
from florin_server.store.settlement.chain_txs import FAILURES_MAX, LostLease, NotWaiting
from florin_server.store.tables.tables import ledger_journal
from sqlalchemy import select

from tests.support.store_asked import ASKED
from tests.support.store_kit import (
    ASSET,
    CHAIN,
    COIN,
    LATER_US,
    LEASE,
    NOW_US,
    PAYER,
    SENDER,
    accepted,
    confirmation,
    created,
    leased,
    option,
    submitted,
    success,
    tx,
)

COST = Posting("expense:gas", "wallet:relayer", COIN, 21_000 * 10**9)
_C = ledger_journal.c
JOURNALS = Statement(select(_C.idem_key, _C.type, _C.payment_id, _C.tx_hash, _C.at_us))
OURS = Posting("wallet:w", "external:buyer", ASSET, 5)


def spent(payment_id: str, kind: SpentKind = SpentKind.FAILED) -> Spent:
    return Spent(payment_id, PAYER, "app_1", kind, 21_000, 5)


async def fail(store, of, n: int) -> None:
    """A transaction of ours that carried a payment and did not pay it."""
    written = await submitted(store, of, nonce=100 + n)
    end = TxEnd(written.id, TxState.FINAL, 9, "0xblock", spent=(spent(of.id),))
    await store.write(chain_txs.conclude([], [end], LATER_US))
    await store.write(chain_txs.release([of.id], NOW_US))


async def the_only(store):
    (found,) = await store.read(chain_txs.unsettled(CHAIN))
    return found


# what is waiting


async def test_a_payment_tells_who_confirmed_it_and_how_often_it_failed(store):
    of = await accepted(store)
    first = await the_only(store)
    assert (first.app, first.failures, first.alone) == ("", 0, False)
    assert await store.read(chain_txs.unsettled_ids(CHAIN)) == frozenset({of.id})
    assert await store.read(chain_txs.unsettled_ids("eip155:1")) == frozenset()
    for n in range(FAILURES_MAX):
        assert len(await store.read(chain_txs.waiting(CHAIN, 10, LATER_US))) == 1
        await fail(store, of, n)
        found = await the_only(store)
        assert (found.failures, found.alone) == (n + 1, True)
    # what failed too often is sent no more, and still to be settled
    assert await store.read(chain_txs.waiting(CHAIN, 10, LATER_US)) == []


async def test_payments_of_one_moment_wait_in_the_order_of_their_ids(store):
    first, second = await created(store), await created(store)
    for of in (second, first):
        wallet = ("Wallet", "https://w.example/i")
        accept = payments.accept(confirmation(of, at_us=NOW_US), option(of), 7, wallet, LATER_US)
        await store.write(accept)
    found = await store.read(chain_txs.unsettled(CHAIN))
    assert [one.payment.id for one in found] == [first.id, second.id]


async def test_a_payment_whose_money_is_held_is_not_to_be_settled(store):
    of = await accepted(store)
    held = HeldMoney(
        "held_1", of.id, CHAIN, ASSET, PAYER, 5, 5, 0, None, "0xpaid", "e", False, "a list", NOW_US
    )
    legs = (Posting("wallet:w", f"held:{PAYER}", ASSET, 5),)
    finding = Finding(of.id, Status.PROCESSING, held=held, postings=legs)
    (stopped,) = await store.write(chain_txs.conclude([finding], [], LATER_US))
    assert (stopped.id, stopped.status) == (of.id, Status.PROCESSING)
    assert await store.read(chain_txs.unsettled(CHAIN)) == []
    assert await store.read(chain_txs.unsettled_ids(CHAIN)) == frozenset()
    assert await store.read(chain_txs.waiting(CHAIN, 10, LATER_US)) == []
    assert await store.read(ledger.balance("wallet:w", ASSET)) == 5
    # what holds it is told once
    assert await store.write(chain_txs.conclude([finding], [], LATER_US)) == []
    await store.write(chain_txs.release([of.id], NOW_US))
    assert await store.read(chain_txs.unsettled(CHAIN)) == []


async def test_payments_whose_transaction_came_to_nothing_as_a_whole_go_alone(store):
    of, other = await accepted(store), await accepted(store)
    await store.write(chain_txs.part([]))
    await store.write(chain_txs.part([of.id]))
    found = {one.payment.id: one for one in await store.read(chain_txs.unsettled(CHAIN))}
    assert (found[of.id].alone, found[of.id].failures) == (True, 0)
    assert not found[other.id].alone


async def test_who_takes_what_is_not_waiting_is_told_what_that_is(store):
    one, two, three = [await accepted(store) for _ in range(3)]
    await submitted(store, one, two)
    with pytest.raises(NotWaiting) as caught:
        await submitted(store, three, one, two)
    assert str(caught.value) == f"not waiting to be settled: {one.id}, {two.id}"


async def test_who_has_lost_the_lease_is_told_since_when(store):
    written = await submitted(store, await accepted(store))
    mine = await leased(store)
    await store.write(leases.acquire(LEASE, "they", NOW_US, 1, steal=True))
    raised = Variant(b"\x02more", "0xmore")
    with pytest.raises(LostLease) as caught:
        await store.write(chain_txs.bump(written, raised, mine, LEASE, NOW_US))
    assert str(caught.value) == f"lease {LEASE} was taken over after epoch {mine}"
    (same,) = await store.read(chain_txs.open_txs(CHAIN, SENDER))
    assert same.bumps == ()


# variants and nonces


async def test_a_transaction_is_written_again_for_each_higher_fee(store):
    written = await submitted(store, await accepted(store))
    epoch = await leased(store)
    variants = tuple(Variant(bytes([2, n]), f"0x{n}") for n in range(2))
    for n, variant in enumerate(variants):
        known = replace(written, bumps=variants[:n])
        await store.write(chain_txs.bump(known, variant, epoch, LEASE, LATER_US))
    assert await store.read(chain_txs.open_txs(CHAIN, SENDER)) == [replace(written, bumps=variants)]
    # nobody writes two next ones
    with pytest.raises(Exception, match="(?i)unique"):
        await store.write(chain_txs.bump(written, Variant(b"\x02", "0x9"), epoch, LEASE, LATER_US))


async def test_a_transaction_without_payments_only_uses_its_nonce(store):
    filled = tx(nonce=7)
    op = chain_txs.append(filled, await leased(store), LEASE, chain_txs.claim([]))
    await store.write(op)
    assert await store.read(chain_txs.open_txs(CHAIN, SENDER)) == [filled]
    assert await store.read(used_nonces.next_nonce(CHAIN, SENDER)) == 8


async def test_all_that_was_signed_for_a_nonce_is_found_the_newest_first(store):
    old = await submitted(store, await accepted(store), nonce=7)
    await store.write(chain_txs.conclude([], [TxEnd(old.id, TxState.REPLACED)], LATER_US))
    new = await submitted(store, await accepted(store), nonce=7, created_at_us=LATER_US)
    await submitted(store, await accepted(store), nonce=8)
    found = await store.read(chain_txs.at_nonce(CHAIN, SENDER, 7))
    assert found == [new, replace(old, state=TxState.REPLACED)]
    assert await store.read(chain_txs.at_nonce("eip155:1", SENDER, 7)) == []
    assert await store.read(chain_txs.at_nonce(CHAIN, "0x" + "dd" * 20, 7)) == []


# ends


async def test_a_final_transaction_tells_its_block_and_the_variant_that_was_mined(store):
    written = await submitted(store, await accepted(store), nonce=7)
    gas_of = TxEnd(written.id, TxState.FINAL, 9, "0xblock", (COST,), "0xmined")
    await store.write(chain_txs.conclude([], [gas_of], LATER_US))
    (found,) = await store.read(chain_txs.at_nonce(CHAIN, SENDER, 7))
    assert found == replace(
        written,
        state=TxState.FINAL,
        block_number=9,
        block_hash="0xblock",
        final_hash="0xmined",
    )


async def test_what_a_transaction_cost_is_booked_under_the_hash_that_was_mined(store):
    first, second = [await submitted(store, await accepted(store)) for _ in range(2)]
    ends = [
        TxEnd(first.id, TxState.FINAL, 9, "0xblock", (COST,), "0xmined"),
        TxEnd(second.id, TxState.FINAL, 9, "0xblock", (COST,)),
    ]
    await store.write(chain_txs.conclude([], ends, LATER_US))
    assert set(await store.read(journals())) == {
        (f"gas:{first.id}", "gas", None, "0xmined", LATER_US),
        (f"gas:{second.id}", "gas", None, second.hash, LATER_US),
    }
    # the same proof comes again
    await store.write(chain_txs.conclude([], ends, LATER_US + 1))
    assert await store.read(ledger.balance("expense:gas", COIN)) == 2 * COST.amount


@operation
def journals():
    """Every journal: key, kind, payment, transaction, time."""
    return (yield JOURNALS())


async def test_gas_that_a_budget_counts_is_counted_once_for_its_chain(store):
    of = await accepted(store)
    written = await submitted(store, of)
    end = TxEnd(written.id, TxState.FINAL, 9, "0xblock", spent=(spent(of.id),))
    for _ in range(2):
        await store.write(chain_txs.conclude([], [end], LATER_US))
    used = await store.read(gas.usage(CHAIN, LATER_US, 1))
    assert (used.failed_by_app, used.payers) == ({"app_1": 21_000}, {PAYER})
    assert (await store.read(gas.usage(CHAIN, LATER_US + 1, 1))).failed == 0
    assert (await store.read(gas.usage("eip155:1", 0, 1))).failed == 0


async def test_a_payment_that_succeeded_is_told_with_its_transaction(store):
    of = await accepted(store)
    await store.write(chain_txs.conclude([success(of)], [], LATER_US))
    last = (await store.read(payments.events(of.id)))[-1]
    assert (last.cause, last.detail) == (Event.EFFECT_FINAL, {"txId": "0xpaid"})
    key = f"settle:{of.id}"
    assert await store.read(journals()) == [(key, "settle", of.id, "0xpaid", LATER_US)]


async def test_a_payment_that_succeeded_tells_what_was_paid(store):
    of = await accepted(store)
    found = replace(success(of), option_unit=f"caip19/{COIN}", option_value=7, settled_value=6)
    (ended,) = await store.write(chain_txs.conclude([found], [], LATER_US))
    assert (ended.option_unit, ended.option_value) == (f"caip19/{COIN}", 7)
    assert ended.settled_value == 6


async def test_a_payment_that_failed_keeps_what_was_to_be_paid(store):
    of = await accepted(store)
    failed = Finding(
        of.id,
        Status.FAILED,
        failure_code=FailureCode.DECLINED_USER,
        failure_detail="payer is blocked",
        postings=(OURS,),
    )
    (ended,) = await store.write(chain_txs.conclude([failed], [], LATER_US))
    assert (ended.failure_code, ended.settled_value) == (FailureCode.DECLINED_USER, None)
    assert (ended.option_unit, ended.option_value) == (of.option_unit, of.option_value)
    # what came all the same is booked
    assert await store.read(ledger.balance("wallet:w", ASSET)) == 5


async def test_what_a_failed_payment_was_to_open_may_be_opened_again(store):
    caps = DailyCaps(10, 10, 10)

    async def place_of(of) -> Opening:
        place = Opening(AssetAccount(ASSET, f"{CHAIN}:{of.id}"), "mer_1")
        await store.write(token_accounts.claim([place], caps, of.id, NOW_US))
        return place

    paid, failed = await accepted(store), await accepted(store)
    kept, free = await place_of(paid), await place_of(failed)
    lapsed = Finding(failed.id, Status.FAILED, failure_detail="lapsed")
    await store.write(chain_txs.conclude([success(paid), lapsed], [], LATER_US))
    found = await store.read(token_accounts.openable([kept, free], caps, NOW_US))
    assert found == {free.place}


async def test_payments_end_together_with_what_is_watched(store):
    of = await accepted(store)
    watch = reorg.watch(CHAIN, Watcher.SETTLER, [Watched("0xpaid", 9, "0xblock")])
    await store.write(chain_txs.conclude([success(of)], [], LATER_US, watch))
    assert await store.read(reorg.watched(CHAIN)) == [Watched("0xpaid", 9, "0xblock")]


async def test_what_was_undone_is_booked_again_and_ends_no_second_time(store):
    of = await accepted(store)
    watch = reorg.watch(CHAIN, Watcher.SETTLER, [Watched("0xpaid", 9, "0xblock")])
    (ended,) = await store.write(chain_txs.conclude([success(of)], [], LATER_US, watch))
    await store.write(reorg.undo_settled(CHAIN, ["0xpaid"], ([of.id], []), LATER_US))
    assert await store.read(ledger.balance("external:shop", ASSET)) == 0
    assert await store.read(chain_txs.unsettled_ids(CHAIN)) == {of.id}
    events = await store.read(payments.events(of.id))
    assert await store.write(chain_txs.conclude([success(of)], [], LATER_US + 1)) == []
    assert await store.reader.payment(of.id) == ended
    assert await store.read(payments.events(of.id)) == events
    assert await store.read(ledger.balance("external:shop", ASSET)) == 50_000_000
    assert await store.read(chain_txs.unsettled_ids(CHAIN)) == frozenset()


async def test_what_was_undone_and_is_simulated_then_has_no_second_end(store):
    """The events of a refund are counted on from the last version of its payment."""
    of = await accepted(store)
    watch = reorg.watch(CHAIN, Watcher.SETTLER, [Watched("0xpaid", 9, "0xblock")])
    (ended,) = await store.write(chain_txs.conclude([success(of)], [], LATER_US, watch))
    await store.write(reorg.undo_settled(CHAIN, ["0xpaid"], ([of.id], []), LATER_US))
    events = await store.read(payments.events(of.id))
    again = simulation.simulate(of.id, Event.SIMULATE_SUCCEEDED, ASKED, LATER_US + 5)
    after = await store.write(again)
    assert after == replace(ended, tx_id=f"test:{of.id}")
    assert await store.read(payments.events(of.id)) == events
    assert await store.read(chain_txs.unsettled_ids(CHAIN)) == frozenset()
