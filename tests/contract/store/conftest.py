"""Fixtures that tests of the store share."""

from __future__ import annotations

import pytest

from tests.support.webhook_rows import add_merchant


@pytest.fixture
async def shop(store):
    """Return a store with a partner's merchant, for endpoints."""
    return await add_merchant(store)
