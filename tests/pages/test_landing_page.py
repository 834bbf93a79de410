"""Pages for people without a payment link; programs receive JSON as before."""

from __future__ import annotations

import re
from io import BytesIO

import pytest
import pytest_asyncio
from florin_server.settings import LimitSettings
from florin_server.web.language import LANGUAGES
from PIL import Image

from tests.support.browser import list_violations, open_visitor
from tests.support.page_texts import HOSTILE_TEXT, get_headers, get_text
from tests.support.service_harness import ORDER, open_service

pytestmark = pytest.mark.asyncio(loop_scope="module")

PERSON = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
# paths that do not exist, and paths that a page's own routes refuse
NOWHERE = ("/a/b", "/docs/none.js", "/buy", "/assets/x/site/none.css", "/console/x/y", "/%ff/%00")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    async with open_service(tmp_path_factory.mktemp("people")) as desk:
        yield desk


async def test_landing_page_shows_the_mode_and_its_links(desk):
    answer = await desk.ask("GET", "/", PERSON)
    assert answer.status == 200
    assert "<title>pay.florin.example</title>" in answer.text
    output = get_text(answer.text)
    assert "Test installation: no real money moves here." in output
    links = re.findall(r'<li><a href="(/[a-z]+)">', answer.text)
    assert links == ["/docs", "/versions", "/healthz"]
    for path in links:
        assert (await desk.ask("GET", path, PERSON)).status == 200
    # the exact version is not public
    assert not re.search(r"\d+\.\d+", output)
    assert (await desk.ask("HEAD", "/", PERSON)).status == 200


async def test_a_payment_in_the_query_is_still_a_payment(desk):
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    for headers in (PERSON, {}):
        page = await desk.ask("GET", f"/?pid={payment_id}", headers)
        assert "Corner Café" in page.text
        assert (await desk.ask("GET", "/?pid=pay_unknown", headers)).status == 404


@pytest.mark.parametrize("path", NOWHERE)
async def test_browsers_get_an_error_page_and_api_clients_get_json(desk, path):
    page = await desk.ask("GET", path, PERSON)
    result = await desk.ask("GET", path, {"Accept": "*/*"})
    assert page.status == result.status in {400, 404}
    assert get_headers(page)["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in get_headers(page)["content-security-policy"]
    assert get_headers(page)["cache-control"] == "no-store"
    assert "request-id" in get_headers(page)
    assert result.refusal == (result.status, "invalid_params")
    assert set(result.body) == {"code", "message", "requestId"}
    assert (await desk.ask("HEAD", path, PERSON)).status == page.status


@pytest.mark.parametrize("path", ["/v1/none", "/v1/payments", "/spec/x/y", "//v1/payments"])
async def test_the_api_answers_people_like_programs(desk, path):
    assert get_headers(await desk.ask("GET", path, PERSON))["content-type"] == "application/json"


async def test_error_page_is_not_served_for_changes(desk):
    answer = await desk.ask("POST", "/a/b", PERSON)
    assert answer.refusal == (404, "invalid_params")
    assert (await desk.ask("DELETE", "/", PERSON)).refusal == (405, "invalid_params")


async def test_error_page_does_not_repeat_the_requested_path(desk):
    page = await desk.ask("GET", "/a/%3Cscript%3Ealert(1)%3C%2Fscript%3E?x=%3Cb%3E", PERSON)
    assert "alert" not in page.text
    assert "<b>" not in page.text


@pytest.mark.parametrize("language", LANGUAGES)
async def test_they_speak_the_readers_language(desk, language):
    text = set()
    for path in ("/", "/a/b", "/%ff/%00"):
        page = await desk.ask("GET", path, {**PERSON, "Accept-Language": language})
        assert f'<html lang="{language}"' in page.text
        text |= set(re.findall("<h1>.*?</h1>", page.text))
    assert len(text) == 3


@pytest.mark.parametrize("path", ["/pay_none", "/pay_none/receipt"])
async def test_a_link_that_names_no_payment_has_the_page_of_all_that_is_not_there(desk, path):
    result = await desk.ask("GET", path, PERSON)
    assert (result.status, result.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert "Payment not found" in result.text
    assert result.text.count('hreflang="') == len(LANGUAGES)
    # if the link is in the query, a change of language would lose it
    request = await desk.ask("GET", "/buy?pid=pay_none&lang=de", PERSON)
    assert "Zahlung" in request.text
    assert "hreflang" not in request.text


async def test_landing_page_escapes_the_site_name_and_is_rate_limited(tmp_path):
    few = LimitSettings(page_burst=1)
    async with open_service(tmp_path, site_name=HOSTILE_TEXT, limits=few) as desk:
        page = (await desk.ask("GET", "/", PERSON)).text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
        assert "<script" not in page
        over = await desk.ask("GET", "/", {**PERSON, "Accept-Language": "de"})
        assert over.status == 429
        assert int(get_headers(over)["retry-after"]) >= 1
        assert "Zu viele Anfragen" in over.text


async def test_crawlers_are_sent_away_and_browsers_find_an_icon(desk):
    robots = await desk.ask("GET", "/robots.txt")
    assert (robots.status, get_headers(robots)["content-type"]) == (200, "text/plain")
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
    async with open_visitor(browser, viewport=small, color_scheme=scheme) as person:
        for path in ("/?lang=ar", "/a/b?lang=de"):
            page = await person.open(desk.rest.base + path)
            assert await list_violations(page) == []
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        # from an unknown path to the first page and into a language, by links only
        await page.get_by_role("link", name="Startseite").click()
        await page.get_by_role("button", name="English").click()
        await page.get_by_role("link", name="Français").click()
        assert "Installation de test" in await page.inner_text("header")
        person.complaints[:] = [
            complaint for complaint in person.complaints if "404" not in complaint
        ]
