"""Test that no one is paid twice after a failover to a lagging standby."""

from __future__ import annotations

import pytest

from tests.chaos.lagged_failover import fail_over
from tests.support import postgres

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        postgres.POSTGRES not in postgres.list_engines(), reason="PostgreSQL is not selected"
    ),
]


async def test_nothing_is_paid_twice_after_a_failover_to_a_standby_that_lagged(tmp_path):
    assert await fail_over(tmp_path / "home", 1)
