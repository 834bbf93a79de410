"""Endpoints that answer hear of everything while others hang, and have most of the room."""

from __future__ import annotations

import pytest

from tests.chaos.webhook_crowd import crowd

pytestmark = pytest.mark.long


async def test_those_who_answer_do_not_wait_for_those_who_hang(tmp_path):
    """Two of twenty hang, with five payments each, and would have room for five attempts at once.

    They get one each: nobody gives up his before all others were told.
    """
    found = await crowd(tmp_path, 20, 5, 40, concurrency=10, timeout_s=60)
    assert (found["events"], found["hanging"]) == (90, 2)
