"""The checkout page in a browser: every state, accessibility, and the way back to the shop."""

from __future__ import annotations

import re

import pytest
import pytest_asyncio
from florin_sandbox.devnet.genesis import DEVNET
from florin_server.web.language import LANGUAGES
from playwright.async_api import Page, Response, expect

from tests.support.browser import list_violations, open_visitor, read_visible_focus
from tests.support.checkout_states import STATES, URLS, reach_state
from tests.support.injected_wallets import NAME, InjectedEvmWallet
from tests.support.service import wait_open_responses
from tests.support.service_harness import ORDER, open_service
from tests.support.wallet import EvmTestWallet

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

# first load, with the stream of states
REQUESTS_MAX, BYTES_MAX = 5, 70_000
ETHER = f"eip155:{DEVNET.chain_id}/slip44:60"
SHOP = re.compile(r"^https://shop\.example/")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    home, rates = tmp_path_factory.mktemp("shown"), {ETHER: {"GBP": "2500.00"}}
    async with open_service(home, pay_url="", rates=rates) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def person(browser):
    async with open_visitor(browser, viewport={"width": 320, "height": 700}) as person:
        yield person


async def overflow(page: Page) -> int:
    """Return the pixels by which the page overflows sideways."""
    return int(
        await page.evaluate(
            "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
    )


async def standing(page: Page) -> None:
    """Stop the clock of the page, which is years off the service's."""
    await page.clock.install(time=0)
    await page.clock.pause_at(1000)


@pytest.mark.parametrize("state", STATES)
async def test_everybody_can_use_every_state(desk, person, state):
    path = await reach_state(desk, state)
    if state == "unknown":
        # the browser itself reports an address that leads nowhere
        page = await person.open(desk.rest.base + path)
        assert " 404 " in person.complaints.pop()
    else:
        page = await person.open(desk.rest.base + path)
    await expect(page.get_by_role("heading", name=STATES[state], exact=True)).to_be_visible()
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        assert await list_violations(page) == [], scheme
    assert await overflow(page) <= 0
    assert await page.evaluate("() => document.getAnimations().length") == 0


async def test_letters_of_twice_the_size_fit(desk, person):
    page = await person.open(desk.rest.base + await reach_state(desk, "requires_action"))
    await page.set_viewport_size({"width": 640, "height": 900})
    await page.evaluate("() => { document.documentElement.style.fontSize = '200%'; }")
    assert await overflow(page) <= 0


@pytest.mark.parametrize("language", LANGUAGES)
async def test_it_speaks_every_language(desk, browser, language):
    path = await reach_state(desk, "requires_action")
    async with open_visitor(
        browser, locale=language, viewport={"width": 320, "height": 700}
    ) as person:
        page = await person.open(desk.rest.base + path)
        root = page.locator("html")
        await expect(root).to_have_attribute("lang", language)
        await expect(root).to_have_attribute("dir", "rtl" if language == "ar" else "ltr")
        assert await overflow(page) <= 0
        if language == "ar":
            assert await list_violations(page) == []
            # sides are those of the direction of writing
            box = await page.locator(".initial").bounding_box()
            assert box["x"] > 160
        await page.get_by_role("button", name=LANGUAGES[language]).click()
        await page.get_by_role("link", name="English").click()
        await expect(root).to_have_attribute("lang", "en")


async def test_the_first_load_is_small(desk, person):
    path = await reach_state(desk, "requires_action")
    page = await person.tab()
    sent: list[Response] = []

    def note(response: Response) -> None:
        sent.append(response)

    page.on("response", note)
    await page.goto(desk.rest.base + path)
    await wait_open_responses(desk.service, 1)
    assert len(sent) <= REQUESTS_MAX, [response.url for response in sent]
    # a stream of events has no size while the page is open
    sizes = [
        len(await response.body()) for response in sent if not response.url.endswith("/events")
    ]
    assert sum(sizes) <= BYTES_MAX


async def test_status_change_is_shown_without_a_reload(desk, person):
    path = await reach_state(desk, "requires_action")
    page = await person.open(desk.rest.base + path)
    await wait_open_responses(desk.service, 1)
    await desk.rest.simulate(path[1:], "stall")
    await expect(page.get_by_role("heading", name="Confirming your payment")).to_be_visible()
    await expect(page.get_by_role("heading", name="Choose how to pay")).to_be_hidden()
    await desk.rest.simulate(path[1:], "succeeded")
    await expect(page.get_by_role("heading", name="Paid", exact=True)).to_be_visible()


async def test_it_asks_where_there_is_no_stream(desk, person):
    path = await reach_state(desk, "requires_action")
    page = await person.tab()
    await page.route("**/events", lambda route: route.fulfill(status=429, body=""))
    await page.goto(desk.rest.base + path)
    await desk.rest.cancel(path[1:])
    await expect(page.get_by_role("heading", name="Payment canceled")).to_be_visible()
    person.complaints[:] = [
        complaint for complaint in person.complaints if " 429 " not in complaint
    ]


async def test_a_page_without_a_connection_says_so_and_comes_back(desk, person):
    path = await reach_state(desk, "requires_action")
    page = await person.open(desk.rest.base + path)
    await wait_open_responses(desk.service, 1)
    await person.context.set_offline(True)
    await expect(page.locator("#note")).to_contain_text("No connection")
    await desk.rest.cancel(path[1:])
    await person.context.set_offline(False)
    await expect(page.get_by_role("heading", name="Payment canceled")).to_be_visible()
    person.complaints[:] = [
        complaint for complaint in person.complaints if "ERR_INTERNET" not in complaint
    ]


async def test_time_left_follows_the_server_clock(desk, person):
    path = await reach_state(desk, "requires_action", expiresAt=desk.now + 100)
    page = await person.tab()
    await standing(page)
    await page.goto(desk.rest.base + path)
    await expect(page.locator("#left")).to_contain_text("01:40")
    await page.clock.run_for(41_000)
    await expect(page.locator("#left")).to_contain_text("00:59")
    await expect(page.locator("#note")).to_have_text("You have one minute left to pay.")


@pytest.mark.parametrize(("outcome", "url"), [("succeeded", "successUrl"), ("failed", "errorUrl")])
async def test_buyers_go_back_after_three_seconds(desk, person, outcome, url):
    path = await reach_state(desk, outcome, checkout=URLS)
    page = await person.tab()
    await standing(page)
    await page.route(SHOP, lambda route: route.fulfill(body="<title>Shop</title>"))
    await page.goto(desk.rest.base + path)
    await expect(page.locator("#count")).to_have_text(re.compile("in .3 seconds"))
    # screen readers hear it once: the numbers that follow are hidden from them
    announced = page.locator("#said")
    await expect(announced).to_have_role("status")
    await expect(announced).to_have_text(re.compile("Returning to .Corner Café. in .3 seconds"))
    await expect(page.locator("#count")).to_have_attribute("aria-hidden", "true")
    await page.clock.run_for(2_900)
    await expect(page.locator("#count")).to_have_text(re.compile("in .1 second.$"))
    await page.clock.run_for(200)
    await page.wait_for_url(SHOP)
    joint = "&" if "?" in URLS[url] else "?"
    assert page.url == f"{URLS[url]}{joint}payment_id={path[1:]}"


@pytest.mark.parametrize("outcome", ["expired", "cancelled"])
async def test_expired_and_cancelled_pages_never_count_down(desk, person, outcome):
    path = await reach_state(desk, outcome, checkout=URLS)
    page = await person.tab()
    await standing(page)
    await page.goto(desk.rest.base + path)
    await expect(page.get_by_role("link", name="Return to Corner Café")).to_be_visible()
    await page.clock.run_for(60_000)
    await expect(page.locator("#away")).to_be_hidden()
    assert page.url.endswith(path)


async def with_money_under_way(desk, end: str) -> str:
    """Return the path of a payment that ended after a wallet signed, or fetched its actions."""
    wallet = EvmTestWallet()
    order = {**ORDER, "checkout": URLS}
    if end != "mismatch":
        order |= {"amount": {"unit": "iso4217/GBP", "value": "500"}, "expiresAt": desk.now + 100}
    payment_id = (await desk.rest.create(order))["paymentId"]
    option = (await desk.rest.options(payment_id, [wallet.account]))["options"][0]
    if end == "mismatch":
        signature = wallet.execute(option["actions"][0])
        await desk.rest.confirm(payment_id, option["id"], [signature, signature])
    else:
        build = option["actions"][0]["data"]["data"]
        await desk.rest.fetch(payment_id, option["id"], build)
    if end == "cancelled":
        await desk.rest.merchant_cancel(payment_id)
    if end == "expired":
        desk.clock.advance(101)
    return f"/{payment_id}"


@pytest.mark.parametrize("end", ["mismatch", "cancelled", "expired"])
async def test_a_page_waits_for_a_tap_while_money_may_be_on_its_way(desk, person, end):
    """The page once left after three seconds, although it warned about late money."""
    path = await with_money_under_way(desk, end)
    page = await person.tab()
    await standing(page)
    await page.route(SHOP, lambda route: route.fulfill(body="<title>Shop</title>"))
    await page.goto(desk.rest.base + path)
    await expect(page.get_by_role("link", name="Return to Corner Café")).to_be_visible()
    await page.clock.run_for(60_000)
    await expect(page.locator("#away")).to_be_hidden()
    assert page.url.endswith(path)
    await page.get_by_role("link", name="Return to Corner Café").click()
    await page.wait_for_url(SHOP)
    assert page.url == f"{URLS['errorUrl']}?payment_id={path[1:]}"


async def test_a_page_waits_where_its_own_wallet_sent_something(desk, person):
    """The service does not know what a wallet sent until the chain has it."""
    path = await reach_state(desk, "cancelled", checkout=URLS)
    page = await person.tab()
    await standing(page)
    await page.add_init_script(f"sessionStorage.setItem('florin.sent.{path[1:]}', '1')")
    await page.goto(desk.rest.base + path)
    await page.clock.run_for(60_000)
    await expect(page.locator("#away")).to_be_hidden()
    assert page.url.endswith(path)


async def test_buyers_may_stay_and_are_not_sent_on_again(desk, person):
    path = await reach_state(desk, "succeeded", checkout=URLS)
    page = await person.tab()
    await standing(page)
    await page.goto(desk.rest.base + path)
    await page.get_by_role("button", name="Stay on this page").click()
    await expect(page.get_by_role("link", name="Return to Corner Café")).to_be_focused()
    await page.clock.run_for(10_000)
    assert page.url.endswith(path)
    await page.reload()
    await expect(page.locator("#away")).to_be_hidden()
    await expect(page.get_by_role("link", name="Return to Corner Café")).to_be_visible()


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        ("succeeded", '{"type":"PAY_SUCCESS","success":true}'),
        ("expired", '{"type":"PAY_FAILURE","success":false,"error":"expired"}'),
    ],
)
async def test_embedding_app_receives_the_outcome_once(desk, person, outcome, message):
    path = await reach_state(desk, outcome)
    page = await person.tab()
    received: list[str] = []

    def hear(text: str) -> None:
        received.append(text)

    await page.expose_function("heard", hear)
    await page.add_init_script("window.ReactNativeWebView = {postMessage: (text) => heard(text)}")
    await page.goto(desk.rest.base + path, wait_until="networkidle")
    assert received == [message]


