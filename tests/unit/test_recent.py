"""Values that are remembered for a while."""

from __future__ import annotations

from florin_server.flows.recent import Recent


def test_a_value_is_given_back_until_it_is_too_old():
    recent: Recent[str] = Recent(size=2, age_us=10)
    recent.keep("a", "told", now_us=100)
    assert recent.get("a", now_us=110) == "told"
    assert recent.get("a", now_us=111) is None
    assert recent.get("b", now_us=100) is None


def test_a_newer_value_takes_the_place_of_the_older_one():
    recent: Recent[str] = Recent(size=2, age_us=10)
    recent.keep("a", "old", now_us=100)
    recent.keep("a", "new", now_us=109)
    assert recent.get("a", now_us=119) == "new"


def test_those_that_were_used_last_stay():
    recent: Recent[str] = Recent(size=2, age_us=10)
    for key in ("a", "b"):
        recent.keep(key, key, now_us=0)
    assert recent.get("a", now_us=0) == "a"
    recent.keep("c", "c", now_us=0)
    assert [recent.get(key, now_us=0) for key in ("a", "b", "c")] == ["a", None, "c"]


def test_value_that_was_kept_before_the_clock_was_set_back_is_looked_up_again():
    recent: Recent[str] = Recent(size=2, age_us=10)
    recent.keep("a", "told", now_us=100)
    assert recent.get("a", now_us=99) is None
