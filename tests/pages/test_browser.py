"""The browser checks that tests of pages rely on find pages that break the rules."""

from __future__ import annotations

import pytest

from tests.support.browser import list_violations, open_visitor

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_accessibility_violations_are_detected(browser):
    async with open_visitor(browser) as person:
        page = await person.tab()
        await page.set_content("<html><title>x</title><body><main><h1>x</h1><img src='data:,'>")
        result = " ".join(await list_violations(page))
    assert "image-alt" in result
    assert "html-has-lang" in result


async def test_console_error_of_a_page_fails_the_visit(browser):
    async def visit() -> None:
        async with open_visitor(browser) as person:
            page = await person.tab()
            await page.set_content("<script>console.error('oops')</script>")

    with pytest.raises(AssertionError, match="oops"):
        await visit()
