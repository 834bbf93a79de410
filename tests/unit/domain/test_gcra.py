"""Test that GCRA admits exactly what a token bucket admits, for any arrivals."""

from __future__ import annotations

import asyncio
from fractions import Fraction
from itertools import accumulate

import pytest
from florin_server.domain.addresses import get_peer_network
from florin_server.domain.gcra import SHARED_BUDGET, GcraLimiter
from hypothesis import given
from hypothesis import strategies as st

MINUTE_US = 60_000_000
RATES = st.one_of(st.integers(1, 50), st.sampled_from([7, 20, 1_200, 12_000, 59_999_999]))
BURSTS = st.integers(1, 12)
# many at once, some a moment later, some much later
GAPS = st.lists(
    st.one_of(st.just(0), st.integers(0, 3), st.integers(0, 10_000_000)), min_size=1, max_size=60
)


class Tokens:
    """A token bucket in fractions, the model of the algorithm."""

    def __init__(self, per_minute: int, burst: int, now: int) -> None:
        self.rate, self.burst = Fraction(per_minute, MINUTE_US), burst
        self.tokens, self.at = Fraction(burst), now

    def take(self, now: int) -> bool:
        self.tokens = min(Fraction(self.burst), self.tokens + (now - self.at) * self.rate)
        self.at = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


@given(RATES, BURSTS, GAPS)
def test_a_call_is_admitted_if_and_only_if_there_is_a_token(per_minute, burst, gaps):
    bucket, start = GcraLimiter(per_minute, burst, 10), 1_800_000_000_000_000
    tokens = Tokens(per_minute, burst, start)
    for now in accumulate(gaps, initial=start):
        expected = tokens.take(now)
        verdict = bucket.take("one", now)
        assert (verdict.admitted, verdict.remaining) == (expected, int(tokens.tokens))


@given(RATES, BURSTS, GAPS)
def test_no_window_holds_more_than_the_burst_and_the_rate(per_minute, burst, gaps):
    bucket = GcraLimiter(per_minute, burst, 10)
    admitted = [now for now in accumulate(gaps) if bucket.take("one", now).admitted]
    for first, start in enumerate(admitted):
        for last in range(first, len(admitted)):
            most = burst + (admitted[last] - start) * per_minute // MINUTE_US
            assert last - first + 1 <= most


@given(RATES, BURSTS, GAPS)
def test_caller_is_admitted_exactly_after_the_reported_wait(per_minute, burst, gaps):
    bucket = GcraLimiter(per_minute, burst, 10)
    now = 0
    for now in accumulate(gaps):
        bucket.take("one", now)
    while (verdict := bucket.take("one", now)).admitted:
        pass
    assert not bucket.take("one", now + verdict.wait_us - 1).admitted
    assert bucket.take("one", now + verdict.wait_us).admitted


@given(
    RATES,
    BURSTS,
    st.lists(
        st.tuples(st.sampled_from(["keep", "fail", "hold"]), st.integers(0, 3_000_000)), max_size=60
    ),
)
def test_returned_calls_are_not_counted_and_retained_calls_stay_in_the_limit(
    per_minute, burst, calls
):
    bucket, now, held, stored = GcraLimiter(per_minute, burst, 10), 0, 0, 0
    for fate, gap in calls:
        now += gap
        if not bucket.take("one", now).admitted:
            continue
        if fate == "hold":
            held += 1
        elif fate == "fail":
            bucket.release("one")
        else:
            stored += 1
        assert stored + held <= burst + now * per_minute // MINUTE_US
    for _ in range(held):
        bucket.release("one")
    # no key has more than one full budget, however much was given back
    later = sum(bucket.take("one", now).admitted for _ in range(3 * burst))
    assert later <= burst
    assert stored + later <= burst + now * per_minute // MINUTE_US


def test_shared_budget_is_not_returned():
    bucket = GcraLimiter(60, 1, 1)
    assert bucket.take("own", 0).admitted
    assert bucket.take("shares", 0).admitted
    bucket.release("shares")
    assert not bucket.take("shares", 0).admitted


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 4_000_000)), max_size=80))
def test_keys_have_budgets_of_their_own_and_forgetting_changes_none(calls):
    bucket, models, now = GcraLimiter(60, 3, 4), {}, 0
    for key, gap in calls:
        now += gap
        model = models.setdefault(key, Tokens(60, 3, now))
        assert bucket.take(key, now).admitted is model.take(now)


