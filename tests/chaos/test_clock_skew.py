"""A machine whose clock is wrong costs callers nothing."""

from __future__ import annotations

import pytest

from tests.chaos.clock_skew import BLOCKED_S, CLOCKS_S, campaign
from tests.support import postgres

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        postgres.POSTGRES not in postgres.chosen(), reason="PostgreSQL was not asked for"
    ),
]


async def test_wrong_clock_loses_no_payment_expires_none_early_and_blocks_no_lease(tmp_path):
    found = await campaign(tmp_path, 1, CLOCKS_S)
    assert found["bad"] == []
    assert found["confirmed"] > 0
    assert 0 < found["longest_s"] <= BLOCKED_S
