"""The timeline of a payment: its changes and those of its refunds, the newest first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from florin.v1 import merchant_pb2, payment_pb2, refund_pb2, trace_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from florin_server.money.payments.service.checkout import (
    ConfirmationProgress,
    find_payment,
    find_progress,
)
from florin_server.web.console.pills import StatePill
from florin_server.web.console.site import ConsoleRequest
from florin_server.web.console.view import Formatter

# signs of causes whose state alone would not say what happened; "timeline." and the cause is the
# key of their title
TITLE_SIGNS: Final[Mapping[str, str]] = {
    "created": "plus",
    "confirm_accepted": "wallet",
    "confirm_repeated": "again",
    "confirm_mismatch": "cross",
    "confirm_refused": "info",
    "payer_declined": "ban",
    "seen_on_chain": "eye",
    "deposit_seen": "eye",
    "deposit_returned": "undo",
    "deposit_claimed": "user",
    "held": "hold",
    "released": "check",
    "returned": "undo",
    "kept": "hold",
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


async def find_confirming(
    console_request: ConsoleRequest, detail: merchant_pb2.PaymentDetail
) -> ConfirmationProgress | None:
    """Return the confirmations of a payment that the caller may see; None where none are known."""
    # only such a payment has them: pages of others need not read it once more
    if detail.status != payment_pb2.PAYMENT_STATUS_PROCESSING:
        return None
    app = console_request.console.app
    payment = await find_payment(app, detail.payment_id)
    return None if payment is None else find_progress(app, payment)


def describe_duration(formatter: Formatter, events: Sequence[payment_pb2.PaymentEvent]) -> str:
    """Return the time from the buyer's confirmation until payment, or until now; empty before."""
    begin_ms = end_ms = None
    for event in events:
        if event.cause == "confirm_accepted":
            begin_ms, end_ms = event.at.ToMilliseconds(), None
        elif event.status == payment_pb2.PAYMENT_STATUS_SUCCEEDED and end_ms is None:
            end_ms = event.at.ToMilliseconds()
    if begin_ms is None:
        return ""
    if end_ms is not None:
        return _say_seconds(formatter, "timeline.paid_after", end_ms - begin_ms)
    if events[-1].status != payment_pb2.PAYMENT_STATUS_PROCESSING:
        return ""
    return _say_seconds(formatter, "timeline.since", formatter.now_us() // 1_000 - begin_ms)


def _say_seconds(formatter: Formatter, key: str, duration_ms: int) -> str:
    seconds = max(0, duration_ms) / 1_000
    # tenths matter for chains that take a moment only
    number = formatter.decimal(seconds) if seconds < 10 else formatter.number(round(seconds))
    return formatter.texts.plain(key, seconds=number)


def _make_step(formatter: Formatter, event: payment_pb2.PaymentEvent) -> TimelineStep:
    state = formatter.pill("payment", event.status)
    is_named = event.cause in TITLE_SIGNS
    title = formatter.texts.plain(f"timeline.{event.cause}") if is_named else state.word
    sign = TITLE_SIGNS.get(event.cause, state.sign)
    return TimelineStep(
        at=event.at,
        state=replace(state, sign=sign),
        title=title,
        text=formatter.cause(event.cause),
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
                formatter.word("payment.refunding"),
                formatter.texts.plain("timeline.refund_requested"),
                f"{amount}{f': {refund.reason}' if refund.reason else ''}",
            )
        )
        if refund.HasField("completed_at"):
            state = formatter.pill("refund", refund.status)
            key = "timeline.refund_failed" if state.look == "bad" else "timeline.refund_sent"
            text = formatter.texts.plain(key, amount=amount)
            steps.append(TimelineStep(refund.completed_at, state, state.word, text))
    return steps


def _sort(steps: list[TimelineStep]) -> list[TimelineStep]:
    """Return the newest first; steps of one moment in reverse order of their list."""
    return sorted(steps, key=lambda step: step.at.ToNanoseconds())[::-1]