async def test_the_keyboard_alone_is_enough(desk, person):
    """From the first key to the stopped countdown; every stop is visible."""
    purse = InjectedEvmWallet(desk.chain)
    path = await reach_state(desk, "requires_action", checkout=URLS)
    page = await person.tab()
    await purse.put_into(page)
    # time passes only when the test says so: the countdown waits for the keyboard
    await standing(page)
    await page.route(SHOP, lambda route: route.fulfill(body="<title>Shop</title>"))
    await page.goto(desk.rest.base + path)

    async def move(*keys: str) -> str:
        for key in keys:
            await page.keyboard.press(key)
        return await read_visible_focus(page)

    reachable = [await move("Tab") for _ in range(6)]
    assert reachable == [
        "Connect a wallet",
        "Wallet on another device Scan a code with your phone",
        "Copy link",
        "Any wallet or exchange Send to an address",
        "English",
        "Test tools",
    ]
    # back to the first one, as a person would
    for _ in range(5):
        await move("Shift+Tab")
    await page.keyboard.press("Enter")
    await expect(page.locator("#step")).to_be_focused()
    await read_visible_focus(page)
    assert NAME in await move("Tab")
    await page.keyboard.press("Enter")
    await expect(page.locator(".option")).to_have_count(1)
    # the wallet, the option, and the button
    for _ in range(12):
        if (await move("Tab")).startswith("Pay "):
            break
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Paid", exact=True)).to_be_visible()
    await expect(page.locator("#stay")).to_be_visible()
    assert await move("Tab") == "Return to Corner Café"
    assert await move("Tab") == "Stay on this page"
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("link", name="Return to Corner Café")).to_be_focused()
    await read_visible_focus(page)
    await page.clock.run_for(10_000)
    assert page.url.endswith(path)
    await page.keyboard.press("Enter")
    await page.wait_for_url(SHOP)


