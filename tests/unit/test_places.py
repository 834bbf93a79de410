"""Places of held answers of one kind, here and as other processes are told of them."""

from __future__ import annotations

import pytest
from florin_server.flows.limits.places import Places

# of 40 places, two processes tell each other of what they hold once it is five
MOST, SHARE = 40, 5


@pytest.fixture
def due() -> list[str]:
    """One entry for each time that others were to be told."""
    return []


@pytest.fixture
def places(due) -> Places:
    made = Places("address", MOST, lambda: None)
    made.due = lambda: due.append("due")
    made.among(2)
    return made


def taken(places, count, key="a"):
    return sum(places.take(key) for _ in range(count))


def told(places, *, known=True):
    """What others are told now, and hear."""
    changes = places.changes()
    places.told(changes, known=known)
    return changes


def test_without_a_limit_nothing_is_counted():
    off = Places("address", 0, lambda: None)
    assert taken(off, 1000) == 1000
    off.give_back("a")
    assert not off.counts


def test_one_alone_tells_nobody():
    alone = Places("address", MOST, lambda: None)
    assert alone.kind == "address"
    assert taken(alone, MOST + 1) == MOST
    assert (alone.shared(), alone.changes()) == ([], {})
    alone.among(1)
    assert (alone.shared(), alone.changes()) == ([], {})
    # who joins is told of what is held already, when somebody asks
    alone.among(2)
    alone.give_back("a")
    assert taken(alone, 2) == 1
    assert told(alone) == {"a": MOST}


def test_others_are_told_once_there_is_much(places, due):
    taken(places, SHARE - 1)
    assert (places.shared(), due) == ([], [])
    taken(places, 1)
    assert (places.shared(), due) == (["a"], ["due"])
    assert told(places) == {"a": SHARE}
    # and again once it is as much more
    taken(places, SHARE - 1)
    assert due == ["due"]
    taken(places, 1)
    assert due == ["due"] * 2
    # which is another key's affair
    taken(places, SHARE - 1, "b")
    assert due == ["due"] * 2
    assert places.shared() == ["a"]
    assert told(places) == {"a": 2 * SHARE}


def test_what_others_know_is_told_once(places):
    taken(places, SHARE)
    assert told(places) == {"a": SHARE}
    assert told(places) == {}
    taken(places, 1)
    assert told(places) == {"a": SHARE + 1}


def test_below_that_it_is_told_no_more(places):
    taken(places, SHARE)
    told(places)
    places.give_back("a")
    assert places.changes() == {"a": 0}
    # nobody heard of that, so that it is told again
    assert places.changes() == {"a": 0}
    assert told(places, known=False) == {"a": 0}
    assert (places.changes(), places.shared()) == ({}, [])


def test_while_it_is_told_it_is_open_what_others_know(places, due):
    taken(places, SHARE)
    first = places.changes()
    # what is taken meanwhile may be the first that they hear of it
    taken(places, 1)
    assert due == ["due"] * 2
    assert places.changes() == {"a": SHARE + 1}
    places.told(first, known=True)
    assert places.changes() == {"a": SHARE + 1}


def test_who_was_forgotten_tells_all_again(places):
    taken(places, SHARE)
    taken(places, SHARE, "b")
    told(places)
    places.told({}, known=False)
    assert places.changes() == {"a": SHARE, "b": SHARE}


def test_with_more_processes_each_tells_of_less(places):
    taken(places, 3, "a")
    taken(places, 2, "b")
    taken(places, 1, "c")
    assert places.shared() == []
    # of ten each has four places, and would tell of one, but never of less than two
    places.among(10)
    assert places.shared() == ["a", "b"]
    # nothing is looked for again while they are as many
    places.give_back("b")
    places.among(10)
    assert places.shared() == ["a", "b"]
    assert told(places) == {"a": 3}


def test_no_more_keys_are_told_than_there_is_room_for(places):
    for number in range(400):
        taken(places, SHARE, f"key {number}")
    assert len(places.shared()) == 250
    assert len(told(places)) == 250
    # one that has a place there keeps it
    taken(places, 1, "key 0")
    assert told(places) == {"key 0": SHARE + 1}
    places.among(4)
    assert len(places.shared()) == 250


def test_what_others_hold_is_taken(places):
    places.learn({"a": MOST - 2})
    assert taken(places, 5) == 2
    assert taken(places, 1, "b") == 1
