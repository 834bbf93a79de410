"""Pictures of the checkout page and the landing page."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Page

from tests.screenshots.picture import Picture, Reach
from tests.support.checkout_states import reach_state
from tests.support.injected_wallets import InjectedEvmWallet
from tests.support.service_harness import ServiceHarness, open_service
from tests.support.wallet import EvmTestWallet

_NAME = "pay.shop.example"
DESKTOP_WIDE = 1280


@asynccontextmanager
async def stage(home: Path) -> AsyncIterator[ServiceHarness]:
    """Yield a service with its consoles."""
    async with open_service(home, pay_url="", site_name=_NAME, console=True) as desk:
        yield desk


def _state(state: str) -> Reach:
    async def reach(desk: ServiceHarness, page: Page) -> None:
        await page.goto(desk.rest.base + await reach_state(desk, state))

    return reach


def _path(path: str) -> Reach:
    async def reach(desk: ServiceHarness, page: Page) -> None:
        await page.goto(desk.rest.base + path)

    return reach


async def _options(desk: ServiceHarness, page: Page) -> None:
    """Show the options of a wallet in the browser."""
    purse = InjectedEvmWallet(desk.chain, EvmTestWallet(key=b"\1" * 32), name="Purse")
    await purse.put_into(page)
    await _state("requires_action")(desk, page)
    await page.locator("#choose").click()
    await page.get_by_role("button", name="Purse").click()
    await page.get_by_role("button", name=re.compile("^Pay ")).wait_for()


PICTURES = (
    Picture("checkout_requires_action", stage, _state("requires_action")),
    Picture("checkout_desktop", stage, _state("requires_action"), width=DESKTOP_WIDE),
    Picture("checkout_succeeded", stage, _state("succeeded")),
    Picture("checkout_options", stage, _options),
    Picture("first_page", stage, _path("/")),
)