PHONE = {"width": 390, "height": 844}


@pytest.mark.parametrize("language", ["en", "ar", "de"])
async def test_a_phone_shows_what_to_whom_and_the_button_without_scrolling(desk, browser, language):
    path = await reach_state(desk, "requires_action")
    options = {"viewport": PHONE, "is_mobile": True, "has_touch": True, "locale": language}
    async with open_visitor(browser, **options) as person:
        page = await person.open(desk.rest.base + path)
        app = page.locator(".apps .primary")
        for part in (page.locator(".name"), page.locator(".amount"), app):
            box = await part.bounding_box()
            assert box["y"] + box["height"] <= PHONE["height"]
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= PHONE["width"]
        # the code is for other devices, and closed here
        await expect(page.locator(".qr svg")).to_be_hidden()
        await page.locator("#code summary").click()
        await expect(page.locator(".qr svg")).to_be_visible()
        assert await list_violations(page) == []


async def test_a_desktop_shows_the_code_without_scrolling_and_no_links_to_apps(desk, browser):
    path = await reach_state(desk, "requires_action")
    size = {"width": 1280, "height": 720}
    async with open_visitor(browser, viewport=size) as person:
        page = await person.open(desk.rest.base + path)
        box = await page.locator(".qr svg").bounding_box()
        assert box["y"] + box["height"] <= size["height"]
        await expect(page.locator(".apps")).to_be_hidden()
        # two columns: the order, and beside it the payment
        order, pay = [
            await page.locator(place).bounding_box()
            for place in (".split > .head", ".split > .pay")
        ]
        assert order["x"] + order["width"] <= pay["x"]
        assert await list_violations(page) == []


