"""What is booked when money comes in, by the route that its payer signed."""

from __future__ import annotations

from collections import Counter

from florin_server.domain.ledger import accounts, postings
from florin_server.domain.ledger.postings import Received
from florin_server.domain.payments.payment import Option
from florin_server.domain.settlement.chain_txs import Posting
from florin_server.rails.protocol import Rail
from florin_server.rails.types import Split


def wallets_of(rail: Rail) -> frozenset[str]:
    """Every account (CAIP-10) of ours on a chain whose money is in the books."""
    return frozenset({rail.treasury, *(f"{rail.chain_id}:{one}" for one in rail.senders)})


def settled(rail: Rail, merchant_id: str, option: Option) -> tuple[Posting, ...]:
    """A payment that succeeded."""
    return postings.settled(_received(rail, option), merchant_id)


def late(rail: Rail, merchant_id: str, option: Option) -> tuple[Posting, ...]:
    """Money for a payment that had ended."""
    return postings.late(_received(rail, option), merchant_id)


def held(rail: Rail, option: Option) -> tuple[Posting, ...]:
    """A blocked payer's money."""
    return postings.held(_received(rail, option))


def held_of(rail: Rail, option: Option) -> int:
    """How much of a blocked payer's money we have, in minor units of the option's asset."""
    account = accounts.held(option.payer)
    return sum(one.amount for one in held(rail, option) if one.credit == account)


def is_backed(rail: Rail, option: Option) -> bool:
    """True if all that an option pays comes to the treasury that pays out now, and nowhere else."""
    return received(rail, option) == Counter({rail.treasury: option.value})


def received(rail: Rail, option: Option) -> Counter[str]:
    """What an option brings to which of our accounts, in minor units of its asset."""
    one = _received(rail, option)
    found = Counter({one.fee_to: one.fee})
    if one.booked:
        found[one.dest] += one.value - one.fee
    return +found


def _received(rail: Rail, option: Option) -> Received:
    split = rail.terms.split(option)
    return Received(
        asset=option.asset,
        payer=option.payer,
        value=option.value,
        fee=split.fee,
        dest=split.dest,
        # the treasury may have been another one when the payer signed
        fee_to=split.fee_to or rail.treasury,
        to_merchant=split.settled,
        booked=_is_ours(rail, split),
        owed=not split.settled or split.dest == rail.treasury,
    )


def _is_ours(rail: Rail, split: Split) -> bool:
    return not split.settled or split.dest in wallets_of(rail)
