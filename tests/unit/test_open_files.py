"""A service is not held to the few open files that shells begin programs with."""

from __future__ import annotations

import resource

import pytest
from florin_server.boot.files import open_many

WANTED = 65_536


@pytest.fixture
def most():
    """How many files this process may open at most; it has few to begin with."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
    yield before[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_process_may_open_what_it_needs_as_far_as_the_system_lets_it(most):
    open_many()
    wanted = WANTED if most == resource.RLIM_INFINITY else min(most, WANTED)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (wanted, most)


def test_what_a_process_may_open_already_is_not_made_less(monkeypatch):
    told: list[object] = []
    for now in (100_000, resource.RLIM_INFINITY):
        monkeypatch.setattr(resource, "getrlimit", lambda _, now=now: (now, now))
        monkeypatch.setattr(resource, "setrlimit", lambda *asked: told.append(asked))
        open_many()
    assert told == []
