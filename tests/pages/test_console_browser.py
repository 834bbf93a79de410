"""The consoles in a browser: by keyboard, in both themes, on narrow screens, as things change."""

from __future__ import annotations

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer
from florin_server.web.console.session import FRESH_S
from playwright.async_api import Page, expect
from yarl import URL

from tests.support.browser import Visitor, violations, visitor
from tests.support.console import Person
from tests.support.desk import ORDER, opened

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
HOSTILE = "<img src=x onerror=alert(1)>\"'&{{ 7 * 7 }}"
_STEPS_MAX = 120


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("console")
    async with opened(home, console=True, metrics_port=0, pay_url="") as desk:
        yield desk


async def signed_in(person: Visitor, base: str, secret: str) -> Page:
    page = await person.open(f"{base}/console")
    await page.get_by_label("Sign in with").fill(secret)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    return page


def own(page: Page) -> str:
    """The address of the console for who signed in on a page."""
    return str(URL(page.url).origin())


async def reach(page: Page, name: str) -> None:
    """Moves the focus on by the keyboard to what has a name."""
    for _ in range(_STEPS_MAX):
        await page.keyboard.press("Tab")
        told = await page.evaluate(
            "(document.activeElement.labels?.[0] ?? document.activeElement).textContent.trim()"
        )
        if told.startswith(name):
            return
    raise AssertionError(f"no way to {name} by the keyboard")


async def created(desk, tenant, **order) -> str:
    made = await desk.ask("POST", "/v1/payments", tenant.headers, {**ORDER, **order})
    return made.body["paymentId"]


async def succeed(desk, tenant, payment_id: str) -> None:
    path = f"/v1/sandbox/payments/{payment_id}/simulate"
    told = await desk.ask("POST", path, tenant.headers, {"outcome": "succeeded"})
    assert told.status == 200, told.text


def operators(desk) -> str:
    return desk.service.metrics_url.removesuffix("/metrics")


async def test_from_the_sign_in_to_a_refund_by_keyboard_alone(desk, browser):
    tenant = await desk.tenant()
    async with visitor(browser) as person:
        page = await person.open(f"{desk.rest.base}/console/payments")
        await reach(page, "Sign in with")
        await page.keyboard.type(tenant.secret)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Payments")).to_be_visible()
        await reach(page, "New payment")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="New payment")).to_be_visible()
        await reach(page, "Amount")
        await page.keyboard.type("12.50")
        await reach(page, "Create the payment")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("button", name="Simulate")).to_be_visible()
        await reach(page, "Simulate")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("or a part")).to_be_visible()
        await reach(page, "Refund 12.5")
        await page.keyboard.press("Enter")
        await reach(page, "Money leaves the treasury")
        await page.keyboard.press("Space")
        await reach(page, "Refund this amount")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("the refund was asked for")).to_be_visible()
        await reach(page, "Sign out")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Merchants' console")).to_be_visible()


async def test_a_refund_needs_no_script(desk, browser):
    tenant = await desk.tenant()
    await succeed(desk, tenant, await created(desk, tenant))
    async with visitor(browser, java_script_enabled=False) as person:
        page = await signed_in(person, desk.rest.base, tenant.secret)
        await page.get_by_role("link", name="Payments", exact=True).click()
        await page.locator("tbody a").first.click()
        await page.get_by_text("or a part").click()
        await page.get_by_role("checkbox").check()
        await page.get_by_role("button", name="Refund this amount").click()
        await expect(page.get_by_text("the refund was asked for")).to_be_visible()


