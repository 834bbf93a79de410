"""The postings of each journal: all transfers are made here; `docs/reference` is generated from it.

A balance is debits less credits, so that Florin's assets are above zero, and its debts and income
below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from florin_server.domain.ledger import accounts
from florin_server.domain.payouts.held_money import HeldMoney
from florin_server.domain.payouts.payout import Payout
from florin_server.domain.settlement.chain_txs import LedgerPosting

Postings = tuple[LedgerPosting, ...]


@dataclass(frozen=True, slots=True)
class PaymentProceeds:
    """The proceeds of a payment by one option, in minor units of `asset` (CAIP-19).

    Of `value`, the `fee` goes to Florin's account `fee_to`, and the remainder to `dest` (both
    CAIP-10). `owed_fee` is a fee that the merchant owes instead. `is_merchant_account` means that
    `dest` is the merchant's own destination, `is_own_wallet` that it is a wallet of Florin, and
    `is_owed` that the treasury owes the money received there.
    """

    asset: str
    payer: str
    value: int
    fee: int
    dest: str
    fee_to: str
    is_merchant_account: bool
    is_own_wallet: bool
    is_owed: bool
    owed_fee: int = 0

    @property
    def dest_account(self) -> str:
        """Return the ledger account that receives the value less the fee."""
        return (
            accounts.wallet(self.dest) if self.is_own_wallet else accounts.outside_party(self.dest)
        )


def build_settlement_postings(proceeds: PaymentProceeds, merchant_id: str) -> Postings:
    """Return the postings of a succeeded payment: the merchant's share or claim, and the fee."""
    payer, owed = accounts.outside_party(proceeds.payer), accounts.merchant(merchant_id)
    source = payer if proceeds.is_merchant_account else owed
    return _drop_empty(
        (
            LedgerPosting(
                proceeds.dest_account, source, proceeds.asset, proceeds.value - proceeds.fee
            ),
            LedgerPosting(
                accounts.wallet(proceeds.fee_to), accounts.FEE, proceeds.asset, proceeds.fee
            ),
            LedgerPosting(owed, accounts.FEE, proceeds.asset, proceeds.owed_fee),
        )
    )


def build_late_postings(proceeds: PaymentProceeds, merchant_id: str) -> Postings:
    """Return the postings of money for an ended payment: no fee, and Florin owes what it has.

    A relayer has no money of others: money that a merchant directed there itself is not owed.
    """
    return _build_owed_postings(proceeds, accounts.merchant(merchant_id))


def build_held_postings(proceeds: PaymentProceeds) -> Postings:
    """Return the postings of a blocked payer's money: no fee, and Florin holds what it received."""
    return _build_owed_postings(proceeds, accounts.held_money(proceeds.payer))


def build_stray_postings(
    home: str, address: str, asset: str, value: int, held_by_sender: Mapping[str, int]
) -> Postings:
    """Return the postings of money that went home from a payment's address (all CAIP-10).

    `held_by_sender` is the part of blocked senders; the rest is owed to those who sent it.
    """
    wallet = accounts.wallet(home)
    rest = value - sum(held_by_sender.values())
    return _drop_empty(
        (
            LedgerPosting(wallet, accounts.stray_money(address), asset, rest),
            *(
                LedgerPosting(wallet, accounts.held_money(sender), asset, held)
                for sender, held in held_by_sender.items()
            ),
        )
    )


def build_release_postings(held_money: HeldMoney, merchant_id: str, owed_fee: int = 0) -> Postings:
    """Return the postings of released money, as for a settled payment; none if it is zero.

    `owed_fee` is the fee of money that the merchant received whole.
    """
    owed = accounts.merchant(merchant_id)
    return _drop_empty(
        (
            LedgerPosting(
                held_money.account, owed, held_money.asset, held_money.held - held_money.fee
            ),
            LedgerPosting(held_money.account, accounts.FEE, held_money.asset, held_money.fee),
            LedgerPosting(owed, accounts.FEE, held_money.asset, owed_fee),
        )
    )


def build_payout_posting(payout: Payout, treasury: str) -> LedgerPosting:
    """Return the posting of a payout that is done, to its receiver; `treasury` is CAIP-10."""
    if payout.owed_account is not None:
        source = payout.owed_account
    elif payout.held_id:
        source = accounts.held_money(payout.account)
    else:
        source = accounts.merchant(payout.merchant_id)
    return LedgerPosting(source, accounts.wallet(treasury), payout.asset, payout.value)


def build_gas_postings(payer: str, coin: str, gas: int, rent: int) -> Postings:
    """Return the postings of a transaction's cost; rent is below zero if it was returned."""
    wallet = accounts.wallet(payer)
    return _drop_empty(
        (
            LedgerPosting(accounts.GAS, wallet, coin, gas),
            LedgerPosting(accounts.RENT, wallet, coin, rent),
            LedgerPosting(wallet, accounts.RENT, coin, -rent),
        )
    )


def build_opening_postings(account: str, asset: str, amount: int) -> Postings:
    """Return the posting of a wallet's money when its ledger opened, 0 or more."""
    return _drop_empty((LedgerPosting(accounts.wallet(account), accounts.OPENING, asset, amount),))


def build_operator_postings(account: str, asset: str, amount: int) -> Postings:
    """Return the postings of the operator's deposit, or of a withdrawal if it is below zero."""
    wallet = accounts.wallet(account)
    return _drop_empty(
        (
            LedgerPosting(wallet, accounts.OPERATOR, asset, amount),
            LedgerPosting(accounts.OPERATOR, wallet, asset, -amount),
        )
    )


def build_merchant_deposit_postings(
    account: str, asset: str, amount: int, merchant_id: str
) -> Postings:
    """Return the postings of what a merchant paid to the operator, such as fees that it owed."""
    posting = LedgerPosting(accounts.wallet(account), accounts.merchant(merchant_id), asset, amount)
    return _drop_empty((posting,))


def is_owed_fee(posting: LedgerPosting) -> bool:
    """Return True if a merchant comes to owe a fee, or no longer owes it."""
    parties = {posting.debit, posting.credit} - {accounts.FEE}
    prefix = accounts.kind_prefix(accounts.LedgerAccountKind.MERCHANT)
    return len(parties) == 1 and parties.pop().startswith(prefix)


def reverse_postings(postings: Iterable[LedgerPosting]) -> Postings:
    """Return the reversed transfers."""
    return tuple(
        LedgerPosting(posting.credit, posting.debit, posting.asset, posting.amount)
        for posting in postings
    )


def _build_owed_postings(proceeds: PaymentProceeds, account: str) -> Postings:
    """Return the postings of an option, with the treasury's part on one account."""
    source = account if proceeds.is_owed else accounts.outside_party(proceeds.payer)
    return _drop_empty(
        (
            LedgerPosting(accounts.wallet(proceeds.fee_to), account, proceeds.asset, proceeds.fee),
            LedgerPosting(
                proceeds.dest_account, source, proceeds.asset, proceeds.value - proceeds.fee
            ),
        )
    )


def _drop_empty(postings: Iterable[LedgerPosting]) -> Postings:
    """Return the postings that move something; a transfer of an account to itself does not."""
    return tuple(
        posting for posting in postings if posting.amount > 0 and posting.debit != posting.credit
    )
