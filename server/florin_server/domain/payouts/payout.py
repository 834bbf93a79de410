"""Money that leaves a treasury: refunds, what merchants are owed, and what came too late."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class PayoutKind(StrEnum):
    """The reason why money leaves."""

    REFUND = "refund"  # of a payment, to the account that paid it
    BALANCE = "balance"  # a merchant's balance, to its destination
    RETURN = "return"  # money that pays for nothing, returned to its sender


class PayoutStatus(StrEnum):
    """The status of a payout."""

    WAITING = "waiting"
    SUBMITTED = "submitted"  # in a transaction of Florin
    DONE = "done"
    REFUSED = "refused"  # by the operator, finally


@dataclass(frozen=True, slots=True)
class Payout:
    """One payment out of the treasury of one chain; `value` is in minor units of `asset`.

    `account` (CAIP-10) receives. A refund's payout has the id of the refund. `problem` says why a
    waiting payout was not sent at the latest try, or what is wrong with a sent one; `tx_id` is set
    while it is in a transaction, and once it is done. `lapses_at` is the block height after which
    that transaction cannot be mined, on chains where transactions lapse. `backed` means that the
    treasury received money for this payout alone, regardless of the merchant's debt. `held_id`
    names held money that it returns; that concerns no merchant. `owed_account` is the account of
    the ledger that owes it, if it is another than usual.
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
    owed_account: str | None = None
