"""Quarantined items: work whose step failed unexpectedly.

An item is a piece of work that can be left out without harm to others: a payment, a payout, a
transaction. It keeps its state; Florin does not retry it until the operator says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from florin_server.domain.text import replace_unprintable

# a reason is cut to this length, because errors repeat callers' input
REASON_MAX: Final = 500
# A subject contains at most an address of a caller's choice; longer ones are cut in the same way.
SUBJECT_MAX: Final = 300


class QuarantinedItemKind(StrEnum):
    """The kind of a quarantined item; its subject is its id."""

    PAYMENT = "payment"  # its settlement: dry run, broadcast, conclusion
    PAYOUT = "payout"  # its broadcast or conclusion, also of a refund
    TRANSACTION = "transaction"  # the end of a transaction of Florin
    EVENT = "event"  # a settlement event on chain: block/reference/transaction
    WATCHED = "watched"  # a final transaction that a reorganization might undo
    DELIVERY = "delivery"  # of events of a payment to an endpoint: endpoint/payment
    EXPIRY = "expiry"  # of a payment without a confirm
    TOKEN_ACCOUNT = "token_account"  # noqa: S105  (to be opened: account/asset)
    DURABLE_NONCE = "durable_nonce"  # its address
    WALLET = "wallet"  # of Florin, whose ledger is compared with the chain: account/asset


class QuarantinedItemState(StrEnum):
    """The state of a quarantined item."""

    SET_ASIDE = "set_aside"  # waits for the operator
    RETRIED = "retried"  # is being retried, or has passed since
    RESOLVED = "resolved"  # the operator handled it: it is left out and raises no alarm


class QuarantineSubject(NamedTuple):
    """The subject of an item. `chain_id` (CAIP-2) is empty if the item concerns no chain."""

    kind: QuarantinedItemKind
    chain_id: str
    id: str

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


@dataclass(frozen=True, slots=True)
class QuarantinedItem:
    """A quarantined item.

    `step` is the step that failed, `reason` the error in one line, `attempts` how often it was
    quarantined. `note` contains the operator's words once it is resolved.
    """

    id: str
    kind: QuarantinedItemKind
    chain_id: str
    subject: str
    step: str
    reason: str
    state: QuarantinedItemState
    attempts: int
    first_at_us: int
    last_at_us: int
    note: str | None = None


def format_error(error: BaseException) -> str:
    """Return an error as one bounded line without control characters."""
    text = f"{type(error).__name__}: {error}"
    clean = replace_unprintable(text[: 2 * REASON_MAX], " ")
    return clean if len(clean) <= REASON_MAX else f"{clean[: REASON_MAX - 1]}…"
