"""Pictures of the form for buyer data: new, and with errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Page

from tests.screenshots.picture import Picture
from tests.support.capture import get_path, open_pos
from tests.support.service_harness import ServiceHarness, open_service


@asynccontextmanager
async def _stage(home: Path) -> AsyncIterator[ServiceHarness]:
    async with open_service(home, capture={"enabled": True}) as desk:
        yield desk


async def _form(desk: ServiceHarness, page: Page) -> None:
    pos = await open_pos(desk)
    await page.goto(f"{desk.rest.base}{get_path(await pos.url())}")


async def _faults(desk: ServiceHarness, page: Page) -> None:
    await _form(desk, page)
    await page.get_by_label("Full name").fill("Ada")
    await page.get_by_role("button", name="Continue").click()
    await page.locator("#faults").wait_for()


PICTURES = (
    Picture("form", _stage, _form),
    Picture("form_faults", _stage, _faults),
)
