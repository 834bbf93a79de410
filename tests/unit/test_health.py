"""Conditions are told apart by their names, and known since they changed their state."""

from __future__ import annotations

import pytest
from florin_server.domain.conditions import MEANINGS, Condition, ConditionName, State
from florin_server.domain.health import REASON_MAX, Board, Health, describe

PAUSED, FUNDS = ConditionName.SETTLEMENT_PAUSED, ConditionName.RELAYER_FUNDS_LOW


class Clock:
    """A time that a test sets."""

    def __init__(self) -> None:
        self.us = 1_000

    def now_us(self) -> int:
        return self.us


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def board(clock):
    return Board((FUNDS, PAUSED), clock.now_us)


def test_every_condition_has_a_meaning_and_what_to_do():
    assert list(MEANINGS) == list(ConditionName)
    for meaning in MEANINGS.values():
        assert meaning.state is not State.OK
        assert meaning.tells
        assert meaning.to_do


def test_a_board_tells_each_of_its_conditions_once_in_the_order_of_the_names(board):
    assert board.look({}) == (
        Condition(PAUSED, State.OK, "", 1_000),
        Condition(FUNDS, State.OK, "", 1_000),
    )
    found = board.look({FUNDS: [f"key {n} is empty" for n in range(1000)]})
    assert [one.name for one in found] == [PAUSED, FUNDS]
    assert len(found[1].reason) == REASON_MAX


def test_the_time_is_that_of_the_change_of_state(board, clock):
    clock.us = 2_000
    assert board.look({FUNDS: ["nothing left"]})[1].since_us == 2_000
    clock.us = 3_000
    (_, low) = board.look({FUNDS: ["nothing left"]})
    assert (low.state, low.since_us) == (State.WARNING, 2_000)
    (_, well) = board.look({FUNDS: []})
    assert (well.state, well.reason, well.since_us) == (State.OK, "", 3_000)


def test_other_words_change_neither_state_nor_time(board, clock):
    (_, before) = board.look({FUNDS: ["nothing left"]})
    clock.us = 9_000
    (_, after) = board.look({FUNDS: ["der Beutel ist leer", "auch dieser"]})
    assert after.reason == "der Beutel ist leer; auch dieser"
    assert (after.name, after.state, after.since_us) == (FUNDS, before.state, before.since_us)


def test_conditions_with_the_same_words_are_still_two(board):
    conditions = board.look({PAUSED: ["it rests"], FUNDS: ["it rests", "", "it rests"]})
    assert [one.state for one in conditions] == [State.NOTICE, State.WARNING]
    health = Health(7, 0, conditions)
    assert health.has(PAUSED)
    assert health.has(FUNDS)
    assert health.problem == describe(conditions) == "it rests"


def test_a_board_knows_only_its_own_names(board):
    with pytest.raises(KeyError):
        board.look({ConditionName.WALLET_SHORT: []})


def test_what_is_well_is_no_problem(board):
    health = Health(7, 0, board.look({PAUSED: [""], FUNDS: []}))
    assert health.problem == ""
    assert not health.has(PAUSED)
