"""Postings of incoming money, by the route that its payer signed."""

from __future__ import annotations

from collections import Counter

from florin_server.domain.ledger import accounts, postings
from florin_server.domain.ledger.postings import PaymentProceeds
from florin_server.domain.payments.payment import PaymentOption
from florin_server.domain.settlement.chain_txs import LedgerPosting
from florin_server.rails.protocol import Rail
from florin_server.rails.types import Split
from florin_server.rails.wallets import list_wallets


def build_settlement_postings(
    rail: Rail, merchant_id: str, option: PaymentOption
) -> tuple[LedgerPosting, ...]:
    """Return the postings of a payment that succeeded."""
    return postings.build_settlement_postings(_build_proceeds(rail, option), merchant_id)


def build_late_postings(
    rail: Rail, merchant_id: str, option: PaymentOption
) -> tuple[LedgerPosting, ...]:
    """Return the postings of money for a payment that had ended."""
    return postings.build_late_postings(_build_proceeds(rail, option), merchant_id)


def build_held_postings(rail: Rail, option: PaymentOption) -> tuple[LedgerPosting, ...]:
    """Return the postings of a blocked payer's money."""
    return postings.build_held_postings(_build_proceeds(rail, option))


def get_held_amount(rail: Rail, option: PaymentOption) -> int:
    """Return how much of a blocked payer's money Florin has, in minor units of its asset."""
    account = accounts.held_money(option.payer)
    return sum(
        posting.amount for posting in build_held_postings(rail, option) if posting.credit == account
    )


def is_backed(rail: Rail, option: PaymentOption) -> bool:
    """Return True if everything that an option pays goes to the present treasury alone."""
    return get_received_amounts(rail, option) == Counter({rail.treasury: option.value})


def get_received_amounts(rail: Rail, option: PaymentOption) -> Counter[str]:
    """Return what each account of Florin receives of an option, in minor units of its asset."""
    proceeds = _build_proceeds(rail, option)
    counter = Counter({proceeds.fee_to: proceeds.fee})
    if proceeds.is_own_wallet:
        counter[proceeds.dest] += proceeds.value - proceeds.fee
    return +counter


def _build_proceeds(rail: Rail, option: PaymentOption) -> PaymentProceeds:
    split = rail.terms.get_split(option)
    return PaymentProceeds(
        asset=option.asset,
        payer=option.payer,
        value=option.value,
        fee=split.fee,
        dest=split.dest,
        # the treasury may have been another account when the payer signed
        fee_to=split.fee_to or rail.treasury,
        is_merchant_account=split.settled,
        is_own_wallet=_is_own(rail, split),
        is_owed=not split.settled or split.dest == rail.treasury,
        owed_fee=split.owed_fee,
    )


def _is_own(rail: Rail, split: Split) -> bool:
    return not split.settled or split.dest in list_wallets(rail)
