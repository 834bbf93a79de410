"""Where a payment can go from where it is: one table, and nothing else moves a payment.

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

A payment that is held stays processing: of the rows below it only released, returned and kept
apply to it, which are the operator's verdicts, and no simulation. Money that comes late is held,
returned and kept too, and changes nothing any more.

Elapsed time, an outage and a restart are no events: they change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.payments.payment import Status
from florin_server.domain.transitions import Transitions


class Event(StrEnum):
    """What can happen to a payment."""

    CONFIRM_ACCEPTED = "confirm_accepted"
    CONFIRM_REPEATED = "confirm_repeated"
    CONFIRM_MISMATCH = "confirm_mismatch"
    PAYER_DECLINED = "payer_declined"
    CONFIRM_REFUSED = "confirm_refused"
    CANCEL = "cancel"
    CLOCK = "clock"
    SEEN_ON_CHAIN = "seen_on_chain"
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


EVENTS: Mapping[Event, str] = {
    Event.CONFIRM_ACCEPTED: "a wallet confirmed, and what it signed fits the payment",
    Event.CONFIRM_REPEATED: "a confirm came that is equal to the one that is bound",
    Event.CONFIRM_MISMATCH: "a confirm carried something else than was to be signed",
    Event.PAYER_DECLINED: "the buyer declined in the wallet",
    Event.CONFIRM_REFUSED: "a confirm was unreadable or not valid: the payment stays payable",
    Event.CANCEL: "the merchant or the buyer called it off",
    Event.CLOCK: "its `expiresAt` was reached",
    Event.SEEN_ON_CHAIN: "it was paid without a confirm; late if the payment was over",
    Event.EFFECT_FINAL: "the money moved, at final depth",
    Event.UNSPENDABLE: "proven at final depth: the money can never move any more",
    Event.HELD: "the money moved, at final depth, and came from a blocked payer",
    Event.RELEASED: "the operator lets the merchant have held money",
    Event.RETURNED: "the operator sends held money back",
    Event.KEPT: "the operator keeps held money",
    Event.SIMULATE_SUCCEEDED: "a test payment was told to succeed",
    Event.SIMULATE_FAILED: "a test payment was told to fail",
    Event.SIMULATE_EXPIRED: "a test payment was told to expire",
    Event.SIMULATE_CANCELLED: "a test payment was told to be cancelled",
    Event.SIMULATE_STALL: "a test payment was told to hang in processing",
}

_OPEN, _BUSY = Status.REQUIRES_ACTION, Status.PROCESSING
_PAID, _FAILED, _EXPIRED, _CANCELLED = (
    Status.SUCCEEDED,
    Status.FAILED,
    Status.EXPIRED,
    Status.CANCELLED,
)
_FINAL = {status: status for status in Status if status.is_final}

PAYMENT: Transitions[Status, Event] = Transitions(
    {
        Event.CONFIRM_ACCEPTED: {_OPEN: _BUSY},
        Event.CONFIRM_REPEATED: {_BUSY: _BUSY, **_FINAL},
        Event.CONFIRM_MISMATCH: {_OPEN: _FAILED},
        Event.PAYER_DECLINED: {_OPEN: _FAILED},
        Event.CONFIRM_REFUSED: {_OPEN: _OPEN},
        Event.CANCEL: {_OPEN: _CANCELLED, _CANCELLED: _CANCELLED},
        Event.CLOCK: {_OPEN: _EXPIRED, _BUSY: _BUSY, **_FINAL},
        Event.SEEN_ON_CHAIN: {_OPEN: _BUSY, **_FINAL},
        Event.EFFECT_FINAL: {_BUSY: _PAID},
        Event.UNSPENDABLE: {_BUSY: _FAILED},
        Event.HELD: {_BUSY: _BUSY, **_FINAL},
        Event.RELEASED: {_BUSY: _PAID},
        Event.RETURNED: {_BUSY: _FAILED, **_FINAL},
        Event.KEPT: {_BUSY: _FAILED, **_FINAL},
        Event.SIMULATE_SUCCEEDED: {_OPEN: _PAID, _BUSY: _PAID, _PAID: _PAID},
        Event.SIMULATE_FAILED: {_OPEN: _FAILED, _BUSY: _FAILED, _FAILED: _FAILED},
        Event.SIMULATE_EXPIRED: {_OPEN: _EXPIRED, _BUSY: _EXPIRED, _EXPIRED: _EXPIRED},
        Event.SIMULATE_CANCELLED: {_OPEN: _CANCELLED, _CANCELLED: _CANCELLED},
        Event.SIMULATE_STALL: {_OPEN: _BUSY, _BUSY: _BUSY},
    }
)

# what the first change of a payment is written down under
CREATED = "created"

_EVENTS = frozenset(event.value for event in Event)
_CONFIRMS = frozenset(
    {
        Event.CONFIRM_ACCEPTED,
        Event.CONFIRM_REPEATED,
        Event.CONFIRM_MISMATCH,
        Event.PAYER_DECLINED,
        Event.CONFIRM_REFUSED,
    }
)
# how a message ends that says what is not possible
_DEEDS = {
    **dict.fromkeys(_CONFIRMS, "confirmed"),
    Event.CANCEL: "cancelled",
    Event.SEEN_ON_CHAIN: "started",
    Event.EFFECT_FINAL: "settled",
    Event.UNSPENDABLE: "written off",
    Event.HELD: "held",
    Event.RELEASED: "released",
    Event.RETURNED: "returned",
    Event.KEPT: "kept",
    Event.SIMULATE_SUCCEEDED: "simulated",
    Event.SIMULATE_FAILED: "simulated",
    Event.SIMULATE_EXPIRED: "simulated",
    Event.SIMULATE_CANCELLED: "cancelled",
    Event.SIMULATE_STALL: "simulated",
}


def step(status: Status, event: Event) -> Status:
    """Gives the status after an event; it may be the same.

    FlorinError where the table has a dash, in the words that wallets search for: payment_expired
    for a confirm of an expired payment, idempotency_conflict for one that another confirm was
    faster than, else invalid_state.
    """
    try:
        return PAYMENT.after(status, event)
    except ValueError:
        raise _refusal(status, event) from None


def is_step(before: Status | None, cause: str, after: Status) -> bool:
    """Tells whether a change that was written down is one that the table has.

    `cause` is an event, or CREATED for the first one, before which there was no status.
    """
    if before is None:
        return (cause, after) == (CREATED, _OPEN)
    return cause in _EVENTS and PAYMENT.rows[Event(cause)].get(before) is after


def _refusal(status: Status, event: Event) -> FlorinError:
    if event in _CONFIRMS and status is Status.EXPIRED:
        return FlorinError(Code.PAYMENT_EXPIRED)
    if event in _CONFIRMS and status in {Status.PROCESSING, Status.SUCCEEDED}:
        return FlorinError(
            Code.IDEMPOTENCY_CONFLICT,
            f"Payment is {status} and bound to another confirmation",
        )
    return FlorinError(Code.INVALID_STATE, f"Payment is {status} and cannot be {_DEEDS[event]}")
