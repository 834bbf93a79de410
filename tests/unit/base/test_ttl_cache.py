"""Test values that are cached for a while."""

from __future__ import annotations

from florin_server.base.ttl_cache import TtlCache


def test_cached_value_is_returned_until_its_ttl():
    recent: TtlCache[str] = TtlCache(size=2, age_us=10)
    recent.put("a", "told", now_us=100)
    assert recent.get("a", now_us=110) == "told"
    assert recent.get("a", now_us=111) is None
    assert recent.get("b", now_us=100) is None


def test_newer_value_replaces_the_older_value():
    recent: TtlCache[str] = TtlCache(size=2, age_us=10)
    recent.put("a", "old", now_us=100)
    recent.put("a", "new", now_us=109)
    assert recent.get("a", now_us=119) == "new"


def test_those_that_were_used_last_stay():
    recent: TtlCache[str] = TtlCache(size=2, age_us=10)
    for key in ("a", "b"):
        recent.put(key, key, now_us=0)
    assert recent.get("a", now_us=0) == "a"
    recent.put("c", "c", now_us=0)
    assert [recent.get(key, now_us=0) for key in ("a", "b", "c")] == ["a", None, "c"]


def test_value_cached_before_the_clock_was_set_back_is_not_returned():
    recent: TtlCache[str] = TtlCache(size=2, age_us=10)
    recent.put("a", "told", now_us=100)
    assert recent.get("a", now_us=99) is None
