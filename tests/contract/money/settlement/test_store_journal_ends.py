"""Test how the ends of transactions and of their payments are recorded."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_server.db.engine.query import Statement, operation
from florin_server.db.tables.tables import ledger_journal_table
from florin_server.domain.accounts.destinations import (
    AssetAccount,
    DailyOpeningCaps,
    TokenAccountOpening,
)
from florin_server.domain.payments.payment import FailureCode, PaymentStatus
from florin_server.domain.payments.state import PaymentStateEvent
from florin_server.domain.payouts.held_money import HeldMoney
from florin_server.domain.settlement.chain_txs import (
    GasSpending,
    GasSpendingKind,
    LedgerPosting,
    PaymentOutcome,
    ReorgWatcher,
    TransactionOutcome,
    TransactionVariant,
    TxState,
    WatchedTransaction,
)
from florin_server.money.ledger.store import ledger
from florin_server.money.payments.store import payments, simulation
from florin_server.money.settlement.store import (
    chain_txs,
    gas,
    payment_outcomes,
    reorg,
    settlement_items,
    token_accounts,
    used_nonces,
)
from florin_server.money.settlement.store.chain_txs import ItemsUnavailable, LostLease
from florin_server.money.settlement.store.settlement_items import FAILURES_MAX
from florin_server.operations.store import leases
from sqlalchemy import select

from tests.support.requested_data import REQUESTED_AMOUNT
from tests.support.store_factories import (
    ASSET,
    CHAIN,
    COIN,
    LATER_US,
    LEASE,
    NOW_US,
    PAYER,
    SENDER,
    acquire_lease,
    create_chain_tx,
    create_payment,
    create_processing_payment,
    make_chain_tx,
    make_confirmation,
    make_option,
    make_success,
)

COST = LedgerPosting("expense:gas", "wallet:relayer", COIN, 21_000 * 10**9)
_C = ledger_journal_table.c
JOURNALS = Statement(select(_C.idem_key, _C.type, _C.payment_id, _C.tx_hash, _C.at_us), tuple)
OURS = LedgerPosting("wallet:w", "external:buyer", ASSET, 5)


def spent(payment_id: str, kind: GasSpendingKind = GasSpendingKind.FAILED) -> GasSpending:
    return GasSpending(payment_id, PAYER, "app_1", kind, 21_000, 5)


async def fail(store, of, n: int) -> None:
    """Record a transaction that carried a payment and did not pay it."""
    written = await create_chain_tx(store, of, nonce=100 + n)
    end = TransactionOutcome(written.id, TxState.FINAL, 9, "0xblock", gas_spending=(spent(of.id),))
    await store.write(payment_outcomes.finalize([], [end], LATER_US))
    await store.write(settlement_items.release([of.id], NOW_US))


async def the_only(store):
    (result,) = await store.read(settlement_items.list_unsettled(CHAIN))
    return result


# waiting payments


async def test_settlement_item_reports_its_app_and_failure_count(store):
    of = await create_processing_payment(store)
    first = await the_only(store)
    assert (first.app, first.failures, first.isolated) == ("", 0, False)
    assert await store.read(settlement_items.list_unsettled_ids(CHAIN)) == frozenset({of.id})
    assert await store.read(settlement_items.list_unsettled_ids("eip155:1")) == frozenset()
    for n in range(FAILURES_MAX):
        assert len(await store.read(settlement_items.list_waiting(CHAIN, 10, LATER_US))) == 1
        await fail(store, of, n)
        result = await the_only(store)
        assert (result.failures, result.isolated) == (n + 1, True)
    # a payment that failed too often is not sent, but can still be settled
    assert await store.read(settlement_items.list_waiting(CHAIN, 10, LATER_US)) == []


async def test_payments_of_the_same_instant_wait_in_id_order(store):
    first, second = await create_payment(store), await create_payment(store)
    for of in (second, first):
        wallet = ("Wallet", "https://w.example/i")
        accept = payments.accept(
            make_confirmation(of, at_us=NOW_US), make_option(of), 7, wallet, LATER_US
        )
        await store.write(accept)
    result = await store.read(settlement_items.list_unsettled(CHAIN))
    assert [item.payment.id for item in result] == [first.id, second.id]


async def test_a_payment_whose_money_is_held_is_not_to_be_settled(store):
    of = await create_processing_payment(store)
    held = HeldMoney(
        "held_1", of.id, CHAIN, ASSET, PAYER, 5, 5, 0, None, "0xpaid", "e", False, "a list", NOW_US
    )
    legs = (LedgerPosting("wallet:w", f"held:{PAYER}", ASSET, 5),)
    finding = PaymentOutcome(of.id, PaymentStatus.PROCESSING, held_money=held, postings=legs)
    (stopped,) = await store.write(payment_outcomes.finalize([finding], [], LATER_US))
    assert (stopped.id, stopped.status) == (of.id, PaymentStatus.PROCESSING)
    assert await store.read(settlement_items.list_unsettled(CHAIN)) == []
    assert await store.read(settlement_items.list_unsettled_ids(CHAIN)) == frozenset()
    assert await store.read(settlement_items.list_waiting(CHAIN, 10, LATER_US)) == []
    assert await store.read(ledger.get_balance("wallet:w", ASSET)) == 5
    # the held money is reported once
    assert await store.write(payment_outcomes.finalize([finding], [], LATER_US)) == []
    await store.write(settlement_items.release([of.id], NOW_US))
    assert await store.read(settlement_items.list_unsettled(CHAIN)) == []


async def test_payments_whose_transaction_came_to_nothing_as_a_whole_go_alone(store):
    of, other = await create_processing_payment(store), await create_processing_payment(store)
    await store.write(settlement_items.isolate([]))
    await store.write(settlement_items.isolate([of.id]))
    results = {
        item.payment.id: item for item in await store.read(settlement_items.list_unsettled(CHAIN))
    }
    assert (results[of.id].isolated, results[of.id].failures) == (True, 0)
    assert not results[other.id].isolated


async def test_claim_of_unavailable_payments_names_them(store):
    payment, two, three = [await create_processing_payment(store) for _ in range(3)]
    await create_chain_tx(store, payment, two)
    with pytest.raises(ItemsUnavailable) as caught:
        await create_chain_tx(store, three, payment, two)
    assert str(caught.value) == f"not waiting to be settled: {payment.id}, {two.id}"


async def test_lost_lease_error_states_the_epoch(store):
    written = await create_chain_tx(store, await create_processing_payment(store))
    mine = await acquire_lease(store)
    await store.write(leases.acquire(LEASE, "they", NOW_US, 1, steal=True))
    raised = TransactionVariant(b"\x02more", "0xmore")
    with pytest.raises(LostLease) as caught:
        await store.write(chain_txs.bump(written, raised, mine, LEASE, NOW_US))
    assert str(caught.value) == f"lease {LEASE} was taken over after epoch {mine}"
    (same,) = await store.read(chain_txs.list_open(CHAIN, SENDER))
    assert same.bumps == ()


# variants and nonces


async def test_a_transaction_is_written_again_for_each_higher_fee(store):
    written = await create_chain_tx(store, await create_processing_payment(store))
    epoch = await acquire_lease(store)
    variants = tuple(TransactionVariant(bytes([2, n]), f"0x{n}") for n in range(2))
    for n, variant in enumerate(variants):
        tx = replace(written, bumps=variants[:n])
        await store.write(chain_txs.bump(tx, variant, epoch, LEASE, LATER_US))
    assert await store.read(chain_txs.list_open(CHAIN, SENDER)) == [
        replace(written, bumps=variants)
    ]
    # two processes cannot both record the next variant
    with pytest.raises(Exception, match="(?i)unique"):
        await store.write(
            chain_txs.bump(written, TransactionVariant(b"\x02", "0x9"), epoch, LEASE, LATER_US)
        )


async def test_a_transaction_without_payments_only_uses_its_nonce(store):
    filled = make_chain_tx(nonce=7)
    op = chain_txs.append(filled, await acquire_lease(store), LEASE, settlement_items.claim([]))
    await store.write(op)
    assert await store.read(chain_txs.list_open(CHAIN, SENDER)) == [filled]
    assert await store.read(used_nonces.find_next_nonce(CHAIN, SENDER)) == 8


async def test_transactions_of_a_nonce_are_listed_newest_first(store):
    old = await create_chain_tx(store, await create_processing_payment(store), nonce=7)
    await store.write(
        payment_outcomes.finalize([], [TransactionOutcome(old.id, TxState.REPLACED)], LATER_US)
    )
    new = await create_chain_tx(
        store, await create_processing_payment(store), nonce=7, created_at_us=LATER_US
    )
    await create_chain_tx(store, await create_processing_payment(store), nonce=8)
    result = await store.read(chain_txs.list_at_nonce(CHAIN, SENDER, 7))
    assert result == [new, replace(old, state=TxState.REPLACED)]
    assert await store.read(chain_txs.list_at_nonce("eip155:1", SENDER, 7)) == []
    assert await store.read(chain_txs.list_at_nonce(CHAIN, "0x" + "dd" * 20, 7)) == []


# ends


async def test_final_transaction_reports_its_block_and_mined_hash(store):
    written = await create_chain_tx(store, await create_processing_payment(store), nonce=7)
    gas_of = TransactionOutcome(written.id, TxState.FINAL, 9, "0xblock", (COST,), "0xmined")
    await store.write(payment_outcomes.finalize([], [gas_of], LATER_US))
    (result,) = await store.read(chain_txs.list_at_nonce(CHAIN, SENDER, 7))
    assert result == replace(
        written,
        state=TxState.FINAL,
        block_number=9,
        block_hash="0xblock",
        final_hash="0xmined",
    )


async def test_gas_is_booked_under_the_mined_hash(store):
    first, second = [
        await create_chain_tx(store, await create_processing_payment(store)) for _ in range(2)
    ]
    ends = [
        TransactionOutcome(first.id, TxState.FINAL, 9, "0xblock", (COST,), "0xmined"),
        TransactionOutcome(second.id, TxState.FINAL, 9, "0xblock", (COST,)),
    ]
    await store.write(payment_outcomes.finalize([], ends, LATER_US))
    assert set(await store.read(journals())) == {
        (f"gas:{first.id}", "gas", None, "0xmined", LATER_US),
        (f"gas:{second.id}", "gas", None, second.hash, LATER_US),
    }
    # the same proof again
    await store.write(payment_outcomes.finalize([], ends, LATER_US + 1))
    assert await store.read(ledger.get_balance("expense:gas", COIN)) == 2 * COST.amount


@operation
def journals():
    """Return every journal: key, kind, payment, transaction, time."""
    return (yield from JOURNALS.all())


async def test_gas_that_a_budget_counts_is_counted_once_for_its_chain(store):
    of = await create_processing_payment(store)
    written = await create_chain_tx(store, of)
    end = TransactionOutcome(written.id, TxState.FINAL, 9, "0xblock", gas_spending=(spent(of.id),))
    for _ in range(2):
        await store.write(payment_outcomes.finalize([], [end], LATER_US))
    used = await store.read(gas.get_usage(CHAIN, LATER_US, 1))
    assert (used.failed_gas_by_app, used.payers) == ({"app_1": 21_000}, {PAYER})
    assert (await store.read(gas.get_usage(CHAIN, LATER_US + 1, 1))).total_failed_gas == 0
    assert (await store.read(gas.get_usage("eip155:1", 0, 1))).total_failed_gas == 0


async def test_succeeded_payment_event_carries_its_transaction(store):
    of = await create_processing_payment(store)
    await store.write(payment_outcomes.finalize([make_success(of)], [], LATER_US))
    last = (await store.read(payments.list_events(of.id)))[-1]
    assert (last.cause, last.detail) == (PaymentStateEvent.EFFECT_FINAL, {"txId": "0xpaid"})
    key = f"settle:{of.id}"
    assert await store.read(journals()) == [(key, "settle", of.id, "0xpaid", LATER_US)]


async def test_succeeded_payment_reports_the_paid_amount(store):
    of = await create_processing_payment(store)
    outcome = replace(
        make_success(of), option_unit=f"caip19/{COIN}", option_value=7, settled_value=6
    )
    (ended,) = await store.write(payment_outcomes.finalize([outcome], [], LATER_US))
    assert (ended.option_unit, ended.option_value) == (f"caip19/{COIN}", 7)
    assert ended.settled_value == 6


async def test_failed_payment_keeps_its_bound_amount(store):
    of = await create_processing_payment(store)
    failed = PaymentOutcome(
        of.id,
        PaymentStatus.FAILED,
        failure_code=FailureCode.DECLINED_USER,
        failure_detail="payer is blocked",
        postings=(OURS,),
    )
    (ended,) = await store.write(payment_outcomes.finalize([failed], [], LATER_US))
    assert (ended.failure_code, ended.settled_value) == (FailureCode.DECLINED_USER, None)
    assert (ended.option_unit, ended.option_value) == (of.option_unit, of.option_value)
    # money that still arrived is booked
    assert await store.read(ledger.get_balance("wallet:w", ASSET)) == 5


async def test_token_account_of_a_failed_payment_may_be_opened_again(store):
    caps = DailyOpeningCaps(10, 10, 10)

    async def place_of(of) -> TokenAccountOpening:
        place = TokenAccountOpening(AssetAccount(ASSET, f"{CHAIN}:{of.id}"), "mer_1")
        await store.write(token_accounts.claim([place], caps, of.id, NOW_US))
        return place

    paid, failed = await create_processing_payment(store), await create_processing_payment(store)
    opening, free = await place_of(paid), await place_of(failed)
    lapsed = PaymentOutcome(failed.id, PaymentStatus.FAILED, failure_detail="lapsed")
    await store.write(payment_outcomes.finalize([make_success(paid), lapsed], [], LATER_US))
    result = await store.read(token_accounts.filter_openable([opening, free], caps, NOW_US))
    assert result == {free.destination}


async def test_payments_are_finalized_together_with_their_reorg_watch(store):
    of = await create_processing_payment(store)
    watch = reorg.watch(CHAIN, ReorgWatcher.SETTLER, [WatchedTransaction("0xpaid", 9, "0xblock")])
    await store.write(payment_outcomes.finalize([make_success(of)], [], LATER_US, watch))
    assert await store.read(reorg.list_watched(CHAIN)) == [
        WatchedTransaction("0xpaid", 9, "0xblock")
    ]


async def test_undone_settlement_is_booked_again_without_a_second_end(store):
    of = await create_processing_payment(store)
    watch = reorg.watch(CHAIN, ReorgWatcher.SETTLER, [WatchedTransaction("0xpaid", 9, "0xblock")])
    (ended,) = await store.write(payment_outcomes.finalize([make_success(of)], [], LATER_US, watch))
    await store.write(reorg.undo_settlements(CHAIN, ["0xpaid"], ([of.id], []), LATER_US))
    assert await store.read(ledger.get_balance("external:shop", ASSET)) == 0
    assert await store.read(settlement_items.list_unsettled_ids(CHAIN)) == {of.id}
    events = await store.read(payments.list_events(of.id))
    assert await store.write(payment_outcomes.finalize([make_success(of)], [], LATER_US + 1)) == []
    assert await store.payments.find(of.id) == ended
    assert await store.read(payments.list_events(of.id)) == events
    assert await store.read(ledger.get_balance("external:shop", ASSET)) == 50_000_000
    assert await store.read(settlement_items.list_unsettled_ids(CHAIN)) == frozenset()


async def test_undone_and_then_simulated_payment_has_no_second_end(store):
    """The refund's events continue after the last version of its payment."""
    of = await create_processing_payment(store)
    watch = reorg.watch(CHAIN, ReorgWatcher.SETTLER, [WatchedTransaction("0xpaid", 9, "0xblock")])
    (ended,) = await store.write(payment_outcomes.finalize([make_success(of)], [], LATER_US, watch))
    await store.write(reorg.undo_settlements(CHAIN, ["0xpaid"], ([of.id], []), LATER_US))
    events = await store.read(payments.list_events(of.id))
    again = simulation.simulate(
        of.id, PaymentStateEvent.SIMULATE_SUCCEEDED, REQUESTED_AMOUNT, LATER_US + 5
    )
    after = await store.write(again)
    assert after == replace(ended, tx_id=f"test:{of.id}")
    assert await store.read(payments.list_events(of.id)) == events
    assert await store.read(settlement_items.list_unsettled_ids(CHAIN)) == frozenset()
