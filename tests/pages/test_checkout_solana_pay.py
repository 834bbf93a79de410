"""The code for Solana wallets on the checkout page, in a browser."""

from __future__ import annotations

import pytest
import pytest_asyncio
from florin_server.web.language import LANGUAGES
from playwright.async_api import expect

from tests.support.browser import list_violations, open_visitor
from tests.support.service_harness import ORDER, open_service
from tests.support.solana import INSTANT_SOLANA

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(tmp_path_factory):
    home = tmp_path_factory.mktemp("shown")
    async with open_service(home, pay_url="", solana=INSTANT_SOLANA) as service:
        yield service


@pytest_asyncio.fixture(loop_scope="module")
async def visitor(browser):
    async with open_visitor(browser, viewport={"width": 320, "height": 700}) as visitor:
        yield visitor


@pytest.mark.parametrize("language", LANGUAGES)
async def test_buyers_open_the_code_for_solana_wallets(service, visitor, language):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    page = await visitor.open(f"{service.rest.base}/{payment_id}?lang={language}")
    code = page.locator("#solana")
    await expect(code.locator("svg[role=img], .qr svg")).not_to_be_visible()
    await code.locator("summary").click()
    await expect(code.locator(".qr svg")).to_be_visible()
    link = code.locator("a.button")
    assert await link.get_attribute("href") == f"solana:{service.rest.base}/solana/{payment_id}"
    assert await page.evaluate(
        "() => document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    )
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        assert await list_violations(page) == [], scheme


async def test_code_is_gone_once_the_payment_ended(service, visitor):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    await service.rest.simulate(payment_id, "succeeded")
    page = await visitor.open(f"{service.rest.base}/{payment_id}")
    await expect(page.locator("#solana")).to_have_count(0)