async def test_what_is_accepted_is_listed_before_a_wallet_is_connected(desk, person):
    page = await person.open(desk.rest.base + await reach_state(desk, "requires_action"))
    (row,) = (
        await page.get_by_role("list", name="Accepted for this payment")
        .get_by_role("listitem")
        .all_inner_texts()
    )
    for fact in ("tUSD", "Florin Devnet", "12.50", "No network fee", "about 1 second"):
        assert fact in row


async def test_processing_page_says_that_nothing_could_be_sent_yet(desk, person):
    path = await reach_state(desk, "processing")
    page = await person.tab()
    state = {
        "status": "processing",
        "isFinal": False,
        "expiresAt": desk.now + 100,
        "pollInMs": 1000,
        "isDelayed": True,
        "confirmations": {"seen": 0, "needed": 12},
    }
    await page.route("**/state", lambda route: route.fulfill(json=state))
    await page.goto(desk.rest.base + path)
    delayed = page.locator("#delayed")
    await expect(delayed).to_contain_text("Nothing was sent yet")
    await expect(delayed).to_have_role("status")
    assert await list_violations(page) == []
    state |= {"isDelayed": False, "confirmations": {"seen": 5, "needed": 12}}
    await expect(delayed).to_be_hidden()
    meter = page.get_by_role("progressbar", name=re.compile("Confirmations: .5. of .12."))
    await expect(meter).to_have_js_property("value", 5)


