"""Takes pictures of pages that stand still."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.async_api import Browser, Page

from tests.screenshots.fonts import alike
from tests.screenshots.picture import Picture
from tests.screenshots.still import calm
from tests.support.browser import visitor
from tests.support.desk import START_S

_PATIENCE_MS = 120_000
_HEIGHT = 700
Spoil = Callable[[Page], Awaitable[None]]
# a page that a script still works on is looked at again
_LOOKS_MAX = 20
# as many as a file of one byte a pixel may name
_COLOURS = 256


async def taken(
    pictures: Sequence[Picture], folder: Path
) -> AsyncIterator[tuple[str, Image.Image]]:
    """The names of pictures, and the pictures; the folder is for what they need meanwhile."""
    async with alike(folder) as browser:
        for number, (stage, there) in enumerate(groupby(pictures, key=lambda one: one.stage)):
            async with stage(folder / f"stage_{number}") as opened:
                for picture in there:
                    yield picture.name, await shot(browser, opened, picture)


async def shot(
    browser: Browser, stage: Any, picture: Picture, spoil: Spoil | None = None
) -> Image.Image:
    """A picture of a page on its stage; `spoil` does something to the page before it is loaded."""
    told = {
        "viewport": {"width": picture.width, "height": _HEIGHT},
        "locale": picture.language,
        "color_scheme": picture.scheme,
        "timezone_id": "UTC",
    }
    async with visitor(browser, **told) as person:
        page = await person.tab()
        page.set_default_timeout(_PATIENCE_MS)
        await page.clock.set_fixed_time(START_S * 1000)
        if spoil is not None:
            await spoil(page)
        await picture.reach(stage, page)
        image = await _still(page)
        # answers that are refusals are noted by browsers
        person.complaints.clear()
        return image


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
    """A picture in as many colours as a small file has, from the same to the same."""
    with Image.open(io.BytesIO(file)) as image:
        return image.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