async def pages(desk, browser) -> list[tuple[str, str]]:
    """Every page with something on it: who signs in, and the address."""
    tenant = await desk.tenant()
    await tenant.change_merchant(name=HOSTILE)
    await succeed(desk, tenant, payment_id := await created(desk, tenant, referenceId=HOSTILE))
    body = {"url": "https://shop.example/hooks", "description": HOSTILE}
    made = await desk.ask("POST", "/v1/webhook-endpoints", tenant.headers, body)
    endpoint = f"/console/webhooks/{made.body['endpoint']['id']}"
    merchant = f"/console/merchants/{tenant.merchant.id}"
    own = ("/console", "/console/payments?status=succeeded", "/console/payments/new")
    more = ("/console/merchants", merchant, f"{merchant}/payments/{payment_id}", f"{merchant}x")
    theirs = ("/console", f"/console/payments?partner={tenant.partner.id}", "/console/payouts")
    others = (
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
        *(("", operators(desk) + path) for path in (*theirs, *others)),
        ("", f"{operators(desk)}/console/payments/{payment_id}"),
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_everybody_can_use_every_page(desk, browser, theme):
    token = desk.service.secrets.operator_token
    found = await pages(desk, browser)
    async with visitor(
        browser, color_scheme=theme, viewport={"width": 320, "height": 640}
    ) as person:
        page = await person.open(f"{desk.rest.base}/console/login")
        assert await violations(page) == []
        at = {
            base: own(await signed_in(person, base, secret))
            for base, secret in ((desk.rest.base, found[0][0]), (operators(desk), token))
        }
        for _, address in found:
            url = URL(address, encoded=True)
            await page.goto(at[str(url.origin())] + url.raw_path_qs)
            assert await violations(page) == [], address
            width = await page.evaluate("document.documentElement.scrollWidth")
            assert width <= 320, address
        # a merchant that is not there
        assert all("404" in one for one in person.complaints), person.complaints
        person.complaints.clear()


async def test_an_open_table_follows_its_payments(desk, browser):
    tenant = await desk.tenant()
    payment_id = await created(desk, tenant)
    async with visitor(browser) as person:
        page = await signed_in(person, desk.rest.base, tenant.secret)
        await page.clock.install(time=0)
        await page.goto(f"{own(page)}/console/payments")
        row = page.locator(f'tr[data-id="{payment_id}"]')
        await expect(row).to_contain_text("requires action")
        await succeed(desk, tenant, payment_id)
        # from here on it goes on only as it is told: a look takes no time
        await page.clock.pause_at(10 * 3_600_000)
        await expect(row).to_contain_text("succeeded")
        await expect(page.get_by_role("status")).to_have_text("A payment is now: succeeded.")
        await created(desk, tenant)
        await page.clock.run_for(5_000)
        await expect(page.get_by_role("status")).to_contain_text("There are new payments")
        await desk.revoke(tenant.key_id)
        await page.clock.run_for(5_000)
        await expect(page.get_by_role("status")).to_contain_text("Your session has ended")
        person.complaints.clear()


async def test_an_open_payment_follows_its_state(desk, browser):
    tenant = await desk.tenant()
    payment_id = await created(desk, tenant)
    async with visitor(browser) as person:
        page = await signed_in(person, desk.rest.base, tenant.secret)
        path = f"/console/merchants/{tenant.merchant.id}/payments/{payment_id}"
        await page.goto(own(page) + path)
        await expect(page.get_by_role("status")).to_have_text("requires action")
        await succeed(desk, tenant, payment_id)
        await expect(page.get_by_role("status")).to_have_text("succeeded")
        await page.get_by_role("link", name="Show what changed").click()
        await expect(page.get_by_text("or a part")).to_be_visible()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_another_site_neither_frames_it_nor_sends_its_forms(desk, browser, host):
    """Not even one that knows the host name of the session."""
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
    async with TestServer(site) as other, visitor(browser) as person:
        page = await signed_in(person, desk.rest.base, tenant.secret)
        at = own(page)
        await page.goto(f"http://{host}:{other.port}/")
        framed = page.frames[1]
        await expect(framed.get_by_role("heading", name="Overview")).not_to_be_attached()
        async with page.expect_navigation():
            await page.get_by_role("button", name="Win").click()
        # without the cookie it is nobody's, with it it is another site's
        await page.goto(at + path)
        await expect(page.get_by_role("status")).to_have_text("requires action")
        person.complaints.clear()


@pytest.mark.parametrize("whose", ["merchant", "operator"])
async def test_programs_on_other_ports_of_this_machine_get_no_session(desk, browser, whose):
    tenant = await desk.tenant()
    token = desk.service.secrets.operator_token
    base, secret = {
        "merchant": (desk.rest.base, tenant.secret),
        "operator": (operators(desk), token),
    }[whose]
    heard: dict[str, str] = {}

    async def listen(request: web.Request) -> web.Response:
        heard[request.host] = request.headers.get("Cookie", "")
        return web.Response(text="<title>x</title>", content_type="text/html")

    site = web.Application()
    site.router.add_get("/", listen)
    async with TestServer(site) as other, visitor(browser) as person:
        page = await signed_in(person, base, secret)
        name = URL(page.url).host
        names = ("127.0.0.1", "localhost", "console.localhost", f"{'0' * 32}.console.localhost")
        for host in names:
            tab = await person.tab()
            await tab.goto(f"http://{host}:{other.port}/")
            # likewise as a part of a page of the console's own host would ask for it
            await page.evaluate("url => fetch(url).catch(() => 0)", f"http://{host}:{other.port}/")
        assert heard == {f"{host}:{other.port}": "" for host in names}
        # the browser has it, and gives it to nobody but this name
        cookies = [one for one in await person.context.cookies() if one["value"]]
        assert [one["domain"] for one in cookies] == [name]
        person.complaints.clear()


async def test_a_page_elsewhere_puts_nobody_into_a_session_of_its_own(desk, browser, bare):
    tenant = await desk.tenant()
    thief = Person(bare, desk.rest.base)
    lure = (await thief.entered(tenant.secret)).url

    async def lead(_request: web.Request) -> web.Response:
        text = f'<title>x</title><a href="{lure.replace("&", "&amp;")}">Win</a>'
        return web.Response(text=text, content_type="text/html")

    site = web.Application()
    site.router.add_get("/", lead)
    async with TestServer(site) as other, visitor(browser) as person:
        page = await person.open(f"http://127.0.0.1:{other.port}/")
        await page.get_by_role("link", name="Win").click()
        await expect(page.get_by_label("Sign in with")).to_be_visible()
        assert await person.context.cookies() == []
        # it was not used up either
        assert (
            await thief.ask("GET", URL(lure).raw_path_qs, {"Host": URL(lure).authority})
        ).status == 303
        person.complaints.clear()


async def test_who_signed_in_long_ago_shows_the_key_again_and_goes_on(desk, browser):
    tenant = await desk.tenant()
    async with visitor(browser, java_script_enabled=False) as person:
        page = await signed_in(person, desk.rest.base, tenant.secret)
        await page.goto(f"{own(page)}/console/webhooks")
        desk.clock.advance(FRESH_S)
        await page.get_by_label("Address").fill("https://shop.example/again")
        await page.get_by_role("button", name="Create").click()
        await expect(page.get_by_text("what you entered is kept")).to_be_visible()
        await page.get_by_label("Sign in again").fill(tenant.secret)
        await page.get_by_role("button", name="Sign in and go on").click()
        await expect(page.get_by_text("https://shop.example/again")).to_be_visible()
        person.complaints.clear()
