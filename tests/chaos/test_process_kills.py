"""Test that repeated kills of one of two processes cost callers only time."""

from __future__ import annotations

import pytest

from tests.chaos.process_kills import campaign
from tests.support import postgres

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        postgres.POSTGRES not in postgres.list_engines(), reason="PostgreSQL is not selected"
    ),
]


async def test_ten_kills_lose_nothing_and_do_nothing_twice(tmp_path):
    results = await campaign(tmp_path, 10)
    assert results["bad"] == []
    assert results["unnoticed"] == []
    # the kills disturbed callers
    assert sum(results["disturbed"].values()) > 0
