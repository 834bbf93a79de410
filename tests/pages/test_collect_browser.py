"""The form for buyer data in a real browser, as wallets and web shops show it."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import pytest
import pytest_asyncio
from aiohttp import web
from playwright.async_api import Page, expect

from tests.support.browser import BrowserVisitor, list_violations, open_visitor
from tests.support.capture import DATA, CapturePos, count_stored, get_path, get_query, open_pos
from tests.support.service_harness import ServiceHarness, open_service

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]

COMPLETE = {"type": "IC_COMPLETE", "success": True}
PHONE = {"width": 320, "height": 640}
# all bridges by which wallets listen, and the messages of each
BRIDGES = """
window.heard = [];
const hear = (who) => (text) => { heard.push([who, JSON.parse(text)]); };
window.ReactNativeWebView = {postMessage: hear("react")};
window.AndroidWallet = {onDataCollectionComplete: hear("android")};
window.webkit = {messageHandlers: {payDataCollectionComplete: {postMessage: hear("ios")}}};
"""


@asynccontextmanager
async def web_wallet(form: str = "") -> AsyncIterator[str]:
    """Return the address of a page that frames an address and shows its messages."""

    async def page(request: web.Request) -> web.Response:
        body = (
            "<!doctype html><title>-</title><script>onmessage = (e) => {"
            "document.title += e.data; };</script>"
            f"<iframe title=form src='{request.query['form']}'></iframe>"
        )
        return web.Response(text=body, content_type="text/html")

    app = web.Application()
    app.router.add_get("/", page)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def wallet_site():
    async with web_wallet() as address:
        yield address


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory, wallet_site):
    capture = {"enabled": True, "frame_origins": [wallet_site]}
    async with open_service(tmp_path_factory.mktemp("forms"), capture=capture) as desk:
        yield desk


async def form_of(desk: ServiceHarness, **look: str) -> tuple[CapturePos, str]:
    """Return a payment, and the address of its form here."""
    pos = await open_pos(desk)
    path = get_path(await pos.url())
    return pos, f"{desk.rest.base}{path}{'&' + urlencode(look) if look else ''}"


def encoded(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


async def fill(page: Page) -> None:
    await page.get_by_label("Full name").fill(DATA["fullName"])
    await page.get_by_label("Date of birth").fill(DATA["dob"])
    await page.get_by_label("Country of birth").select_option(label="Germany")
    await page.get_by_label("Place of birth").fill(DATA["pobAddress"])
    await page.get_by_label("I accept").check()


def forgive(buyer: BrowserVisitor) -> None:
    """Drop the browser's notes about refused answers and failed connections."""
    output = "Failed to load resource"
    buyer.complaints[:] = [
        complaint for complaint in buyer.complaints if not complaint.startswith(output)
    ]


async def fits(page: Page) -> bool:
    return await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_mobile_wallet_is_notified_once_on_every_bridge_without_data(browser, desk):
    existing = {"fullName": "Ada Secret-name", "porAddress": "Secret street"}
    pos, url = await form_of(desk, prefill=encoded(existing), theme="dark", utm="Secret")
    async with open_visitor(browser, viewport=PHONE) as buyer:
        page = await buyer.tab()
        await page.add_init_script(BRIDGES)
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        await page.goto(url)
        assert "Secret" not in page.url
        assert "accounts" not in page.url
        await expect(page.get_by_label("Full name")).to_have_value("Ada Secret-name")
        # the page can be reopened unchanged, without the wallet
        await page.reload()
        await fill(page)
        await page.get_by_role("button", name="Continue").click()
        await expect(page.get_by_role("heading", name="Thank you")).to_be_visible()
        received = await page.evaluate("heard")
        assert received == [[who, COMPLETE] for who in ("react", "android", "ios")]
        assert [text for text in requests if "Secret" in text] == [url]
        assert "Secret" not in json.dumps(
            await page.evaluate("[history.state, document.body.innerText]")
        )
        await page.reload()
        assert await page.evaluate("heard") == received
    assert count_stored(desk, pos) == 1


