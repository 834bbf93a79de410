"""Payments are stored as they are, and change by compare-and-set only."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_server.domain.ledger import journals
from florin_server.domain.payments.payment import CancelledReason, FailureCode, Status
from florin_server.domain.payments.state import Event
from florin_server.domain.settlement.chain_txs import Posting
from florin_server.store.accounts import customers
from florin_server.store.engine.query import StoreError
from florin_server.store.ledger import ledger
from florin_server.store.payments import arrivals, payments, simulation
from florin_server.store.payments.phases import Phases, phases
from florin_server.store.settlement import chain_txs

from tests.support.store_kit import (
    AFTER_US,
    ASSET,
    CHAIN,
    EXPIRES,
    LATER_US,
    PAYER,
    U256_MAX,
    accepted,
    confirmation,
    created,
    issued,
    option,
    payment,
)


async def test_a_payment_comes_back_as_it_was_stored(store):
    plain = payment()
    full = payment(
        live=True,
        value=U256_MAX,
        status=Status.SUCCEEDED,
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
        cancelled_reason=CancelledReason.BY_MERCHANT,
    )
    for one in (plain, full):
        assert await store.write(payments.create(one)) == one
    found = await store.read(payments.get([plain.id, full.id, "pay_none"]))
    assert found == {plain.id: plain, full.id: full}
    assert isinstance(found[full.id].status, Status)
    assert isinstance(found[full.id].failure_code, FailureCode)
    assert await store.reader.payment(full.id) == full
    assert await store.reader.payment("pay_none") is None


@pytest.mark.parametrize("value", [-1, U256_MAX + 1])
async def test_an_amount_that_no_chain_can_hold_is_not_stored(store, value):
    with pytest.raises(ValueError, match="256-bit"):
        await store.write(payments.create(payment(value=value)))


async def test_options_come_back_in_order_and_never_change(store):
    of = await created(store)
    second = option(of, id="opt_0", expires_at=EXPIRES, value=U256_MAX, actions=(), terms={})
    await store.write(payments.put_options([option(of, eta_s=99), second]))
    assert await store.read(payments.options(of.id, [PAYER])) == [second, option(of)]
    assert await store.read(payments.option(of.id, "opt_1")) == option(of)
    assert await store.read(payments.option(of.id, "opt_2")) is None
    assert await store.read(payments.option("pay_none", "opt_1")) is None
    await store.write(payments.put_options([]))


async def test_what_a_build_was_resolved_to_comes_back_newest_first_and_never_changes(store):
    of = await created(store)
    first = issued(of)
    second = issued(of, n=1, terms={"hash": "b"}, expires_at=None)
    assert await store.write(payments.put_issued(first)) == [first]
    assert await store.write(payments.put_issued(second)) == [second, first]
    other = replace(second, actions=(), head=9)
    assert await store.write(payments.put_issued(other)) == [second, first]
    assert await store.read(payments.issued(of.id, "opt_1")) == [second, first]
    assert await store.read(payments.issued(of.id, "opt_2")) == []


async def test_what_was_issued_is_erased_with_its_option(store):
    of, kept = await created(store), await accepted(store)
    for one in (of, kept):
        await store.write(payments.put_issued(issued(one)))
    await store.write(customers.erase(PAYER, [of.id, kept.id]))
    assert await store.read(payments.option(of.id, "opt_1")) is None
    assert await store.read(payments.issued(of.id, "opt_1")) == []
    assert await store.read(payments.issued(kept.id, "opt_1")) == [issued(kept)]


async def test_an_accepted_payment_is_bound_to_its_confirmation(store):
    of = await created(store)
    changed = await accepted(store)
    assert await store.read(payments.confirmation(of.id)) is None
    assert await store.read(payments.confirmation(changed.id)) == confirmation(changed)
    assert changed.status is Status.PROCESSING
    assert (changed.version, changed.updated_at_us) == (1, LATER_US)
    assert (changed.option_id, changed.payer) == ("opt_1", PAYER)
    assert (changed.provider_name, changed.provider_icon) == ("Wallet", "https://w.example/i")
    assert await store.reader.payment(changed.id) == changed


@pytest.mark.parametrize(
    ("code", "cause"),
    [(None, Event.CONFIRM_MISMATCH), (FailureCode.DECLINED_USER, Event.PAYER_DECLINED)],
)
async def test_a_refused_payment_fails_and_waits_for_no_chain(store, code, cause):
    of = await created(store)
    changed = await store.write(payments.refuse(confirmation(of), "count", code, LATER_US))
    assert changed.status is Status.FAILED
    assert (changed.failure_code, changed.failure_detail) == (code, "count")
    assert await store.read(payments.confirmation(of.id)) == confirmation(of)
    assert await store.read(chain_txs.unsettled(CHAIN)) == []
    history = await store.read(payments.events(of.id))
    assert (history[1].cause, history[1].detail) == (cause, {"reason": "count"})


async def test_a_cancelled_payment_says_by_whom(store):
    of = await created(store)
    changed = await store.write(payments.cancel(of.id, CancelledReason.BY_USER, LATER_US))
    assert changed.status is Status.CANCELLED
    assert changed.cancelled_reason is CancelledReason.BY_USER
    assert await store.write(payments.cancel(of.id, CancelledReason.BY_USER, LATER_US)) is None


async def test_nothing_but_expiry_moves_a_payment_that_is_past_its_time(store):
    of = await created(store)
    content = confirmation(of)
    for op in (
        payments.accept(content, option(of), 1, (None, None), AFTER_US),
        payments.refuse(content, "late", None, AFTER_US),
        payments.cancel(of.id, CancelledReason.BY_USER, AFTER_US),
    ):
        assert await store.write(op) is None
    assert await store.read(payments.confirmation(of.id)) is None
    assert await store.write(payments.expire_due(AFTER_US - 1, 10)) == []
    (expired,) = await store.write(payments.expire_due(AFTER_US, 10))
    assert (expired.id, expired.status, expired.version) == (of.id, Status.EXPIRED, 1)


async def test_the_last_microsecond_before_expiry_still_counts(store):
    of = await created(store)
    op = payments.accept(confirmation(of), option(of), 1, (None, None), AFTER_US - 1)
    assert (await store.write(op)).status is Status.PROCESSING


async def test_due_payments_expire_in_batches_the_oldest_first(store):
    made = [await created(store, expires_at=EXPIRES + n) for n in (2, 0, 1)]
    processing = await accepted(store)
    assert await store.read(payments.next_expiry()) == EXPIRES
    late_us = (EXPIRES + 10) * 1_000_000
    first = await store.write(payments.expire_due(late_us, 2))
    assert {one.id for one in first} == {made[1].id, made[2].id}
    assert await store.read(payments.next_expiry()) == EXPIRES + 2
    assert len(await store.write(payments.expire_due(late_us, 2))) == 1
    assert await store.write(payments.expire_due(late_us, 2)) == []
    assert await store.read(payments.next_expiry()) is None
    assert (await store.reader.payment(processing.id)).status is Status.PROCESSING


async def test_payments_can_be_expired_by_name_once_their_time_is_over(store):
    due, early = await created(store), await created(store, expires_at=EXPIRES + 1)
    (expired,) = await store.write(payments.expire((due.id, early.id), AFTER_US))
    assert (expired.id, expired.status) == (due.id, Status.EXPIRED)
    assert await store.write(payments.expire((due.id, early.id), AFTER_US)) == []


async def test_every_change_is_an_event_with_the_payments_version(store):
    changed = await accepted(store)
    history = await store.read(payments.events(changed.id))
    assert [(one.version, one.status, one.cause) for one in history] == [
        (0, Status.REQUIRES_ACTION, "created"),
        (1, Status.PROCESSING, Event.CONFIRM_ACCEPTED),
    ]
    assert [one.at_us for one in history] == [changed.created_at_us, LATER_US]
    assert await store.read(payments.events("pay_none")) == []


async def test_phases_are_when_a_payment_was_accepted_and_when_it_succeeded(store):
    old, busy, done = await created(store), await accepted(store), await accepted(store)
    await store.write(simulation.simulate(done.id, Event.SIMULATE_SUCCEEDED, None, AFTER_US))
    ids = [old.id, busy.id, done.id, "pay_none"]
    assert await store.read(phases(ids)) == {
        busy.id: Phases(LATER_US, None),
        done.id: Phases(LATER_US, AFTER_US),
    }
    assert await store.read(phases([])) == {}


async def test_money_may_arrive_once_a_wallet_signed_fetched_or_paid_late(store):
    nothing, signed, fetched, late = (
        await created(store),
        await accepted(store),
        await created(store),
        await created(store),
    )
    await store.write(payments.put_issued(issued(fetched)))
    key = journals.late(late.id, "0xevent")
    posted = (Posting("external:shop", "external:buyer", ASSET, 1),)
    await store.write(ledger.post(key, journals.Kind.LATE, late.id, "0xlate", posted, LATER_US))
    found = [await store.read(arrivals.has_traces(one.id)) for one in (signed, fetched, late)]
    assert found == [True, True, True]
    assert not await store.read(arrivals.has_traces(nothing.id))
    # an id that another one begins with is another payment
    assert not await store.read(arrivals.has_traces(late.id[:-1]))


async def test_a_sweep_finds_only_what_its_watchers_have_not_seen(store):
    old, new = await created(store), await accepted(store)
    assert await store.read(payments.newer([(old.id, 0), (new.id, 1), ("pay_none", 0)])) == []
    assert await store.read(payments.newer([(old.id, 0), (new.id, 0)])) == [new]
    found = await store.read(payments.newer([(old.id, -1), (new.id, -1)]))
    assert {one.id for one in found} == {old.id, new.id}
    assert await store.read(payments.newer([])) == []


async def test_a_payment_id_is_used_once(store):
    of = await created(store)
    with pytest.raises(StoreError, match="(?i)unique"):
        await store.write(payments.create(replace(of, value=1)))
    assert (await store.reader.payment(of.id)).value == of.value
