"""What is told to other processes: all of it in the end, and what is much of a budget first."""

from __future__ import annotations

import pytest
from florin_server.domain.tally import Tally, share_of
from hypothesis import given
from hypothesis import strategies as st


def tally(share: int = 3, keys_max: int = 100) -> Tally:
    made = Tally(keys_max)
    made.share = share
    return made


@pytest.mark.parametrize(
    ("most", "processes", "share"),
    [
        (600, 1, 0),
        (600, 2, 75),
        (600, 8, 18),
        (20, 2, 2),
        # what is done once or twice is not told, however many they are
        (20, 16, 2),
        (3, 100, 2),
        (2, 2, 2),
        (1, 2, 1),
        # what is off stays off
        (0, 2, 0),
    ],
)
def test_a_quarter_of_a_part_is_told(most, processes, share):
    assert share_of(most, processes) == share


@given(st.integers(1, 10_000), st.integers(2, 64))
def test_what_all_together_do_not_tell_is_a_quarter_of_the_limit_or_two_each(most, processes):
    assert processes * share_of(most, processes) <= max(most / 4, 2 * processes)


def test_a_key_is_told_once_it_comes_to_the_share():
    told = tally()
    assert [told.add("a") for _ in range(4)] == [False, False, True, True]
    assert not told.add("b")
    assert list(told.due()) == [(4 / 3, "a")]
    assert (told.count("a"), told.count("b"), told.count("c")) == (4, 1, 0)


def test_what_came_while_it_was_told_is_told_next():
    told = tally()
    for _ in range(5):
        told.add("a")
    assert told.told("a", 4) == 1
    assert list(told.due()) == []
    assert [told.add("a"), told.add("a")] == [False, True]
    assert told.told("a", 3) == 0
    assert len(told) == 0


def test_as_much_again_as_was_told_is_due_still():
    told = tally()
    for _ in range(7):
        told.add("a")
    assert told.told("a", 3) == 4
    assert list(told.due()) == [(4 / 3, "a")]


def test_what_is_taken_back_is_not_told_and_made_good_if_it_was():
    told = tally()
    told.add("a")
    told.take_back("a")
    assert [told.add("a"), told.add("a"), told.add("a")] == [False, False, True]
    told.told("a", 3)
    told.take_back("a")
    told.take_back("a")
    assert told.count("a") == -2
    assert [told.add("a") for _ in range(5)] == [False, False, False, False, True]


def test_memory_is_bounded_and_the_oldest_is_forgotten():
    told = tally(share=1, keys_max=3)
    for key in "abcd":
        told.add(key)
    assert (len(told), told.count("a")) == (3, 0)
    assert [key for _, key in told.due()] == ["b", "c", "d"]
    # its count is gone, and what was told of it meanwhile is not owed to it
    assert told.told("a", 1) == 0
    told.take_back("e")
    assert len(told) == 3


def test_what_is_just_the_share_after_it_was_told_is_due_still():
    told = tally()
    for _ in range(6):
        told.add("a")
    assert told.told("a", 3) == 3
    assert list(told.due()) == [(1.0, "a")]


def test_a_key_may_be_told_that_was_not_due():
    told = tally()
    told.add("a")
    assert told.told("a", 1) == 0


def test_nobody_is_to_be_told_in_the_beginning():
    assert Tally(100).share == 0


def test_who_is_alone_counts_nothing_any_more():
    told = tally(share=1)
    told.add("a")
    told.share = 0
    assert (len(told), list(told.due())) == (0, [])


def test_no_more_are_due_than_can_be_looked_through():
    told = tally(share=1, keys_max=30_000)
    for number in range(20_000):
        told.add(str(number))
    assert len(list(told.due())) == 10_000
    told.told("7", 1)
    told.add("15000")
    assert ("15000" in {key for _, key in told.due()}, told.count("15000")) == (True, 2)
