"""The consoles in a browser: keyboard, both themes, narrow screens, live changes."""

from __future__ import annotations

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer
from florin_server.web.console.session import FRESH_S
from playwright.async_api import Page, expect
from yarl import URL

from tests.support.browser import BrowserVisitor, list_violations, open_visitor
from tests.support.console import ConsoleUser
from tests.support.service_harness import ORDER, open_service

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
HOSTILE = "<img src=x onerror=alert(1)>\"'&{{ 7 * 7 }}"
_STEPS_MAX = 120


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("console")
    async with open_service(home, console=True, metrics_port=0, pay_url="") as desk:
        yield desk


async def signed_in(person: BrowserVisitor, base: str, secret: str) -> Page:
    page = await person.open(f"{base}/console")
    await page.get_by_label("Sign in with").fill(secret)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.locator("main.work")).to_be_visible()
    return page


def own(page: Page) -> str:
    """Return the console's address for the session of a page."""
    return str(URL(page.url).origin())


async def reach(page: Page, name: str) -> None:
    """Move the focus by keyboard to the element with a name."""
    for _ in range(_STEPS_MAX):
        await page.keyboard.press("Tab")
        result = await page.evaluate(
            "(document.activeElement.labels?.[0] ?? document.activeElement).textContent.trim()"
        )
        if result.startswith(name):
            return
    raise AssertionError(f"no way to {name} by the keyboard")


async def created(desk, tenant, **order) -> str:
    created_created = await desk.ask("POST", "/v1/payments", tenant.headers, {**ORDER, **order})
    return created_created.body["paymentId"]


async def succeed(desk, tenant, payment_id: str) -> None:
    path = f"/v1/sandbox/payments/{payment_id}/simulate"
    result = await desk.ask("POST", path, tenant.headers, {"outcome": "succeeded"})
    assert result.status == 200, result.text


def operators(desk) -> str:
    return desk.service.metrics_url.removesuffix("/metrics")


async def test_from_the_sign_in_to_a_refund_by_keyboard_alone(desk, browser):
    tenant = await desk.tenant()
    async with open_visitor(browser) as person:
        page = await person.open(f"{desk.rest.base}/console/payments")
        await reach(page, "Sign in with")
        await page.keyboard.type(tenant.secret)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Payments", exact=True)).to_be_visible()
        await reach(page, "New payment")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="New payment")).to_be_visible()
        await reach(page, "Amount")
        await page.keyboard.type("12.50")
        await reach(page, "Create payment link")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("button", name="Simulate")).to_be_visible()
        await reach(page, "Simulate")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("button", name="Refund", exact=True)).to_be_visible()
        await reach(page, "Refund")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("Refund up to 12.5")).to_be_visible()
        await reach(page, "Continue")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("The money leaves the treasury")).to_be_visible()
        await reach(page, "Refund 12.5")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("Refund requested")).to_be_visible()
        await reach(page, "Sign out")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Merchant console")).to_be_visible()


async def test_a_refund_needs_no_script(desk, browser):
    tenant = await desk.tenant()
    await succeed(desk, tenant, await created(desk, tenant))
    async with open_visitor(browser, java_script_enabled=False) as person:
        page = await signed_in(person, desk.rest.base, tenant.secret)
        await page.get_by_role("link", name="Payments", exact=True).click()
        await page.locator("tbody a").first.click()
        await page.get_by_role("button", name="Refund", exact=True).click()
        await page.get_by_role("button", name="Continue").click()
        await expect(page.get_by_text("Refund requested")).to_have_count(0)
        await page.get_by_role("button", name="Refund 12.5").click()
        await expect(page.get_by_text("Refund requested")).to_be_visible()


