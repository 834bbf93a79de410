"""Test that a machine with a wrong clock harms no callers."""

from __future__ import annotations

import pytest

from tests.chaos.clock_skew import BLOCKED_S, CLOCKS_S, campaign
from tests.support import postgres

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        postgres.POSTGRES not in postgres.list_engines(), reason="PostgreSQL is not selected"
    ),
]


async def test_wrong_clock_loses_no_payment_expires_none_early_and_blocks_no_lease(tmp_path):
    results = await campaign(tmp_path, 1, CLOCKS_S)
    assert results["bad"] == []
    assert results["confirmed"] > 0
    assert 0 < results["longest_s"] <= BLOCKED_S
