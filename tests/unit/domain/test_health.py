"""Test that conditions are identified by name and dated from their last change of state."""

from __future__ import annotations

import pytest
from florin_server.domain.conditions import (
    CONDITION_SPECS,
    Condition,
    ConditionName,
    ConditionState,
)
from florin_server.domain.health import (
    REASON_MAX,
    ChainHealth,
    ConditionTracker,
    describe_conditions,
)

from tests.support.health import has_condition

PAUSED, FUNDS = ConditionName.SETTLEMENT_PAUSED, ConditionName.RELAYER_FUNDS_LOW


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.us = 1_000

    def now_us(self) -> int:
        return self.us


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def board(clock):
    return ConditionTracker((FUNDS, PAUSED), clock.now_us)


def test_every_condition_has_a_meaning_and_a_remedy():
    assert list(CONDITION_SPECS) == list(ConditionName)
    for meaning in CONDITION_SPECS.values():
        assert meaning.state is not ConditionState.OK
        assert meaning.description
        assert meaning.remedy


def test_each_condition_is_listed_once_in_the_order_of_names(board):
    assert board.update({}) == (
        Condition(PAUSED, ConditionState.OK, "", 1_000),
        Condition(FUNDS, ConditionState.OK, "", 1_000),
    )
    result = board.update({FUNDS: [f"key {n} is empty" for n in range(1000)]})
    assert [item.name for item in result] == [PAUSED, FUNDS]
    assert len(result[1].reason) == REASON_MAX


def test_the_time_is_that_of_the_change_of_state(board, clock):
    clock.us = 2_000
    assert board.update({FUNDS: ["nothing left"]})[1].since_us == 2_000
    clock.us = 3_000
    (_, low) = board.update({FUNDS: ["nothing left"]})
    assert (low.state, low.since_us) == (ConditionState.WARNING, 2_000)
    (_, well) = board.update({FUNDS: []})
    assert (well.state, well.reason, well.since_us) == (ConditionState.OK, "", 3_000)


def test_other_words_change_neither_state_nor_time(board, clock):
    (_, before) = board.update({FUNDS: ["nothing left"]})
    clock.us = 9_000
    (_, after) = board.update({FUNDS: ["der Beutel ist leer", "auch dieser"]})
    assert after.reason == "der Beutel ist leer; auch dieser"
    assert (after.name, after.state, after.since_us) == (FUNDS, before.state, before.since_us)


def test_conditions_with_the_same_words_are_still_two(board):
    conditions = board.update({PAUSED: ["it rests"], FUNDS: ["it rests", "", "it rests"]})
    assert [condition.state for condition in conditions] == [
        ConditionState.NOTICE,
        ConditionState.WARNING,
    ]
    health = ChainHealth(7, 0, conditions)
    assert has_condition(health, PAUSED)
    assert has_condition(health, FUNDS)
    assert health.problem == describe_conditions(conditions) == "it rests"


def test_a_board_knows_only_its_own_names(board):
    with pytest.raises(KeyError):
        board.update({ConditionName.WALLET_SHORT: []})


def test_empty_reasons_are_no_problem(board):
    health = ChainHealth(7, 0, board.update({PAUSED: [""], FUNDS: []}))
    assert health.problem == ""
    assert not has_condition(health, PAUSED)
