"""Stories of merchants and operators in a browser, by keyboard alone, with a visible focus."""

from __future__ import annotations

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect
from yarl import URL

from tests.support.books import SETTINGS
from tests.support.browser import open_visitor, read_visible_focus
from tests.support.payout_merchant import USD, PayoutMerchant
from tests.support.service import NO_SOLANA
from tests.support.service_harness import ORDER, open_service
from tests.support.wallet import EvmTestWallet

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

_STEPS_MAX = 60


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("console")
    settings = {**SETTINGS, "solana": NO_SOLANA, "console": True, "metrics_port": 0}
    async with open_service(home, pay_url="", **settings) as desk:
        yield desk


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shop(desk):
    """Yield a merchant with a payment that a wallet paid, and another of the same amount."""
    shop = PayoutMerchant(desk, await desk.tenant())
    shop.paid = await shop.create_paid_payment(EvmTestWallet(key=b"\6" * 32), USD)
    order = {**ORDER, "referenceId": "order-4711", "amount": {**USD, "value": "98765"}}
    created = await desk.rest.call("POST", "/v1/payments", shop.tenant.headers, order)
    shop.open = created["paymentId"]
    return shop


def get_operator_base(desk) -> str:
    return desk.service.metrics_url.removesuffix("/metrics")


async def move_to(page: Page, name: str) -> None:
    """Press Tab until the element of a name has the focus, which every stop shows."""
    stops = []
    for _ in range(_STEPS_MAX):
        await page.keyboard.press("Tab")
        stops.append(await read_visible_focus(page))
        if stops[-1].startswith(name):
            return
    raise AssertionError(f"no way to {name} by the keyboard: {stops}")


async def sign_in(page: Page, secret: str) -> None:
    await move_to(page, "Sign in with")
    await page.keyboard.type(secret)
    await page.keyboard.press("Enter")
    await page.locator("main.work").wait_for()


async def search(page: Page, text: str) -> None:
    await page.wait_for_load_state()
    await page.keyboard.press("/")
    await read_visible_focus(page)
    await page.keyboard.press("Control+A")
    await page.keyboard.type(text)
    await page.keyboard.press("Enter")


async def test_a_merchant_finds_a_payment_and_refunds_a_part(desk, shop, browser):
    async with open_visitor(browser) as person:
        page = await person.open(f"{desk.rest.base}/console")
        await sign_in(page, shop.tenant.secret)
        # the list, because a buyer may remember nothing but the day
        await move_to(page, "Payments")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/console/payments")
        await move_to(page, "12.50")
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"**/payments/{shop.paid}")
        await move_to(page, "Refund")
        await page.keyboard.press("Enter")
        await move_to(page, "Amount in")
        await page.keyboard.press("Control+A")
        await page.keyboard.type("5")
        await move_to(page, "Reason")
        await page.keyboard.type("One cup was cold")
        await move_to(page, "Continue")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Refund 5")).to_be_visible()
        await move_to(page, "Refund 5")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("Refund requested")).to_be_visible()
    refund = await desk.wait_refunded(shop.paid, shop.tenant.headers)
    assert (refund["status"], refund["amount"]["value"]) == ("succeeded", "5000000")
    detail = await desk.rest.call("GET", f"/v1/payments/{shop.paid}", shop.tenant.headers)
    assert detail["refunds"][0]["reason"] == "One cup was cold"


async def test_each_thing_that_a_buyer_has_finds_the_payment_in_both_consoles(desk, shop, browser):
    path = f"/v1/payments/{shop.paid}"
    detail = await desk.rest.call("GET", path, shop.tenant.headers)
    paid = {
        "id": shop.paid,
        "link": f"{desk.rest.base}/{shop.paid}",
        "transaction": detail["info"]["txId"],
        "address": detail["buyer"]["accountCaip10"].rpartition(":")[2],
    }
    unpaid = {"order reference": "order-4711", "amount": "987.65 USD"}
    consoles = (
        (desk.rest.base, shop.tenant.secret, {**paid, **unpaid}),
        # references and amounts are not unique among all partners
        (get_operator_base(desk), desk.service.secrets.operator_token, paid),
    )
    for base, secret, things in consoles:
        async with open_visitor(browser) as person:
            page = await person.open(f"{base}/console")
            await sign_in(page, secret)
            for name, text in things.items():
                await page.goto(f"{URL(page.url).origin()}/console")
                await search(page, text)
                payment_id = shop.open if name in unpaid else shop.paid
                await page.wait_for_url(f"**/payments/{payment_id}")
                await expect(page.locator("h1.big")).to_be_visible()
