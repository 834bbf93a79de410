"""A Florin that `florin up` runs, a stopped one, and commands for both."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import uvloop

from tests.support.service import run_service


@pytest.fixture(scope="module")
def up(tmp_path_factory, forks):
    """Run `florin up`, shared by all tests that do not end it."""
    home = tmp_path_factory.mktemp("up") / "home"
    with forks.start_lasting("up", home=home, FLORIN_KEY_CACHE_S="0.5") as command:
        yield command
        assert command.process.poll() is None
        command.send_signal(signal.SIGTERM)
        done = command.wait_ended()
        # no test call caused a warning
        assert (done.status, done.err) == (0, "")


@pytest.fixture
def home(tmp_path) -> Path:
    """Return where a test's own installation is created."""
    return tmp_path / "home"


@pytest.fixture
def stopped(tmp_path) -> Path:
    """Return the state of an installation that has run."""

    async def once() -> None:
        async with run_service(tmp_path / "home"):
            pass

    uvloop.run(once())
    return tmp_path / "home"
