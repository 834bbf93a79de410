"""Test two clients racing for the same keys while the server dies: one effect and answer each."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def race(forks, tmp_path):
    """Run a race in its own process: it forks, which a threaded process must not."""

    def run(*options):
        process = forks.module("tests.chaos.race", str(tmp_path / "race"), *options)
        out, errors = process.communicate(timeout=300)
        assert out, errors
        return json.loads(out.splitlines()[-1]), errors

    return run


def test_idempotency_key_has_a_single_effect_and_response_across_processes(race):
    result, errors = race("--calls", "250")
    assert result["bad"] == []
    # it was a race: keys met, bodies differed, calls were abandoned, the server was away
    assert result["replayed"] > 100
    assert result["statuses"]["409"] > 50
    assert result["given_up"] > 20
    assert result["unanswered"] > 0
    # abandoned calls do not fill the log
    assert "never retrieved" not in errors


def test_the_race_notices_keys_that_are_claimed_after_the_effect(race):
    result, _ = race("--calls", "60", "--planted")
    # the order decides each answer, but so many collisions are certain
    assert len(result["bad"]) > 3
