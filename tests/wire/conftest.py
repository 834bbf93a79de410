"""One desk for all tests of a module."""

from __future__ import annotations

import pytest
from tests.support import desk as desks


@pytest.fixture(scope="module")
async def desk(tmp_path_factory):
    async with desks.opened(tmp_path_factory.mktemp("desk")) as opened:
        yield opened