async def pages(desk, browser) -> list[tuple[str, str]]:
    """List every page with content: the secret to sign in with, and the address."""
    tenant = await desk.tenant()
    await tenant.change_merchant(name=HOSTILE)
    await succeed(desk, tenant, payment_id := await created(desk, tenant, referenceId=HOSTILE))
    body = {"url": "https://shop.example/hooks", "description": HOSTILE}
    created_created = await desk.ask("POST", "/v1/webhook-endpoints", tenant.headers, body)
    endpoint = f"/console/webhooks/{created_created.body['endpoint']['id']}"
    merchant = f"/console/merchants/{tenant.merchant.id}"
    own = (
        *("/console", "/console/payments?status=succeeded", "/console/payments/new"),
        *("/console/balances", "/console/keys"),
    )
    searches = ("/console/search?q=12.50", "/console/search?q=no+such+order")
    none = "/console/payments?reference=no+such+order"
    more = (
        *searches,
        none,
        "/console/merchants",
        merchant,
        f"{merchant}/payments/{payment_id}",
        f"{merchant}x",
    )
    theirs = ("/console", f"/console/payments?partner={tenant.partner.id}", "/console/payouts")
    remaining = (
        "/console/search?q=12.50",
        "/console/held",
        "/console/quarantine?all=1",
        "/console/books?check=1",
        "/console/accounts",
        "/console/webhooks",
    )
    return [
        *(
            (tenant.secret, desk.rest.base + path)
            for path in (*own, *more, "/console/webhooks", endpoint)
        ),
        *(("", operators(desk) + path) for path in (*theirs, *remaining)),
        ("", f"{operators(desk)}/console/payments/{payment_id}"),
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_everybody_can_use_every_page(desk, browser, theme):
    token = desk.service.secrets.operator_token
    results = await pages(desk, browser)
    async with open_visitor(
        browser, color_scheme=theme, viewport={"width": 320, "height": 640}
    ) as person:
        page = await person.open(f"{desk.rest.base}/console/login")
        assert await list_violations(page) == []
        at = {
            base: own(await signed_in(person, base, secret))
            for base, secret in ((desk.rest.base, results[0][0]), (operators(desk), token))
        }
        for _, address in results:
            url = URL(address, encoded=True)
            await page.goto(at[str(url.origin())] + url.raw_path_qs)
            assert await list_violations(page) == [], address
            width = await page.evaluate("document.documentElement.scrollWidth")
            assert width <= 320, address
        # a merchant that does not exist
        assert all("404" in complaint for complaint in person.complaints), person.complaints
        person.complaints.clear()


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_menu_dialogs_and_questions_are_usable_on_a_phone(desk, browser, theme):
    tenant = await desk.tenant()
    await succeed(desk, tenant, payment_id := await created(desk, tenant))
    async with open_visitor(
        browser, color_scheme=theme, viewport={"width": 320, "height": 640}
    ) as person:
        page = await signed_in(person, desk.rest.base, tenant.secret)
        await page.get_by_role("button", name="Menu").click()
        await expect(page.get_by_role("button", name="Sign out")).to_be_visible()
        assert await list_violations(page) == []
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("button", name="Sign out")).to_be_hidden()
        await page.goto(f"{own(page)}/console/payments")
        await page.get_by_role("button", name="Filter").click()
        assert await list_violations(page) == []
        await page.goto(f"{own(page)}/console/merchants/{tenant.merchant.id}/payments/{payment_id}")
        await page.get_by_role("button", name="Refund", exact=True).click()
        assert await list_violations(page) == []
        await page.get_by_role("button", name="Continue").click()
        await expect(page.get_by_role("heading", name="Refund 12.5")).to_be_visible()
        assert await list_violations(page) == []
        assert await page.evaluate("document.documentElement.scrollWidth") <= 320


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
async def test_times_are_of_the_readers_zone_and_in_utc_on_demand(desk, browser, zone):
    tenant = await desk.tenant()
    await created(desk, tenant)
    async with open_visitor(browser, timezone_id=zone, locale="en-GB") as person:
        page = await signed_in(person, desk.rest.base, tenant.secret)
        await page.goto(f"{own(page)}/console/merchants/{tenant.merchant.id}")
        time = page.locator("main time").first
        shown = await time.evaluate(
            "(time, zone) => [time.textContent, new Date(time.dateTime).toLocaleTimeString("
            "'en-GB', {timeZone: zone}), time.title]",
            zone,
        )
        assert shown[1] in shown[0]
        assert shown[2].endswith(" UTC")
        assert zone in await page.locator(".fine").text_content()


