"""Test that a service raises the low limit of open files that shells set."""

from __future__ import annotations

import resource

import pytest
from florin_server.app.files import raise_file_limit

WANTED = 65_536


@pytest.fixture
def most():
    """Return the limit of open files for a process that starts with few."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
    yield before[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_open_file_limit_is_raised_as_far_as_allowed(most):
    raise_file_limit()
    expected = WANTED if most == resource.RLIM_INFINITY else min(most, WANTED)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (expected, most)


def test_higher_open_file_limit_is_not_lowered(monkeypatch):
    result: list[object] = []
    for now in (100_000, resource.RLIM_INFINITY):
        monkeypatch.setattr(resource, "getrlimit", lambda _, now=now: (now, now))
        monkeypatch.setattr(resource, "setrlimit", lambda *args: result.append(args))
        raise_file_limit()
    assert result == []
