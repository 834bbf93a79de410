"""Takes pictures of pages whose values do not change."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.async_api import Browser, Page

from tests.screenshots.fonts import alike
from tests.screenshots.page_state import PageState
from tests.screenshots.picture import Picture
from tests.screenshots.sheet import is_stored, photograph
from tests.screenshots.stable_values import calm
from tests.screenshots.state_pages import PATIENCE_MS, Spoil, open_state_pages
from tests.support.browser import open_visitor
from tests.support.service_harness import START_S

_HEIGHT = 700
# a page that a script still changes is captured again
_LOOKS_MAX = 20
# the maximum for a file of one byte a pixel
_COLOURS = 256


async def taken(
    pictures: Sequence[Picture], folder: Path
) -> AsyncIterator[tuple[str, Image.Image]]:
    """Yield the names and the pictures; the folder is for temporary files."""
    async with alike(folder) as browser:
        for number, (stage, there) in enumerate(
            groupby(pictures, key=lambda this_picture: this_picture.stage)
        ):
            async with stage(folder / f"stage_{number}") as opened:
                for picture in there:
                    yield picture.name, await shot(browser, opened, picture)


async def shot(
    browser: Browser, stage: Any, picture: Picture, spoil: Spoil | None = None
) -> Image.Image:
    """Take a picture of a page on its stage; `spoil` can change the page before it loads."""
    result = {
        "viewport": {"width": picture.width, "height": _HEIGHT},
        "locale": picture.language,
        "color_scheme": picture.scheme,
        "timezone_id": "UTC",
    }
    async with open_visitor(browser, **result) as person:
        page = await person.tab()
        page.set_default_timeout(PATIENCE_MS)
        await page.clock.set_fixed_time(START_S * 1000)
        if spoil is not None:
            await spoil(page)
        await picture.reach(stage, page)
        image = await _still(page)
        # browsers report answers that are refusals
        person.complaints.clear()
        return image


async def take_sheets(
    states: Sequence[PageState], folder: Path
) -> AsyncIterator[tuple[PageState, Image.Image]]:
    """Yield states, and their pages in every look; the folder is for temporary files."""
    async with open_state_pages(folder) as pages:
        for number, (stage, there) in enumerate(groupby(states, key=lambda state: state.stage)):
            async with stage(folder / f"stage_{number}") as opened:
                for state in there:
                    async with pages.open(opened, state) as page:
                        yield state, await _photograph_still(page, state)


async def _photograph_still(page: Page, state: PageState) -> Image.Image:
    before = await photograph(page, state.looks)
    if is_stored(before, state):
        return before
    for _ in range(_LOOKS_MAX):
        now = await photograph(page, state.looks)
        if now == before:
            return now
        before = now
    raise AssertionError(f"{page.url} does not stand still")


async def _still(page: Page) -> Image.Image:
    before = b""
    for _ in range(_LOOKS_MAX):
        await calm(page)
        now = await page.screenshot(full_page=True, animations="disabled", caret="hide")
        if now == before:
            return _few_colours(now)
        before = now
    raise AssertionError(f"{page.url} does not stand still")


def _few_colours(file: bytes) -> Image.Image:
    """Return a screenshot in as many colors as a small file can have."""
    with Image.open(io.BytesIO(file)) as image:
        return image.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
