"""What tests of pages rely on in a browser, seen to work on pages that break the rules."""

from __future__ import annotations

import pytest

from tests.support.browser import violations, visitor

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_what_people_cannot_use_is_found(browser):
    async with visitor(browser) as person:
        page = await person.tab()
        await page.set_content("<html><title>x</title><body><main><h1>x</h1><img src='data:,'>")
        found = " ".join(await violations(page))
    assert "image-alt" in found
    assert "html-has-lang" in found


async def test_what_a_page_complains_of_is_an_error(browser):
    async def visit() -> None:
        async with visitor(browser) as person:
            page = await person.tab()
            await page.set_content("<script>console.error('oops')</script>")

    with pytest.raises(AssertionError, match="oops"):
        await visit()
