"""Claims of buyers for money that came to a payment's own address from an unknown sender."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

# so that callers with the payment's link cannot multiply rows
OPEN_PER_ITEM_MAX: Final = 4
PER_PAYMENT_MAX: Final = 16
MESSAGE_CHARS_MAX: Final = 256

# why money is held whose sender may not be the buyer; other reasons cannot be claimed
SENDER_NOT_SHOWN: Final = "sent by an account that the chain does not show"
SENDER_IS_EXCHANGE: Final = "sent by an exchange"
SENDER_IS_CONTRACT: Final = "sent by a contract"
CLAIMABLE_REASONS: Final = frozenset({SENDER_NOT_SHOWN, SENDER_IS_EXCHANGE, SENDER_IS_CONTRACT})


class DepositClaimState(StrEnum):
    """The state of a claim."""

    OPEN = "open"
    CONFIRMED = "confirmed"  # the money goes to its account
    REJECTED = "rejected"


class ClaimDecider(StrEnum):
    """The side that decided about a claim."""

    MERCHANT = "merchant"
    OPERATOR = "operator"
    FLORIN = "florin"  # a reorganization removed the money


@dataclass(frozen=True, slots=True)
class DepositClaim:
    """A request to return held money to an account (CAIP-10) that a caller with the link named.

    `value` is the held money in minor units of `asset` (CAIP-19). Each account claims an item of
    held money once.
    """

    id: str
    held_id: str
    payment_id: str
    asset: str
    value: int
    account: str
    message: str | None
    created_at_us: int
    state: DepositClaimState = DepositClaimState.OPEN
    decided_at_us: int | None = None
    decided_by: ClaimDecider | None = None
