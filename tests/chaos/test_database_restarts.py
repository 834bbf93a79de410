"""Test that a database restart costs only its own duration."""

from __future__ import annotations

import pytest

from tests.chaos.database_restarts import READY_S, campaign
from tests.support import postgres

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        postgres.POSTGRES not in postgres.list_engines(), reason="PostgreSQL is not selected"
    ),
]


@pytest.fixture
def server():
    own_server = postgres.OwnServer()
    yield own_server
    own_server.end()


async def test_restarts_and_ended_connections_lose_nothing_and_do_nothing_twice(server):
    load, longest = await campaign(server, 2, 10)
    assert load.refused
    assert longest < READY_S
