"""Fixtures for exports: a store, and a builder that makes payments in it."""

from __future__ import annotations

import pytest

from tests.support import store_factories
from tests.support.export_stores import ExportStoreBuilder


@pytest.fixture
def database(tmp_path):
    return tmp_path / "florin.db"


@pytest.fixture
async def store(tmp_path):
    async with store_factories.open_engine_store("sqlite", tmp_path) as opened:
        yield opened


@pytest.fixture
async def shop(store):
    return ExportStoreBuilder(await store_factories.acquire_lease(store))
