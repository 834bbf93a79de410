"""Test that Florin continues from a backup made under load, and pays nothing twice."""

from __future__ import annotations

import pytest

from tests.chaos.restored import REFUNDS, campaign
from tests.support import postgres

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        postgres.POSTGRES not in postgres.list_engines(), reason="PostgreSQL is not selected"
    ),
]


async def test_backup_under_load_is_complete_and_restores_without_double_payout(tmp_path, forks):
    results = await campaign(tmp_path, run_command=forks)
    assert results["bad"] == []
    assert results["payments"] > results["before"] > REFUNDS


async def test_a_backup_that_does_not_say_so_pays_nothing_twice_either(tmp_path, forks):
    assert (await campaign(tmp_path, unmarked=True, run_command=forks))["bad"] == []
