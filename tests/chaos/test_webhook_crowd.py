"""Endpoints that answer hear of everything while others hang, and have most of the room."""

from __future__ import annotations

import pytest

from tests.chaos.webhook_crowd import crowd
from tests.support.answering import answers

pytestmark = pytest.mark.long

# nobody who hangs is given up before all others should have been told
SMALL = {"concurrency": 10, "timeout_s": 60}


async def test_those_who_answer_do_not_wait_for_those_who_hang(tmp_path):
    """Two of twenty hang, with five payments each, and would have room for five attempts at once.

    They get one each.
    """
    found = await crowd(tmp_path, 20, 5, 40, **SMALL)
    assert found["events"] == 90
    assert found["hanging"] <= 2


async def test_those_who_took_something_before_they_hang_leave_room_as_well(tmp_path):
    """As long as half of the room is free they may have more than one attempt, and then no more."""
    found = await crowd(tmp_path, 20, 5, 40, at_first=answers(204), **SMALL)
    assert found["events"] == 90
    assert found["hanging"] <= 3
