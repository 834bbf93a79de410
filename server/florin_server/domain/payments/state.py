"""The transitions of a payment: one table, and nothing else changes a status.

Columns are statuses, rows are events; a dash is an event that the status refuses (cancel, confirm,
simulate) or that cannot happen in it (evidence from the chain).

    event               | requires_action | processing | succeeded | failed | expired | cancelled
    --------------------|-----------------|------------|-----------|--------|---------|----------
    confirm_accepted    | processing      | -          | -         | -      | -       | -
    confirm_repeated    | -               | processing | succeeded | failed | expired | cancelled
    confirm_mismatch    | failed          | -          | -         | -      | -       | -
    payer_declined      | failed          | -          | -         | -      | -       | -
    confirm_refused     | requires_action | -          | -         | -      | -       | -
    cancel              | cancelled       | -          | -         | -      | -       | cancelled
    clock               | expired         | processing | succeeded | failed | expired | cancelled
    seen_on_chain       | processing      | -          | succeeded | failed | expired | cancelled
    deposit_seen        | requires_action | processing | -         | -      | -       | -
    deposit_returned    | requires_action | processing | -         | -      | -       | -
    deposit_claimed     | requires_action | processing | -         | -      | -       | -
    effect_final        | -               | succeeded  | -         | -      | -       | -
    unspendable         | -               | failed     | -         | -      | -       | -
    held                | -               | processing | succeeded | failed | expired | cancelled
    released            | -               | succeeded  | -         | -      | -       | -
    returned            | -               | failed     | succeeded | failed | expired | cancelled
    kept                | -               | failed     | succeeded | failed | expired | cancelled
    simulate_succeeded  | succeeded       | succeeded  | succeeded | -      | -       | -
    simulate_failed     | failed          | failed     | -         | failed | -       | -
    simulate_expired    | expired         | expired    | -         | -      | expired | -
    simulate_cancelled  | cancelled       | -          | -         | -      | -       | cancelled
    simulate_stall      | processing      | processing | -         | -      | -       | -

A payment that is held stays processing until the operator decides: of the rows below `held`, only
released, returned and kept apply to it, and no simulation does. Late money is held, returned and
kept too, but no longer changes the payment. Deposits change no status: after the end of a payment
they are events that follow its own.

Elapsed time, an outage and a restart are not events: they change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import PaymentStatus
from florin_server.domain.transitions import TransitionTable


class PaymentStateEvent(StrEnum):
    """The events of a payment."""

    CONFIRM_ACCEPTED = "confirm_accepted"
    CONFIRM_REPEATED = "confirm_repeated"
    CONFIRM_MISMATCH = "confirm_mismatch"
    PAYER_DECLINED = "payer_declined"
    CONFIRM_REFUSED = "confirm_refused"
    CANCEL = "cancel"
    CLOCK = "clock"
    SEEN_ON_CHAIN = "seen_on_chain"
    DEPOSIT_SEEN = "deposit_seen"
    DEPOSIT_RETURNED = "deposit_returned"
    DEPOSIT_CLAIMED = "deposit_claimed"
    EFFECT_FINAL = "effect_final"
    UNSPENDABLE = "unspendable"
    HELD = "held"
    RELEASED = "released"
    RETURNED = "returned"
    KEPT = "kept"
    SIMULATE_SUCCEEDED = "simulate_succeeded"
    SIMULATE_FAILED = "simulate_failed"
    SIMULATE_EXPIRED = "simulate_expired"
    SIMULATE_CANCELLED = "simulate_cancelled"
    SIMULATE_STALL = "simulate_stall"


EVENT_DESCRIPTIONS: Mapping[PaymentStateEvent, str] = {
    PaymentStateEvent.CONFIRM_ACCEPTED: "a wallet confirmed, and its signature fits the payment",
    PaymentStateEvent.CONFIRM_REPEATED: "a confirm repeats the accepted one",
    PaymentStateEvent.CONFIRM_MISMATCH: "a confirm contained other results than the actions "
    "require",
    PaymentStateEvent.PAYER_DECLINED: "the buyer declined in the wallet",
    PaymentStateEvent.CONFIRM_REFUSED: "a confirm was unreadable or invalid: the payment stays "
    "payable",
    PaymentStateEvent.CANCEL: "the merchant or the buyer canceled it",
    PaymentStateEvent.CLOCK: "its `expiresAt` was reached",
    PaymentStateEvent.SEEN_ON_CHAIN: "it was paid without a confirm; late if the payment had ended",
    PaymentStateEvent.DEPOSIT_SEEN: "money arrived at an address of the payment",
    PaymentStateEvent.DEPOSIT_RETURNED: "money at an address of the payment was sent back",
    PaymentStateEvent.DEPOSIT_CLAIMED: "a buyer named an account for held money",
    PaymentStateEvent.EFFECT_FINAL: "the money moved, at final depth",
    PaymentStateEvent.UNSPENDABLE: "it is proven at final depth that the money can never move",
    PaymentStateEvent.HELD: "the money moved, at final depth, and came from a blocked payer",
    PaymentStateEvent.RELEASED: "the operator releases held money to the merchant",
    PaymentStateEvent.RETURNED: "the operator sends held money back",
    PaymentStateEvent.KEPT: "the operator keeps held money",
    PaymentStateEvent.SIMULATE_SUCCEEDED: "a test payment was set to succeed",
    PaymentStateEvent.SIMULATE_FAILED: "a test payment was set to fail",
    PaymentStateEvent.SIMULATE_EXPIRED: "a test payment was set to expire",
    PaymentStateEvent.SIMULATE_CANCELLED: "a test payment was set to be canceled",
    PaymentStateEvent.SIMULATE_STALL: "a test payment was set to stay in processing",
}

_OPEN, _BUSY = PaymentStatus.REQUIRES_ACTION, PaymentStatus.PROCESSING
_PAID, _FAILED, _EXPIRED, _CANCELLED = (
    PaymentStatus.SUCCEEDED,
    PaymentStatus.FAILED,
    PaymentStatus.EXPIRED,
    PaymentStatus.CANCELLED,
)
_FINAL = {status: status for status in PaymentStatus if status.is_final}

PAYMENT_TRANSITIONS: TransitionTable[PaymentStatus, PaymentStateEvent] = TransitionTable(
    {
        PaymentStateEvent.CONFIRM_ACCEPTED: {_OPEN: _BUSY},
        PaymentStateEvent.CONFIRM_REPEATED: {_BUSY: _BUSY, **_FINAL},
        PaymentStateEvent.CONFIRM_MISMATCH: {_OPEN: _FAILED},
        PaymentStateEvent.PAYER_DECLINED: {_OPEN: _FAILED},
        PaymentStateEvent.CONFIRM_REFUSED: {_OPEN: _OPEN},
        PaymentStateEvent.CANCEL: {_OPEN: _CANCELLED, _CANCELLED: _CANCELLED},
        PaymentStateEvent.CLOCK: {_OPEN: _EXPIRED, _BUSY: _BUSY, **_FINAL},
        PaymentStateEvent.SEEN_ON_CHAIN: {_OPEN: _BUSY, **_FINAL},
        PaymentStateEvent.DEPOSIT_SEEN: {_OPEN: _OPEN, _BUSY: _BUSY},
        PaymentStateEvent.DEPOSIT_RETURNED: {_OPEN: _OPEN, _BUSY: _BUSY},
        PaymentStateEvent.DEPOSIT_CLAIMED: {_OPEN: _OPEN, _BUSY: _BUSY},
        PaymentStateEvent.EFFECT_FINAL: {_BUSY: _PAID},
        PaymentStateEvent.UNSPENDABLE: {_BUSY: _FAILED},
        PaymentStateEvent.HELD: {_BUSY: _BUSY, **_FINAL},
        PaymentStateEvent.RELEASED: {_BUSY: _PAID},
        PaymentStateEvent.RETURNED: {_BUSY: _FAILED, **_FINAL},
        PaymentStateEvent.KEPT: {_BUSY: _FAILED, **_FINAL},
        PaymentStateEvent.SIMULATE_SUCCEEDED: {_OPEN: _PAID, _BUSY: _PAID, _PAID: _PAID},
        PaymentStateEvent.SIMULATE_FAILED: {_OPEN: _FAILED, _BUSY: _FAILED, _FAILED: _FAILED},
        PaymentStateEvent.SIMULATE_EXPIRED: {_OPEN: _EXPIRED, _BUSY: _EXPIRED, _EXPIRED: _EXPIRED},
        PaymentStateEvent.SIMULATE_CANCELLED: {_OPEN: _CANCELLED, _CANCELLED: _CANCELLED},
        PaymentStateEvent.SIMULATE_STALL: {_OPEN: _BUSY, _BUSY: _BUSY},
    }
)

# the cause of the first change of a payment
CREATED_CAUSE = "created"

_EVENTS = frozenset(event.value for event in PaymentStateEvent)
# reports about money at a payment's addresses
DEPOSIT_CAUSES = frozenset(
    {
        PaymentStateEvent.DEPOSIT_SEEN,
        PaymentStateEvent.DEPOSIT_RETURNED,
        PaymentStateEvent.DEPOSIT_CLAIMED,
    }
)
_CONFIRMS = frozenset(
    {
        PaymentStateEvent.CONFIRM_ACCEPTED,
        PaymentStateEvent.CONFIRM_REPEATED,
        PaymentStateEvent.CONFIRM_MISMATCH,
        PaymentStateEvent.PAYER_DECLINED,
        PaymentStateEvent.CONFIRM_REFUSED,
    }
)
# the end of an error message, after "cannot be"
_PAST_ACTIONS = {
    **dict.fromkeys(_CONFIRMS, "confirmed"),
    PaymentStateEvent.CANCEL: "cancelled",
    PaymentStateEvent.SEEN_ON_CHAIN: "started",
    PaymentStateEvent.DEPOSIT_SEEN: "paid in part",
    PaymentStateEvent.DEPOSIT_RETURNED: "returned",
    PaymentStateEvent.DEPOSIT_CLAIMED: "claimed",
    PaymentStateEvent.EFFECT_FINAL: "settled",
    PaymentStateEvent.UNSPENDABLE: "written off",
    PaymentStateEvent.HELD: "held",
    PaymentStateEvent.RELEASED: "released",
    PaymentStateEvent.RETURNED: "returned",
    PaymentStateEvent.KEPT: "kept",
    PaymentStateEvent.SIMULATE_SUCCEEDED: "simulated",
    PaymentStateEvent.SIMULATE_FAILED: "simulated",
    PaymentStateEvent.SIMULATE_EXPIRED: "simulated",
    PaymentStateEvent.SIMULATE_CANCELLED: "cancelled",
    PaymentStateEvent.SIMULATE_STALL: "simulated",
}


def apply_event(status: PaymentStatus, event: PaymentStateEvent) -> PaymentStatus:
    """Return the status after an event; it can be the same.

    Raise ApiError where the table has a dash, with the code that wallets expect: payment_expired
    for a confirm of an expired payment, idempotency_conflict if another confirm was faster, else
    invalid_state.
    """
    try:
        return PAYMENT_TRANSITIONS.get_next_state(status, event)
    except ValueError:
        raise _transition_error(status, event) from None


def is_transition(before: PaymentStatus | None, cause: str, after: PaymentStatus) -> bool:
    """Return whether the table allows a stored change.

    `cause` is an event, or CREATED_CAUSE for the first change, which has no status before it.
    """
    if before is None:
        return (cause, after) == (CREATED_CAUSE, _OPEN)
    return (
        cause in _EVENTS and PAYMENT_TRANSITIONS.rows[PaymentStateEvent(cause)].get(before) is after
    )


def _transition_error(status: PaymentStatus, event: PaymentStateEvent) -> ApiError:
    if event in _CONFIRMS and status is PaymentStatus.EXPIRED:
        return ApiError(ErrorCode.PAYMENT_EXPIRED)
    if event in _CONFIRMS and status in {PaymentStatus.PROCESSING, PaymentStatus.SUCCEEDED}:
        return ApiError(
            ErrorCode.IDEMPOTENCY_CONFLICT,
            f"Payment is {status} and bound to another confirmation",
        )
    return ApiError(
        ErrorCode.INVALID_STATE, f"Payment is {status} and cannot be {_PAST_ACTIONS[event]}"
    )