async def test_days_of_a_statement_are_the_same_in_every_zone(desk, browser):
    tenant = await desk.tenant()
    zone = "America/Los_Angeles"
    async with open_visitor(browser, timezone_id=zone, locale="en-US") as person:
        page = await signed_in(person, desk.rest.base, tenant.secret)
        await page.goto(f"{own(page)}/console/statement?month=2026-12")
        # the script that shows times has run by then
        await expect(page.locator(".fine").last).to_contain_text(zone)
        await expect(page.locator(".statement-of")).to_contain_text("Dec 1, 2026 to Dec 31, 2026")


async def test_no_list_scrolls_sideways_on_a_desktop(desk, browser):
    tenant = await desk.tenant()
    await succeed(desk, tenant, await created(desk, tenant, referenceId="order-" + "7" * 40))
    async with open_visitor(browser, viewport={"width": 1280, "height": 800}) as person:
        for base, secret, paths in (
            (desk.rest.base, tenant.secret, ("", "/payments", "/merchants", "/webhooks")),
            (
                operators(desk),
                desk.service.secrets.operator_token,
                ("", f"/payments?partner={tenant.partner.id}", "/payouts?all=1", "/accounts"),
            ),
        ):
            page = await signed_in(person, base, secret)
            for path in paths:
                await page.goto(f"{own(page)}/console{path}")
                wide = await page.evaluate(
                    "[...document.querySelectorAll('.scroll')]"
                    ".filter(box => box.scrollWidth > box.clientWidth).length"
                )
                assert wide == 0, path


async def test_slash_moves_to_the_search_and_finds_a_payment(desk, browser):
    tenant = await desk.tenant()
    payment_id = await created(desk, tenant, referenceId="order-4711")
    async with open_visitor(browser) as person:
        page = await signed_in(person, desk.rest.base, tenant.secret)
        # the script has run by then
        await page.wait_for_load_state()
        await page.keyboard.press("/")
        await page.keyboard.type("order-4711")
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"**/payments/{payment_id}")
        await expect(page.get_by_text("order-4711").first).to_be_visible()


async def test_an_open_table_follows_its_payments(desk, browser):
    tenant = await desk.tenant()
    payment_id = await created(desk, tenant)
    async with open_visitor(browser) as person:
        page = await signed_in(person, desk.rest.base, tenant.secret)
        await page.clock.install(time=0)
        await page.goto(f"{own(page)}/console/payments")
        row = page.locator(f'tr[data-id="{payment_id}"]')
        await expect(row).to_contain_text("Waiting")
        await succeed(desk, tenant, payment_id)
        # from here on the test moves the clock: a poll takes no time
        await page.clock.pause_at(10 * 3_600_000)
        await expect(row).to_contain_text("Paid")
        await expect(page.locator("#notice")).to_have_text("A payment changed to: Paid.")
        await created(desk, tenant)
        await page.clock.run_for(5_000)
        await expect(page.locator("#notice")).to_contain_text("There are new payments")
        await desk.revoke(tenant.key_id)
        await page.clock.run_for(5_000)
        await expect(page.locator("#notice")).to_contain_text("Your session has ended")
        person.complaints.clear()


async def test_an_open_payment_follows_its_state(desk, browser):
    tenant = await desk.tenant()
    payment_id = await created(desk, tenant)
    async with open_visitor(browser) as person:
        page = await signed_in(person, desk.rest.base, tenant.secret)
        path = f"/console/merchants/{tenant.merchant.id}/payments/{payment_id}"
        await page.goto(own(page) + path)
        await expect(page.locator("#state[role=status]")).to_have_text("Waiting")
        await succeed(desk, tenant, payment_id)
        await expect(page.locator("#state[role=status]")).to_have_text("Paid")
        await page.get_by_role("link", name="Show the changes").click()
        await expect(page.get_by_role("button", name="Refund", exact=True)).to_be_visible()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_another_site_neither_frames_it_nor_sends_its_forms(desk, browser, host):
    """This holds even for a site that knows the host name of the session."""
    tenant = await desk.tenant()
    payment_id = await created(desk, tenant)
    path = f"/console/merchants/{tenant.merchant.id}/payments/{payment_id}"
    at = ""

    async def trap(_request: web.Request) -> web.Response:
        # as if it had found out the name
        form = f'<form method="post" action="{at}{path}/cancel"><button>Win</button></form>'
        frame = f'<iframe src="{at}/console" title="x"></iframe>'
        return web.Response(text=f"<title>x</title>{form}{frame}", content_type="text/html")

    site = web.Application()
    site.router.add_get("/", trap)
    async with TestServer(site) as other, open_visitor(browser) as person:
        page = await signed_in(person, desk.rest.base, tenant.secret)
        at = own(page)
        await page.goto(f"http://{host}:{other.port}/")
        framed = page.frames[1]
        await expect(framed.get_by_role("heading", name="Overview")).not_to_be_attached()
        async with page.expect_navigation():
            await page.get_by_role("button", name="Win").click()
        # without the cookie it has no session, with it the request is another site's
        await page.goto(at + path)
        await expect(page.locator("#state[role=status]")).to_have_text("Waiting")
        person.complaints.clear()


