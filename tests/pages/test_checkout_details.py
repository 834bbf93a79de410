"""A checkout page that requires buyer data links to the form, and continues automatically."""

from __future__ import annotations

import re

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from tests.support.browser import BrowserVisitor, open_visitor
from tests.support.capture import DATA
from tests.support.injected_wallets import NAME, InjectedEvmWallet
from tests.support.service_harness import ServiceHarness, open_service
from tests.support.until import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

USD = {"unit": "iso4217/USD", "value": "1250"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("details")
    async with open_service(home, pay_url="", capture={"enabled": True}) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def person(browser):
    async with open_visitor(browser, viewport={"width": 400, "height": 800}) as person:
        yield person


async def open_details_prompt(
    desk: ServiceHarness, person: BrowserVisitor, purse: InjectedEvmWallet, look: str = ""
) -> tuple[str, Page]:
    """Return a payment whose buyer chose an option, and its page that asks for details."""
    payment_id = (await desk.rest.create({"amount": USD, "referenceId": "x"}))["paymentId"]
    page = await person.tab()
    await purse.put_into(page)
    await page.goto(f"{desk.rest.base}/{payment_id}{look}")
    await page.locator("#choose").click()
    await page.get_by_role("button", name=NAME).click()
    await page.locator(".paybar .primary").first.click()
    await expect(page.locator("#wallets a.primary")).to_be_visible()
    return payment_id, page


async def test_checkout_continues_automatically_once_the_form_is_sent(desk, person):
    purse = InjectedEvmWallet(desk.chain)
    payment_id, page = await open_details_prompt(desk, person, purse)
    # the link to the form is the only highlighted button
    assert await page.locator("#wallets .primary").all_inner_texts() == ["Enter your details"]
    done = page.get_by_role("button", name="I have entered my details")
    await done.click()
    await expect(page.locator("#step")).to_contain_text("have not arrived yet")
    assert purse.methods.count("eth_signTypedData_v4") == 0
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
    # no button is pressed here any more
    await wait_until(lambda: "eth_signTypedData_v4" in purse.methods)
    assert (await desk.wait_ended(payment_id))["status"] == "succeeded"
    await expect(page.get_by_role("heading", name="Paid", exact=True)).to_be_visible()
    assert purse.methods.count("eth_signTypedData_v4") == 1


@pytest.mark.parametrize("language", ["en", "de", "es", "fr", "ja", "ar"])
async def test_no_sentence_of_the_api_reaches_a_buyer(desk, person, language):
    """The page once said `IC data required but not found`, in every language."""
    purse = InjectedEvmWallet(desk.chain)
    _, page = await open_details_prompt(desk, person, purse, f"?lang={language}")
    raw = re.compile("IC data|required|params_validation|Validation")
    step = page.locator("#step")
    before = await step.inner_text()
    await page.locator("#wallets button:not(.primary)").first.click()
    await expect(step).not_to_have_text(before)
    assert not raw.search(await step.inner_text())
    # the texts of a service's refusal are not repeated either
    body = '{"code": "params_validation", "message": "IC data required but not found"}'
    await page.route(
        re.compile("/options$"),
        lambda route: route.fulfill(status=400, body=body, content_type="application/json"),
    )
    missing = await step.inner_text()
    await page.locator("#wallets button:not(.primary)").first.click()
    await expect(step).not_to_have_text(missing)
    assert not raw.search(await step.inner_text())
    output = "Failed to load resource"
    person.complaints[:] = [
        complaint for complaint in person.complaints if not complaint.startswith(output)
    ]


async def test_page_stops_polling_for_a_deselected_wallet(desk, person):
    purse = InjectedEvmWallet(desk.chain)
    _, page = await open_details_prompt(desk, person, purse)
    await page.clock.install()
    questions: list[str] = []
    page.on("request", lambda request: questions.append(request.url))
    await page.get_by_role("button", name="Use a different wallet").click()
    await page.clock.run_for(60_000)
    assert not [question for question in questions if question.endswith("/options")]
