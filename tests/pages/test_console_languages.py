"""The consoles in the language of their reader, and how a language is chosen."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
import pytest_asyncio
from florin_server.web.language import LANGUAGES
from playwright.async_api import Page, expect

from tests.support.browser import list_violations, open_visitor
from tests.support.console import ConsoleUser
from tests.support.service_harness import ORDER, open_service

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
_OVERVIEWS = {
    "en": "Overview",
    "de": "Übersicht",
    "es": "Resumen",
    "fr": "Aperçu",
    "ar": "نظرة عامة",
    "ja": "概要",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("console")
    async with open_service(home, console=True, metrics_port=0, pay_url="") as desk:
        yield desk


def read_language(text: str) -> tuple[str, str]:
    """Return the language and the direction that a page states."""
    match = re.search(r'<html lang="(\w+)" dir="(\w+)">', text)
    assert match is not None, text[:200]
    return match[1], match[2]


async def test_language_is_that_of_the_browser_until_one_is_chosen(desk, person):
    await person.sign_in((await desk.tenant()).secret)
    german = {"Accept-Language": "de-AT, en;q=0.5"}
    assert read_language((await person.get("/console")).text) == ("en", "ltr")
    overview = await person.ask("GET", "/console", german)
    assert read_language(overview.text) == ("de", "ltr")
    assert "<h1>Übersicht</h1>" in overview.text

    chosen = await person.ask("GET", "/console/payments?status=failed&lang=ar", german)
    assert (chosen.status, chosen.url) == (303, "/console/payments?status=failed")
    cookie = chosen.headers["Set-Cookie"]
    assert cookie.startswith("florin_language=ar; Path=/console; Max-Age=")
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    for path in ("/console", chosen.url, "/console/merchants"):
        assert read_language((await person.ask("GET", path, german)).text) == ("ar", "rtl")
    # another choice replaces it, and a page links to each
    page = await person.get("/console/payments?status=failed")
    for language in LANGUAGES:
        assert f'href="/console/payments?lang={language}&amp;status=failed"' in page.text
    await person.get("/console?lang=en")
    assert read_language((await person.ask("GET", "/console", german)).text)[0] == "en"


@pytest.mark.parametrize("language", LANGUAGES)
async def test_choice_at_the_sign_in_lasts_for_the_session_and_after_it(desk, person, language):
    tenant = await desk.tenant()
    chosen = await person.get(f"/console/login?back=%2Fconsole%2Fpayments&lang={language}")
    assert chosen.url == "/console/login?back=%2Fconsole%2Fpayments"
    assert read_language((await person.get(chosen.url)).text)[0] == language
    wrong = await person.submit_sign_in("wrong")
    assert (wrong.status, read_language(wrong.text)[0]) == (401, language)
    entered = await person.submit_sign_in(tenant.secret)
    # the host of the session has its own cookies
    person.language_cookie = ""
    await person.follow(entered)
    assert person.language_cookie == f"florin_language={language}"
    assert f"<h1>{_OVERVIEWS[language]}</h1>" in (await person.get("/console")).text
    hidden = await person.hidden("/console", "/console/logout")
    left = await person.send("/console/logout", hidden)
    assert left.location == f"/console/login?lang={language}"


async def test_forms_and_errors_have_the_language_of_the_page(desk, person):
    tenant = await desk.tenant()
    created = await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)
    await person.sign_in(tenant.secret)
    await person.get("/console?lang=de")
    payment_id = created.body["paymentId"]
    page = f"/console/merchants/{tenant.merchant.id}/payments/{payment_id}"
    question = await person.fill(page, f"{page}/cancel")
    assert "<h1>Diese Zahlung abbrechen?</h1>" in question.text
    # a form's answer has no address that could be loaded in another language
    assert 'id="languages"' not in question.text
    form = await person.hidden("/console/payments/new", "/console/payments/new")
    values = {"merchant": tenant.merchant.id, "unit": "iso4217/USD", "amount": "x"}
    refused = await person.send("/console/payments/new", {**form, **values})
    assert "Zahl mit Punkt ein" in refused.text
    missing = await person.get(f"{page}x")
    assert (missing.status, "Zahlung nicht gefunden" in missing.text) == (404, True)
    # the API's own words stay English, and say so
    invalid = await person.send("/console/payments/new", {**form, **values, "amount": "1e40"})
    assert re.search(r'<span lang="en" dir="ltr">[^<]*amount', invalid.text)
    # a file is the same for everybody
    export = await person.get("/console/payments/export")
    assert export.text.startswith("payment_id,merchant_id,")
    assert "requires action" in export.text


@pytest.mark.parametrize(
    "language",
    [
        "<script>alert(1)</script>",
        "de\r\nSet-Cookie: florin_console=x",
        "../../../../etc/passwd",
        "de; Path=/; Domain=example.com",
        "DE",
        "",
        "x" * 4000,
    ],
)
async def test_unknown_language_reaches_neither_a_page_nor_a_header(desk, person, language):
    await person.sign_in((await desk.tenant()).secret)
    for page in ("/console/payments", "/console/login"):
        answer = await person.get(f"{page}?token=USDC&lang={quote(language)}")
        assert (answer.status, answer.url.partition("?")[0]) == (303, page)
        assert "lang" not in answer.url
        assert "Set-Cookie" not in answer.headers
        shown = await person.ask(
            "GET", page, {"Cookie": f"{person.cookie}; florin_language={quote(language)}"}
        )
        assert shown.status in {200, 303}
        assert len(language) < 10 or language not in shown.text
    assert read_language((await person.get("/console")).text)[0] == "en"


async def test_choice_redirects_to_this_console_only(person):
    for path in ("/console/login?back=//evil.example", "/console/login?back=https%3A%2F%2Fevil"):
        answer = await person.get(f"{path}&lang=de")
        assert answer.url.startswith("/console/login?back=")


async def sign_in(person, base: str, secret: str) -> Page:
    page = await person.open(f"{base}/console")
    await page.locator("#secret").fill(secret)
    await page.locator("form button").click()
    await expect(page.locator("main.work")).to_be_visible()
    return page


async def test_language_menu_switches_and_lasts_while_navigating(desk, browser):
    tenant = await desk.tenant()
    await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)
    async with open_visitor(browser, viewport={"width": 1280, "height": 800}) as person:
        page = await sign_in(person, desk.rest.base, tenant.secret)
        await page.get_by_role("button", name="English").click()
        assert await list_violations(page) == []
        await page.get_by_role("link", name="Deutsch").click()
        await expect(page.get_by_role("heading", name="Übersicht", exact=True)).to_be_visible()
        await page.get_by_role("link", name="Zahlungen", exact=True).click()
        await expect(page.get_by_role("heading", name="Zahlungen", exact=True)).to_be_visible()
        # scripts write ages in the language too, without "ago"
        await expect(page.locator("td time.ago").first).to_have_text(
            re.compile(r"^jetzt$|\d+\s(s|min)$")
        )
        wide = await page.evaluate(
            "[...document.querySelectorAll('.scroll')]"
            ".filter(box => box.scrollWidth > box.clientWidth).length"
        )
        assert wide == 0
        assert await list_violations(page) == []


async def test_open_table_reports_changes_in_the_language(desk, browser):
    tenant = await desk.tenant()
    created = await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)
    payment_id = created.body["paymentId"]
    async with open_visitor(browser, locale="fr") as person:
        page = await sign_in(person, desk.rest.base, tenant.secret)
        await page.clock.install(time=0)
        await page.goto(page.url.partition("/console")[0] + "/console/payments")
        row = page.locator(f'tr[data-id="{payment_id}"]')
        await expect(row).to_contain_text("En attente")
        path = f"/v1/sandbox/payments/{payment_id}/simulate"
        await desk.ask("POST", path, tenant.headers, {"outcome": "succeeded"})
        # from here on the test moves the clock: a poll takes no time
        await page.clock.pause_at(10 * 3_600_000)
        await expect(row).to_contain_text("Payé")
        await expect(page.locator("#notice")).to_have_text("Nouvel état d’un paiement : Payé.")


async def test_right_to_left_pages_fit_a_phone(desk, browser):
    """No page of either console scrolls sideways at 390 pixels, with content in its lists."""
    tenant = await desk.tenant()
    created = await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)
    payment_id = created.body["paymentId"]
    path = f"/v1/sandbox/payments/{payment_id}/simulate"
    await desk.ask("POST", path, tenant.headers, {"outcome": "succeeded"})
    body = {"url": "https://shop.example/hooks"}
    endpoint = await desk.ask("POST", "/v1/webhook-endpoints", tenant.headers, body)
    merchant = f"/merchants/{tenant.merchant.id}"
    own = (
        *("", "/payments", "/payments/new", "/balances", "/keys", "/merchants", merchant),
        *(f"{merchant}/payments/{payment_id}", "/search?q=12.50", "/webhooks"),
        *("/audit", "/statement?month=2027", f"{merchant}/branding", "/sessions"),
        f"/webhooks/{endpoint.body['endpoint']['id']}",
    )
    operators = (
        *("", f"/payments?partner={tenant.partner.id}", "/payouts?all=1", "/held", "/accounts"),
        *("/books?check=1", "/quarantine?all=1", "/webhooks", f"/payments/{payment_id}", "/audit"),
    )
    metrics = desk.service.metrics_url.removesuffix("/metrics")
    async with open_visitor(browser, locale="ar", viewport={"width": 390, "height": 844}) as person:
        for base, secret, paths in (
            (desk.rest.base, tenant.secret, own),
            (metrics, desk.service.secrets.operator_token, operators),
        ):
            page = await sign_in(person, base, secret)
            at = page.url.partition("/console")[0]
            for path in paths:
                await page.goto(f"{at}/console{path}")
                assert await page.evaluate("document.dir") == "rtl"
                assert await page.evaluate("document.documentElement.scrollWidth") <= 390, path
        await page.get_by_role("button", name="القائمة").click()
        await page.get_by_role("button", name="العربية").click()
        assert await list_violations(page) == []


async def test_both_consoles_share_no_session_but_speak_one_language(desk, bare):
    """The cookie of a language holds nothing that signs anybody in."""
    visitor = ConsoleUser(bare, desk.rest.base)
    await visitor.get("/console/login?lang=es")
    assert visitor.cookie == ""
    assert (await visitor.get("/console/payments")).location.startswith("/console/login")
