"""Test the pace of a chain and of its payments, followed over days."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import pairwise

import pytest
from florin_server.domain.settlement.pace import ChainPace, follow_pace, format_pace
from florin_server.domain.settlement.settle_times import (
    SettleTimes,
    compute_promise_s,
    decode_times,
    round_promise,
)
from florin_server.money.settlement.worker.missed_blocks import count_read_blocks

MINUTE_US = 60_000_000
DAY_MINUTES = 24 * 60


def followed(pace: ChainPace | None, measured_s: float, minutes: int, start: int = 0) -> ChainPace:
    """Follow the pace with one look per minute."""
    for minute in range(start, start + minutes):
        pace = follow_pace(pace, measured_s, minute * MINUTE_US)
    assert pace is not None
    return pace


@pytest.mark.parametrize("measured_s", [0.2, 1.0, 4.0, 20.0])
def test_half_or_double_is_a_change_after_ten_looks_and_usual_after_a_day(measured_s):
    pace = followed(None, 2.0, 30)
    assert not pace.is_changed
    pace = followed(pace, measured_s, 9, 30)
    assert not pace.is_changed
    pace = followed(pace, measured_s, 1, 39)
    assert pace.is_changed
    assert (pace.usual_s, pace.measured_s) == (2.0, measured_s)
    # the next process knows the pace
    pace = ChainPace(**json.loads(json.dumps(asdict(pace))))
    pace = followed(pace, measured_s, DAY_MINUTES - 10, 40)
    assert pace.is_changed
    pace = followed(pace, measured_s, 2, DAY_MINUTES + 30)
    assert not pace.is_changed
    assert pace.usual_s == measured_s


def test_change_that_goes_back_ends_at_once():
    pace = followed(followed(None, 2.0, 5), 0.2, 60, 5)
    assert pace.is_changed
    assert not follow_pace(pace, 1.9, 66 * MINUTE_US).is_changed


def test_change_does_not_come_and_go_at_its_bound():
    pace = followed(followed(None, 2.0, 5), 0.99, 20, 5)
    states = []
    for minute in range(25, 45):
        pace = follow_pace(pace, 0.99 if minute % 2 else 1.05, minute * MINUTE_US)
        states.append(pace.is_changed)
    assert all(states)


def test_halt_of_a_few_looks_is_no_change():
    pace = followed(None, 2.0, 5)
    for minute in range(5, 60):
        pace = follow_pace(pace, 60.0 if minute % 9 else 2.0, minute * MINUTE_US)
        assert not pace.is_changed


def test_usual_pace_follows_slowly():
    pace = followed(None, 2.0, 1)
    paces = [pace]
    for hour in range(1, 49):
        pace = follow_pace(pace, pace.usual_s * 1.4, hour * 60 * MINUTE_US)
        paces.append(pace)
    assert all(
        1 < later.usual_s / each_pace.usual_s <= 1.0201 for each_pace, later in pairwise(paces)
    )
    # after a long break a look moves the pace no farther than ten minutes do
    later = follow_pace(paces[0], 2.8, 10_000 * 60 * MINUTE_US)
    assert later.usual_s == pytest.approx(2.0 * (1 + 0.02 / 6))


def test_pace_is_written_in_two_digits():
    assert [format_pace(item) for item in (0.2, 0.251, 2.0, 12.2)] == [
        "0.2 s",
        "0.25 s",
        "2 s",
        "12 s",
    ]


def times(*seconds: float) -> SettleTimes:
    found_times = SettleTimes()
    for n, second in enumerate(seconds):
        found_times = found_times.add(second, f"payer {n}", f"merchant {n}")
    return found_times


def test_promise_is_the_median_of_the_newest_payments():
    assert times(1, 2, 3, 4).median_s is None
    assert times(30, 1, 2, 3, 4).median_s == 3
    assert times(*range(100)).median_s == 84
    assert len(times(*range(100)).samples) == 31


def test_buyer_with_many_slow_payments_moves_no_promise():
    found_times = times(*[10.0] * 20)
    for n in range(500):
        found_times = found_times.add(3600, "slow buyer", f"merchant {n}")
    assert found_times.median_s == 10
    assert len(found_times.samples) <= 31


def test_merchant_with_many_slow_payments_does_not_change_the_median():
    found_times = times(*[10.0] * 20)
    for n in range(500):
        found_times = found_times.add(3600, f"buyer {n}", "slow merchant")
    assert found_times.median_s == 10


def test_promise_stays_within_a_tenth_and_ten_times_of_the_settings():
    assert compute_promise_s(12, 12, None) == 12
    assert compute_promise_s(12, 12, 10.4) == pytest.approx(10.4)
    assert compute_promise_s(12, 12, 10**6) == 120
    assert compute_promise_s(12, 12, 0) == pytest.approx(1.2)
    # a payment method with one more step keeps its share
    assert compute_promise_s(18, 12, 6) == pytest.approx(9)
    assert compute_promise_s(0, 0, 100) == 0
    assert [round_promise(item) for item in (0, 0.2, 1, 10.1)] == [0, 1, 1, 11]


def test_settle_times_are_encoded_as_a_short_text():
    found_times = times(*[10_000.0] * 100)
    assert decode_times(found_times.encode()) == found_times
    assert len(found_times.encode()) < 2000
    assert decode_times(None) == SettleTimes()


def test_blocks_of_a_day_are_read_within_bounds():
    assert count_read_blocks(None) == 10_000
    assert count_read_blocks(12.0) == 10_000
    assert count_read_blocks(2.0) == 43_200
    assert count_read_blocks(0.2) == 100_000
