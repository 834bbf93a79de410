"""Pages for people who come without a payment; programs are told what they always were."""

from __future__ import annotations

import re
from io import BytesIO

import pytest
import pytest_asyncio
from florin_server.config import LimitSettings
from florin_server.web.language import LANGUAGES
from PIL import Image

from tests.support.browser import violations, visitor
from tests.support.desk import ORDER, opened
from tests.support.page_texts import NASTY, headers_of, text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

PERSON = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
# what is there for nobody, and what a page's own routes refuse
NOWHERE = ("/a/b", "/docs/none.js", "/buy", "/assets/x/site/none.css", "/console/x/y", "/%ff/%00")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    async with opened(tmp_path_factory.mktemp("people")) as desk:
        yield desk


async def test_the_first_page_says_what_runs_here_and_where_to_go(desk):
    answer = await desk.ask("GET", "/", PERSON)
    assert answer.status == 200
    assert "<title>pay.florin.example</title>" in answer.text
    told = text_of(answer.text)
    assert "Test installation: no real money moves here." in told
    links = re.findall(r'<li><a href="(/[a-z]+)">', answer.text)
    assert links == ["/docs", "/versions", "/healthz"]
    for path in links:
        assert (await desk.ask("GET", path, PERSON)).status == 200
    # what runs here exactly is nobody's business
    assert not re.search(r"\d+\.\d+", told)
    assert (await desk.ask("HEAD", "/", PERSON)).status == 200


async def test_a_payment_in_the_query_is_still_a_payment(desk):
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    for headers in (PERSON, {}):
        page = await desk.ask("GET", f"/?pid={payment_id}", headers)
        assert "Corner Café" in page.text
        assert (await desk.ask("GET", "/?pid=pay_unknown", headers)).status == 404


@pytest.mark.parametrize("path", NOWHERE)
async def test_people_get_a_page_and_programs_what_they_always_got(desk, path):
    page = await desk.ask("GET", path, PERSON)
    told = await desk.ask("GET", path, {"Accept": "*/*"})
    assert page.status == told.status in {400, 404}
    assert headers_of(page)["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in headers_of(page)["content-security-policy"]
    assert headers_of(page)["cache-control"] == "no-store"
    assert "request-id" in headers_of(page)
    assert told.told == (told.status, "invalid_params")
    assert set(told.body) == {"code", "message", "requestId"}
    assert (await desk.ask("HEAD", path, PERSON)).status == page.status


@pytest.mark.parametrize("path", ["/v1/none", "/v1/payments", "/spec/x/y", "//v1/payments"])
async def test_the_api_answers_people_like_programs(desk, path):
    assert headers_of(await desk.ask("GET", path, PERSON))["content-type"] == "application/json"


async def test_what_changes_something_is_no_page(desk):
    answer = await desk.ask("POST", "/a/b", PERSON)
    assert answer.told == (404, "invalid_params")
    assert (await desk.ask("DELETE", "/", PERSON)).told == (405, "invalid_params")


async def test_what_is_asked_for_is_not_repeated(desk):
    page = await desk.ask("GET", "/a/%3Cscript%3Ealert(1)%3C%2Fscript%3E?x=%3Cb%3E", PERSON)
    assert "alert" not in page.text
    assert "<b>" not in page.text


@pytest.mark.parametrize("language", LANGUAGES)
async def test_they_speak_the_readers_language(desk, language):
    said = set()
    for path in ("/", "/a/b", "/%ff/%00"):
        page = await desk.ask("GET", path, {**PERSON, "Accept-Language": language})
        assert f'<html lang="{language}"' in page.text
        said |= set(re.findall("<h1>.*?</h1>", page.text))
    assert len(said) == 3


@pytest.mark.parametrize("path", ["/pay_none", "/pay_none/receipt"])
async def test_a_link_that_names_no_payment_has_the_page_of_all_that_is_not_there(desk, path):
    told = await desk.ask("GET", path, PERSON)
    assert (told.status, told.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert "Payment not found" in told.text
    assert told.text.count('hreflang="') == len(LANGUAGES)
    # where the address holds the link, another language would lose it
    asked = await desk.ask("GET", "/buy?pid=pay_none&lang=de", PERSON)
    assert "Zahlung" in asked.text
    assert "hreflang" not in asked.text


async def test_a_first_page_may_have_a_name_and_is_not_asked_for_too_often(tmp_path):
    few = LimitSettings(page_burst=1)
    async with opened(tmp_path, site_name=NASTY, limits=few) as desk:
        page = (await desk.ask("GET", "/", PERSON)).text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
        assert "<script" not in page
        over = await desk.ask("GET", "/", {**PERSON, "Accept-Language": "de"})
        assert over.status == 429
        assert int(headers_of(over)["retry-after"]) >= 1
        assert "Zu viele Anfragen" in over.text


async def test_crawlers_are_sent_away_and_browsers_find_an_icon(desk):
    robots = await desk.ask("GET", "/robots.txt")
    assert (robots.status, headers_of(robots)["content-type"]) == (200, "text/plain")
    assert robots.text == "User-agent: *\nDisallow: /\n"
    url = f"{desk.rest.base}/favicon.ico"
    async with desk.session.get(url) as answer:
        assert answer.headers["Cache-Control"] == "public, max-age=86400"
        with Image.open(BytesIO(await answer.read())) as icon:
            assert (icon.format, icon.size) == ("PNG", (48, 48))
    assert (await desk.ask("POST", "/favicon.ico")).status == 405


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_everybody_can_use_them(browser, desk, scheme):
    small = {"width": 320, "height": 640}
    async with visitor(browser, viewport=small, color_scheme=scheme) as person:
        for path in ("/?lang=ar", "/a/b?lang=de"):
            page = await person.open(desk.rest.base + path)
            assert await violations(page) == []
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        # from nowhere to the first page and into a language, by links only
        await page.get_by_role("link", name="Startseite").click()
        await page.get_by_role("link", name="Français").click()
        assert "Installation de test" in await page.inner_text("header")
        person.complaints[:] = [one for one in person.complaints if "404" not in one]
