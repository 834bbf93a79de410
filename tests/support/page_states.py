"""Checks that a page passes in each state: it looks as its sheet shows, and everybody can use it."""

from __future__ import annotations

from typing import Any

from playwright.async_api import Browser

from tests.screenshots.__main__ import DIFFERING
from tests.screenshots.camera import open_state
from tests.screenshots.page_state import PageState
from tests.screenshots.sheet import compare_with_stored, photograph
from tests.support.browser import list_violations

# a script can still be working while the first picture is taken
_ATTEMPTS = 3


async def assert_state_is_right(browser: Browser, stage: Any, state: PageState) -> None:
    """Fail if a page differs from its sheet, or violates an accessibility rule in a color scheme."""
    async with open_state(browser, stage, state) as page:
        output = ""
        for _ in range(_ATTEMPTS):
            image = await photograph(page, state.looks)
            if not (output := compare_with_stored(image, state, DIFFERING)):
                break
        assert output == "", f"{output}; see {DIFFERING}, or run `make screenshots`"
        for width, scheme in (state.looks[0], state.looks[-1]):
            await page.set_viewport_size({"width": width, "height": 800})
            await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            assert await list_violations(page) == [], (width, scheme)
