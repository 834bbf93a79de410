"""Refunds, simulated outcomes, pauses, and what is kept about customers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.payments.payment import CancelledReason, Refund, RefundStatus, Status
from florin_server.domain.payments.state import Event
from florin_server.store.accounts import customers
from florin_server.store.accounts.customers import Erased
from florin_server.store.engine.query import StoreError
from florin_server.store.ledger import ledger
from florin_server.store.operator import executors, installation
from florin_server.store.payments import payments, simulation
from florin_server.store.payouts import refunds
from florin_server.store.settlement import chain_txs

from tests.support.store_asked import ASKED, OTHER
from tests.support.store_kit import (
    AFTER_US,
    ASSET,
    CHAIN,
    LATER_US,
    NOW_US,
    PAYER,
    U256_MAX,
    accepted,
    confirmation,
    created,
    option,
    submitted,
    success,
)

REFUND = Refund(
    "rfnd_1", "pay_1", f"caip19/{ASSET}", U256_MAX, PAYER, RefundStatus.PENDING, None, NOW_US
)
EXECUTOR = f"{CHAIN}:0x{'ee' * 20}"


async def simulated(store, of, event: str, now_us: int = LATER_US):
    return await store.write(simulation.simulate(of.id, Event(f"simulate_{event}"), ASKED, now_us))


async def causes(store, of) -> list[str]:
    return [one.cause for one in await store.read(payments.events(of.id))]


# refunds


async def test_refunds_of_a_payment_are_numbered_once(store):
    assert await store.read(refunds.list_refunds("pay_1")) == []
    second = replace(REFUND, id="rfnd_2", value=1, ordinal=2, version=2, reason="too late")
    for one in (REFUND, second):
        await store.write(refunds.create(one))
    with pytest.raises(StoreError):
        await store.write(refunds.create(replace(second, id="rfnd_9")))
    assert await store.read(refunds.list_refunds("pay_1")) == [REFUND, second]
    nobody = replace(REFUND, id="rfnd_3", payment_id="pay_2", account=None)
    await store.write(refunds.create(nobody))
    assert await store.read(refunds.list_refunds("pay_2")) == [nobody]
    assert await store.read(refunds.find_refund("rfnd_2")) == second
    assert await store.read(refunds.find_refund("rfnd_9")) is None


# simulations


async def test_a_simulated_success_has_paid_what_was_asked_for(store):
    of = await created(store)
    changed = await simulated(store, of, "succeeded")
    assert changed == replace(
        of,
        status=Status.SUCCEEDED,
        version=1,
        updated_at_us=LATER_US,
        tx_id=f"test:{of.id}",
        option_unit="iso4217/USD",
        option_value=5000,
    )
    assert await store.reader.payment(of.id) == changed
    assert await causes(store, of) == ["created", "simulate_succeeded"]
    assert await store.read(ledger.check()) == []


async def test_a_bound_payment_has_paid_its_option(store):
    of = await accepted(store)
    changed = await simulated(store, of, "succeeded")
    assert (changed.option_unit, changed.option_value) == (f"caip19/{ASSET}", 50_000_000)
    assert (changed.payer, changed.settled_value) == (PAYER, None)


@pytest.mark.parametrize(
    ("event", "changes"),
    [
        ("failed", {"status": Status.FAILED, "failure_detail": "simulated"}),
        ("expired", {"status": Status.EXPIRED}),
        ("stall", {"status": Status.PROCESSING}),
        (
            "cancelled",
            {"status": Status.CANCELLED, "cancelled_reason": CancelledReason.BY_MERCHANT},
        ),
    ],
)
async def test_other_outcomes_pay_nothing(store, event, changes):
    of = await created(store)
    changed = await simulated(store, of, event)
    assert changed == replace(of, version=1, updated_at_us=LATER_US, **changes)
    # once more it is what it is
    assert await simulated(store, of, event, LATER_US + 1) == changed
    assert await causes(store, of) == ["created", f"simulate_{event}"]


@pytest.mark.parametrize("event", ["failed", "expired", "stall"])
async def test_what_a_payment_is_bound_to_stays(store, event):
    of = await accepted(store)
    changed = await simulated(store, of, event)
    assert (changed.option_unit, changed.option_value) == (of.option_unit, of.option_value)
    assert changed.option_value == 50_000_000


@pytest.mark.parametrize("event", ["succeeded", "failed", "expired", "stall"])
async def test_whoever_settles_leaves_a_simulated_payment_alone(store, event):
    waiting, sent, other = [await accepted(store) for _ in range(3)]
    await submitted(store, sent)
    ended = [await simulated(store, of, event) for of in (waiting, sent)]
    assert await store.read(chain_txs.waiting(CHAIN, 10, AFTER_US)) == await _items(store, other)
    assert await store.read(chain_txs.unsettled_ids(CHAIN)) == {other.id}
    await store.write(chain_txs.release([waiting.id, sent.id], NOW_US))
    findings = [success(of) for of in (waiting, sent, other)]
    (changed,) = await store.write(chain_txs.conclude(findings, [], AFTER_US))
    assert changed.id == other.id
    assert [await store.reader.payment(one.id) for one in ended] == ended
    assert await store.read(ledger.balance("external:shop", ASSET)) == 50_000_000
    with pytest.raises(chain_txs.NotWaiting):
        await submitted(store, waiting)


async def _items(store, *wanted):
    return [
        item
        for item in await store.read(chain_txs.unsettled(CHAIN))
        if item.payment.id in {one.id for one in wanted}
    ]


async def test_a_stalled_payment_stalls_once(store):
    of = await accepted(store)
    stalled = await simulated(store, of, "stall")
    assert (stalled.status, stalled.version) == (Status.PROCESSING, 2)
    assert await simulated(store, of, "stall", LATER_US + 1) == stalled
    assert await causes(store, of) == ["created", "confirm_accepted", "simulate_stall"]
    assert (await simulated(store, of, "failed")).status is Status.FAILED


async def test_a_refused_simulation_leaves_everything_as_it_was(store):
    of = await accepted(store)
    with pytest.raises(FlorinError) as caught:
        await simulated(store, of, "cancelled")
    assert caught.value.code is Code.INVALID_STATE
    assert await store.read(chain_txs.unsettled_ids(CHAIN)) == {of.id}
    assert await store.reader.payment(of.id) == of
    over = await created(store)
    with pytest.raises(FlorinError, match="Payment is expired and cannot be simulated"):
        await simulated(store, over, "succeeded", AFTER_US)
    with pytest.raises(LookupError):
        await simulated(store, replace(of, id="pay_none"), "failed")


# pauses


async def test_a_pause_lasts_from_its_first_beginning_to_its_end(store):
    assert await store.read(executors.pauses()) == {}
    await store.write(executors.pause(EXECUTOR, NOW_US))
    await store.write(executors.pause(EXECUTOR, LATER_US))
    await store.write(executors.pause("eip155:1:0x00", LATER_US))
    assert await store.read(executors.pauses()) == {EXECUTOR: NOW_US, "eip155:1:0x00": LATER_US}
    for _ in range(2):
        await store.write(executors.resume(EXECUTOR))
    assert await store.read(executors.pauses()) == {"eip155:1:0x00": LATER_US}


async def test_who_begins_on_a_copy_pauses_what_pays_out_until_the_operator_resumes_it(store):
    pay_out = [EXECUTOR, "eip155:1:0x00"]
    assert await store.write(executors.begin(pay_out, NOW_US)) is None
    assert await store.read(executors.pauses()) == {}
    await store.write(installation.mark_copied(NOW_US - 5))
    # where nothing pays out nothing has begun
    assert await store.write(executors.begin([], NOW_US)) is None
    for _ in range(2):
        assert await store.write(executors.begin(pay_out, NOW_US)) == NOW_US - 5
        assert await store.read(executors.pauses()) == dict.fromkeys(pay_out, NOW_US)
    await store.write(executors.resume(EXECUTOR))
    # what was resumed is not paused again, unless it is a copy once more
    assert await store.write(executors.begin(pay_out, LATER_US)) == NOW_US - 5
    assert await store.read(executors.pauses()) == {"eip155:1:0x00": NOW_US}
    for copied_at_us in (NOW_US, LATER_US):
        await store.write(installation.mark_copied(copied_at_us))
    assert await store.write(executors.begin(pay_out, LATER_US)) == NOW_US - 5
    for one in pay_out:
        await store.write(executors.resume(one))
    assert await store.write(executors.begin(pay_out, LATER_US)) is None
    assert await store.read(executors.pauses()) == {}
    for copied_at_us in (LATER_US, NOW_US):
        await store.write(installation.mark_copied(copied_at_us))
    assert await store.write(executors.begin(pay_out, LATER_US)) == NOW_US


# customers


async def test_a_customer_is_found_by_what_it_pays_and_was_offered(store):
    assert await store.survey(customers.payments_of(PAYER)) == []
    offered = await created(store)
    paid = await accepted(store)
    stranger = await created(store)
    await store.write(payments.put_options([option(stranger, id="opt_2", payer=OTHER)]))
    found = await store.survey(customers.payments_of(PAYER))
    assert found == [stranger, paid, offered]
    assert await store.survey(customers.named(OTHER)) == {stranger.id}


async def test_the_newest_payment_of_a_customer_comes_first(store):
    old, new = (
        await created(store, created_at_us=NOW_US),
        await created(store, created_at_us=LATER_US),
    )
    older = await created(store, created_at_us=NOW_US - 1)
    assert await store.survey(customers.payments_of(PAYER)) == [new, old, older]


async def test_an_erased_customer_stays_only_where_its_money_moves(store):
    offered, processing, paid, failed = (
        await created(store),
        *[await accepted(store) for _ in range(3)],
    )
    lapsed = replace(success(failed), status=Status.FAILED, tx_id=None, postings=())
    await store.write(chain_txs.conclude([success(paid), lapsed], [], LATER_US))
    for of in (offered, processing):
        await store.write(
            payments.put_options([option(of, id="opt_2"), option(of, id="opt_3", payer=OTHER)])
        )
    ids = await store.survey(customers.named(PAYER))
    assert ids == {offered.id, processing.id, paid.id, failed.id}
    assert await store.write(customers.erase(PAYER, ids)) == Erased(offers=4, wallets=3, kept=2)
    assert await store.survey(customers.named(PAYER)) == {processing.id, paid.id}
    left = {
        of.id: [o.id for o in await store.read(payments.options(of.id, [PAYER, OTHER]))]
        for of in (offered, processing, paid, failed)
    }
    assert left == {
        offered.id: ["opt_3"],
        processing.id: ["opt_1", "opt_3"],
        paid.id: ["opt_1"],
        failed.id: [],
    }
    for of, payer in ((processing, PAYER), (paid, PAYER), (failed, None)):
        now = await store.reader.payment(of.id)
        assert (now.payer, now.provider_name, now.provider_icon) == (payer, "unknown", None)
    # what is processing can still be settled
    ((item,)) = await store.read(chain_txs.unsettled(CHAIN))
    assert item.payment.id == processing.id
    assert await store.write(customers.erase(PAYER, ids)) == Erased(kept=2)
    assert await store.survey(customers.named(OTHER)) == {offered.id, processing.id}


async def test_an_option_that_was_erased_while_it_was_being_taken(store):
    """The wallet's results were checked against it: the payment it pays keeps it."""
    of = await created(store)
    await store.write(customers.erase(PAYER, [of.id]))
    assert await store.read(payments.options(of.id, [PAYER, OTHER])) == []
    taken = payments.accept(confirmation(of), option(of), 7, ("Wallet", None), LATER_US)
    assert (await store.write(taken)).status is Status.PROCESSING
    ((item,)) = await store.read(chain_txs.waiting(CHAIN, 10, LATER_US))
    assert item.option == option(of)