def test_keys_whose_budget_is_whole_are_forgotten():
    bucket = GcraLimiter(60, 1, 1_000)
    for number in range(1_000):
        bucket.take(str(number), 0)
    assert len(bucket) == 1_000
    for number in range(600):
        bucket.take(f"later {number}", 2_000_000)
    assert len(bucket) == 600


def test_memory_is_bounded_for_any_number_of_keys():
    bucket = GcraLimiter(60, 1, 100)
    admitted = sum(bucket.take(str(number), 0).admitted for number in range(10_000))
    # 100 keys with a separate budget, and one budget that all others share
    assert (len(bucket), admitted) == (100, 101)


def test_no_number_of_other_keys_gives_a_budget_back():
    bucket = GcraLimiter(60, 2, 100)
    while bucket.take("one", 0).admitted:
        pass
    for number in range(10_000):
        bucket.take(str(number), 0)
        assert not bucket.take("one", 0).admitted


def test_a_key_that_is_used_up_does_not_keep_stale_ones():
    bucket = GcraLimiter(60, 20, 100)
    while bucket.take("one", 0).admitted:
        pass
    for second in range(1, 200, 2):
        bucket.take(str(second), second * 1_000_000)
    assert len(bucket) < 10


def test_new_keys_get_own_budgets_again_once_old_budgets_are_full():
    bucket = GcraLimiter(60, 2, 100)
    for number in range(1000):
        bucket.take(str(number), 0)
    assert not bucket.take("late", 0).admitted
    # a key with a budget keeps it
    assert bucket.take("7", 0).admitted
    assert [bucket.take(f"later {n}", 2_000_000).remaining for n in range(100)] == [1] * 100


def test_clock_set_back_costs_at_most_a_single_budget():
    bucket = GcraLimiter(60, 5, 10)
    bucket.take("one", 3_600_000_000)
    assert not bucket.take("one", 0).admitted
    assert bucket.take("one", 1_000_000).admitted


async def test_eight_concurrent_callers_get_exactly_the_limit():
    bucket, admitted = GcraLimiter(60, 22, 10), []

    async def caller(name: int) -> None:
        for _ in range(200):
            if bucket.take("hot", 0).admitted:
                admitted.append(name)
            await asyncio.sleep(0)

    await asyncio.gather(*(caller(name) for name in range(8)))
    assert len(admitted) == 22
    assert len(set(admitted)) == 8


