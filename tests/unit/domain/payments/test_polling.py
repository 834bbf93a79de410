"""Test the suggested wait between two requests for a payment's status."""

from __future__ import annotations

import pytest
from florin_server.domain.payments.payment import PaymentStatus
from florin_server.domain.payments.polling import compute_poll_ms

UNDECIDED, PROCESSING = PaymentStatus.REQUIRES_ACTION, PaymentStatus.PROCESSING


@pytest.mark.parametrize(
    ("settle_s", "poll_ms"),
    [(0, 250), (0.4, 250), (0.5, 250), (1, 500), (3.5, 1750), (4, 2000), (900, 2000), (None, 2000)],
)
def test_processing_payment_is_polled_twice_in_its_usual_time_within_bounds(settle_s, poll_ms):
    assert compute_poll_ms(PROCESSING, settle_s) == poll_ms


@pytest.mark.parametrize("settle_s", [0, 900, None])
def test_undecided_payment_is_polled_every_second_on_any_chain(settle_s):
    assert compute_poll_ms(UNDECIDED, settle_s) == 1000


@pytest.mark.parametrize("status", sorted(set(PaymentStatus) - {UNDECIDED, PROCESSING}))
def test_final_payment_is_not_polled(status):
    assert compute_poll_ms(status, 1) is None
