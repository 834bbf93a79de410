"""A treasury's debts to a merchant in a store, and payouts of them."""

from __future__ import annotations

from dataclasses import replace

from florin_server.db.engine.query import operation
from florin_server.domain.payouts.payout import Payout, PayoutKind
from florin_server.domain.settlement.chain_txs import LedgerPosting
from florin_server.money.payouts.store import covered, payouts
from florin_server.money.payouts.store.payouts import PayoutOutcome
from florin_server.money.settlement.store import payment_outcomes

from tests.support.store_factories import (
    ASSET,
    CHAIN,
    LATER_US,
    PAYER,
    create_chain_tx,
    create_processing_payment,
    make_success,
)

MERCHANT, TREASURY = "merchant:mer_1", f"wallet:{CHAIN}:treasury"


@operation
def no_watch():
    yield from ()


async def owed(store, value, at_us=LATER_US):
    """Return a payment that succeeded, for which a treasury owes the merchant a value."""
    of = await create_processing_payment(store)
    await create_chain_tx(store, of)
    finding = replace(
        make_success(of),
        settled_value=None,
        postings=(LedgerPosting(TREASURY, MERCHANT, ASSET, value),),
    )
    (ended,) = await store.write(payment_outcomes.finalize([finding], [], at_us))
    return ended


async def leaves(store, payout_id, value, kind=PayoutKind.BALANCE, payment_id=None):
    """Store a payout that was sent."""
    payout = Payout(
        payout_id, kind, "mer_1", payment_id, False, CHAIN, ASSET, value, PAYER, LATER_US,
        backed=True,
    )  # fmt: skip
    await store.write(payouts.add(payout))
    await store.write(payouts.claim(payout, f"0x{payout_id}", None, None, LATER_US))


async def ends(store, payout_id, at_us):
    """Record the payout as final."""
    existing = await store.read(payouts.find(payout_id))
    posting = LedgerPosting(MERCHANT, TREASURY, ASSET, existing.value)
    outcome = PayoutOutcome(existing, existing.tx_id, posting)
    await store.write(payouts.finalize([outcome], [], at_us, no_watch()))


async def marked(store):
    """Mark payments until none is left to mark; return how many were marked."""
    count = 0
    while (page := await store.write(covered.settle_covered())) is not None:
        count += page
    return count
