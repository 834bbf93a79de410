"""Test that two processes on one database do everything once, and that planted bugs are found."""

from __future__ import annotations

import pytest

from tests.chaos.store_race import PLANTED_BUGS, campaign
from tests.support import postgres

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        postgres.POSTGRES not in postgres.list_engines(), reason="PostgreSQL is not selected"
    ),
]
ENGINES = [engine for engine in postgres.list_engines() if engine != postgres.SQLITE]


@pytest.mark.parametrize("engine", ENGINES)
def test_two_processes_do_everything_once(engine, tmp_path):
    assert campaign(tmp_path, engine, 20) == []


@pytest.mark.parametrize("bug", PLANTED_BUGS)
def test_planted_bug_is_detected_within_a_hundred_rounds(bug, tmp_path):
    assert campaign(tmp_path, postgres.POSTGRES, 100, bug=bug, batch=5)
