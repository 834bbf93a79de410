"""What tests of the store share."""

from __future__ import annotations

import pytest

from tests.support.hooked import opened_shop


@pytest.fixture
async def shop(store):
    """A store with a merchant of a partner, for endpoints."""
    return await opened_shop(store)
