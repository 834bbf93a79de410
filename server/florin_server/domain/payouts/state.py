"""The transitions of a payout and of its refund; nothing else changes their status."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from florin_server.domain.payments.payment import RefundStatus
from florin_server.domain.payouts.payout import PayoutStatus
from florin_server.domain.transitions import TransitionTable


class PayoutEvent(StrEnum):
    """The events of a payout."""

    CLAIMED = "claimed"
    SET_ASIDE = "set_aside"
    PAID = "paid"
    MOVED_NOTHING = "moved_nothing"
    UNCLEAR = "unclear"
    REFUSED = "refused"
    UNDONE = "undone"


EVENT_DESCRIPTIONS: Mapping[PayoutEvent, str] = {
    PayoutEvent.CLAIMED: "it is in a transaction, which is signed and stored with it",
    PayoutEvent.SET_ASIDE: "it cannot be sent now; Florin tries again later",
    PayoutEvent.PAID: "its transaction is final and proves that it paid, or the operator says so",
    PayoutEvent.MOVED_NOTHING: "its transaction provably paid nothing and never will, or the "
    "operator says so: it is sent once more",
    PayoutEvent.UNCLEAR: "its transaction is final and does not prove what it moved: the "
    "operator must check it",
    PayoutEvent.REFUSED: "the operator refuses it, or the money that it was to return never "
    "arrived",
    PayoutEvent.UNDONE: "a reorganization removed its transaction, which Florin sends again",
}

_WAITING, _SUBMITTED, _DONE = PayoutStatus.WAITING, PayoutStatus.SUBMITTED, PayoutStatus.DONE
PAYOUT_TRANSITIONS: TransitionTable[PayoutStatus, PayoutEvent] = TransitionTable(
    {
        PayoutEvent.CLAIMED: {_WAITING: _SUBMITTED},
        PayoutEvent.SET_ASIDE: {_WAITING: _WAITING},
        PayoutEvent.PAID: {_SUBMITTED: _DONE},
        PayoutEvent.MOVED_NOTHING: {_SUBMITTED: _WAITING},
        PayoutEvent.UNCLEAR: {_SUBMITTED: _SUBMITTED},
        PayoutEvent.REFUSED: {_WAITING: PayoutStatus.REFUSED},
        PayoutEvent.UNDONE: dict.fromkeys((_WAITING, _SUBMITTED, _DONE), _SUBMITTED),
    }
)

_PENDING, _PROCESSING = RefundStatus.PENDING, RefundStatus.PROCESSING
# a final status that was reported stays: after a reorganization the payout is paid once more
_SUCCEEDED_STAYS = {RefundStatus.SUCCEEDED: RefundStatus.SUCCEEDED}
REFUND_TRANSITIONS: TransitionTable[RefundStatus, PayoutEvent] = TransitionTable(
    {
        PayoutEvent.CLAIMED: {_PENDING: _PROCESSING, **_SUCCEEDED_STAYS},
        PayoutEvent.SET_ASIDE: {_PENDING: _PENDING, **_SUCCEEDED_STAYS},
        PayoutEvent.PAID: {_PROCESSING: RefundStatus.SUCCEEDED, **_SUCCEEDED_STAYS},
        PayoutEvent.MOVED_NOTHING: {_PROCESSING: _PENDING, **_SUCCEEDED_STAYS},
        PayoutEvent.UNCLEAR: {_PROCESSING: _PROCESSING, **_SUCCEEDED_STAYS},
        PayoutEvent.REFUSED: {_PENDING: RefundStatus.FAILED},
        PayoutEvent.UNDONE: {_PENDING: _PROCESSING, _PROCESSING: _PROCESSING, **_SUCCEEDED_STAYS},
    }
)
