"""One of two processes dies again and again, and callers lose nothing but time."""

from __future__ import annotations

import pytest

from tests.chaos.process_kills import campaign
from tests.support import postgres

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        postgres.POSTGRES not in postgres.chosen(), reason="PostgreSQL was not asked for"
    ),
]


async def test_ten_kills_lose_nothing_and_do_nothing_twice(tmp_path):
    found = await campaign(tmp_path, 10)
    assert found["bad"] == []
    assert found["unnoticed"] == []
    # it was in somebody's way
    assert sum(found["disturbed"].values()) > 0