async def test_form_errors_are_announced_and_reachable_by_keyboard(browser, desk):
    _, url = await form_of(desk)
    async with open_visitor(browser, viewport=PHONE) as buyer:
        page = await buyer.open(url)
        await page.get_by_label("Full name").press("Enter")
        await expect(page.locator("#faults")).to_be_focused()
        await expect(page).to_have_title("Some entries are missing or wrong – Your details")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await expect(page.get_by_label("Date of birth")).to_be_focused()
        locator = page.get_by_label("Date of birth")
        await expect(locator).to_have_accessible_description("This field is required.")
        assert await list_violations(page) == []
        assert await fits(page)
        # all of it without a mouse
        await fill(page)
        await page.get_by_label("I accept").focus()
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Thank you")).to_be_visible()
        assert await list_violations(page) == []
        forgive(buyer)


async def test_a_connection_that_fails_loses_nothing_and_hands_in_once(browser, desk):
    pos, url = await form_of(desk)
    async with open_visitor(browser) as buyer:
        page = await buyer.tab()
        await page.add_init_script(BRIDGES)
        await page.goto(url)
        await fill(page)
        lost = iter(["before", "after"])

        async def flaky(route):
            if (when := next(lost, None)) == "after":
                # it arrives, and its answer does not
                await route.fetch()
            await (route.continue_() if when is None else route.abort())

        await page.route("**/collect/", flaky)
        send = page.get_by_role("button", name="Continue")
        for _ in range(2):
            await send.click()
            await expect(page.get_by_text("The form could not be sent.")).to_be_visible()
            await expect(page.get_by_label("Full name")).to_have_value(DATA["fullName"])
            assert await page.evaluate("heard") == []
        assert await list_violations(page) == []
        await send.click()
        await expect(page.get_by_role("heading", name="Thank you")).to_be_visible()
        assert len(await page.evaluate("heard")) == 3
        forgive(buyer)
    assert count_stored(desk, pos) == 1


async def test_it_works_without_a_script(browser, desk):
    pos, url = await form_of(desk, theme="dark")
    async with open_visitor(browser, java_script_enabled=False, viewport=PHONE) as buyer:
        page = await buyer.open(url)
        await page.get_by_role("button", name="Continue").click()
        await expect(page.get_by_role("heading", name="Some entries are missing")).to_be_visible()
        await page.locator(".tongues summary").click()
        await page.get_by_role("button", name="Deutsch").click()
        await expect(page.get_by_role("heading", name="Ihre Angaben")).to_be_visible()
        await page.locator(".tongues summary").click()
        await page.get_by_role("button", name="English").click()
        await fill(page)
        await page.get_by_role("button", name="Continue").click()
        await expect(page.get_by_role("heading", name="Thank you")).to_be_visible()
        assert page.url.partition("/collect/")[2] in {"", "?"}
        forgive(buyer)
    assert count_stored(desk, pos) == 1


async def test_a_web_wallet_that_is_listed_shows_it_in_a_frame(browser, desk, wallet_site):
    pos, url = await form_of(desk)
    async with open_visitor(browser) as buyer:
        page = await buyer.open(f"{wallet_site}/?{urlencode({'form': url})}")
        frame = page.frame_locator("iframe")
        await frame.get_by_label("Full name").fill(DATA["fullName"])
        # messages of the surrounding site change nothing
        forged = {"type": "IC_COMPLETE", "success": True, "data": {"fullName": "Eve"}}
        await page.evaluate(
            "(result) => { for (const message of [result, JSON.stringify(result), 'submit'])"
            " frames[0].postMessage(message, '*'); }",
            forged,
        )
        inside = page.frames[1]
        await fill(inside)
        await frame.get_by_role("button", name="Continue").click()
        await expect(page).to_have_title("-" + json.dumps(COMPLETE, separators=(",", ":")))
        buyer.complaints.clear()
    assert count_stored(desk, pos) == 1


async def test_no_other_site_frames_it(browser, desk):
    _, url = await form_of(desk)
    async with web_wallet() as elsewhere, open_visitor(browser) as buyer:
        page = await buyer.open(f"{elsewhere}/?{urlencode({'form': url})}")
        assert await page.frames[1].locator("form").count() == 0
        refused = " ".join(buyer.complaints)
        assert "frame-ancestors" in refused
        buyer.complaints.clear()


