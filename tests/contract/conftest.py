"""Fixtures that contract tests share."""

from __future__ import annotations

import pytest

from tests.support import postgres
from tests.support.store_factories import ENGINES, open_engine_store
from tests.support.webhook_rows import add_merchant


@pytest.fixture(params=ENGINES)
async def store(request, tmp_path):
    """Open an empty store on every engine."""
    async with open_engine_store(request.param, tmp_path) as engine_store:
        yield engine_store
    await postgres.drop_database(tmp_path)


@pytest.fixture
async def shop(store):
    """Return a store with a partner's merchant, for endpoints."""
    return await add_merchant(store)
