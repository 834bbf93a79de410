"""Visits of buyers who pay with a wallet of their browser."""

from __future__ import annotations

import re
from typing import Any, Protocol

from playwright.async_api import Locator, Page, expect

from tests.support.browser import BrowserVisitor
from tests.support.injected_wallets import NAME
from tests.support.service_harness import ServiceHarness

USD, EUR, GBP = (
    {"unit": f"iso4217/{text}", "value": value}
    for text, value in (("USD", "1250"), ("EUR", "990"), ("GBP", "500"))
)


class InjectedWallet(Protocol):
    """A wallet that a test injects into a page."""

    async def put_into(self, page: Page) -> None: ...


async def find_wallet(
    desk: ServiceHarness,
    person: BrowserVisitor,
    purse: InjectedWallet,
    amount: dict[str, Any] = USD,
) -> tuple[str, Page]:
    """Return a payment and its page, which has found a wallet; nothing is chosen yet."""
    payment_id = (await desk.rest.create({"amount": amount, "referenceId": "shown"}))["paymentId"]
    page = await person.tab()
    await purse.put_into(page)
    await page.goto(f"{desk.rest.base}/{payment_id}")
    await page.get_by_role("button", name="Connect a wallet").click()
    return payment_id, page


async def open_options(
    desk: ServiceHarness,
    person: BrowserVisitor,
    purse: InjectedWallet,
    amount: dict[str, Any] = USD,
) -> tuple[str, Page]:
    """Return a payment and its page, which shows the options of the wallet's account."""
    payment_id, page = await find_wallet(desk, person, purse, amount)
    await page.get_by_role("button", name=NAME).click()
    await expect(page.locator("#step")).to_have_text("Choose what to pay with")
    return payment_id, page


def get_pay_button(page: Page) -> Locator:
    """Return the button that pays with the chosen option."""
    return page.get_by_role("button", name=re.compile("^Pay "))


async def assert_paid(desk: ServiceHarness, page: Page, payment_id: str) -> None:
    """Fail if a payment does not succeed, or its page does not show that."""
    assert (await desk.wait_ended(payment_id))["status"] == "succeeded"
    await expect(page.get_by_role("heading", name="Paid", exact=True)).to_be_visible()
