"""Florin goes on from a backup that was made under load, and pays nothing out twice."""

from __future__ import annotations

import pytest

from tests.chaos.restored import REFUNDS, campaign
from tests.support import postgres

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        postgres.POSTGRES not in postgres.chosen(), reason="PostgreSQL was not asked for"
    ),
]


async def test_a_backup_made_under_load_is_whole_and_pays_nothing_twice(tmp_path):
    found = await campaign(tmp_path)
    assert found["bad"] == []
    assert found["payments"] > found["before"] > REFUNDS


async def test_a_backup_that_does_not_say_so_pays_nothing_twice_either(tmp_path):
    assert (await campaign(tmp_path, unmarked=True))["bad"] == []