async def test_without_a_script_it_does_all_that_matters(desk, browser):
    path = await reach_state(desk, "requires_action", checkout=URLS)
    async with open_visitor(browser, java_script_enabled=False) as person:
        page = await person.open(desk.rest.base + path)
        await expect(page.locator(".qr svg")).to_be_visible()
        await expect(page.get_by_role("button", name="Connect a wallet")).to_be_hidden()
        await expect(page.locator("#left")).to_contain_text("Pay until")
        await desk.rest.simulate(path[1:], "succeeded")
        await page.get_by_role("link", name="Check the status again").click()
        await expect(page.get_by_role("heading", name="Paid", exact=True)).to_be_visible()
        await page.get_by_text("Payment details").click()
        await expect(page.get_by_text(path[1:])).to_be_visible()
        await expect(page.get_by_role("link", name="Return to Corner Café")).to_be_visible()


async def test_details_and_refunds_of_a_payment_meet_the_guidelines_opened(desk, person):
    path = await reach_state(desk, "refunded")
    page = await person.open(desk.rest.base + path)
    await page.get_by_text("Payment details").click()
    await expect(page.get_by_text("Refunded on")).to_be_visible()
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        assert await list_violations(page) == [], scheme
    assert await overflow(page) <= 0


async def test_a_test_payment_is_clicked_through_and_back_to_the_shop(desk, person):
    created = await desk.rest.create({**ORDER, "checkout": URLS})
    page = await person.open(created["gatewayUrl"])
    await page.route(SHOP, lambda route: route.fulfill(body="<title>Shop</title>"))
    await page.get_by_text("Test tools").click()
    assert await list_violations(page) == []
    await page.get_by_role("button", name="Florin Devnet").click()
    await desk.wait_ended(created["paymentId"])
    await page.wait_for_url(SHOP)
    assert await page.title() == "Shop"
    detail = await desk.rest.detail(created["paymentId"])
    assert detail["status"] == "succeeded"
    assert re.fullmatch("0x[0-9a-f]{64}", detail["info"]["txId"])


@pytest.mark.parametrize("width", [390, 1280])
async def test_the_languages_of_a_receipt_are_in_its_column(desk, browser, width):
    """They were once at the left edge of the window."""
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    async with open_visitor(browser, viewport={"width": width, "height": 800}) as person:
        page = await person.open(f"{desk.rest.base}/{payment_id}")
        await page.get_by_text("Test tools").click()
        await page.get_by_role("button", name="Florin Devnet").click()
        await desk.wait_ended(payment_id)
        # in a tab of its own: the first one still follows its form, or reloads at the end
        page = await person.open(f"{desk.rest.base}/{payment_id}/receipt")
        for scheme in ("light", "dark"):
            await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            assert await list_violations(page) == [], scheme
        assert await overflow(page) <= 0
        card = await page.locator("main .panel").first.bounding_box()
        first = await page.locator(".foot .i").first.bounding_box()
        last = await page.locator(".foot .by").bounding_box()
        assert card["x"] <= first["x"] <= card["x"] + 16
        assert last["x"] + last["width"] <= card["x"] + card["width"]
