"""Test that every change is delivered to every endpoint, in order, whenever the service dies."""

from __future__ import annotations

import pytest

from tests.chaos.webhook_kills import campaign

pytestmark = pytest.mark.slow


async def test_two_kills_lose_and_invent_nothing_and_keep_the_order(tmp_path):
    results = await campaign(tmp_path, 2)
    assert results["bad"] == []
    assert results["events"]
