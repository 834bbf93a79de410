"""Refunds in a store: asked for, paid out, and what endpoints receive of them."""

from __future__ import annotations

from florin_server.domain.payments.payment import Refund, RefundStatus
from florin_server.domain.payouts.payout import Payout, PayoutKind
from florin_server.domain.settlement.chain_txs import Posting
from florin_server.domain.webhooks.snapshot import snapshot_at
from florin_server.store.engine.query import operation
from florin_server.store.payouts import payouts, refunds
from florin_server.store.payouts.payouts import Outcome
from florin_server.store.webhooks import deliveries

from tests.support.hooked import claim, tell
from tests.support.store_kit import ASSET, CHAIN, LATER_US, PAYER

POSTING = Posting("merchant:mer_1", f"wallet:{CHAIN}:treasury", ASSET, 5)


@operation
def no_watch():
    yield from ()


async def asked_for(store, of, refund_id="rfnd_1", value=5):
    """One of its refunds, and the payout that pays it."""
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
        version=await store.read(refunds.next_version(of.id)),
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
    now = await store.read(payouts.get(refund_id))
    await store.write(payouts.conclude([Outcome(now, **outcome)], [], at_us, no_watch()))


async def claims(store, tx_hash, at_us, refund_id="rfnd_1"):
    now = await store.read(payouts.get(refund_id))
    await store.write(payouts.claim(now, tx_hash, None, None, at_us))


async def told(store, now_us, *, every=False):
    """All events that wait, told one after the other."""
    found = []
    while claimed := await claim(store, now_us):
        (one,) = claimed
        work = await store.read(deliveries.work(one, now_us))
        first = work.happened[0]
        then = snapshot_at(work.payment, work.option, work.history, first)
        known = first.place, first.event_type, first.refund
        found.append((then, first.refund) if every else known)
        await tell(store, one, now_us)
    return found
