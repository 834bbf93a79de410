"""Checks that each state of a page passes: it looks as its sheet shows, and is accessible."""

from __future__ import annotations

from typing import Any

from playwright.async_api import JSHandle, Page

from tests.screenshots.__main__ import DIFFERING
from tests.screenshots.page_state import PageState
from tests.screenshots.sheet import compare_with_stored, photograph
from tests.screenshots.state_pages import StatePages
from tests.support.browser import list_violations

# a script can still be working while the first picture is taken
_ATTEMPTS = 3


async def assert_state_is_right(pages: StatePages, stage: Any, state: PageState) -> None:
    """Fail if a page differs from its sheet, or breaks a rule of axe in one of the schemes."""
    async with pages.open(stage, state) as page:
        output = ""
        for _ in range(_ATTEMPTS):
            image = await photograph(page, state.looks)
            if not (output := compare_with_stored(image, state, DIFFERING)):
                break
        assert output == "", f"{output}; see {DIFFERING}, or run `make screenshots`"
        # labels and scripts find the first of two
        assert await list_repeated_ids(page) == []
        # axe itself is a script; the page is in its last look already
        for width, scheme in (state.looks[-1], state.looks[0]) if state.has_scripts else ():
            await page.set_viewport_size({"width": width, "height": 800})
            await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            assert await list_violations(page) == [], (width, scheme)


async def list_repeated_ids(page: Page) -> list[str]:
    """Return the ids that several elements of a page have; axe reports only some of them."""
    ids: list[str] = await page.locator("[id]").evaluate_all(
        "elements => elements.map(element => element.id)"
        ".filter((id, at, ids) => ids.indexOf(id) !== at)"
    )
    return ids


async def add_style_rule(page: Page, rule: str) -> JSHandle:
    """Add a rule to the page's last style sheet; return the function that removes it.

    The policy of pages allows no other styles.
    """
    add = """rule => {
        const sheet = [...document.styleSheets].at(-1);
        const at = sheet.insertRule(rule, sheet.cssRules.length);
        return () => sheet.deleteRule(at);
    }"""
    return await page.evaluate_handle(add, rule)
