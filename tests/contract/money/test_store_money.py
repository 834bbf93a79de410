"""Test refunds, simulated outcomes, pauses, and stored data about customers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_server.accounts.store import customers
from florin_server.accounts.store.customers import ErasureCounts
from florin_server.db import installation
from florin_server.db.engine.query import StoreError
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import (
    CancellationReason,
    PaymentStatus,
    Refund,
    RefundStatus,
)
from florin_server.domain.payments.state import PaymentStateEvent
from florin_server.money.ledger.store import ledger
from florin_server.money.payments.store import payments, simulation
from florin_server.money.refunds import store as refunds
from florin_server.money.settlement.store import chain_txs, payment_outcomes, settlement_items
from florin_server.operations.store import executors

from tests.support.requested_data import OTHER_ACCOUNT, REQUESTED_AMOUNT
from tests.support.store_factories import (
    AFTER_US,
    ASSET,
    CHAIN,
    LATER_US,
    NOW_US,
    PAYER,
    U256_MAX,
    create_chain_tx,
    create_payment,
    create_processing_payment,
    make_confirmation,
    make_option,
    make_success,
)

REFUND = Refund(
    "rfnd_1", "pay_1", f"caip19/{ASSET}", U256_MAX, PAYER, RefundStatus.PENDING, None, NOW_US
)
EXECUTOR = f"{CHAIN}:0x{'ee' * 20}"


async def simulated(store, of, event: str, now_us: int = LATER_US):
    return await store.write(
        simulation.simulate(of.id, PaymentStateEvent(f"simulate_{event}"), REQUESTED_AMOUNT, now_us)
    )


async def causes(store, of) -> list[str]:
    return [item.cause for item in await store.read(payments.list_events(of.id))]


# refunds


async def test_refunds_of_a_payment_are_numbered_once(store):
    assert await store.read(refunds.list_refunds("pay_1")) == []
    second = replace(REFUND, id="rfnd_2", value=1, ordinal=2, version=2, reason="too late")
    for refund in (REFUND, second):
        await store.write(refunds.create(refund))
    with pytest.raises(StoreError):
        await store.write(refunds.create(replace(second, id="rfnd_9")))
    assert await store.read(refunds.list_refunds("pay_1")) == [REFUND, second]
    without_account = replace(REFUND, id="rfnd_3", payment_id="pay_2", account=None)
    await store.write(refunds.create(without_account))
    assert await store.read(refunds.list_refunds("pay_2")) == [without_account]
    assert await store.read(refunds.find_refund("rfnd_2")) == second
    assert await store.read(refunds.find_refund("rfnd_9")) is None


# simulations


async def test_simulated_success_pays_the_requested_amount(store):
    of = await create_payment(store)
    changed = await simulated(store, of, "succeeded")
    assert changed == replace(
        of,
        status=PaymentStatus.SUCCEEDED,
        version=1,
        updated_at_us=LATER_US,
        tx_id=f"test:{of.id}",
        option_unit="iso4217/USD",
        option_value=5000,
    )
    assert await store.payments.find(of.id) == changed
    assert await causes(store, of) == ["created", "simulate_succeeded"]
    assert await store.read(ledger.check()) == []


async def test_a_bound_payment_has_paid_its_option(store):
    of = await create_processing_payment(store)
    changed = await simulated(store, of, "succeeded")
    assert (changed.option_unit, changed.option_value) == (f"caip19/{ASSET}", 50_000_000)
    assert (changed.payer, changed.settled_value) == (PAYER, None)


@pytest.mark.parametrize(
    ("event", "changes"),
    [
        ("failed", {"status": PaymentStatus.FAILED, "failure_detail": "simulated"}),
        ("expired", {"status": PaymentStatus.EXPIRED}),
        ("stall", {"status": PaymentStatus.PROCESSING}),
        (
            "cancelled",
            {"status": PaymentStatus.CANCELLED, "cancelled_reason": CancellationReason.BY_MERCHANT},
        ),
    ],
)
async def test_other_outcomes_pay_nothing(store, event, changes):
    of = await create_payment(store)
    changed = await simulated(store, of, event)
    assert changed == replace(of, version=1, updated_at_us=LATER_US, **changes)
    # a second simulation changes nothing
    assert await simulated(store, of, event, LATER_US + 1) == changed
    assert await causes(store, of) == ["created", f"simulate_{event}"]


@pytest.mark.parametrize("event", ["failed", "expired", "stall"])
async def test_simulated_payment_keeps_its_bound_amount(store, event):
    of = await create_processing_payment(store)
    changed = await simulated(store, of, event)
    assert (changed.option_unit, changed.option_value) == (of.option_unit, of.option_value)
    assert changed.option_value == 50_000_000


@pytest.mark.parametrize("event", ["succeeded", "failed", "expired", "stall"])
async def test_settlement_skips_simulated_payments(store, event):
    waiting, sent, other = [await create_processing_payment(store) for _ in range(3)]
    await create_chain_tx(store, sent)
    ended = [await simulated(store, of, event) for of in (waiting, sent)]
    assert await store.read(settlement_items.list_waiting(CHAIN, 10, AFTER_US)) == await _items(
        store, other
    )
    assert await store.read(settlement_items.list_unsettled_ids(CHAIN)) == {other.id}
    await store.write(settlement_items.release([waiting.id, sent.id], NOW_US))
    findings = [make_success(of) for of in (waiting, sent, other)]
    (changed,) = await store.write(payment_outcomes.finalize(findings, [], AFTER_US))
    assert changed.id == other.id
    assert [await store.payments.find(item.id) for item in ended] == ended
    assert await store.read(ledger.get_balance("external:shop", ASSET)) == 50_000_000
    with pytest.raises(chain_txs.ItemsUnavailable):
        await create_chain_tx(store, waiting)


async def _items(store, *selected_payments):
    return [
        item
        for item in await store.read(settlement_items.list_unsettled(CHAIN))
        if item.payment.id in {payment.id for payment in selected_payments}
    ]


async def test_a_stalled_payment_stalls_once(store):
    of = await create_processing_payment(store)
    stalled = await simulated(store, of, "stall")
    assert (stalled.status, stalled.version) == (PaymentStatus.PROCESSING, 2)
    assert await simulated(store, of, "stall", LATER_US + 1) == stalled
    assert await causes(store, of) == ["created", "confirm_accepted", "simulate_stall"]
    assert (await simulated(store, of, "failed")).status is PaymentStatus.FAILED


async def test_a_refused_simulation_leaves_everything_as_it_was(store):
    of = await create_processing_payment(store)
    with pytest.raises(ApiError) as caught:
        await simulated(store, of, "cancelled")
    assert caught.value.code is ErrorCode.INVALID_STATE
    assert await store.read(settlement_items.list_unsettled_ids(CHAIN)) == {of.id}
    assert await store.payments.find(of.id) == of
    over = await create_payment(store)
    with pytest.raises(ApiError, match="Payment is expired and cannot be simulated"):
        await simulated(store, over, "succeeded", AFTER_US)
    # a caller found it before
    with pytest.raises(ApiError, match="in the archive"):
        await simulated(store, replace(of, id="pay_none"), "failed")


# pauses


async def test_a_pause_lasts_from_its_first_beginning_to_its_end(store):
    assert await store.read(executors.list_pauses()) == {}
    await store.write(executors.pause(EXECUTOR, NOW_US))
    await store.write(executors.pause(EXECUTOR, LATER_US))
    await store.write(executors.pause("eip155:1:0x00", LATER_US))
    assert await store.read(executors.list_pauses()) == {
        EXECUTOR: NOW_US,
        "eip155:1:0x00": LATER_US,
    }
    for _ in range(2):
        await store.write(executors.resume(EXECUTOR))
    assert await store.read(executors.list_pauses()) == {"eip155:1:0x00": LATER_US}


async def test_start_on_a_copy_pauses_payouts_until_the_operator_resumes_them(store):
    pay_out = [EXECUTOR, "eip155:1:0x00"]
    assert await store.write(executors.pause_on_copy(pay_out, NOW_US)) is None
    assert await store.write(executors.check_database(pay_out, NOW_US, "system 1")) == ""
    assert await store.read(executors.list_pauses()) == {}
    await store.write(installation.mark_copied(NOW_US - 5))
    # without payout accounts nothing is paused
    assert await store.write(executors.pause_on_copy([], NOW_US)) is None
    for _ in range(2):
        assert await store.write(executors.pause_on_copy(pay_out, NOW_US)) == NOW_US - 5
        assert await store.read(executors.list_pauses()) == dict.fromkeys(pay_out, NOW_US)
    await store.write(executors.resume(EXECUTOR))
    # a resumed account is not paused again unless the store is copied again, as its database is new
    assert await store.write(executors.check_database(pay_out, LATER_US, "system 2")) == ""
    assert await store.write(executors.pause_on_copy(pay_out, LATER_US)) == NOW_US - 5
    assert await store.read(executors.list_pauses()) == {"eip155:1:0x00": NOW_US}
    for copied_at_us in (NOW_US, LATER_US):
        await store.write(installation.mark_copied(copied_at_us))
    assert await store.write(executors.pause_on_copy(pay_out, LATER_US)) == NOW_US - 5
    for text in pay_out:
        await store.write(executors.resume(text))
    assert await store.write(executors.pause_on_copy(pay_out, LATER_US)) is None
    assert await store.read(executors.list_pauses()) == {}
    for copied_at_us in (LATER_US, NOW_US):
        await store.write(installation.mark_copied(copied_at_us))
    assert await store.write(executors.pause_on_copy(pay_out, LATER_US)) == NOW_US


# customers


async def test_customer_is_listed_by_paid_and_offered_payments(store):
    assert await store.scan(customers.list_payments(PAYER)) == []
    offered = await create_payment(store)
    paid = await create_processing_payment(store)
    stranger = await create_payment(store)
    await store.write(
        payments.put_options([make_option(stranger, id="opt_2", payer=OTHER_ACCOUNT)])
    )
    result = await store.scan(customers.list_payments(PAYER))
    assert result == [stranger, paid, offered]
    assert await store.scan(customers.list_payment_ids(OTHER_ACCOUNT)) == {stranger.id}


async def test_the_newest_payment_of_a_customer_comes_first(store):
    old, new = (
        await create_payment(store, created_at_us=NOW_US),
        await create_payment(store, created_at_us=LATER_US),
    )
    older = await create_payment(store, created_at_us=NOW_US - 1)
    assert await store.scan(customers.list_payments(PAYER)) == [new, old, older]


async def test_an_erased_customer_stays_only_where_its_money_moves(store):
    offered, processing, paid, failed = (
        await create_payment(store),
        *[await create_processing_payment(store) for _ in range(3)],
    )
    lapsed = replace(make_success(failed), status=PaymentStatus.FAILED, tx_hash=None, postings=())
    await store.write(payment_outcomes.finalize([make_success(paid), lapsed], [], LATER_US))
    for of in (offered, processing):
        await store.write(
            payments.put_options(
                [make_option(of, id="opt_2"), make_option(of, id="opt_3", payer=OTHER_ACCOUNT)]
            )
        )
    ids = await store.scan(customers.list_payment_ids(PAYER))
    assert ids == {offered.id, processing.id, paid.id, failed.id}
    assert await store.write(customers.erase(PAYER, ids)) == ErasureCounts(
        offers=4, wallets=3, retained_payments=2
    )
    assert await store.scan(customers.list_payment_ids(PAYER)) == {processing.id, paid.id}
    left = {
        of.id: [
            o.id for o in await store.read(payments.list_options(of.id, [PAYER, OTHER_ACCOUNT]))
        ]
        for of in (offered, processing, paid, failed)
    }
    assert left == {
        offered.id: ["opt_3"],
        processing.id: ["opt_1", "opt_3"],
        paid.id: ["opt_1"],
        failed.id: [],
    }
    for of, payer in ((processing, PAYER), (paid, PAYER), (failed, None)):
        now = await store.payments.find(of.id)
        assert (now.payer, now.provider_name, now.provider_icon) == (payer, "unknown", None)
    # a processing payment can still be settled
    ((item,)) = await store.read(settlement_items.list_unsettled(CHAIN))
    assert item.payment.id == processing.id
    assert await store.write(customers.erase(PAYER, ids)) == ErasureCounts(retained_payments=2)
    assert await store.scan(customers.list_payment_ids(OTHER_ACCOUNT)) == {
        offered.id,
        processing.id,
    }


async def test_an_option_that_was_erased_while_it_was_being_taken(store):
    """The wallet's results were checked against it, so the payment it pays keeps it."""
    of = await create_payment(store)
    await store.write(customers.erase(PAYER, [of.id]))
    assert await store.read(payments.list_options(of.id, [PAYER, OTHER_ACCOUNT])) == []
    taken = payments.accept(make_confirmation(of), make_option(of), 7, ("Wallet", None), LATER_US)
    assert (await store.write(taken)).status is PaymentStatus.PROCESSING
    ((item,)) = await store.read(settlement_items.list_waiting(CHAIN, 10, LATER_US))
    assert item.option == make_option(of)
