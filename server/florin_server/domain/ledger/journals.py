"""The journals of the books, and the keys by which each is booked once.

Nobody else writes keys; `docs/reference` is made of these.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from florin_server.domain.ledger import accounts
from florin_server.domain.payouts.payout import PayoutKind


class Kind(StrEnum):
    """Why something is booked; the key of a journal begins with it."""

    SETTLE = "settle"
    HELD = "held"
    LATE = "late"
    REFUND = "refund"
    RETURN = "return"
    PAYOUT = "payout"
    GAS = "gas"
    OPENING = "opening"
    OPERATOR = "operator"
    REVERSE = "reverse"


# Journals of these kinds, and their reversals, may have no transfers: an account paid itself. They
# are booked all the same, because their key says that the books know of the payment.
TO_ITSELF: Final = "an account paid itself: nothing moved between accounts"
_MAY_MOVE_NOTHING = frozenset({Kind.SETTLE, Kind.HELD, Kind.LATE})

_OF_PAYOUT = {
    PayoutKind.REFUND: Kind.REFUND,
    PayoutKind.RETURN: Kind.RETURN,
    PayoutKind.BALANCE: Kind.PAYOUT,
}


def settle(payment_id: str) -> str:
    """A payment succeeded: its money moved, at final depth, or the operator released it."""
    return f"{Kind.SETTLE}:{payment_id}"


def held(payment_id: str) -> str:
    """The money of a payment moved, at final depth, and came from a blocked payer."""
    return f"{Kind.HELD}:{payment_id}"


def late(payment_id: str, event: str) -> str:
    """Money came for a payment that had ended, or a second time; `event` tells which."""
    return f"{Kind.LATE}:{payment_id}:{event}"


def payout(kind: PayoutKind, payout_id: str) -> str:
    """A payout left a treasury, at final depth."""
    return f"{_OF_PAYOUT[kind]}:{payout_id}"


def payout_kind(kind: PayoutKind) -> Kind:
    """The kind of journal of a payout."""
    return _OF_PAYOUT[kind]


def gas(tx_id: str) -> str:
    """A transaction of ours is final, whatever it did there. Nothing if it cost nothing."""
    return f"{Kind.GAS}:{tx_id}"


def opening(account: str, asset: str) -> str:
    """The books of a wallet (CAIP-10) in an asset (CAIP-19) begin; no posting if it is empty."""
    return f"{Kind.OPENING}:{accounts.wallet(account)}:{asset}"


def operator(booking_id: str) -> str:
    """The operator put something into a wallet, or took it out (`florin ledger book`)."""
    return f"{Kind.OPERATOR}:{booking_id}"


def reversal(key: str) -> str:
    """A reorganisation undid what a journal booked: all of it, the other way round."""
    return f"{Kind.REVERSE}:{key}"


def reversal_kind(kind: str) -> str:
    """The kind of a reversal, which tells what it reverses."""
    return f"{Kind.REVERSE}_{kind}"


def may_move_nothing(kind: str) -> bool:
    """Return True if a journal of the kind may have no transfers."""
    return kind.removeprefix(f"{Kind.REVERSE}_") in _MAY_MOVE_NOTHING


def nth(key: str, n: int) -> str:
    """The key under which a journal is booked for the nth time, from 1, after reversals."""
    return key if n == 1 else f"{key}#{n}"


def prefix(kind: Kind) -> str:
    """What the keys of all journals of a kind begin with."""
    return f"{kind}:"
