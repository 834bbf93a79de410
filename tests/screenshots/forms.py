"""Pictures of the form for buyer data: new, with errors, sent, and closed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlencode

from playwright.async_api import Page

from tests.screenshots.picture import Picture, Reach
from tests.support.capture import CapturePos, get_path, open_pos, submit_form
from tests.support.service_harness import ServiceHarness, open_service


@asynccontextmanager
async def _stage(home: Path) -> AsyncIterator[ServiceHarness]:
    async with open_service(home, capture={"enabled": True}) as desk:
        yield desk


async def _open(desk: ServiceHarness, page: Page, pos: CapturePos, **look: str) -> None:
    url = f"{desk.rest.base}{get_path(await pos.url())}"
    await page.goto(f"{url}&{urlencode(look)}" if look else url)


def _form(**look: str) -> Reach:
    async def reach(desk: ServiceHarness, page: Page) -> None:
        await _open(desk, page, await open_pos(desk), **look)

    return reach


async def _faults(desk: ServiceHarness, page: Page) -> None:
    await _open(desk, page, await open_pos(desk))
    await page.get_by_label("Full name").fill("Ada")
    await page.get_by_role("button", name="Continue").click()
    await page.locator("#faults").wait_for()


async def _done(desk: ServiceHarness, page: Page) -> None:
    pos = await open_pos(desk)
    url = await pos.url()
    assert (await submit_form(desk, url)).status == 200
    await page.goto(desk.rest.base + get_path(url))


async def _closed(desk: ServiceHarness, page: Page) -> None:
    pos = await open_pos(desk)
    url = await pos.url()
    await desk.rest.simulate(pos.payment_id, "expired")
    await page.goto(desk.rest.base + get_path(url))


PICTURES = (
    Picture("form", _stage, _form()),
    Picture("form_dark_de", _stage, _form(theme="dark", lang="de")),
    Picture("form_ar", _stage, _form(lang="ar")),
    Picture("form_faults", _stage, _faults),
    Picture("form_done", _stage, _done),
    Picture("form_closed", _stage, _closed),
)
