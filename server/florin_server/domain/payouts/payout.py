"""Money that leaves a treasury: refunds, what merchants are owed, and what came too late."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class PayoutKind(StrEnum):
    """Why money leaves."""

    REFUND = "refund"  # of a payment, to the account that paid it
    BALANCE = "balance"  # what a merchant is owed, to its destination
    RETURN = "return"  # money that pays for nothing, to the account that sent it


class PayoutStatus(StrEnum):
    """Where a payout stands."""

    WAITING = "waiting"
    SUBMITTED = "submitted"  # in a transaction of ours
    DONE = "done"
    REFUSED = "refused"  # by the operator, for good


@dataclass(frozen=True, slots=True)
class Payout:
    """One payment out of the treasury of one chain; `value` is in minor units of `asset`.

    `account` (CAIP-10) receives. A refund's payout has the id of the refund. `problem` tells why a
    waiting one was not sent when it was tried last, or what is wrong with one that was; `tx_id` is
    set while it is in a transaction, and once it is done. `lapses_at` is the block height after
    which that transaction cannot be mined, on chains where transactions lapse. `backed` tells that
    the treasury got its money for nothing else, whatever the merchant owes. `held_id` names held
    money that it returns: no merchant has a part in that.
    """

    id: str
    kind: PayoutKind
    merchant_id: str
    payment_id: str | None
    live: bool
    chain_id: str
    asset: str
    value: int
    account: str
    created_at_us: int
    status: PayoutStatus = PayoutStatus.WAITING
    retry_at_us: int = 0
    problem: str | None = None
    tx_id: str | None = None
    completed_at_us: int | None = None
    lapses_at: int | None = None
    backed: bool = False
    held_id: str | None = None
