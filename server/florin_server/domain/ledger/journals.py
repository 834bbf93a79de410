"""The journals of the ledger, and the keys under which each is posted once.

Keys are made here only; `docs/reference` is generated from it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from florin_server.domain.ledger import accounts
from florin_server.domain.payouts.payout import PayoutKind


class JournalKind(StrEnum):
    """The reason of a journal; its key begins with it."""

    SETTLE = "settle"
    HELD = "held"
    LATE = "late"
    STRAY = "stray"
    REFUND = "refund"
    RETURN = "return"
    PAYOUT = "payout"
    GAS = "gas"
    OPENING = "opening"
    OPERATOR = "operator"
    REVERSE = "reverse"


# Journals of these kinds, and their reversals, can have no transfers: an account paid itself. They
# are posted all the same, because their key says that the ledger knows the payment.
SELF_PAYMENT_NOTE: Final = "an account paid itself: no money moved between accounts"
_MAY_BE_EMPTY = frozenset({JournalKind.SETTLE, JournalKind.HELD, JournalKind.LATE})

_PAYOUT_KINDS = {
    PayoutKind.REFUND: JournalKind.REFUND,
    PayoutKind.RETURN: JournalKind.RETURN,
    PayoutKind.BALANCE: JournalKind.PAYOUT,
}


def settle_key(payment_id: str) -> str:
    """Return the key of a payment that succeeded: money moved at final depth, or was released."""
    return f"{JournalKind.SETTLE}:{payment_id}"


def held_key(payment_id: str) -> str:
    """Return the key of a blocked payer's money that moved, at final depth."""
    return f"{JournalKind.HELD}:{payment_id}"


def late_key(payment_id: str, event: str) -> str:
    """Return the key of money that arrived after the payment's end or twice.

    `event` identifies it.
    """
    return f"{JournalKind.LATE}:{payment_id}:{event}"


def stray_key(tx_hash: str, address: str, asset: str) -> str:
    """Return the key of what a transaction moved home from a payment's address (CAIP-10)."""
    return f"{JournalKind.STRAY}:{tx_hash}:{address}:{asset}"


def payout_key(kind: PayoutKind, payout_id: str) -> str:
    """Return the key of a payout that left a treasury, at final depth."""
    return f"{_PAYOUT_KINDS[kind]}:{payout_id}"


def get_payout_kind(kind: PayoutKind) -> JournalKind:
    """Return the kind of journal of a payout."""
    return _PAYOUT_KINDS[kind]


def gas_key(tx_id: str) -> str:
    """Return the key of a transaction's cost, successful or not; none if it was free."""
    return f"{JournalKind.GAS}:{tx_id}"


def opening_key(account: str, asset: str) -> str:
    """Return the key of the opening of a wallet (CAIP-10) in an asset (CAIP-19)."""
    return f"{JournalKind.OPENING}:{accounts.wallet(account)}:{asset}"


def operator_key(booking_id: str) -> str:
    """Return the key of the operator's deposit or withdrawal at a wallet (`florin ledger book`)."""
    return f"{JournalKind.OPERATOR}:{booking_id}"


def reversal_key(key: str) -> str:
    """Return the key of the reversal of a journal that a reorganization removed."""
    return f"{JournalKind.REVERSE}:{key}"


def format_reversal_kind(kind: str) -> str:
    """Return the kind of a reversal, which names the kind that it reverses."""
    return f"{JournalKind.REVERSE}_{kind}"


def may_be_empty(kind: str) -> bool:
    """Return True if a journal of the kind may have no transfers."""
    return kind.removeprefix(f"{JournalKind.REVERSE}_") in _MAY_BE_EMPTY


def nth_key(key: str, n: int) -> str:
    """Return the key of the nth posting of a journal, from 1, after reversals."""
    return key if n == 1 else f"{key}#{n}"


def key_prefix(kind: JournalKind) -> str:
    """Return the prefix of the keys of all journals of a kind."""
    return f"{kind}:"
