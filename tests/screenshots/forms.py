"""The form for data about a buyer: as it is opened, with faults, handed in, and of no use."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlencode

from playwright.async_api import Page

from tests.screenshots.picture import Picture, Reach
from tests.support.capture import Till, hand_in, new_till, path_of
from tests.support.desk import Desk, opened


@asynccontextmanager
async def _stage(home: Path) -> AsyncIterator[Desk]:
    async with opened(home, capture={"enabled": True}) as desk:
        yield desk


async def _open(desk: Desk, page: Page, till: Till, **look: str) -> None:
    url = f"{desk.rest.base}{path_of(await till.url())}"
    await page.goto(f"{url}&{urlencode(look)}" if look else url)


def _form(**look: str) -> Reach:
    async def reach(desk: Desk, page: Page) -> None:
        await _open(desk, page, await new_till(desk), **look)

    return reach


async def _faults(desk: Desk, page: Page) -> None:
    await _open(desk, page, await new_till(desk))
    await page.get_by_label("Full name").fill("Ada")
    await page.get_by_role("button", name="Continue").click()
    await page.locator("#faults").wait_for()


async def _done(desk: Desk, page: Page) -> None:
    till = await new_till(desk)
    url = await till.url()
    assert (await hand_in(desk, url)).status == 200
    await page.goto(desk.rest.base + path_of(url))


async def _closed(desk: Desk, page: Page) -> None:
    till = await new_till(desk)
    url = await till.url()
    await desk.rest.simulate(till.payment_id, "expired")
    await page.goto(desk.rest.base + path_of(url))


PICTURES = (
    Picture("form", _stage, _form()),
    Picture("form_dark_de", _stage, _form(theme="dark", lang="de")),
    Picture("form_ar", _stage, _form(lang="ar")),
    Picture("form_faults", _stage, _faults),
    Picture("form_done", _stage, _done),
    Picture("form_closed", _stage, _closed),
)
