"""Fixtures that contract tests share."""

from __future__ import annotations

import pytest

from tests.support import postgres
from tests.support.store_factories import ENGINES, open_engine_store


@pytest.fixture(params=ENGINES)
async def store(request, tmp_path):
    """Open an empty store on every engine."""
    async with open_engine_store(request.param, tmp_path) as engine_store:
        yield engine_store
    await postgres.drop_database(tmp_path)
