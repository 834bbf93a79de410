"""Pictures of the checkout page, the landing page and error pages."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Page

from tests.screenshots.picture import Picture, Reach
from tests.support.checkout_states import STATES, reach_state
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


async def _no_wallet(desk: ServiceHarness, page: Page) -> None:
    """Show what the page offers if no wallet is found."""
    await _state("requires_action")(desk, page)
    await page.locator("#choose").click()
    await page.get_by_role("button", name="Look again").wait_for()


PICTURES = (
    *(Picture(f"checkout_{state}", stage, _state(state)) for state in STATES),
    Picture("checkout_options", stage, _options),
    Picture("checkout_desktop", stage, _state("requires_action"), width=DESKTOP_WIDE),
    Picture("checkout_wallets_none", stage, _no_wallet),
    Picture("checkout_dark", stage, _state("requires_action"), scheme="dark"),
    Picture("checkout_ar", stage, _state("requires_action"), language="ar"),
    Picture("first_page", stage, _path("/")),
    Picture("nothing_here", stage, _path("/nothing/here")),
    Picture("console_login", stage, _path("/console")),
)
