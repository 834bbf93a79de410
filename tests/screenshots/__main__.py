"""`python -m tests.screenshots [folder]`: takes the pictures, into docs/pictures unless told."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from playwright.async_api import Page

from tests.screenshots.pictures import PICTURES, Picture
from tests.support.browser import launched, visitor
from tests.support.desk import opened

FOLDER = Path(__file__).parents[2] / "docs/pictures"
_PHONE = {"width": 390, "height": 700}
_PATIENCE_MS = 120_000


def main(folder: Path) -> None:
    """Takes every picture; the folder then holds these and no other."""
    folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(_take(folder))
    for file in folder.glob("*.png"):
        if file.stem not in {picture.name for picture in PICTURES}:
            file.unlink()


async def _take(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="florin-pictures-") as home:
        async with opened(Path(home), pay_url="") as desk, launched() as browser:
            for picture in PICTURES:
                async with visitor(
                    browser, viewport=_PHONE, locale=picture.language, color_scheme=picture.scheme
                ) as person:
                    page = await person.tab()
                    await picture.reach(desk, page)
                    person.complaints.clear()
                    await _shoot(page, picture, folder)


async def _shoot(page: Page, picture: Picture, folder: Path) -> None:
    # no picture differs from the one before by its payment's number
    await page.evaluate(
        "() => document.querySelectorAll('code').forEach(one => { one.textContent = '…'; })"
    )
    file = folder / f"{picture.name}.png"
    await page.screenshot(path=file, full_page=True, animations="disabled", timeout=_PATIENCE_MS)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
