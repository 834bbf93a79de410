"""Test that payments are stored unchanged, and change by compare-and-set only."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_server.accounts.store import customers
from florin_server.db.engine.query import StoreError
from florin_server.domain.ledger import journals
from florin_server.domain.payments.order import PaymentLine
from florin_server.domain.payments.payment import CancellationReason, FailureCode, PaymentStatus
from florin_server.domain.payments.state import PaymentStateEvent
from florin_server.domain.settlement.chain_txs import LedgerPosting
from florin_server.money.ledger.store import ledger
from florin_server.money.payments.store import arrivals, payments, simulation
from florin_server.money.payments.store.phases import PaymentPhases, find_phases
from florin_server.money.settlement.store import chain_txs

from tests.support.store_kit import (
    AFTER_US,
    ASSET,
    CHAIN,
    EXPIRES,
    LATER_US,
    PAYER,
    U256_MAX,
    create_payment,
    create_processing_payment,
    make_confirmation,
    make_option,
    make_payment,
    make_resolved_build,
)


async def test_a_payment_comes_back_as_it_was_stored(store):
    plain = make_payment()
    full = make_payment(
        live=True,
        value=U256_MAX,
        status=PaymentStatus.SUCCEEDED,
        version=2**62,
        option_id="opt_1",
        payer=PAYER,
        provider_name="Wallet",
        provider_icon="https://w.example/icon",
        tx_id="0x1",
        option_unit=f"caip19/{ASSET}",
        option_value=U256_MAX,
        settled_value=0,
        failure_code=FailureCode.DECLINED_USER,
        failure_detail="no",
        cancelled_reason=CancellationReason.BY_MERCHANT,
        description="Breakfast \u202f🍵 <b>",
        lines=(PaymentLine("Tea", 10**6, U256_MAX), PaymentLine('Ca"ké', 1, 0)),
        metadata=(("a", ""), ("b", '{"x":1}'), ("名", "é")),
    )
    for payment in (plain, full):
        assert await store.write(payments.create(payment)) == payment
    result = await store.read(payments.find_many([plain.id, full.id, "pay_none"]))
    assert result == {plain.id: plain, full.id: full}
    assert isinstance(result[full.id].lines[0], PaymentLine)
    assert isinstance(result[full.id].status, PaymentStatus)
    assert isinstance(result[full.id].failure_code, FailureCode)
    assert await store.payments.find(full.id) == full
    assert await store.payments.find("pay_none") is None


@pytest.mark.parametrize("value", [-1, U256_MAX + 1])
async def test_an_amount_that_no_chain_can_hold_is_not_stored(store, value):
    with pytest.raises(ValueError, match="256-bit"):
        await store.write(payments.create(make_payment(value=value)))


async def test_options_come_back_in_order_and_never_change(store):
    of = await create_payment(store)
    second = make_option(of, id="opt_0", expires_at=EXPIRES, value=U256_MAX, actions=(), terms={})
    await store.write(payments.put_options([make_option(of, eta_s=99), second]))
    assert await store.read(payments.list_options(of.id, [PAYER])) == [second, make_option(of)]
    assert await store.read(payments.find_option(of.id, "opt_1")) == make_option(of)
    assert await store.read(payments.find_option(of.id, "opt_2")) is None
    assert await store.read(payments.find_option("pay_none", "opt_1")) is None
    await store.write(payments.put_options([]))


async def test_resolved_builds_are_listed_newest_first_and_never_change(store):
    of = await create_payment(store)
    first = make_resolved_build(of)
    second = make_resolved_build(of, n=1, terms={"hash": "b"}, expires_at=None)
    assert await store.write(payments.put_resolved_build(first)) == [first]
    assert await store.write(payments.put_resolved_build(second)) == [second, first]
    other = replace(second, actions=(), head=9)
    assert await store.write(payments.put_resolved_build(other)) == [second, first]
    assert await store.read(payments.list_resolved_builds(of.id, "opt_1")) == [second, first]
    assert await store.read(payments.list_resolved_builds(of.id, "opt_2")) == []


async def test_resolved_builds_are_erased_with_their_option(store):
    of, payment = await create_payment(store), await create_processing_payment(store)
    for each_payment in (of, payment):
        await store.write(payments.put_resolved_build(make_resolved_build(each_payment)))
    await store.write(customers.erase(PAYER, [of.id, payment.id]))
    assert await store.read(payments.find_option(of.id, "opt_1")) is None
    assert await store.read(payments.list_resolved_builds(of.id, "opt_1")) == []
    assert await store.read(payments.list_resolved_builds(payment.id, "opt_1")) == [
        make_resolved_build(payment)
    ]


async def test_an_accepted_payment_is_bound_to_its_confirmation(store):
    of = await create_payment(store)
    changed = await create_processing_payment(store)
    assert await store.read(payments.find_confirmation(of.id)) is None
    assert await store.read(payments.find_confirmation(changed.id)) == make_confirmation(changed)
    assert changed.status is PaymentStatus.PROCESSING
    assert (changed.version, changed.updated_at_us) == (1, LATER_US)
    assert (changed.option_id, changed.payer) == ("opt_1", PAYER)
    assert (changed.provider_name, changed.provider_icon) == ("Wallet", "https://w.example/i")
    assert await store.payments.find(changed.id) == changed


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (None, PaymentStateEvent.CONFIRM_MISMATCH),
        (FailureCode.DECLINED_USER, PaymentStateEvent.PAYER_DECLINED),
    ],
)
async def test_a_refused_payment_fails_and_waits_for_no_chain(store, code, cause):
    of = await create_payment(store)
    changed = await store.write(payments.refuse(make_confirmation(of), "count", code, LATER_US))
    assert changed.status is PaymentStatus.FAILED
    assert (changed.failure_code, changed.failure_detail) == (code, "count")
    assert await store.read(payments.find_confirmation(of.id)) == make_confirmation(of)
    assert await store.read(chain_txs.list_unsettled(CHAIN)) == []
    history = await store.read(payments.list_events(of.id))
    assert (history[1].cause, history[1].detail) == (cause, {"reason": "count"})


async def test_a_cancelled_payment_says_by_whom(store):
    of = await create_payment(store)
    changed = await store.write(payments.cancel(of.id, CancellationReason.BY_USER, LATER_US))
    assert changed.status is PaymentStatus.CANCELLED
    assert changed.cancelled_reason is CancellationReason.BY_USER
    assert await store.write(payments.cancel(of.id, CancellationReason.BY_USER, LATER_US)) is None


async def test_nothing_but_expiry_moves_a_payment_that_is_past_its_time(store):
    of = await create_payment(store)
    content = make_confirmation(of)
    for op in (
        payments.accept(content, make_option(of), 1, (None, None), AFTER_US),
        payments.refuse(content, "late", None, AFTER_US),
        payments.cancel(of.id, CancellationReason.BY_USER, AFTER_US),
    ):
        assert await store.write(op) is None
    assert await store.read(payments.find_confirmation(of.id)) is None
    assert await store.write(payments.expire_due(AFTER_US - 1, 10)) == []
    (expired,) = await store.write(payments.expire_due(AFTER_US, 10))
    assert (expired.id, expired.status, expired.version) == (of.id, PaymentStatus.EXPIRED, 1)


async def test_the_last_microsecond_before_expiry_still_counts(store):
    of = await create_payment(store)
    op = payments.accept(make_confirmation(of), make_option(of), 1, (None, None), AFTER_US - 1)
    assert (await store.write(op)).status is PaymentStatus.PROCESSING


async def test_due_payments_expire_in_batches_the_oldest_first(store):
    created_payments = [await create_payment(store, expires_at=EXPIRES + n) for n in (2, 0, 1)]
    processing = await create_processing_payment(store)
    assert await store.read(payments.find_next_expiry()) == EXPIRES
    late_us = (EXPIRES + 10) * 1_000_000
    first = await store.write(payments.expire_due(late_us, 2))
    assert {item.id for item in first} == {created_payments[1].id, created_payments[2].id}
    assert await store.read(payments.find_next_expiry()) == EXPIRES + 2
    assert len(await store.write(payments.expire_due(late_us, 2))) == 1
    assert await store.write(payments.expire_due(late_us, 2)) == []
    assert await store.read(payments.find_next_expiry()) is None
    assert (await store.payments.find(processing.id)).status is PaymentStatus.PROCESSING


async def test_payments_can_be_expired_by_name_once_their_time_is_over(store):
    due, early = await create_payment(store), await create_payment(store, expires_at=EXPIRES + 1)
    (expired,) = await store.write(payments.expire((due.id, early.id), AFTER_US))
    assert (expired.id, expired.status) == (due.id, PaymentStatus.EXPIRED)
    assert await store.write(payments.expire((due.id, early.id), AFTER_US)) == []


async def test_every_change_is_an_event_with_the_payments_version(store):
    changed = await create_processing_payment(store)
    history = await store.read(payments.list_events(changed.id))
    assert [(item.version, item.status, item.cause) for item in history] == [
        (0, PaymentStatus.REQUIRES_ACTION, "created"),
        (1, PaymentStatus.PROCESSING, PaymentStateEvent.CONFIRM_ACCEPTED),
    ]
    assert [item.at_us for item in history] == [changed.created_at_us, LATER_US]
    assert await store.read(payments.list_events("pay_none")) == []


async def test_phases_are_when_a_payment_was_accepted_and_when_it_succeeded(store):
    old, busy, done = (
        await create_payment(store),
        await create_processing_payment(store),
        await create_processing_payment(store),
    )
    await store.write(
        simulation.simulate(done.id, PaymentStateEvent.SIMULATE_SUCCEEDED, None, AFTER_US)
    )
    ids = [old.id, busy.id, done.id, "pay_none"]
    assert await store.read(find_phases(ids)) == {
        busy.id: PaymentPhases(LATER_US, None),
        done.id: PaymentPhases(LATER_US, AFTER_US),
    }
    assert await store.read(find_phases([])) == {}


async def test_money_may_arrive_once_a_wallet_signed_fetched_or_paid_late(store):
    nothing, signed, fetched, late = (
        await create_payment(store),
        await create_processing_payment(store),
        await create_payment(store),
        await create_payment(store),
    )
    await store.write(payments.put_resolved_build(make_resolved_build(fetched)))
    key = journals.late_key(late.id, "0xevent")
    posted = (LedgerPosting("external:shop", "external:buyer", ASSET, 1),)
    await store.write(
        ledger.post(key, journals.JournalKind.LATE, late.id, "0xlate", posted, LATER_US)
    )
    results = [
        await store.read(arrivals.has_traces(payment.id)) for payment in (signed, fetched, late)
    ]
    assert results == [True, True, True]
    assert not await store.read(arrivals.has_traces(nothing.id))
    # an ID that is a prefix of another ID is a different payment
    assert not await store.read(arrivals.has_traces(late.id[:-1]))


async def test_sweep_returns_only_payments_newer_than_watched_versions(store):
    old, new = await create_payment(store), await create_processing_payment(store)
    assert await store.read(payments.list_newer([(old.id, 0), (new.id, 1), ("pay_none", 0)])) == []
    assert await store.read(payments.list_newer([(old.id, 0), (new.id, 0)])) == [new]
    result = await store.read(payments.list_newer([(old.id, -1), (new.id, -1)]))
    assert {item.id for item in result} == {old.id, new.id}
    assert await store.read(payments.list_newer([])) == []


async def test_a_payment_id_is_used_once(store):
    of = await create_payment(store)
    with pytest.raises(StoreError, match="(?i)unique"):
        await store.write(payments.create(replace(of, value=1)))
    assert (await store.payments.find(of.id)).value == of.value
