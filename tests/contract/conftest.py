"""What contract tests share."""

from __future__ import annotations

import pytest

from tests.support import postgres
from tests.support.store_kit import ENGINES, opened


@pytest.fixture(params=ENGINES)
async def store(request, tmp_path):
    """An empty store, of every engine."""
    async with opened(request.param, tmp_path) as made:
        yield made
    await postgres.forget(tmp_path)
