"""Test counts for other processes: all are published in the end, the largest shares first."""

from __future__ import annotations

import pytest
from florin_server.domain.tally import PendingCounts, compute_threshold
from hypothesis import given
from hypothesis import strategies as st


def tally(share: int = 3, keys_max: int = 100) -> PendingCounts:
    counts = PendingCounts(keys_max)
    counts.threshold = share
    return counts


@pytest.mark.parametrize(
    ("most", "processes", "share"),
    [
        (600, 1, 0),
        (600, 2, 75),
        (600, 8, 18),
        (20, 2, 2),
        # a call made once or twice is not published, however many processes there are
        (20, 16, 2),
        (3, 100, 2),
        (2, 2, 2),
        (1, 2, 1),
        # a limit that is off stays off
        (0, 2, 0),
    ],
)
def test_threshold_is_a_quarter_of_the_share_of_a_process(most, processes, share):
    assert compute_threshold(most, processes) == share


@given(st.integers(1, 10_000), st.integers(2, 64))
def test_unpublished_total_is_at_most_a_quarter_of_the_limit_or_two_each(most, processes):
    assert processes * compute_threshold(most, processes) <= max(most / 4, 2 * processes)


def test_key_is_due_once_it_reaches_the_share():
    counts = tally()
    assert [counts.add("a") for _ in range(4)] == [False, False, True, True]
    assert not counts.add("b")
    assert list(counts.list_due()) == [(4 / 3, "a")]
    assert (counts.get_count("a"), counts.get_count("b"), counts.get_count("c")) == (4, 1, 0)


def test_counts_during_a_publish_are_due_next():
    counts = tally()
    for _ in range(5):
        counts.add("a")
    assert counts.mark_reported("a", 4) == 1
    assert list(counts.list_due()) == []
    assert [counts.add("a"), counts.add("a")] == [False, True]
    assert counts.mark_reported("a", 3) == 0
    assert len(counts) == 0


def test_remainder_above_the_share_stays_due():
    counts = tally()
    for _ in range(7):
        counts.add("a")
    assert counts.mark_reported("a", 3) == 4
    assert list(counts.list_due()) == [(4 / 3, "a")]


def test_returned_calls_are_unpublished_or_deducted_later():
    counts = tally()
    counts.add("a")
    counts.release("a")
    assert [counts.add("a"), counts.add("a"), counts.add("a")] == [False, False, True]
    counts.mark_reported("a", 3)
    counts.release("a")
    counts.release("a")
    assert counts.get_count("a") == -2
    assert [counts.add("a") for _ in range(5)] == [False, False, False, False, True]


def test_memory_is_bounded_and_the_oldest_is_forgotten():
    counts = tally(share=1, keys_max=3)
    for key in "abcd":
        counts.add(key)
    assert (len(counts), counts.get_count("a")) == (3, 0)
    assert [key for _, key in counts.list_due()] == ["b", "c", "d"]
    # its count is gone, and its published calls are not owed to it
    assert counts.mark_reported("a", 1) == 0
    counts.release("e")
    assert len(counts) == 3


def test_remainder_equal_to_the_share_stays_due():
    counts = tally()
    for _ in range(6):
        counts.add("a")
    assert counts.mark_reported("a", 3) == 3
    assert list(counts.list_due()) == [(1.0, "a")]


def test_key_may_be_published_before_it_is_due():
    counts = tally()
    counts.add("a")
    assert counts.mark_reported("a", 1) == 0


def test_initial_share_is_zero():
    assert PendingCounts(100).threshold == 0


def test_single_process_has_no_pending_counts():
    counts = tally(share=1)
    counts.add("a")
    counts.threshold = 0
    assert (len(counts), list(counts.list_due())) == (0, [])


def test_no_more_are_due_than_can_be_looked_through():
    counts = tally(share=1, keys_max=30_000)
    for number in range(20_000):
        counts.add(str(number))
    assert len(list(counts.list_due())) == 10_000
    counts.mark_reported("7", 1)
    counts.add("15000")
    assert ("15000" in {key for _, key in counts.list_due()}, counts.get_count("15000")) == (
        True,
        2,
    )
