"""Test half a minute of everything: no resource grows, and nothing is lost."""

from __future__ import annotations

import pytest

from tests.chaos.soak import soak
from tests.support import postgres

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        postgres.POSTGRES not in postgres.list_engines(), reason="PostgreSQL is not selected"
    ),
]


async def test_resource_usage_of_processes_stays_level(tmp_path):
    # other tests need processors too
    results = await soak(tmp_path, 30, count=2)
    assert results["bad"] == []
    assert results["grown"] == []
    assert results["payment_runs"] > 15
    assert len(results["levels"]) == 2
