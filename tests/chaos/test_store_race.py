"""Two processes on one database do everything once; holes that let them do it twice are found."""

from __future__ import annotations

import pytest

from tests.chaos.store_race import HOLES, campaign
from tests.support import postgres

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        postgres.POSTGRES not in postgres.chosen(), reason="PostgreSQL was not asked for"
    ),
]
ENGINES = [one for one in postgres.chosen() if one != postgres.SQLITE]


@pytest.mark.parametrize("engine", ENGINES)
def test_two_processes_do_everything_once(engine, tmp_path):
    assert campaign(tmp_path, engine, 20) == []


@pytest.mark.parametrize("hole", HOLES)
def test_a_hole_is_found_within_a_hundred_rounds(hole, tmp_path):
    assert campaign(tmp_path, postgres.POSTGRES, 100, hole=hole, batch=20)
