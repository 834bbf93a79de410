"""Items that a worker set aside because a step of theirs failed in a way that nobody foresaw.

An item is a piece of work that can be left out without harm to others: a payment, a payout, a
transaction. It keeps its state; it is only not tried again until the operator says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from florin_server.domain.text import replace_unprintable

# a reason is cut to so many characters: errors repeat what callers sent
REASON_MAX: Final = 500
# A subject names at most an address of a caller's choice; what is longer is cut in the same way.
SUBJECT_MAX: Final = 300


class ItemKind(StrEnum):
    """What was set aside; the subject of an item is its id."""

    PAYMENT = "payment"  # settling it: trying, sending, concluding
    PAYOUT = "payout"  # sending or concluding it, a refund too
    TRANSACTION = "transaction"  # the end of a transaction of ours
    EVENT = "event"  # a settlement event on chain: block/reference/transaction
    WATCHED = "watched"  # a final transaction that a reorganization might undo
    DELIVERY = "delivery"  # of events of a payment to an endpoint: endpoint/payment
    EXPIRY = "expiry"  # of a payment that nobody confirmed
    TOKEN_ACCOUNT = "token_account"  # noqa: S105  (to be opened: account/asset)
    DURABLE_NONCE = "durable_nonce"  # its address
    WALLET = "wallet"  # of ours whose books are compared: account/asset


class ItemState(StrEnum):
    """Where an item is on its way."""

    SET_ASIDE = "set_aside"  # waits for the operator
    RETRIED = "retried"  # is tried again, or has passed since
    RESOLVED = "resolved"  # the operator dealt with it: it is left out and raises no alarm


class Subject(NamedTuple):
    """What an item is about. `chain_id` (CAIP-2) is empty where no chain has a part in it."""

    kind: ItemKind
    chain_id: str
    id: str

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


@dataclass(frozen=True, slots=True)
class QuarantinedItem:
    """An item that was set aside.

    `step` is what failed, `reason` the error in one line, `attempts` how often it was set aside.
    `note` holds the operator's words once it is resolved.
    """

    id: str
    kind: ItemKind
    chain_id: str
    subject: str
    step: str
    reason: str
    state: ItemState
    attempts: int
    first_at_us: int
    last_at_us: int
    note: str | None = None


def describe_error(error: BaseException) -> str:
    """Return an error as one bounded line without control characters."""
    text = f"{type(error).__name__}: {error}"
    clean = replace_unprintable(text[: 2 * REASON_MAX], " ")
    return clean if len(clean) <= REASON_MAX else f"{clean[: REASON_MAX - 1]}…"
