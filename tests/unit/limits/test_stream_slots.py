"""Test stream slots of one kind, in this process and as other processes learn of them."""

from __future__ import annotations

import pytest
from florin_server.limits.service.places import StreamSlots

# of 40 slots, two processes report a key's slots from five on
MOST, SHARE = 40, 5


@pytest.fixture
def due() -> list[str]:
    """Return a list with one entry for each time that others were to be notified."""
    return []


@pytest.fixture
def places(due) -> StreamSlots:
    slots = StreamSlots("address", MOST, lambda: None)
    slots.on_due = lambda: due.append("due")
    slots.set_process_count(2)
    return slots


def taken(places, count, key="a"):
    return sum(places.take(key) for _ in range(count))


def publish_changes(places, *, is_known=True):
    """Publish the changes, and confirm that others received them."""
    changes = places.take_changes()
    places.record_reported(changes, was_known=is_known)
    return changes


def test_without_a_limit_nothing_is_counted():
    off = StreamSlots("address", 0, lambda: None)
    assert taken(off, 1000) == 1000
    off.release("a")
    assert not off.counts


def test_single_process_publishes_no_slots():
    alone = StreamSlots("address", MOST, lambda: None)
    assert alone.kind == "address"
    assert taken(alone, MOST + 1) == MOST
    assert (alone.list_shared_keys(), alone.take_changes()) == ([], {})
    alone.set_process_count(1)
    assert (alone.list_shared_keys(), alone.take_changes()) == ([], {})
    # a process that joins learns of older slots once the key is used again
    alone.set_process_count(2)
    alone.release("a")
    assert taken(alone, 2) == 1
    assert publish_changes(alone) == {"a": MOST}


def test_slots_are_published_once_they_reach_the_share(places, due):
    taken(places, SHARE - 1)
    assert (places.list_shared_keys(), due) == ([], [])
    taken(places, 1)
    assert (places.list_shared_keys(), due) == (["a"], ["due"])
    assert publish_changes(places) == {"a": SHARE}
    # and again after as many more
    taken(places, SHARE - 1)
    assert due == ["due"]
    taken(places, 1)
    assert due == ["due"] * 2
    # the slots of another key count separately
    taken(places, SHARE - 1, "b")
    assert due == ["due"] * 2
    assert places.list_shared_keys() == ["a"]
    assert publish_changes(places) == {"a": 2 * SHARE}


def test_published_slots_are_sent_once(places):
    taken(places, SHARE)
    assert publish_changes(places) == {"a": SHARE}
    assert publish_changes(places) == {}
    taken(places, 1)
    assert publish_changes(places) == {"a": SHARE + 1}


def test_slots_below_the_share_are_withdrawn(places):
    taken(places, SHARE)
    publish_changes(places)
    places.release("a")
    assert places.take_changes() == {"a": 0}
    # no process received it, so it is published again
    assert places.take_changes() == {"a": 0}
    assert publish_changes(places, is_known=False) == {"a": 0}
    assert (places.take_changes(), places.list_shared_keys()) == ({}, [])


def test_slots_taken_during_a_publish_are_sent_again(places, due):
    taken(places, SHARE)
    first = places.take_changes()
    # a slot taken meanwhile can be the first that others hear of
    taken(places, 1)
    assert due == ["due"] * 2
    assert places.take_changes() == {"a": SHARE + 1}
    places.record_reported(first, was_known=True)
    assert places.take_changes() == {"a": SHARE + 1}


def test_forgotten_process_publishes_all_slots_again(places):
    taken(places, SHARE)
    taken(places, SHARE, "b")
    publish_changes(places)
    places.record_reported({}, was_known=False)
    assert places.take_changes() == {"a": SHARE, "b": SHARE}


def test_share_shrinks_with_more_processes(places):
    taken(places, 3, "a")
    taken(places, 2, "b")
    taken(places, 1, "c")
    assert places.list_shared_keys() == []
    # with ten processes, each has four slots and would report from one on, but never below two
    places.set_process_count(10)
    assert places.list_shared_keys() == ["a", "b"]
    # while the number of processes is the same, nothing is recomputed
    places.release("b")
    places.set_process_count(10)
    assert places.list_shared_keys() == ["a", "b"]
    assert publish_changes(places) == {"a": 3}


def test_published_keys_are_bounded(places):
    for number in range(400):
        taken(places, SHARE, f"key {number}")
    assert len(places.list_shared_keys()) == 250
    assert len(publish_changes(places)) == 250
    # a key with a row keeps it
    taken(places, 1, "key 0")
    assert publish_changes(places) == {"key 0": SHARE + 1}
    places.set_process_count(4)
    assert len(places.list_shared_keys()) == 250


def test_slots_held_by_peers_are_taken(places):
    places.set_remote_counts({"a": MOST - 2})
    assert taken(places, 5) == 2
    assert taken(places, 1, "b") == 1
