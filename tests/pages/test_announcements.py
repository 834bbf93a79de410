"""What screen readers announce: each change once, and never the clock."""

from __future__ import annotations

import re

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from tests.support.announcements import record_announcements, take_announcements
from tests.support.browser import open_visitor
from tests.support.capture import open_pos
from tests.support.checkout_states import URLS, reach_state
from tests.support.injected_wallets import NAME, InjectedEvmWallet
from tests.support.service import wait_open_responses
from tests.support.service_harness import ORDER, open_service
from tests.support.until import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

CONFIRMING = "Confirming your payment You can close this page; the payment continues."
OFFLINE = "No connection. This page may be out of date. It keeps trying to reconnect."


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("heard")
    capture = {"enabled": True, "from_amount": {"USD": 2000}}
    async with open_service(home, pay_url="", console=True, capture=capture) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def person(browser):
    async with open_visitor(browser) as person:
        await record_announcements(person.context)
        yield person


def forgive(person, *texts: str) -> None:
    """Drop what the browser itself reports about refused and lost requests."""
    person.complaints[:] = [
        complaint for complaint in person.complaints if not any(text in complaint for text in texts)
    ]


async def run_clock(page: Page, milliseconds: int) -> None:
    """Let time pass on a page whose clock stands still, in steps that a person would notice."""
    for _ in range(milliseconds // 1000):
        await page.clock.run_for(1000)


async def test_time_left_is_not_announced_except_the_last_minute(desk, person):
    path = await reach_state(desk, "requires_action", expiresAt=desk.now + 100)
    page = await person.tab()
    await page.clock.install(time=0)
    await page.clock.pause_at(1000)
    await page.goto(desk.rest.base + path)
    await expect(page.locator("#left")).to_contain_text("01:40")
    await run_clock(page, 39_000)
    assert await take_announcements(page) == []
    await run_clock(page, 30_000)
    await expect(page.locator("#left")).to_contain_text("00:31")
    assert await take_announcements(page) == ["You have one minute left to pay."]


async def test_confirmations_are_not_announced_and_a_delay_is_once(desk, person):
    path = await reach_state(desk, "requires_action")
    state = {
        "status": "processing",
        "isFinal": False,
        "expiresAt": desk.now + 900,
        "pollInMs": 1000,
        "isDelayed": False,
        "confirmations": {"seen": 1, "needed": 12},
    }
    page = await person.tab()
    await page.route("**/state", lambda route: route.fulfill(json=state))
    await page.goto(desk.rest.base + path)
    await wait_open_responses(desk.service, 1)
    await desk.rest.simulate(path[1:], "stall")
    meter = page.locator("#meter")
    for seen in (1, 2, 3):
        state["confirmations"] = {"seen": seen, "needed": 12}
        await expect(meter).to_have_js_property("value", seen)
    assert await take_announcements(page) == [CONFIRMING]
    state["isDelayed"] = True
    await expect(page.locator("#delayed")).to_be_visible()
    state["confirmations"] = {"seen": 4, "needed": 12}
    await expect(meter).to_have_js_property("value", 4)
    (announced,) = await take_announcements(page)
    assert announced.startswith("The network is not taking transactions at the moment.")
    assert announced.endswith("Do not pay again.")


@pytest.mark.parametrize(
    ("state", "title"),
    [
        ("succeeded", "Paid · Corner Café · 12.50\u00a0USD"),
        ("failed", "Payment failed · Corner Café · 12.50\u00a0USD"),
        ("expired", "Payment expired · Corner Café · 12.50\u00a0USD"),
        ("cancelled", "Payment canceled · Corner Café · 12.50\u00a0USD"),
    ],
)
async def test_end_is_in_the_title_of_the_page_that_is_loaded_then(desk, person, state, title):
    """Screen readers read the title of a page that was reloaded, and announce no region."""
    path = await reach_state(desk, "requires_action")
    page = await person.open(desk.rest.base + path)
    await expect(page).to_have_title(re.compile("^Pay .*Corner Café"))
    await wait_open_responses(desk.service, 1)
    await desk.rest.simulate(path[1:], state)
    await expect(page).to_have_title(title)


async def test_countdown_is_announced_once(desk, person):
    path = await reach_state(desk, "succeeded", checkout=URLS)
    page = await person.tab()
    await page.clock.install(time=0)
    await page.clock.pause_at(1000)
    await page.goto(desk.rest.base + path)
    await expect(page.locator("#stay")).to_be_visible()
    await page.clock.run_for(2100)
    await expect(page.locator("#count")).to_contain_text("1 second")
    assert await take_announcements(page) == ["Returning to Corner Café in 3 seconds"]
    await page.get_by_role("button", name="Stay on this page").click()
    await run_clock(page, 10_000)
    assert await take_announcements(page) == []


async def test_each_step_with_a_wallet_is_announced_once(desk, person):
    purse = InjectedEvmWallet(desk.chain, refuses={"eth_signTypedData_v4": (4001, "No")})
    page = await person.tab()
    await purse.put_into(page)
    await page.goto(desk.rest.base + await reach_state(desk, "requires_action"))
    await page.locator("#choose").click()
    await page.get_by_role("button", name=NAME).click()
    await expect(page.locator(".paybar")).to_be_visible()
    listed = await take_announcements(page)
    await page.locator(".paybar .primary").click()
    await expect(page.get_by_role("button", name="Try again")).to_be_visible()
    prompted = await take_announcements(page)
    steps = {
        "Choose a wallet",
        f"Continue in {NAME}.",
        "Loading the payment options…",
        "Choose what to pay with",
    }
    assert len(listed) == len(set(listed))
    assert listed[-1] == "Choose what to pay with", (listed, steps)
    prompt = f"Confirm in {NAME} Check the amount in your wallet, then confirm."
    assert [text.startswith(("Confirm in", "You declined")) for text in prompted] == [True, True]
    assert prompted[0].startswith(prompt[: len(f"Confirm in {NAME}")])


async def test_lost_connection_is_announced_once_however_often_the_page_tries(desk, person):
    path = await reach_state(desk, "processing")
    page = await person.open(desk.rest.base + path)
    await wait_open_responses(desk.service, 1)
    await person.context.set_offline(True)
    await expect(page.locator("#note")).to_contain_text("No connection")
    for _ in range(3):
        await page.evaluate("() => dispatchEvent(new Event('online'))")
        await page.evaluate("() => fetch(location.href).catch(() => 0)")
    assert await take_announcements(page) == [OFFLINE]
    await person.context.set_offline(False)
    await expect(page.locator("#note")).to_be_empty()
    assert await take_announcements(page) == []
    forgive(person, "ERR_INTERNET_DISCONNECTED")


async def test_regions_have_roles_and_the_page_its_names(desk, person):
    page = await person.open(desk.rest.base + await reach_state(desk, "requires_action"))
    tree = await page.locator("body").aria_snapshot()
    for line in (
        '- heading "Pay Corner Café 12.50 USD" [level=1]',
        '- heading "Choose how to pay" [level=2]',
        '- button "Connect a wallet"',
        '- list "Accepted for this payment"',
    ):
        assert line in tree, tree
    # the note above the page, the states, the delay, and the step of a wallet
    assert await page.locator("[role=status]").count() == 4
    assert await page.locator("[role=alert]").count() == 0
    # neither the clock nor the numbers of a countdown are in a region
    assert await page.locator("[role=status] :is(#left, #count, #confirmations)").count() == 0


async def test_errors_of_a_form_are_read_first_and_lost_requests_announced_once(desk, person):
    pos = await open_pos(desk, amount={"unit": "iso4217/USD", "value": "2000"})
    url = await pos.url()
    page = await person.open(desk.rest.base + url[url.index("/collect/") :])
    await page.get_by_role("button", name="Continue").click()
    await expect(page.get_by_role("alert").first).to_be_focused()
    await expect(page).to_have_title("Some entries are missing or wrong – Your details")
    await page.route("**/collect/*", lambda route: route.abort())
    await take_announcements(page)
    await page.get_by_role("button", name="Continue").click()
    await expect(page.locator("#trouble")).to_be_visible()
    (announced,) = await take_announcements(page)
    assert announced.startswith("The form could not be sent.")
    forgive(person, "400", "422", "ERR_FAILED")


async def test_console_announces_a_changed_payment_once_and_no_ages(desk, person):
    tenant = await desk.tenant()
    order = await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)
    page = await person.open(f"{desk.rest.base}/console/payments")
    await page.get_by_label("Sign in with").fill(tenant.secret)
    await page.clock.install(time=0)
    await page.get_by_role("button", name="Sign in").click()
    row = page.locator(f'tr[data-id="{order.body["paymentId"]}"]')
    await expect(row).to_contain_text("Waiting")
    await page.clock.pause_at(10 * 3_600_000)
    await take_announcements(page)
    path = f"/v1/sandbox/payments/{order.body['paymentId']}/simulate"
    await desk.ask("POST", path, tenant.headers, {"outcome": "succeeded"})
    # each answer takes some real time, in which the page's clock may advance far
    await wait_until(
        lambda: row.get_by_text("Paid", exact=True).count(),
        meanwhile=lambda: run_clock(page, 5_000),
    )
    await run_clock(page, 30_000)
    assert await take_announcements(page) == ["A payment changed to: Paid."]
