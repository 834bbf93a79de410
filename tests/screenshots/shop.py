"""Pages that people come to by a link or by accident: the checkout, the first page, nothing."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Page

from tests.screenshots.picture import Picture, Reach
from tests.support.checkout_states import STATES, reached
from tests.support.desk import Desk, opened
from tests.support.injected import Purse
from tests.support.wallet import Wallet

_NAME = "pay.shop.example"


@asynccontextmanager
async def stage(home: Path) -> AsyncIterator[Desk]:
    """A service with its consoles."""
    async with opened(home, pay_url="", site_name=_NAME, console=True) as desk:
        yield desk


def _state(state: str) -> Reach:
    async def reach(desk: Desk, page: Page) -> None:
        await page.goto(desk.rest.base + await reached(desk, state))

    return reach


def _path(path: str) -> Reach:
    async def reach(desk: Desk, page: Page) -> None:
        await page.goto(desk.rest.base + path)

    return reach


async def _options(desk: Desk, page: Page) -> None:
    """What a wallet of the browser can pay with."""
    purse = Purse(desk.chain, Wallet(key=b"\1" * 32), name="Purse")
    await purse.put_into(page)
    await _state("requires_action")(desk, page)
    await page.locator("#choose").click()
    await page.get_by_role("button", name="Purse").click()
    await page.get_by_role("button", name=re.compile("^Pay ")).wait_for()


PICTURES = (
    *(Picture(f"checkout_{state}", stage, _state(state)) for state in STATES),
    Picture("checkout_options", stage, _options),
    Picture("checkout_dark", stage, _state("requires_action"), scheme="dark"),
    Picture("checkout_ar", stage, _state("requires_action"), language="ar"),
    Picture("first_page", stage, _path("/")),
    Picture("nothing_here", stage, _path("/nothing/here")),
    Picture("console_login", stage, _path("/console")),
)
