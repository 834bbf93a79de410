"""Refunds in a store: requested, paid out, and the events that endpoints receive of them."""

from __future__ import annotations

from florin_server.db.engine.query import operation
from florin_server.domain.payments.payment import Refund, RefundStatus
from florin_server.domain.payouts.payout import Payout, PayoutKind
from florin_server.domain.settlement.chain_txs import LedgerPosting
from florin_server.domain.webhooks.snapshot import snapshot_at
from florin_server.features.webhooks.store import deliveries
from florin_server.money.payouts.store import payouts
from florin_server.money.payouts.store.payouts import PayoutOutcome
from florin_server.money.refunds import store as refunds

from tests.support.store_factories import ASSET, CHAIN, LATER_US, PAYER
from tests.support.webhook_rows import claim_deliveries, record_delivered

POSTING = LedgerPosting("merchant:mer_1", f"wallet:{CHAIN}:treasury", ASSET, 5)


@operation
def no_watch():
    yield from ()


async def request_refund(store, of, refund_id="rfnd_1", value=5):
    """Store a refund of a payment, and return the payout that pays it."""
    existing = await store.read(refunds.list_refunds(of.id))
    back = Refund(
        refund_id,
        of.id,
        f"caip19/{ASSET}",
        value,
        PAYER,
        RefundStatus.PENDING,
        None,
        LATER_US,
        version=await store.read(refunds.get_next_version(of.id)),
        ordinal=len(existing) + 1,
    )
    paying = Payout(
        back.id, PayoutKind.REFUND, "mer_1", of.id, False, CHAIN, ASSET, value, PAYER,
        LATER_US, backed=True,
    )  # fmt: skip

    @operation
    def both():
        yield from refunds.create(back)
        yield from payouts.add(paying)

    await store.write(both())
    return paying


async def ends(store, at_us, refund_id="rfnd_1", **outcome):
    now = await store.read(payouts.find(refund_id))
    await store.write(payouts.finalize([PayoutOutcome(now, **outcome)], [], at_us, no_watch()))


async def claims(store, tx_hash, at_us, refund_id="rfnd_1"):
    now = await store.read(payouts.find(refund_id))
    await store.write(payouts.claim(now, tx_hash, None, None, at_us))


async def deliver_events(store, now_us, *, every=False):
    """Deliver all waiting events, one after the other, and return them."""
    results = []
    while claimed := await claim_deliveries(store, now_us):
        (delivery,) = claimed
        work = await store.read(deliveries.find_delivery_data(delivery, now_us))
        first = work.pending_events[0]
        then = snapshot_at(work.payment, work.option, work.history, first)
        existing = first.place, first.event_type, first.refund
        results.append((then, first.refund) if every else existing)
        await record_delivered(store, delivery, now_us)
    return results
