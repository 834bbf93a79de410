import itertools

import pytest
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments import state
from florin_server.domain.payments.payment import PaymentStatus
from florin_server.domain.payments.state import (
    CREATED_CAUSE,
    PAYMENT_TRANSITIONS,
    PaymentStateEvent,
    apply_event,
    is_transition,
)

PAIRS = list(itertools.product(PaymentStatus, PaymentStateEvent))
TABLE = {
    (status, event): after
    for event, row in PAYMENT_TRANSITIONS.rows.items()
    for status, after in row.items()
}
REFUSED = [pair for pair in PAIRS if pair not in TABLE]
CONFIRMS = [event for event in PaymentStateEvent if event.startswith("confirm_")] + [
    PaymentStateEvent.PAYER_DECLINED
]
SIMULATIONS = [event for event in PaymentStateEvent if event.startswith("simulate_")]


def _printed():
    """Return the table of the docstring by (status, event), with None for a dash."""
    rows = [line.split("|") for line in state.__doc__.splitlines() if line.count("|") == 6]
    header, _rule, *body = [[cell.strip() for cell in row] for row in rows]
    return {
        (PaymentStatus(column), PaymentStateEvent(row[0])): None
        if cell == "-"
        else PaymentStatus(cell)
        for row in body
        for column, cell in zip(header[1:], row[1:], strict=True)
    }


def _refusal(status, event):
    with pytest.raises(ApiError) as caught:
        apply_event(status, event)
    return caught.value


def test_the_printed_table_is_the_table():
    assert _printed() == {pair: TABLE.get(pair) for pair in PAIRS}


@pytest.mark.parametrize(("status", "event"), PAIRS)
def test_every_pair_steps_or_is_refused(status, event):
    if (status, event) in TABLE:
        assert apply_event(status, event) is TABLE[status, event]
    else:
        assert _refusal(status, event).code in {
            ErrorCode.INVALID_STATE,
            ErrorCode.PAYMENT_EXPIRED,
            ErrorCode.IDEMPOTENCY_CONFLICT,
        }


@pytest.mark.parametrize(("status", "event"), TABLE)
def test_a_final_status_is_never_left(status, event):
    if status.is_final:
        assert TABLE[status, event] is status


def test_nothing_returns_to_requires_action():
    sources = {
        status for (status, _), after in TABLE.items() if after is PaymentStatus.REQUIRES_ACTION
    }
    assert sources == {PaymentStatus.REQUIRES_ACTION}


def test_processing_ends_on_evidence_verdict_or_simulation_only():
    endings = {
        event
        for (status, event), after in TABLE.items()
        if status is PaymentStatus.PROCESSING and after is not status
    }
    assert endings == {
        PaymentStateEvent.EFFECT_FINAL,
        PaymentStateEvent.UNSPENDABLE,
        PaymentStateEvent.RELEASED,
        PaymentStateEvent.RETURNED,
        PaymentStateEvent.KEPT,
        PaymentStateEvent.SIMULATE_SUCCEEDED,
        PaymentStateEvent.SIMULATE_FAILED,
        PaymentStateEvent.SIMULATE_EXPIRED,
    }


@pytest.mark.parametrize(
    "status",
    [
        PaymentStatus.PROCESSING,
        PaymentStatus.SUCCEEDED,
        PaymentStatus.FAILED,
        PaymentStatus.EXPIRED,
    ],
)
def test_a_late_cancel_is_refused_in_the_words_that_wallets_search(status):
    error = _refusal(status, PaymentStateEvent.CANCEL)
    assert error.code is ErrorCode.INVALID_STATE
    assert error.message == f"Payment is {status.value} and cannot be cancelled"


def test_a_repeated_cancel_changes_nothing():
    assert apply_event(PaymentStatus.CANCELLED, PaymentStateEvent.CANCEL) is PaymentStatus.CANCELLED


CONFIRM_REFUSALS = {
    PaymentStatus.EXPIRED: (ErrorCode.PAYMENT_EXPIRED, "Payment expired"),
    PaymentStatus.CANCELLED: (
        ErrorCode.INVALID_STATE,
        "Payment is cancelled and cannot be confirmed",
    ),
    PaymentStatus.FAILED: (ErrorCode.INVALID_STATE, "Payment is failed and cannot be confirmed"),
    PaymentStatus.PROCESSING: (
        ErrorCode.IDEMPOTENCY_CONFLICT,
        "Payment is processing and bound to another confirmation",
    ),
    PaymentStatus.SUCCEEDED: (
        ErrorCode.IDEMPOTENCY_CONFLICT,
        "Payment is succeeded and bound to another confirmation",
    ),
}


@pytest.mark.parametrize(
    "event", [e for e in CONFIRMS if e is not PaymentStateEvent.CONFIRM_REPEATED]
)
@pytest.mark.parametrize("status", CONFIRM_REFUSALS)
def test_late_confirm_is_refused_with_the_code_of_its_status(status, event):
    error = _refusal(status, event)
    assert (error.code, error.message) == CONFIRM_REFUSALS[status]


@pytest.mark.parametrize("event", SIMULATIONS)
@pytest.mark.parametrize("status", [status for status in PaymentStatus if status.is_final])
def test_a_final_payment_simulates_its_own_outcome_only(status, event):
    if event == f"simulate_{status}":
        assert apply_event(status, event) is status
    else:
        assert _refusal(status, event).code is ErrorCode.INVALID_STATE


def test_a_payment_in_processing_cannot_be_simulated_as_cancelled():
    error = _refusal(PaymentStatus.PROCESSING, PaymentStateEvent.SIMULATE_CANCELLED)
    assert error.message == "Payment is processing and cannot be cancelled"


@pytest.mark.parametrize(("status", "event"), REFUSED)
def test_a_refusal_never_uses_a_searched_word_wrongly(status, event):
    message = _refusal(status, event).message
    assert "not found" not in message
    assert "insufficient" not in message
    if "expired" in message:
        assert status is PaymentStatus.EXPIRED
    if "cancelled" in message:
        about_cancelling = event in {PaymentStateEvent.CANCEL, PaymentStateEvent.SIMULATE_CANCELLED}
        assert about_cancelling or status is PaymentStatus.CANCELLED


@pytest.mark.parametrize("after", PaymentStatus)
@pytest.mark.parametrize(("status", "event"), PAIRS)
def test_recorded_transition_must_match_the_state_table(status, event, after):
    assert is_transition(status, event.value, after) is (TABLE.get((status, event)) is after)


def test_a_payment_begins_once_and_open():
    assert [status for status in PaymentStatus if is_transition(None, CREATED_CAUSE, status)] == [
        PaymentStatus.REQUIRES_ACTION
    ]
    assert not is_transition(None, PaymentStateEvent.CANCEL, PaymentStatus.REQUIRES_ACTION)
    assert not is_transition(
        PaymentStatus.REQUIRES_ACTION, CREATED_CAUSE, PaymentStatus.REQUIRES_ACTION
    )
    assert not is_transition(
        PaymentStatus.REQUIRES_ACTION, "unheard_of", PaymentStatus.REQUIRES_ACTION
    )