@pytest.mark.parametrize("whose", ["merchant", "operator"])
async def test_programs_on_other_ports_of_this_machine_get_no_session(desk, browser, whose):
    tenant = await desk.tenant()
    token = desk.service.secrets.operator_token
    base, secret = {
        "merchant": (desk.rest.base, tenant.secret),
        "operator": (operators(desk), token),
    }[whose]
    received: dict[str, str] = {}

    async def listen(request: web.Request) -> web.Response:
        received[request.host] = request.headers.get("Cookie", "")
        return web.Response(text="<title>x</title>", content_type="text/html")

    site = web.Application()
    site.router.add_get("/", listen)
    async with TestServer(site) as other, open_visitor(browser) as person:
        page = await signed_in(person, base, secret)
        name = URL(page.url).host
        names = ("127.0.0.1", "localhost", "console.localhost", f"{'0' * 32}.console.localhost")
        for host in names:
            tab = await person.tab()
            await tab.goto(f"http://{host}:{other.port}/")
            # and so with a request from a page of the console's own host
            await page.evaluate("url => fetch(url).catch(() => 0)", f"http://{host}:{other.port}/")
        assert received == {f"{host}:{other.port}": "" for host in names}
        # the browser has it, and sends it to this name only
        cookies = [item for item in await person.context.cookies() if item["value"]]
        assert [cooky["domain"] for cooky in cookies] == [name]
        person.complaints.clear()


async def test_foreign_page_cannot_sign_a_visitor_in(desk, browser, bare):
    tenant = await desk.tenant()
    thief = ConsoleUser(bare, desk.rest.base)
    lure = (await thief.submit_sign_in(tenant.secret)).url

    async def lead(_request: web.Request) -> web.Response:
        text = f'<title>x</title><a href="{lure.replace("&", "&amp;")}">Win</a>'
        return web.Response(text=text, content_type="text/html")

    site = web.Application()
    site.router.add_get("/", lead)
    async with TestServer(site) as other, open_visitor(browser) as person:
        page = await person.open(f"http://127.0.0.1:{other.port}/")
        await page.get_by_role("link", name="Win").click()
        await expect(page.get_by_label("Sign in with")).to_be_visible()
        assert await person.context.cookies() == []
        # it was not used up either
        assert (
            await thief.ask("GET", URL(lure).raw_path_qs, {"Host": URL(lure).authority})
        ).status == 303
        person.complaints.clear()


async def test_expired_fresh_sign_in_requires_the_key_and_continues(desk, browser):
    tenant = await desk.tenant()
    async with open_visitor(browser, java_script_enabled=False) as person:
        page = await signed_in(person, desk.rest.base, tenant.secret)
        await page.goto(f"{own(page)}/console/webhooks")
        desk.clock.advance(FRESH_S)
        await page.get_by_label("URL").fill("https://shop.example/again")
        await page.get_by_role("button", name="Create").click()
        await expect(page.get_by_text("your entries are kept")).to_be_visible()
        await page.get_by_label("Sign in again").fill(tenant.secret)
        await page.get_by_role("button", name="Sign in and continue").click()
        await expect(page.get_by_text("https://shop.example/again")).to_be_visible()
        person.complaints.clear()
