"""Where a payout can go from where it is, and its refund with it; nothing else moves either."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from florin_server.domain.payments.payment import RefundStatus
from florin_server.domain.payouts.payout import PayoutStatus
from florin_server.domain.transitions import Transitions


class PayoutEvent(StrEnum):
    """What can happen to a payout."""

    CLAIMED = "claimed"
    SET_ASIDE = "set_aside"
    PAID = "paid"
    MOVED_NOTHING = "moved_nothing"
    UNCLEAR = "unclear"
    REFUSED = "refused"
    UNDONE = "undone"


EVENTS: Mapping[PayoutEvent, str] = {
    PayoutEvent.CLAIMED: "it is in a transaction, which is signed and written down with it",
    PayoutEvent.SET_ASIDE: "it cannot be sent now, and is tried again later",
    PayoutEvent.PAID: "its transaction is final and proves that it paid, or the operator says so",
    PayoutEvent.MOVED_NOTHING: "its transaction provably paid nothing and never will, or the "
    "operator says so: it is sent once more",
    PayoutEvent.UNCLEAR: "its transaction is final and does not prove what it moved: the operator "
    "has to look",
    PayoutEvent.REFUSED: "the operator calls it off, or what it was to return never came",
    PayoutEvent.UNDONE: "a reorganisation removed its transaction, which is sent again",
}

_WAITING, _SUBMITTED, _DONE = PayoutStatus.WAITING, PayoutStatus.SUBMITTED, PayoutStatus.DONE
PAYOUT: Transitions[PayoutStatus, PayoutEvent] = Transitions(
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
# what was told as final stays so: it is paid once more if a reorganisation undoes it
_TOLD = {RefundStatus.SUCCEEDED: RefundStatus.SUCCEEDED}
REFUND: Transitions[RefundStatus, PayoutEvent] = Transitions(
    {
        PayoutEvent.CLAIMED: {_PENDING: _PROCESSING, **_TOLD},
        PayoutEvent.SET_ASIDE: {_PENDING: _PENDING, **_TOLD},
        PayoutEvent.PAID: {_PROCESSING: RefundStatus.SUCCEEDED, **_TOLD},
        PayoutEvent.MOVED_NOTHING: {_PROCESSING: _PENDING, **_TOLD},
        PayoutEvent.UNCLEAR: {_PROCESSING: _PROCESSING, **_TOLD},
        PayoutEvent.REFUSED: {_PENDING: RefundStatus.FAILED},
        PayoutEvent.UNDONE: {_PENDING: _PROCESSING, _PROCESSING: _PROCESSING, **_TOLD},
    }
)
