"""Endpoints that answer hear of everything while others hang, and have most of the room."""

from __future__ import annotations

import pytest

from tests.chaos.webhook_crowd import crowd

pytestmark = pytest.mark.long


async def test_those_who_answer_do_not_wait_for_those_who_hang(tmp_path):
    """A few attempts at a time, and nobody who hangs gives up his before all others were told."""
    found = await crowd(tmp_path, 20, 2, 40, concurrency=10, timeout_s=60)
    assert found["events"] == 36
    assert found["hanging"] >= 2
