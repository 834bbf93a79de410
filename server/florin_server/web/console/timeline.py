"""The timeline of a payment: its changes and those of its refunds, the newest first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from florin.v1 import payment_pb2, refund_pb2, trace_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from florin_server.web.console.pills import StatePill, find_pill
from florin_server.web.console.view import Formatter

# titles of causes whose state alone would not say what happened
_TITLES: Final[Mapping[str, tuple[str, str]]] = {
    "created": ("Created", "plus"),
    "confirm_accepted": ("Confirmed by the buyer", "wallet"),
    "confirm_repeated": ("Confirmation repeated", "again"),
    "confirm_mismatch": ("Wrong confirmation", "cross"),
    "confirm_refused": ("Confirmation refused", "info"),
    "payer_declined": ("Declined by the buyer", "ban"),
    "seen_on_chain": ("Seen on chain", "eye"),
    "held": ("Held", "hold"),
    "released": ("Released", "check"),
    "returned": ("Returned", "undo"),
    "kept": ("Kept", "hold"),
}


@dataclass(frozen=True, slots=True)
class TimelineStep:
    """A change: `state` colors its sign, `detail` and `request_id` are shown on demand."""

    at: Timestamp
    state: StatePill
    title: str
    text: str
    request_id: str = ""
    detail: str = ""


def list_steps(
    formatter: Formatter,
    events: Iterable[payment_pb2.PaymentEvent],
    refunds: Sequence[refund_pb2.Refund],
) -> list[TimelineStep]:
    """Return the steps of a payment as its merchant sees it."""
    steps = [_make_step(formatter, event) for event in events]
    return _sort([*steps, *_list_refund_steps(formatter, refunds)])


def list_traced_steps(
    formatter: Formatter,
    events: Iterable[trace_pb2.TracedEvent],
    refunds: Sequence[refund_pb2.Refund],
) -> list[TimelineStep]:
    """Return the steps of a payment with the details that only the operator sees."""
    steps = [
        replace(_make_step(formatter, traced.event), detail=traced.detail_json) for traced in events
    ]
    return _sort([*steps, *_list_refund_steps(formatter, refunds)])


def _make_step(formatter: Formatter, event: payment_pb2.PaymentEvent) -> TimelineStep:
    state = formatter.pill("payment", event.status)
    title, sign = _TITLES.get(event.cause, (state.word, state.sign))
    text = formatter.cause(event.cause)
    return TimelineStep(
        at=event.at,
        state=replace(state, sign=sign),
        title=title,
        text=f"{text[:1].upper()}{text[1:]}.",
        request_id=event.request_id,
    )


def _list_refund_steps(
    formatter: Formatter, refunds: Sequence[refund_pb2.Refund]
) -> list[TimelineStep]:
    steps = []
    for refund in refunds:
        amount = formatter.amount(refund.amount)
        steps.append(
            TimelineStep(
                refund.created_at,
                find_pill("refunding"),
                "Refund requested",
                f"{amount}{f': {refund.reason}' if refund.reason else ''}",
            )
        )
        if refund.HasField("completed_at"):
            state = formatter.pill("refund", refund.status)
            text = f"{amount} returned." if state.look != "bad" else f"{amount} cannot be sent."
            steps.append(TimelineStep(refund.completed_at, state, state.word, text))
    return steps


def _sort(steps: list[TimelineStep]) -> list[TimelineStep]:
    """Return the newest first; steps of one moment in reverse order of their list."""
    return sorted(steps, key=lambda step: step.at.ToNanoseconds())[::-1]
