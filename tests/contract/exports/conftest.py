"""A store that exports are made of, and who makes payments in it."""

from __future__ import annotations

import pytest

from tests.support import store_kit
from tests.support.exported import Shop


@pytest.fixture
def database(tmp_path):
    return tmp_path / "florin.db"


@pytest.fixture
async def store(tmp_path):
    async with store_kit.opened("sqlite", tmp_path) as opened:
        yield opened


@pytest.fixture
async def shop(store):
    return Shop(await store_kit.leased(store))
