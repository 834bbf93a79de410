"""What tests of pages share."""

from __future__ import annotations

import pytest_asyncio

from tests.support import browser as browsers


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser():
    """A chromium for the tests of a module."""
    async with browsers.launched() as launched:
        yield launched
