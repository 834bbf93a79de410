"""What is booked when money comes in, by the route that its payer signed."""

from __future__ import annotations

from collections import Counter

from florin_server.domain.journal import Posting
from florin_server.domain.payment import Option
from florin_server.rails.base import Rail, Split
from florin_server.store.ledger import FEE


def wallets_of(rail: Rail) -> frozenset[str]:
    """Every account (CAIP-10) of ours on a chain whose money is in the books."""
    return frozenset({rail.treasury, *(f"{rail.chain_id}:{one}" for one in rail.senders)})


def settled(rail: Rail, merchant_id: str, option: Option) -> tuple[Posting, ...]:
    """A payment that succeeded: the merchant has its share, or is owed it; the fee is earned."""
    split, asset = rail.split(option), option.asset
    place = f"wallet:{split.dest}" if _is_ours(rail, split) else f"external:{split.dest}"
    source = f"external:{option.payer}" if split.settled else f"merchant:{merchant_id}"
    legs = (
        Posting(place, source, asset, option.value - split.fee),
        Posting(f"wallet:{_fee_to(rail, split)}", FEE, asset, split.fee),
    )
    return tuple(one for one in legs if one.amount > 0)


def late(rail: Rail, merchant_id: str, option: Option) -> tuple[Posting, ...]:
    """Money for a payment that had ended: nothing is earned, and what we hold of it is owed.

    A relayer holds nothing for anybody: what came there by the merchant's own word is not owed.
    """
    split, asset, merchant = rail.split(option), option.asset, f"merchant:{merchant_id}"
    place = f"wallet:{split.dest}" if _is_ours(rail, split) else f"external:{split.dest}"
    is_held = not split.settled or split.dest == rail.treasury
    source = merchant if is_held else f"external:{option.payer}"
    legs = (
        Posting(f"wallet:{_fee_to(rail, split)}", merchant, asset, split.fee),
        Posting(place, source, asset, option.value - split.fee),
    )
    return tuple(one for one in legs if one.amount > 0)


def is_backed(rail: Rail, option: Option) -> bool:
    """True if all that an option pays comes to the treasury that pays out now, and nowhere else."""
    return received(rail, option) == Counter({rail.treasury: option.value})


def received(rail: Rail, option: Option) -> Counter[str]:
    """What an option brings to which of our accounts, in minor units of its asset."""
    split = rail.split(option)
    found = Counter({_fee_to(rail, split): split.fee})
    if _is_ours(rail, split):
        found[split.dest] += option.value - split.fee
    return +found


def _is_ours(rail: Rail, split: Split) -> bool:
    return not split.settled or split.dest in wallets_of(rail)


def _fee_to(rail: Rail, split: Split) -> str:
    # the treasury may have been another one when the payer signed
    return split.fee_to or rail.treasury
