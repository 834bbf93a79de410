"""A page that asks for data about its buyer leads to the form, and continues by itself."""

from __future__ import annotations

import re

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from tests.support.browser import Visitor, visitor
from tests.support.capture import DATA
from tests.support.desk import Desk, opened
from tests.support.injected import NAME, Purse
from tests.support.until import until

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

USD = {"unit": "iso4217/USD", "value": "1250"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("details")
    async with opened(home, pay_url="", capture={"enabled": True}) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def person(browser):
    async with visitor(browser, viewport={"width": 400, "height": 800}) as person:
        yield person


async def asked(desk: Desk, person: Visitor, purse: Purse, look: str = "") -> tuple[str, Page]:
    """A payment whose buyer chose what to pay with, and is asked for details."""
    payment_id = (await desk.rest.create({"amount": USD, "referenceId": "x"}))["paymentId"]
    page = await person.tab()
    await purse.put_into(page)
    await page.goto(f"{desk.rest.base}/{payment_id}{look}")
    await page.locator("#choose").click()
    await page.get_by_role("button", name=NAME).click()
    await page.locator(".choice .main-action").first.click()
    await expect(page.locator("#wallets a.main-action")).to_be_visible()
    return payment_id, page


async def test_the_page_goes_on_by_itself_once_the_form_is_sent(desk, person):
    purse = Purse(desk.chain)
    payment_id, page = await asked(desk, person, purse)
    # the way to the form is the one button that stands out
    assert await page.locator("#wallets .main-action").all_inner_texts() == ["Enter your details"]
    done = page.get_by_role("button", name="I have entered my details")
    await done.click()
    await expect(page.locator("#step")).to_contain_text("have not arrived yet")
    assert purse.asked.count("eth_signTypedData_v4") == 0
    async with page.context.expect_page() as opening:
        await page.get_by_role("link", name="Enter your details").click()
    await expect(page.locator("#step")).to_contain_text("Waiting for your details")
    form = await opening.value
    await form.get_by_label("Full name").fill(DATA["fullName"])
    await form.get_by_label("Date of birth").fill(DATA["dob"])
    await form.get_by_label("Country of birth").select_option(label="Germany")
    await form.get_by_label("Place of birth").fill(DATA["pobAddress"])
    await form.get_by_label("I accept").check()
    await form.get_by_role("button", name="Continue").click()
    await expect(form.get_by_role("heading", name="Thank you")).to_be_visible()
    await form.close()
    # nothing is pressed here any more
    await until(lambda: "eth_signTypedData_v4" in purse.asked)
    assert (await desk.ended(payment_id))["status"] == "succeeded"
    await expect(page.get_by_role("heading", name="Paid", exact=True)).to_be_visible()
    assert purse.asked.count("eth_signTypedData_v4") == 1


@pytest.mark.parametrize("language", ["en", "de", "es", "fr", "ja", "ar"])
async def test_no_sentence_of_the_api_reaches_a_buyer(desk, person, language):
    """It once read `IC data required but not found`, in every language."""
    purse = Purse(desk.chain)
    _, page = await asked(desk, person, purse, f"?lang={language}")
    raw = re.compile("IC data|required|params_validation|Validation")
    step = page.locator("#step")
    before = await step.inner_text()
    await page.locator("#wallets button:not(.main-action)").first.click()
    await expect(step).not_to_have_text(before)
    assert not raw.search(await step.inner_text())
    # a service that refuses in its own words is not repeated either
    body = '{"code": "params_validation", "message": "IC data required but not found"}'
    await page.route(
        re.compile("/options$"),
        lambda route: route.fulfill(status=400, body=body, content_type="application/json"),
    )
    missing = await step.inner_text()
    await page.locator("#wallets button:not(.main-action)").first.click()
    await expect(step).not_to_have_text(missing)
    assert not raw.search(await step.inner_text())
    told = "Failed to load resource"
    person.complaints[:] = [one for one in person.complaints if not one.startswith(told)]


async def test_who_takes_another_wallet_is_not_waited_for(desk, person):
    purse = Purse(desk.chain)
    _, page = await asked(desk, person, purse)
    await page.clock.install()
    questions: list[str] = []
    page.on("request", lambda request: questions.append(request.url))
    await page.get_by_role("button", name="Take another wallet").click()
    await page.clock.run_for(60_000)
    assert not [one for one in questions if one.endswith("/options")]