async def test_a_window_that_opened_it_hears_the_end_and_can_forge_none(browser, desk):
    pos, url = await form_of(desk)
    async with open_visitor(browser) as buyer:
        shop = await buyer.tab()
        await shop.goto(f"{desk.rest.base}/healthz")
        await shop.evaluate("() => { window.heard = []; onmessage = (e) => heard.push(e.data); }")
        async with shop.expect_popup() as popup:
            await shop.evaluate("(url) => { window.form = open(url); }", url)
        page = await popup.value
        await page.wait_for_load_state()
        await shop.evaluate("form.postMessage(JSON.stringify({type: 'IC_COMPLETE'}), '*')")
        await fill(page)
        assert count_stored(desk, pos) == 0
        await page.get_by_role("button", name="Continue").click()
        await expect(page.get_by_role("heading", name="Thank you")).to_be_visible()
        assert [json.loads(item) for item in await shop.evaluate("heard")] == [COMPLETE]


async def test_code_injected_by_a_wallet_breaks_no_layout(browser, desk):
    # as the React Native sample does it
    injected = """
    addEventListener("DOMContentLoaded", () => {
      const meta = document.createElement("meta");
      meta.name = "viewport"; meta.content = "width=device-width, initial-scale=1, maximum-scale=1";
      document.head.append(meta);
      const style = document.createElement("style");
      style.textContent = "* { max-width: 100vw; } body { overflow-x: scroll; width: 900px; }";
      document.head.append(style);
    });
    """
    _, url = await form_of(desk)
    async with open_visitor(browser, viewport=PHONE, is_mobile=True, has_touch=True) as buyer:
        page = await buyer.tab()
        await page.add_init_script(injected)
        await page.goto(url)
        await expect(page.locator("meta[name=viewport]")).to_have_count(2)
        assert await fits(page)
        box = await page.get_by_label("Full name").bounding_box()
        assert 240 < box["width"] <= 320
        assert all("style-src" in complaint for complaint in buyer.complaints)
        buyer.complaints.clear()


LOOKS = {
    "light": {"theme": "light"},
    "dark": {"theme": "dark", "lang": "de"},
    "right to left": {"lang": "ar"},
    "chosen": {
        "lang": "ja",
        "themeVariables": encoded(
            {"background": "#888", "accent": "#8a8a8a", "border": "#878787", "radius": "64px"}
        ),
    },
}


@pytest.mark.parametrize("look", LOOKS)
async def test_everybody_can_use_it_in_every_look(browser, desk, look):
    _, url = await form_of(desk, **LOOKS[look])
    # 320 px, and 640 px at twice the size, are the same to a page
    async with open_visitor(browser, viewport=PHONE, reduced_motion="reduce") as buyer:
        page = await buyer.open(url)
        assert await list_violations(page) == []
        assert await fits(page)
        small = await page.evaluate(
            "[...document.querySelectorAll('a, button, input:not([type=hidden]), select')]"
            ".map((one) => [one.name, one.getBoundingClientRect()])"
            ".filter(([, box]) => box.height < 24 || box.width < 24).map(([name]) => name)"
        )
        assert small == []
        await page.locator(".primary").click()
        await expect(page.locator("#faults")).to_be_focused()
        assert await list_violations(page) == []
        assert await fits(page)
        over = await buyer.open(f"{desk.rest.base}/collect/?{urlencode(LOOKS[look])}")
        assert await list_violations(over) == []
        forgive(buyer)


class Lines(logging.Handler):
    """Collects every log line that reaches the root logger, where an operator's handlers are."""

    def __init__(self) -> None:
        super().__init__(0)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


async def test_nothing_personal_is_logged(browser, desk):
    root, lines = logging.getLogger(), Lines()
    level = root.level
    root.addHandler(lines)
    root.setLevel(1)
    try:
        existing = {"fullName": "Ada Logged-name", "dob": "1901-02-03"}
        _, url = await form_of(desk, prefill=encoded(existing))
        async with open_visitor(browser) as buyer:
            page = await buyer.open(url)
            await page.get_by_role("button", name="Continue").click()
            await expect(page.locator("#faults")).to_be_focused()
            await fill(page)
            await page.get_by_label("Full name").fill("Ada Logged-name")
            await page.get_by_role("button", name="Continue").click()
            await expect(page.get_by_role("heading", name="Thank you")).to_be_visible()
            forgive(buyer)
    finally:
        root.setLevel(level)
        root.removeHandler(lines)
    text = "\n".join(lines.texts)
    assert lines.texts
    for secret in (
        "Logged-name",
        "1901-02-03",
        encoded(existing),
        get_query(url)["t"],
        DATA["dob"],
    ):
        assert secret not in text