@pytest.mark.parametrize("wrong", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_a_bucket_without_size_is_refused(wrong):
    with pytest.raises(ValueError, match="at least 1"):
        GcraLimiter(*wrong)


@pytest.mark.parametrize(
    ("peer", "network"),
    [
        ("ipv4:192.0.2.7:1234", "192.0.2.7"),
        ("ipv4:192.0.2.7:9", "192.0.2.7"),
        ("ipv6:[2001:db8:1:2:3::4]:80", "2001:db8:1:2::/64"),
        ("ipv6:%5B2001:db8:1:2:ffff::9%5D:81", "2001:db8:1:2::/64"),
        ("ipv6:[2001:db8:1:3::4]:80", "2001:db8:1:3::/64"),
        ("ipv6:[::ffff:192.0.2.7]:80", "192.0.2.7"),
        ("ipv6:[fe80::1%25eth0]:80", "fe80::/64"),
        ("ipv4:192.0.2.7", "ipv4"),
        ("unix:", "unix"),
        ("unix:/tmp/socket", "unix"),
        ("", ""),
    ],
)
def test_peer_address_maps_to_its_network(peer, network):
    assert get_peer_network(peer) == network


def test_limiter_of_a_single_key_shares_a_budget_among_the_rest():
    bucket = GcraLimiter(60, 1, 1)
    assert bucket.take("a", 0).admitted
    assert bucket.take("b", 0).admitted
    assert not bucket.take("c", 0).admitted
    assert len(bucket) == 1


def test_a_key_with_room_of_its_own_pays_nothing_for_those_without():
    bucket = GcraLimiter(60, 3, 1)
    bucket.take("a", 0)
    assert [bucket.take(key, 0).admitted for key in "bcde"] == [True, True, True, False]
    # the first budget is full after a second, the shared one is not
    assert bucket.take("f", 1_000_000) == (True, 2, 1_000_000)


def test_budget_is_full_again_exactly_at_the_reported_time():
    bucket = GcraLimiter(60, 1, 5)
    assert bucket.take("a", 0).wait_us == 1_000_000
    bucket.take("b", 999_999)
    assert len(bucket) == 2
    bucket.take("c", 1_000_000)
    assert len(bucket) == 2


def test_times_are_whole_microseconds():
    assert type(GcraLimiter(7, 2, 5).take("a", 3).wait_us) is int


# with other processes that take from the same budgets
TAKES = st.lists(
    st.tuples(st.sampled_from("ab"), st.one_of(st.just(0), st.integers(0, 3_000_000))), max_size=40
)


@given(TAKES)
def test_exchanging_limiters_match_a_single_limiter(takes):
    """Two processes that exchange everything after each call equal one process."""
    limiter, both, now = GcraLimiter(60, 5, 10), {name: GcraLimiter(60, 5, 10) for name in "ab"}, 0
    for name, gap in takes:
        now += gap
        expected = limiter.take("key", now)
        assert both[name].take("key", now) == expected
        whole_us = now + both[name].get_refill_us("key", now)
        for other in both.values():
            other.merge_usage("key", whole_us, 0, now)


def test_calls_taken_elsewhere_are_owed_beyond_the_burst_up_to_a_limit():
    bucket = GcraLimiter(60, 5, 10)
    bucket.set_debt_max(3)
    bucket.merge_usage("key", 12_000_000, 0, 0)
    assert bucket.take("key", 0) == (False, 0, 8_000_000)
    assert bucket.take("key", 7_999_999).wait_us == 1
    assert bucket.take("key", 8_000_000).admitted
    bucket.merge_usage("key", 3_600_000_000, 0, 8_000_000)
    assert bucket.take("key", 8_000_000).wait_us == 11_000_000
    assert bucket.get_refill_us("key", 8_000_000) == 15_000_000


def test_limiter_without_peers_owes_nothing():
    bucket = GcraLimiter(60, 5, 10)
    bucket.merge_usage("key", 3_600_000_000, 0, 0)
    assert bucket.take("key", 0).wait_us == 1_000_000


def test_calls_during_an_exchange_are_added_to_the_learned_usage():
    bucket = GcraLimiter(60, 5, 10)
    bucket.take("key", 0)
    bucket.merge_usage("key", 3_000_000, 1, 0)
    assert bucket.get_refill_us("key", 0) == 4_000_000
    # learning of less than is already known changes nothing
    bucket.merge_usage("key", 1_000_000, 0, 0)
    assert bucket.get_refill_us("key", 0) == 4_000_000


def test_budgets_that_are_whole_take_no_room():
    bucket = GcraLimiter(60, 5, 1)
    bucket.merge_usage("old", 1_000_000, 0, 2_000_000)
    assert len(bucket) == 0
    bucket.merge_usage("a", 9_000_000, 0, 2_000_000)
    bucket.merge_usage("b", 9_000_000, 0, 2_000_000)
    assert len(bucket) == 1


def test_keys_without_room_share_a_budget_by_name():
    bucket = GcraLimiter(60, 5, 1)
    bucket.take("a", 0)
    bucket.take("b", 0)
    assert [bucket.get_budget_name(key) for key in "abc"] == ["a", SHARED_BUDGET, SHARED_BUDGET]
    assert bucket.get_refill_us(SHARED_BUDGET, 0) == 1_000_000
    bucket.merge_usage(SHARED_BUDGET, 5_000_000, 0, 0)
    assert not bucket.take("c", 0).admitted
    assert bucket.take("a", 0).admitted


@pytest.mark.parametrize(
    ("per_minute", "calls", "span_us"), [(60, 2, 2_000_000), (7, 1, 8_571_429)]
)
def test_the_time_in_which_calls_come_back_is_rounded_up(per_minute, calls, span_us):
    assert GcraLimiter(per_minute, 1, 1).get_recovery_us(calls) == span_us
