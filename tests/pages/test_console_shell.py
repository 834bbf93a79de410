"""The frame of the console in a browser: commands, switches of mode and merchant, the drawer."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytest_asyncio
from florin_server.web import render
from playwright.async_api import Page, expect
from yarl import URL

from tests.support.browser import list_violations, open_visitor
from tests.support.service_harness import ORDER, open_service

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
PHONE = {"width": 320, "height": 640}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    async with open_service(
        tmp_path_factory.mktemp("console"), console=True, metrics_port=0, pay_url=""
    ) as desk:
        yield desk


async def signed_in(person, base: str, secret: str) -> Page:
    page = await person.open(f"{base}/console")
    await page.get_by_label("Sign in with").fill(secret)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.locator("main.work")).to_be_visible()
    await page.wait_for_load_state()
    return page


def get_origin(page: Page) -> str:
    return str(URL(page.url).origin())


async def add_key(page: Page, secret: str) -> None:
    await page.goto(f"{get_origin(page)}/console/sessions")
    await page.get_by_label("API key").fill(secret)
    await page.get_by_role("button", name="Sign in", exact=True).click()
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()


@pytest.mark.parametrize("shortcut", ["Control+k", "Meta+k"])
async def test_commands_open_a_page_by_keyboard_alone(desk, browser, shortcut):
    tenant = await desk.tenant()
    async with open_visitor(browser) as person:
        page = await signed_in(person, desk.rest.base, tenant.secret)
        await page.get_by_role("link", name="Balances").focus()
        await page.keyboard.press(shortcut)
        box = page.get_by_role("combobox", name="Find a page")
        await expect(box).to_be_focused()
        chosen = page.locator("#commands [aria-selected=true]")
        await expect(chosen).to_have_text("Overview")
        await page.keyboard.press("ArrowUp")
        await expect(chosen).to_have_text("Sign out")
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("ArrowDown")
        await expect(chosen).to_have_text("Payments")
        chosen_id = await chosen.get_attribute("id")
        await expect(box).to_have_attribute("aria-activedescendant", chosen_id)
        await page.keyboard.press("Escape")
        # the focus returns to where it was
        await expect(page.get_by_role("link", name="Balances")).to_be_focused()
        await page.keyboard.press(shortcut)
        await page.keyboard.type("api k")
        await expect(page.get_by_role("option")).to_have_text(["API keys", "Search payments"])
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/console/keys")


async def test_commands_search_payments_and_sign_out(desk, browser):
    tenant = await desk.tenant()
    order = {**ORDER, "referenceId": "order-4712"}
    created = await desk.ask("POST", "/v1/payments", tenant.headers, order)
    async with open_visitor(browser) as person:
        page = await signed_in(person, desk.rest.base, tenant.secret)
        await page.get_by_role("button", name="Commands").click()
        await page.keyboard.type("order-4712")
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"**/payments/{created.body['paymentId']}")
        await page.keyboard.press("Control+k")
        await page.keyboard.type("sign o")
        await page.get_by_role("option", name="Sign out").click()
        await expect(page.get_by_role("heading", name="Merchant console")).to_be_visible()


async def test_search_works_without_scripts_and_shows_no_commands(desk, browser):
    tenant = await desk.tenant()
    order = {**ORDER, "referenceId": "order-4713"}
    created = await desk.ask("POST", "/v1/payments", tenant.headers, order)
    async with open_visitor(browser, java_script_enabled=False) as person:
        page = await signed_in(person, desk.rest.base, tenant.secret)
        await expect(page.get_by_role("button", name="Commands")).to_be_hidden()
        await expect(page.locator("#palette")).to_be_hidden()
        await page.locator("#find").fill("order-4713")
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"**/payments/{created.body['paymentId']}")


@pytest.mark.parametrize("is_scripted", [True, False])
async def test_tab_of_the_other_mode_is_refused_after_a_switch(desk, browser, is_scripted):
    test = await desk.tenant()
    _, live = await desk.key(test.partner.id, live=True)
    async with open_visitor(browser, java_script_enabled=is_scripted) as person:
        page = await signed_in(person, desk.rest.base, test.secret)
        await add_key(page, live)
        await page.get_by_role("button", name="Switch to test").click()
        await page.goto(f"{get_origin(page)}/console/payments/new")
        await page.get_by_label("Amount", exact=True).fill("12.50")
        other = await page.context.new_page()
        await other.goto(f"{get_origin(page)}/console")
        await other.get_by_role("button", name="Switch to live").click()
        await expect(other.locator(".top .pill.good")).to_be_visible()
        await page.get_by_role("button", name="Create payment link").click()
        await expect(page.get_by_role("heading", name="Another key is chosen")).to_be_visible()
        if is_scripted:
            assert await list_violations(page) == []
        await page.get_by_role("button", name="Switch back to test").click()
        await expect(page.locator(".top .pill.warn")).to_be_visible()
        # the refused form is answered with 409
        person.complaints.clear()


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_frame_is_usable_on_a_phone(desk, browser, theme):
    tenant = await desk.tenant()
    second = await desk.merchant(tenant, name="Second shop with a name that is rather long")
    _, live = await desk.key(tenant.partner.id, live=True)
    async with open_visitor(browser, color_scheme=theme, viewport=PHONE) as person:
        page = await signed_in(person, desk.rest.base, tenant.secret)
        await add_key(page, live)
        for path in ("sessions", "sessions?ended=1"):
            await page.goto(f"{get_origin(page)}/console/{path}")
            assert await list_violations(page) == []
            assert await page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        await page.get_by_role("button", name="Switch", exact=False).click()
        await expect(page.locator(".top .pill.warn")).to_be_visible()
        # the drawer, and the merchants in it
        await page.get_by_role("button", name="Menu").click()
        await page.locator("summary", has_text="All merchants").click()
        assert await list_violations(page) == []
        await page.get_by_role("link", name="Second shop").click()
        await page.wait_for_url(f"**/console?merchant={second.id}")
        await page.get_by_role("button", name="Menu").click()
        await page.get_by_role("link", name="Payments", exact=True).click()
        await page.wait_for_url(f"**/console/payments?merchant={second.id}")
        await page.get_by_role("button", name="Views").click()
        assert await list_violations(page) == []
        await page.get_by_label("Save these filters as").fill("Second only")
        await page.get_by_role("button", name="Save view").click()
        await page.get_by_role("button", name="Views").click()
        await expect(page.get_by_role("link", name="Second only")).to_be_visible()
        assert await list_violations(page) == []
        await page.keyboard.press("Escape")
        await page.keyboard.press("Control+k")
        await expect(page.get_by_role("combobox", name="Find a page")).to_be_focused()
        assert await list_violations(page) == []
        assert await page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


async def test_palette_is_small():
    """It loads on every page."""
    folder = Path(render.__file__).parent
    assert len((folder / "static/console/palette.js").read_bytes()) < 2048
