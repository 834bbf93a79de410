"""Fixtures of tests of pages."""

from __future__ import annotations

import aiohttp
import pytest
import pytest_asyncio

from tests.support import browser as browsers
from tests.support.console import ConsoleUser


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser():
    """Yield a chromium for the tests of a module."""
    async with browsers.launch_browser() as launched:
        yield launched


@pytest_asyncio.fixture(loop_scope="module")
async def bare():
    # each test has its own cookies
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        yield session


@pytest.fixture
def person(desk, bare) -> ConsoleUser:
    """Yield a visitor of the merchant console."""
    return ConsoleUser(bare, desk.rest.base)


@pytest.fixture
def operator(desk, bare) -> ConsoleUser:
    """Yield a visitor of the operator console."""
    return ConsoleUser(bare, desk.service.metrics_url.removesuffix("/metrics"))
