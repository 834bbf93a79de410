"""`python -m tests.screenshots [name …]`: takes all pictures, or some, into docs/pictures."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from playwright.async_api import Page

from tests.screenshots.pictures import PICTURES, Picture
from tests.support.browser import launched, visitor
from tests.support.desk import opened

FOLDER = Path(__file__).parents[2] / "docs/pictures"
_PHONE = {"width": 390, "height": 700}
_PATIENCE_MS = 120_000


def main(names: Sequence[str]) -> None:
    """Takes the pictures of these names, or all; the folder then holds no others than there are."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    asyncio.run(_take([one for one in PICTURES if one.name in names or not names]))
    for file in FOLDER.glob("*.png"):
        if file.stem not in {picture.name for picture in PICTURES}:
            file.unlink()


async def _take(pictures: Sequence[Picture]) -> None:
    with tempfile.TemporaryDirectory(prefix="florin-pictures-") as home:
        async with opened(Path(home), pay_url="") as desk, launched() as browser:
            for picture in pictures:
                async with visitor(
                    browser, viewport=_PHONE, locale=picture.language, color_scheme=picture.scheme
                ) as person:
                    page = await person.tab()
                    page.set_default_timeout(_PATIENCE_MS)
                    await picture.reach(desk, page)
                    person.complaints.clear()
                    await _shoot(page, picture)


async def _shoot(page: Page, picture: Picture) -> None:
    # no picture differs from the one before by its payment's number
    await page.evaluate(
        "() => document.querySelectorAll('code').forEach(one => { one.textContent = '…'; })"
    )
    file = FOLDER / f"{picture.name}.png"
    await page.screenshot(path=file, full_page=True, animations="disabled")


if __name__ == "__main__":
    main(sys.argv[1:])
