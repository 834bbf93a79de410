"""What tests of pages share."""

from __future__ import annotations

import aiohttp
import pytest
import pytest_asyncio

from tests.support import browser as browsers
from tests.support.console import Person


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser():
    """A chromium for the tests of a module."""
    async with browsers.launched() as launched:
        yield launched


@pytest_asyncio.fixture(loop_scope="module")
async def bare():
    # cookies are a test's own
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        yield session


@pytest.fixture
def person(desk, bare) -> Person:
    """Somebody at a console of merchants."""
    return Person(bare, desk.rest.base)


@pytest.fixture
def operator(desk, bare) -> Person:
    """Somebody at the operator's console."""
    return Person(bare, desk.service.metrics_url.removesuffix("/metrics"))
