"""What a treasury owes a merchant in a store, and payouts of it."""

from __future__ import annotations

from dataclasses import replace

from florin_server.domain.payouts.payout import Payout, PayoutKind
from florin_server.domain.settlement.chain_txs import Posting
from florin_server.store.engine.query import operation
from florin_server.store.payouts import covered, payouts
from florin_server.store.payouts.payouts import Outcome
from florin_server.store.settlement import chain_txs

from tests.support.store_kit import (
    ASSET,
    CHAIN,
    LATER_US,
    PAYER,
    accepted,
    submitted,
    success,
)

MERCHANT, TREASURY = "merchant:mer_1", f"wallet:{CHAIN}:treasury"


@operation
def no_watch():
    yield from ()


async def owed(store, value, at_us=LATER_US):
    """A payment that succeeded, for which a treasury owes the merchant a value."""
    of = await accepted(store)
    await submitted(store, of)
    finding = replace(
        success(of), settled_value=None, postings=(Posting(TREASURY, MERCHANT, ASSET, value),)
    )
    (ended,) = await store.write(chain_txs.conclude([finding], [], at_us))
    return ended


async def leaves(store, payout_id, value, kind=PayoutKind.BALANCE, payment_id=None):
    """A payout that is on its way."""
    made = Payout(
        payout_id, kind, "mer_1", payment_id, False, CHAIN, ASSET, value, PAYER, LATER_US,
        backed=True,
    )  # fmt: skip
    await store.write(payouts.add(made))
    await store.write(payouts.claim(made, f"0x{payout_id}", None, None, LATER_US))


async def ends(store, payout_id, at_us):
    """The payout is final."""
    known = await store.read(payouts.get(payout_id))
    posting = Posting(MERCHANT, TREASURY, ASSET, known.value)
    outcome = Outcome(known, known.tx_id, posting)
    await store.write(payouts.conclude([outcome], [], at_us, no_watch()))


async def marked(store):
    """How many payments are marked until there is nothing to mark."""
    count = 0
    while (page := await store.write(covered.settle_covered())) is not None:
        count += page
    return count
