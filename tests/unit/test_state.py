import itertools

import pytest
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.payments import state
from florin_server.domain.payments.payment import Status
from florin_server.domain.payments.state import CREATED, PAYMENT, Event, is_step, step

PAIRS = list(itertools.product(Status, Event))
TABLE = {
    (status, event): after for event, row in PAYMENT.rows.items() for status, after in row.items()
}
REFUSED = [pair for pair in PAIRS if pair not in TABLE]
CONFIRMS = [event for event in Event if event.startswith("confirm_")] + [Event.PAYER_DECLINED]
SIMULATIONS = [event for event in Event if event.startswith("simulate_")]


def _printed():
    """The table of the docstring, by (status, event); None for a dash."""
    rows = [line.split("|") for line in state.__doc__.splitlines() if line.count("|") == 6]
    header, _rule, *body = [[cell.strip() for cell in row] for row in rows]
    return {
        (Status(column), Event(row[0])): None if cell == "-" else Status(cell)
        for row in body
        for column, cell in zip(header[1:], row[1:], strict=True)
    }


def _refusal(status, event):
    with pytest.raises(FlorinError) as caught:
        step(status, event)
    return caught.value


def test_the_printed_table_is_the_table():
    assert _printed() == {pair: TABLE.get(pair) for pair in PAIRS}


@pytest.mark.parametrize(("status", "event"), PAIRS)
def test_every_pair_steps_or_is_refused(status, event):
    if (status, event) in TABLE:
        assert step(status, event) is TABLE[status, event]
    else:
        assert _refusal(status, event).code in {
            Code.INVALID_STATE,
            Code.PAYMENT_EXPIRED,
            Code.IDEMPOTENCY_CONFLICT,
        }


@pytest.mark.parametrize(("status", "event"), TABLE)
def test_a_final_status_is_never_left(status, event):
    if status.is_final:
        assert TABLE[status, event] is status


def test_nothing_returns_to_requires_action():
    sources = {status for (status, _), after in TABLE.items() if after is Status.REQUIRES_ACTION}
    assert sources == {Status.REQUIRES_ACTION}


def test_processing_ends_on_evidence_verdict_or_simulation_only():
    endings = {
        event
        for (status, event), after in TABLE.items()
        if status is Status.PROCESSING and after is not status
    }
    assert endings == {
        Event.EFFECT_FINAL,
        Event.UNSPENDABLE,
        Event.RELEASED,
        Event.RETURNED,
        Event.KEPT,
        Event.SIMULATE_SUCCEEDED,
        Event.SIMULATE_FAILED,
        Event.SIMULATE_EXPIRED,
    }


@pytest.mark.parametrize(
    "status", [Status.PROCESSING, Status.SUCCEEDED, Status.FAILED, Status.EXPIRED]
)
def test_a_late_cancel_is_refused_in_the_words_that_wallets_search(status):
    error = _refusal(status, Event.CANCEL)
    assert error.code is Code.INVALID_STATE
    assert error.message == f"Payment is {status.value} and cannot be cancelled"


def test_a_repeated_cancel_changes_nothing():
    assert step(Status.CANCELLED, Event.CANCEL) is Status.CANCELLED


CONFIRM_REFUSALS = {
    Status.EXPIRED: (Code.PAYMENT_EXPIRED, "Payment expired"),
    Status.CANCELLED: (Code.INVALID_STATE, "Payment is cancelled and cannot be confirmed"),
    Status.FAILED: (Code.INVALID_STATE, "Payment is failed and cannot be confirmed"),
    Status.PROCESSING: (
        Code.IDEMPOTENCY_CONFLICT,
        "Payment is processing and bound to another confirmation",
    ),
    Status.SUCCEEDED: (
        Code.IDEMPOTENCY_CONFLICT,
        "Payment is succeeded and bound to another confirmation",
    ),
}


@pytest.mark.parametrize("event", [e for e in CONFIRMS if e is not Event.CONFIRM_REPEATED])
@pytest.mark.parametrize("status", CONFIRM_REFUSALS)
def test_a_late_confirm_is_told_why(status, event):
    error = _refusal(status, event)
    assert (error.code, error.message) == CONFIRM_REFUSALS[status]


@pytest.mark.parametrize("event", SIMULATIONS)
@pytest.mark.parametrize("status", [status for status in Status if status.is_final])
def test_a_final_payment_simulates_its_own_outcome_only(status, event):
    if event == f"simulate_{status}":
        assert step(status, event) is status
    else:
        assert _refusal(status, event).code is Code.INVALID_STATE


def test_a_payment_in_processing_cannot_be_simulated_as_cancelled():
    error = _refusal(Status.PROCESSING, Event.SIMULATE_CANCELLED)
    assert error.message == "Payment is processing and cannot be cancelled"


@pytest.mark.parametrize(("status", "event"), REFUSED)
def test_a_refusal_never_uses_a_searched_word_wrongly(status, event):
    message = _refusal(status, event).message
    assert "not found" not in message
    assert "insufficient" not in message
    if "expired" in message:
        assert status is Status.EXPIRED
    if "cancelled" in message:
        about_cancelling = event in {Event.CANCEL, Event.SIMULATE_CANCELLED}
        assert about_cancelling or status is Status.CANCELLED


@pytest.mark.parametrize("after", Status)
@pytest.mark.parametrize(("status", "event"), PAIRS)
def test_a_written_step_is_one_of_the_table(status, event, after):
    assert is_step(status, event.value, after) is (TABLE.get((status, event)) is after)


def test_a_payment_begins_once_and_open():
    assert [one for one in Status if is_step(None, CREATED, one)] == [Status.REQUIRES_ACTION]
    assert not is_step(None, Event.CANCEL, Status.REQUIRES_ACTION)
    assert not is_step(Status.REQUIRES_ACTION, CREATED, Status.REQUIRES_ACTION)
    assert not is_step(Status.REQUIRES_ACTION, "unheard_of", Status.REQUIRES_ACTION)
