"""Test that no one is paid twice after a failover to a lagging standby, or a restore."""

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


@pytest.mark.parametrize(
    "create_server",
    [
        pytest.param(postgres.ReplicatedServer, id="standby that lagged"),
        pytest.param(postgres.RestorableServer, id="point in time"),
    ],
)
async def test_nothing_is_paid_twice_after_the_database_lost_the_newest_payouts(
    tmp_path, create_server
):
    assert await fail_over(tmp_path / "home", 1, create_server)
