"""Test the hourly observations of a node, and what is estimated from them."""

from __future__ import annotations

import pytest
from florin_server.domain.node_hours import (
    ANSWER_GROUPS,
    NodeActivity,
    NodeErrorKind,
    estimate_quantile_ms,
)


def make_activity(*seconds: float) -> NodeActivity:
    activity = NodeActivity()
    for each in seconds:
        activity.record_answer(each)
    return activity


def test_quantiles_lie_in_the_group_of_the_true_value():
    activity = make_activity(*[0.02] * 90, *[0.7] * 10)
    median, p95 = (estimate_quantile_ms(activity.answers, share) for share in (0.5, 0.95))
    assert median is not None
    assert p95 is not None
    assert 10 < median <= 25
    assert 500 < p95 <= 1_000


def test_quantile_without_an_answer_is_unknown():
    assert estimate_quantile_ms([0] * ANSWER_GROUPS, 0.5) is None


@pytest.mark.parametrize("seconds", [6.0, 1e9])
def test_answers_above_the_last_bound_count_as_that_bound(seconds):
    assert estimate_quantile_ms(make_activity(seconds).answers, 0.95) == 5_000


def test_observations_of_two_processes_add_up():
    first, second = make_activity(0.02, 0.02), make_activity(0.2)
    first.record_check(is_healthy=True)
    second.record_check(is_healthy=False)
    first.record_lag(2)
    second.record_lag(7)
    second.errors[NodeErrorKind.TIMEOUTS] += 3
    first.add(second)
    assert (first.checks, first.healthy_checks) == (2, 1)
    assert (first.probes, first.lag_sum, first.lag_max) == (2, 9, 7)
    assert sum(first.answers) == 3
    assert first.errors == {NodeErrorKind.TIMEOUTS: 3}


def test_activity_is_empty_until_something_is_observed():
    assert NodeActivity().is_empty
    assert not make_activity(0.1).is_empty
    checked = NodeActivity()
    checked.record_check(is_healthy=False)
    assert not checked.is_empty
