"""What is booked when: every transfer of the books is made here; `docs/reference` is made of it.

A balance is debits less credits, so that what we hold is above zero, and what we owe or earn below.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from florin_server.domain.ledger import accounts
from florin_server.domain.payouts.held_money import HeldMoney
from florin_server.domain.payouts.payout import Payout
from florin_server.domain.settlement.chain_txs import Posting

Postings = tuple[Posting, ...]


@dataclass(frozen=True, slots=True)
class Received:
    """What a payment by one option brings, in minor units of `asset` (CAIP-19).

    Of `value` the `fee` goes to the account `fee_to`, which is ours, and the rest to `dest` (both
    CAIP-10). `to_merchant` tells that `dest` is the merchant's own destination, `booked` that it
    is a wallet of ours, and `owed` that what came there is the treasury's to owe.
    """

    asset: str
    payer: str
    value: int
    fee: int
    dest: str
    fee_to: str
    to_merchant: bool
    booked: bool
    owed: bool

    @property
    def place(self) -> str:
        """The account of the books where the value less the fee is."""
        return accounts.wallet(self.dest) if self.booked else accounts.external(self.dest)


def settled(one: Received, merchant_id: str) -> Postings:
    """A payment that succeeded: the merchant has its share, or is owed it; the fee is earned."""
    payer, owed = accounts.external(one.payer), accounts.merchant(merchant_id)
    source = payer if one.to_merchant else owed
    return _moved(
        (
            Posting(one.place, source, one.asset, one.value - one.fee),
            Posting(accounts.wallet(one.fee_to), accounts.FEE, one.asset, one.fee),
        )
    )


def late(one: Received, merchant_id: str) -> Postings:
    """Money for a payment that had ended: nothing is earned, and what we hold of it is owed.

    A relayer holds nothing for anybody: what came there by the merchant's own word is not owed.
    """
    return _owed(one, accounts.merchant(merchant_id))


def held(one: Received) -> Postings:
    """A blocked payer's money: nothing is earned, and what we have of it nobody may have."""
    return _owed(one, accounts.held(one.payer))


def released(one: HeldMoney, merchant_id: str) -> Postings:
    """What we have of held money, as if its payment had been settled; nothing if that is none."""
    return _moved(
        (
            Posting(one.account, accounts.merchant(merchant_id), one.asset, one.held - one.fee),
            Posting(one.account, accounts.FEE, one.asset, one.fee),
        )
    )


def paid_out(one: Payout, treasury: str) -> Posting:
    """A payout that is done: whoever was owed it has it; `treasury` is CAIP-10."""
    source = accounts.held(one.account) if one.held_id else accounts.merchant(one.merchant_id)
    return Posting(source, accounts.wallet(treasury), one.asset, one.value)


def spent(payer: str, coin: str, gas: int, rent: int) -> Postings:
    """What a transaction cost the account that paid for it; rent is below zero if it came back."""
    wallet = accounts.wallet(payer)
    return _moved(
        (
            Posting(accounts.GAS, wallet, coin, gas),
            Posting(accounts.RENT, wallet, coin, rent),
            Posting(wallet, accounts.RENT, coin, -rent),
        )
    )


def opened(account: str, asset: str, amount: int) -> Postings:
    """What a wallet held that nobody booked, 0 or more, when its books began."""
    return _moved((Posting(accounts.wallet(account), accounts.BEGINNING, asset, amount),))


def by_operator(account: str, asset: str, amount: int) -> Postings:
    """What the operator put into a wallet, or took out if it is below zero."""
    wallet = accounts.wallet(account)
    return _moved(
        (
            Posting(wallet, accounts.BY_OPERATOR, asset, amount),
            Posting(accounts.BY_OPERATOR, wallet, asset, -amount),
        )
    )


def reversed_(postings: Iterable[Posting]) -> Postings:
    """The same transfers the other way round."""
    return tuple(Posting(one.credit, one.debit, one.asset, one.amount) for one in postings)


def _owed(one: Received, account: str) -> Postings:
    """What an option brings, all that our treasury gets of it on one account of the books."""
    source = account if one.owed else accounts.external(one.payer)
    return _moved(
        (
            Posting(accounts.wallet(one.fee_to), account, one.asset, one.fee),
            Posting(one.place, source, one.asset, one.value - one.fee),
        )
    )


def _moved(postings: Iterable[Posting]) -> Postings:
    """Return the postings that move something; a transfer of an account to itself does not."""
    return tuple(one for one in postings if one.amount > 0 and one.debit != one.credit)
