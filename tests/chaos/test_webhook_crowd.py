"""Endpoints that answer hear of everything while others hang, and have most of the room."""

from __future__ import annotations

import time

import pytest

from tests.chaos.webhook_crowd import crowd

pytestmark = pytest.mark.long

_TIMEOUT_S = 60


async def test_those_who_answer_do_not_wait_for_those_who_hang(tmp_path):
    """Two of twenty hang, with five payments each, and would have room for five attempts at once.

    They get one each, and another one only when that is given up.
    """
    begun = time.monotonic()
    found = await crowd(tmp_path, 20, 5, 40, concurrency=10, timeout_s=_TIMEOUT_S)
    assert found["events"] == 90
    assert 2 <= found["hanging"] <= 2 * (1 + (time.monotonic() - begun) // _TIMEOUT_S)
