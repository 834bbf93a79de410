"""A Florin that `florin up` runs, one that is stopped, and commands for both."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import uvloop

from tests.support.service import running


@pytest.fixture(scope="module")
def up(tmp_path_factory, forks):
    """`florin up`, shared by what does not end it."""
    home = tmp_path_factory.mktemp("up") / "home"
    with forks.lasting("up", home=home, FLORIN_KEY_CACHE_S="0.5") as command:
        yield command
        assert command.process.poll() is None
        command.tell(signal.SIGTERM)
        done = command.ended()
        # nothing that the tests asked of it was worth a complaint
        assert (done.status, done.err) == (0, "")


@pytest.fixture
def stopped(tmp_path) -> Path:
    """The state of an installation that has run."""

    async def once() -> None:
        async with running(tmp_path / "home"):
            pass

    uvloop.run(once())
    return tmp_path / "home"
