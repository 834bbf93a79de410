"""Test when the Python client retries: the decision alone, with a test clock."""

from __future__ import annotations

import random

import grpc
import pytest
from florin_client import FlorinError, Retries
from florin_client.errors import ErrorInfo
from florin_client.retries import RetryState

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def failed(status=UNAVAILABLE, after=None):
    return FlorinError(ErrorInfo("no", status=status, retry_after_s=after))


def attempts(clock, *, timeout=None, stream=False, retries=None):
    return RetryState(retries or Retries(), timeout, clock, random.Random(7), stream)


def test_delays_double_up_to_a_bound_and_none_is_like_another():
    clock = Clock()
    item, other = attempts(clock), attempts(clock)
    other.rng.seed(8)
    delays = [item.get_retry_delay_s(failed()) for _ in range(8)]
    usual = [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
    assert all(most / 2 <= took <= most for took, most in zip(delays, usual, strict=True))
    assert [other.get_retry_delay_s(failed()) for _ in range(8)] != delays


def test_it_gives_up_when_its_patience_is_over():
    clock = Clock()
    item = attempts(clock, retries=Retries(patience_s=10))
    item.get_retry_delay_s(failed())
    clock.now += 9.9
    with pytest.raises(FlorinError):
        item.get_retry_delay_s(failed())


def test_it_gives_up_before_its_deadline_passes():
    clock = Clock()
    item = attempts(clock, timeout=1.0)
    item.get_retry_delay_s(failed())
    clock.now += 0.9
    assert item.get_remaining_s() == pytest.approx(0.1)
    with pytest.raises(FlorinError):
        item.get_retry_delay_s(failed())
    clock.now += 5
    assert item.get_remaining_s() == 0


def test_it_waits_as_long_as_the_server_says_if_it_can():
    clock = Clock()
    assert attempts(clock).get_retry_delay_s(failed(EXHAUSTED, after=7)) == 7
    assert attempts(clock).get_retry_delay_s(failed(UNAVAILABLE, after=3)) == 3
    with pytest.raises(FlorinError):
        attempts(clock, timeout=5).get_retry_delay_s(failed(EXHAUSTED, after=7))


@pytest.mark.parametrize(
    "error",
    [
        failed(EXHAUSTED),
        failed(grpc.StatusCode.DEADLINE_EXCEEDED),
        failed(grpc.StatusCode.ABORTED, after=1),
        failed(grpc.StatusCode.INVALID_ARGUMENT),
        failed(grpc.StatusCode.INTERNAL),
        failed(grpc.StatusCode.CANCELLED),
    ],
)
def test_final_error_is_not_retried(error):
    with pytest.raises(FlorinError) as caught:
        attempts(Clock()).get_retry_delay_s(error)
    assert caught.value is error


def test_zero_patience_disables_retries():
    with pytest.raises(FlorinError):
        attempts(Clock(), retries=Retries(patience_s=0)).get_retry_delay_s(failed())


def test_a_stream_is_patient_from_its_last_message_on():
    clock = Clock()
    item = attempts(clock, stream=True, retries=Retries(stream_patience_s=60))
    item.get_retry_delay_s(failed())
    clock.now += 50
    late = item.get_retry_delay_s(failed())
    item.record_response()
    clock.now += 50
    assert item.get_retry_delay_s(failed()) <= 0.2 < late * 2
    clock.now += 59.9
    with pytest.raises(FlorinError):
        item.get_retry_delay_s(failed())


def test_stream_of_a_stopped_server_is_retried():
    assert attempts(Clock(), stream=True).get_retry_delay_s(failed(grpc.StatusCode.CANCELLED)) > 0
