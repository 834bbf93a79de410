"""States of the checkout page with a wallet in the browser."""

from __future__ import annotations

import asyncio
from typing import Any

from playwright.async_api import Page

from tests.screenshots.buyer_environment import NEEDS_DATA, BuyerStage, make_state
from tests.screenshots.picture import Reach
from tests.support.injected_wallets import InjectedEvmWallet
from tests.support.payout_merchant import EUR, GBP, USD
from tests.support.wallet import EvmTestWallet

_NAME = "Purse"
_KEY = b"\1" * 32


async def _connect(stage: BuyerStage, page: Page, amount: Any, **wallet: Any) -> None:
    purse = InjectedEvmWallet(stage.desk.chain, EvmTestWallet(key=_KEY), name=_NAME, **wallet)
    await purse.put_into(page)
    await page.goto(stage.desk.rest.base + await stage.create(amount=amount))
    await page.locator("#choose").click()


async def _list_wallets(stage: BuyerStage, page: Page) -> None:
    await _connect(stage, page, USD)
    await page.get_by_role("button", name=_NAME).wait_for()


async def _find_no_wallet(stage: BuyerStage, page: Page) -> None:
    await page.goto(stage.desk.rest.base + await stage.create())
    await page.locator("#choose").click()
    await page.get_by_role("button", name="Look again").wait_for()


def _offer(amount: Any, **wallet: Any) -> Reach:
    async def reach(stage: BuyerStage, page: Page) -> None:
        await _connect(stage, page, amount, **wallet)
        await page.get_by_role("button", name=_NAME).click()
        await page.locator(".paybar").wait_for()

    return reach


async def _ask_wallet(stage: BuyerStage, page: Page) -> None:
    """Leave the wallet unanswered, which locks the page."""
    stage.unanswered.append(released := asyncio.Event())
    await _offer(USD, released=released)(stage, page)
    await page.locator(".paybar .primary").click()
    await page.get_by_role("button", name="Cancel").wait_for()


async def _decline(stage: BuyerStage, page: Page) -> None:
    await _offer(USD, refuses={"eth_signTypedData_v4": (4001, "User rejected")})(stage, page)
    await page.locator(".paybar .primary").click()
    await page.get_by_role("button", name="Try again").wait_for()


async def _need_data(stage: BuyerStage, page: Page) -> None:
    await _offer(NEEDS_DATA)(stage, page)
    await page.locator(".paybar .primary").click()
    await page.locator("#wallets a.primary").wait_for()


WALLET_STATES = (
    make_state("wallets_found", _list_wallets, has_own_page=True),
    make_state("wallets_none", _find_no_wallet),
    make_state("wallet_options", _offer(USD), has_own_page=True),
    make_state("wallet_options_approval", _offer(EUR), has_own_page=True),
    make_state("wallet_options_fee", _offer(GBP), has_own_page=True),
    make_state("wallet_asked", _ask_wallet, has_own_page=True),
    make_state("wallet_declined", _decline, has_own_page=True),
    make_state("wallet_needs_data", _need_data, has_own_page=True),
)
