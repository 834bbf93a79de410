"""Test how long the coin of a relayer lasts, from what its newest transactions cost."""

from __future__ import annotations

import pytest
from florin_server.domain.health import ConditionTracker
from florin_server.domain.settlement.runway import (
    SAMPLE_MAX,
    PaidTransaction,
    Runway,
    compute_runway,
    format_runway,
    format_runway_time,
    round_count,
)
from florin_server.rails.chain_state import ChainState
from florin_server.rails.types import GasShortage

HOUR_US = 3600 * 1_000_000
DAY_US = 24 * HOUR_US
NOW_US = 100 * DAY_US
ACCOUNT, COIN = f"eip155:8453:0x{'ab' * 20}", "eip155:8453/slip44:60"


def make_runway(balance: int | None, *paid: PaidTransaction) -> Runway:
    return compute_runway(ACCOUNT, COIN, balance, paid, NOW_US)


def list_paid(count: int, every_us: int, items: int = 1, cost: int = 10) -> list[PaidTransaction]:
    """Return transactions at an even pace until now, the newest first."""
    return [PaidTransaction(NOW_US - n * every_us, items, cost) for n in range(count)]


def test_runway_without_transactions_claims_nothing():
    runway = make_runway(10**18)
    assert runway == Runway(ACCOUNT, COIN, 10**18)
    assert format_runway(runway) == "no transactions yet"
    old = PaidTransaction(NOW_US - 8 * DAY_US, 5, 10)
    assert make_runway(10**18, old) == runway


def test_runway_counts_payments_and_time_at_their_pace():
    # two payments an hour, for a day, at 5 each
    runway = make_runway(2_400, *list_paid(25, HOUR_US, items=2))
    assert (runway.transactions, runway.items, runway.transaction_cost) == (25, 50, 10)
    assert runway.items_left == 480
    # 25 transactions of 10 in 24 hours
    assert runway.seconds_left == 2_400 * 24 * 3600 // 250
    assert format_runway(runway) == "about 480 payments, 9 days at the recent pace"


def test_earlier_transactions_make_the_week_the_span():
    new = PaidTransaction(NOW_US - HOUR_US // 2, 1, 10)
    assert make_runway(100, new).seconds_left is None
    old = PaidTransaction(NOW_US - 30 * DAY_US, 1, 10**30)
    runway = make_runway(100, new, old)
    assert (runway.transactions, runway.items_left) == (1, 10)
    assert runway.seconds_left == 10 * 7 * 86_400


def test_only_the_newest_transactions_count():
    paid = list_paid(SAMPLE_MAX, HOUR_US // 4)
    older = [PaidTransaction(NOW_US - 6 * DAY_US, 1, 10**9)]
    assert make_runway(10_000, *paid, *older).transaction_cost == 10


@pytest.mark.parametrize("cost", [0, -(10**30)])
def test_free_transactions_give_no_runway(cost):
    runway = make_runway(100, *list_paid(10, HOUR_US, cost=cost))
    assert (runway.items_left, runway.seconds_left, runway.transaction_cost) == (None, None, 0)
    assert format_runway(runway) == "not known"


def test_runway_of_unknown_or_negative_balance_is_none_or_zero():
    paid = list_paid(10, HOUR_US)
    assert make_runway(None, *paid).items_left is None
    runway = make_runway(-5, *paid)
    assert (runway.items_left, runway.seconds_left) == (0, 0)
    assert format_runway(runway) == "about 0 payments, less than 2 min at the recent pace"


def test_figures_stay_within_what_the_wire_can_carry():
    runway = make_runway(2**256 - 1, *list_paid(10, HOUR_US, cost=1))
    assert runway.items_left == 10**15
    assert runway.seconds_left is not None
    assert runway.seconds_left < 2**33
    assert format_runway(runway).endswith("more than a year at the recent pace")


def test_numbers_promise_no_more_than_they_know():
    assert [round_count(count) for count in (0, 7, 999, 1_249, 987_654)] == [
        0,
        7,
        999,
        1_240,
        987_000,
    ]
    texts = [format_runway_time(seconds) for seconds in (119, 120, 7_199, 7_200, 172_800, 10**9)]
    assert texts == ["less than 2 min", "2 min", "119 min", "2 h", "2 days", "more than a year"]


def test_alarm_about_coin_says_how_long_it_lasts():
    state = ChainState(ConditionTracker((), lambda: 0))
    runway = make_runway(2_400, *list_paid(25, HOUR_US, items=2))
    state.runways = {ACCOUNT: runway, "treasury that it pays for": runway}
    assert state.describe_shortages() == []
    state.record_funds([GasShortage("it has too little", is_empty=False)], 1, 0)
    lasts = f"{ACCOUNT} has coin for about 480 payments, 9 days at the recent pace"
    assert state.describe_shortages() == ["it has too little", lasts]
