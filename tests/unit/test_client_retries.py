"""When the Python client asks again: the decision alone, with a clock that is moved."""

from __future__ import annotations

import random

import grpc
import pytest
from florin_client import FlorinError, Retries
from florin_client.errors import Told
from florin_client.retries import Attempts

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def failed(status=UNAVAILABLE, after=None):
    return FlorinError(Told("no", status=status, retry_after_s=after))


def attempts(clock, *, timeout=None, stream=False, retries=None):
    return Attempts(retries or Retries(), timeout, clock, random.Random(7), stream)


def test_delays_double_up_to_a_bound_and_none_is_like_another():
    clock = Clock()
    one, other = attempts(clock), attempts(clock)
    other.chance.seed(8)
    delays = [one.delay_s(failed()) for _ in range(8)]
    usual = [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
    assert all(most / 2 <= took <= most for took, most in zip(delays, usual, strict=True))
    assert [other.delay_s(failed()) for _ in range(8)] != delays


def test_it_gives_up_when_its_patience_is_over():
    clock = Clock()
    one = attempts(clock, retries=Retries(patience_s=10))
    one.delay_s(failed())
    clock.now += 9.9
    with pytest.raises(FlorinError):
        one.delay_s(failed())


def test_it_gives_up_before_its_deadline_passes():
    clock = Clock()
    one = attempts(clock, timeout=1.0)
    one.delay_s(failed())
    clock.now += 0.9
    assert one.left_s() == pytest.approx(0.1)
    with pytest.raises(FlorinError):
        one.delay_s(failed())
    clock.now += 5
    assert one.left_s() == 0


def test_it_waits_as_long_as_the_server_says_if_it_can():
    clock = Clock()
    assert attempts(clock).delay_s(failed(EXHAUSTED, after=7)) == 7
    assert attempts(clock).delay_s(failed(UNAVAILABLE, after=3)) == 3
    with pytest.raises(FlorinError):
        attempts(clock, timeout=5).delay_s(failed(EXHAUSTED, after=7))


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
def test_a_verdict_is_not_asked_for_again(error):
    with pytest.raises(FlorinError) as caught:
        attempts(Clock()).delay_s(error)
    assert caught.value is error


def test_without_patience_nothing_is_asked_again():
    with pytest.raises(FlorinError):
        attempts(Clock(), retries=Retries(patience_s=0)).delay_s(failed())


def test_a_stream_is_patient_from_its_last_message_on():
    clock = Clock()
    one = attempts(clock, stream=True, retries=Retries(stream_patience_s=60))
    one.delay_s(failed())
    clock.now += 50
    late = one.delay_s(failed())
    one.answered()
    clock.now += 50
    assert one.delay_s(failed()) <= 0.2 < late * 2
    clock.now += 59.9
    with pytest.raises(FlorinError):
        one.delay_s(failed())


def test_a_stream_whose_server_is_stopped_goes_on():
    assert attempts(Clock(), stream=True).delay_s(failed(grpc.StatusCode.CANCELLED)) > 0
