"""The form for buyer data as the web view of a wallet receives it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest
import pytest_asyncio
from florin_server.settings import LimitSettings
from florin_server.web.capture import page
from florin_server.web.language import get_translations

from tests.support.capture import DATA, FORM, get_path, get_query, submit_form
from tests.support.page_texts import HOSTILE_TEXT, get_headers, get_text
from tests.support.service_harness import ORDER, ServiceHarness, ServiceResponse, open_service
from tests.support.wallet import EvmTestWallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

COMPLETE = {"type": "IC_COMPLETE", "success": True}
BROWSER = {
    "Content-Type": "application/x-www-form-urlencoded",
    "Accept": "text/html,application/xhtml+xml,*/*;q=0.8",
    "Sec-Fetch-Site": "same-origin",
    "Origin": "https://pay.florin.example",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    async with open_service(tmp_path_factory.mktemp("collect"), capture={"enabled": True}) as desk:
        yield desk


async def form_of(desk: ServiceHarness, **order: Any) -> str:
    """Return the path and query of a new form."""
    payment_id = (await desk.rest.create({**ORDER, **order}))["paymentId"]
    answer = await desk.rest.options(payment_id, [EvmTestWallet().account])
    return get_path(answer["collectData"]["url"])


async def submit(desk: ServiceHarness, page: str, **values: str) -> ServiceResponse:
    """Send a page's form as a browser does: to its own address, without a query."""
    (token,) = re.findall(r'<input type="hidden" name="token" value="([^"]+)">', page)
    assert '<form method="post" action="?" novalidate>' in page
    return await desk.ask("POST", "/collect/?", BROWSER, data=urlencode({"token": token, **values}))


def inputs_of(page: str) -> dict[str, dict[str, str]]:
    """Return the attributes of inputs by name; the value of a choice is the selected one."""
    results: dict[str, dict[str, str]] = {}
    for kind, tag, rest in re.findall(
        r"<(input|select)([^>]*)>(.*?)(?=<(?:input|select)|$)", page, re.DOTALL
    ):
        item = dict(re.findall(r'([\w-]+)="([^"]*)"', tag))
        item |= dict.fromkeys(re.findall(r" (\w+)(?=[ >]|$)", tag), "")
        if kind == "select":
            chosen = re.search(r'<option value="(\w*)" selected>', rest.partition("</select>")[0])
            item |= {"type": "select", "value": chosen[1] if chosen else ""}
        if item.get("type") != "hidden":
            results[item["name"]] = item
    return results


def message_of(page: str) -> Any:
    """Return the page's message to the wallet; None without one."""
    match = re.search(r'<body data-message="([^"]*)">', page)
    return json.loads(unescape(match[1])) if match else None


def policy_of(answer: ServiceResponse) -> dict[str, str]:
    return dict(
        rule.strip().split(" ", 1)
        for rule in get_headers(answer)["content-security-policy"].split(";")
    )


async def test_it_asks_for_everything_by_its_name(desk):
    answer = await desk.ask("GET", await form_of(desk))
    assert answer.status == 200
    inputs = inputs_of(answer.text)
    assert set(inputs) == {
        *("fullName", "dob", "pobCountry", "pobAddress", "porCountry", "porAddress"),
        "tosConfirmed",
    }
    for name, item in inputs.items():
        assert item["id"] == name
        assert f'<label for="{name}">' in answer.text
        assert (item["type"] == "select") is name.endswith("Country")
        assert ("required" in item) is (name in {"fullName", "dob", "tosConfirmed"})
    assert inputs["dob"]["type"] == "date"
    assert (inputs["tosConfirmed"]["type"], inputs["tosConfirmed"]["value"]) == ("checkbox", "true")
    assert "checked" not in inputs["tosConfirmed"]
    assert "Corner Café needs to know who is paying." in get_text(answer.text)
    assert "Test payment" in get_text(answer.text)
    assert message_of(answer.text) is None


@pytest.mark.parametrize(
    ("days", "language", "sentence"),
    [
        (1825, "en", "deleted after 5 years."),
        (365, "de", "nach 1 Jahr gelöscht."),
        (730, "ar", "بعد سنتين."),
        (30, "en", "deleted after 30 days."),
        (366, "en", "deleted after 366 days."),
    ],
)
async def test_form_says_in_years_or_days_when_the_data_is_deleted(days, language, sentence):
    view = page.CaptureFormView("T", None, "t", live=True, days=days, today="2027-01-01")
    shown = page.render_form(view, page.PageAppearance(language)).body.decode()
    assert sentence in shown


async def test_form_links_to_the_terms_if_there_is_a_page_of_them():
    view = page.CaptureFormView("T", None, "t", live=True, days=1, today="2027-01-01")
    assert "Read the terms" not in page.render_form(view, page.PageAppearance()).body.decode()
    view = replace(view, terms_url="https://shop.example/terms?a=1&b=2")
    shown = page.render_form(view, page.PageAppearance()).body.decode()
    link = 'href="https://shop.example/terms?a=1&amp;b=2" target="_blank" rel="noopener noreferrer"'
    assert f"<a {link}>Read the terms</a>" in shown


async def test_browser_submits_the_form_and_the_wallet_is_notified(desk):
    path = await form_of(desk)
    page = (await desk.ask("GET", path)).text
    filled = {**FORM, "pobCountry": " de "}
    answer = await submit(desk, page, **filled)
    assert answer.status == 200
    assert get_headers(answer)["content-type"] == "text/html; charset=utf-8"
    assert message_of(answer.text) == COMPLETE
    assert "Thank you" in get_text(answer.text)
    assert "Marker" not in answer.text
    # sent twice, or opened again
    assert message_of((await submit(desk, page, **filled)).text) == COMPLETE
    again = await desk.ask("GET", path)
    assert message_of(again.text) == COMPLETE
    assert inputs_of(again.text) == {}
    # the submitted data matches the schema
    assert (await submit_form(desk, "?" + path.partition("?")[2], DATA)).status == 200


async def test_form_errors_are_shown_and_entered_values_stay(desk):
    page = (await desk.ask("GET", await form_of(desk))).text
    answer = await submit(desk, page, fullName="Ada", dob="soon", porCountry="fr")
    assert answer.status == 400
    assert message_of(answer.text) is None
    inputs = inputs_of(answer.text)
    assert inputs["fullName"]["value"] == "Ada"
    assert inputs["dob"]["value"] == "soon"
    assert inputs["porCountry"]["value"] == "FR"
    assert "<title>Some entries are missing or wrong – Your details</title>" in answer.text
    wrong = {name for name, item in inputs.items() if item.get("aria-invalid") == "true"}
    assert wrong == {"dob", "porAddress", "tosConfirmed"}
    # in the order of the form
    listed = re.findall(r'<li><a href="#(\w+)">', answer.text)
    assert listed == ["dob", "porAddress", "tosConfirmed"]
    assert "Accept the terms to continue." in get_text(answer.text)
    for name in wrong:
        assert inputs[name]["aria-describedby"] == f"{name}-error"
        assert f'id="{name}-error"' in answer.text
        assert f'<a href="#{name}">' in answer.text
    assert 'role="alert"' in answer.text
    assert "Enter a date with year, month and day." in get_text(answer.text)
    # corrected, it is taken
    assert message_of((await submit(desk, answer.text, **FORM)).text) == COMPLETE


async def test_hostile_form_text_is_shown_as_text(desk):
    page = (await desk.ask("GET", await form_of(desk))).text
    answer = await submit(
        desk,
        page,
        fullName=HOSTILE_TEXT,
        dob=HOSTILE_TEXT,
        pobAddress=HOSTILE_TEXT,
        porCountry=HOSTILE_TEXT,
    )
    assert answer.status == 400
    inputs = inputs_of(answer.text)
    for name in ("fullName", "dob", "pobAddress"):
        assert unescape(inputs[name]["value"]) == HOSTILE_TEXT
    assert inputs["porCountry"]["value"] == ""
    assert "<img" not in answer.text
    assert answer.text.count("<script") == 1


async def test_terms_that_were_accepted_stay_accepted(desk):
    page = (await desk.ask("GET", await form_of(desk))).text
    answer = await submit(desk, page, tosConfirmed="true")
    assert "checked" in inputs_of(answer.text)["tosConfirmed"]


async def test_wallet_prefills_fields_as_text(desk):
    existing = {**DATA, "fullName": HOSTILE_TEXT, "other": "x"}
    text = base64.urlsafe_b64encode(json.dumps(existing).encode()).decode().rstrip("=")
    path = await form_of(desk)
    page = (await desk.ask("GET", f"{path}&prefill={text}")).text
    inputs = inputs_of(page)
    assert unescape(inputs["fullName"]["value"]) == HOSTILE_TEXT
    assert inputs["dob"]["value"] == DATA["dob"]
    assert inputs["pobAddress"]["value"] == DATA["pobAddress"]
    assert "checked" not in inputs["tosConfirmed"]
    assert "<img" not in page
    unreadable = await desk.ask("GET", f"{path}&prefill=nonsense")
    assert unreadable.status == 200
    assert inputs_of(unreadable.text)["fullName"]["value"] == ""


@pytest.mark.parametrize(
    ("theme", "shown"),
    [("light", ' data-theme="light"'), ("dark", ' data-theme="dark"'), ("x", ""), ('"><b>', "")],
)
async def test_a_wallet_chooses_light_or_dark(desk, theme, shown):
    page = (await desk.ask("GET", f"{await form_of(desk)}&{urlencode({'theme': theme})}")).text
    assert f'<html lang="en" dir="ltr"{shown}>' in page


async def test_unusable_form_notifies_the_wallet(desk):
    over = await form_of(desk, expiresAt=desk.now + 10)
    page = (await desk.ask("GET", over)).text
    desk.clock.advance(10)
    cancelled = await form_of(desk)
    await desk.rest.cancel(get_query(cancelled)["pid"])
    expired = {"type": "IC_ERROR", "success": False, "error": "Payment expired"}
    unusable = {"type": "IC_ERROR", "success": False, "error": "This form cannot be used"}
    other = get_query(await form_of(desk))["t"]
    for answer, status, message in (
        (await desk.ask("GET", over), 410, expired),
        (await submit(desk, page, **FORM), 410, expired),
        (await submit(desk, page, fullName="x"), 410, expired),
        (await desk.ask("GET", cancelled), 401, unusable),
        (await desk.ask("GET", "/collect/"), 401, unusable),
        (await desk.ask("GET", "/collect"), 401, unusable),
        (await desk.ask("GET", f"/collect/?pid=pay_x&t={other}"), 401, unusable),
        (await desk.ask("GET", cancelled[:-2] + "00"), 401, unusable),
    ):
        assert answer.status == status
        assert message_of(answer.text) == message
        assert get_headers(answer)["content-type"] == "text/html; charset=utf-8"
        assert inputs_of(answer.text) == {}


async def test_other_data_than_was_handed_in_is_not_taken(desk):
    page = (await desk.ask("GET", await form_of(desk))).text
    await submit(desk, page, **FORM)
    answer = await submit(desk, page, **{**FORM, "fullName": "Eve"})
    assert answer.status == 401
    assert message_of(answer.text)["type"] == "IC_ERROR"


async def test_api_clients_get_json_for_any_form_encoding(desk):
    path = await form_of(desk)
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    for more in (FORM, {"data": json.dumps(DATA)}):
        body = urlencode({"token": get_query(path)["t"], **more})
        answer = await desk.ask("POST", "/collect/", kind, data=body)
        assert (answer.status, answer.body) == (200, {"status": "success"})
        assert get_headers(answer)["content-type"] == "application/json"


async def test_only_its_own_styles_and_scripts_may_run(desk):
    path = await form_of(desk)
    page = await desk.ask("GET", path)
    wrong = await submit(desk, page.text, dob="x")
    done = await submit(desk, page.text, **FORM)
    dead = await desk.ask("GET", "/collect/")
    for answer in (page, wrong, done, dead):
        policy = policy_of(answer)
        assert policy.pop("img-src") == "'self' data:"
        assert policy == {
            "default-src": "'none'",
            **dict.fromkeys(
                ("style-src", "script-src", "connect-src", "font-src", "form-action"), "'self'"
            ),
            **dict.fromkeys(("base-uri", "frame-ancestors", "trusted-types"), "'none'"),
            "require-trusted-types-for": "'script'",
        }
        assert not re.search(r"javascript:|\son\w+=|\sstyle=|<style|http-equiv", answer.text)
        assert set(re.findall(r' (?:src|href)="(/[a-z]+/)[^"]*"', answer.text)) == {"/assets/"}
        headers = get_headers(answer)
        assert headers["referrer-policy"] == "same-origin"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers


def encoded(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


async def test_a_wallet_chooses_colours_and_keeps_them_when_something_is_wrong(desk):
    look = {"theme": "dark", "themeVariables": encoded({"accent": "#0F0", "background": "#012"})}
    page = await desk.ask("GET", f"{await form_of(desk)}&{urlencode(look)}&lang=de")
    wrong = await submit(desk, page.text, **dict(hidden_of(page.text)))
    done = await submit(desk, wrong.text, **{**dict(hidden_of(wrong.text)), **FORM})
    for answer in (page, wrong, done):
        (style,) = re.findall("<style>(.*?)</style>", answer.text)
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        assert policy_of(answer)["style-src"] == f"'self' 'sha256-{digest}'"
        assert "--accent:#0f0;--on-accent:#000000;" in style
        assert '<html lang="de" dir="ltr" data-theme="dark">' in answer.text
    assert "Vielen Dank" in get_text(done.text)


def hidden_of(page: str) -> list[tuple[str, str]]:
    """Return the hidden inputs of the form except its token."""
    results = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page)
    return [(name, unescape(value)) for name, value in results if name != "token"]


@pytest.mark.parametrize(
    "variables",
    [
        "",
        "%%%",
        "x" * 5000,
        encoded([]),
        encoded({"accent": "red;}*{color:red"}),
        encoded("}</style>"),
    ],
)
async def test_colours_that_are_none_change_nothing(desk, variables):
    path = f"{await form_of(desk)}&{urlencode({'themeVariables': variables})}"
    answer = await desk.ask("GET", path)
    assert answer.status == 200
    assert "<style" not in answer.text
    assert policy_of(answer)["style-src"] == "'self'"


@pytest.mark.parametrize(
    ("tongue", "title", "country", "needed"),
    [
        ("de", "Ihre Angaben", ">Österreich<", "Dieses Feld muss ausgefüllt werden."),
        ("es", "Sus datos", ">Alemania<", "Este campo es obligatorio."),
        ("fr", "Vos informations", ">Autriche<", "Ce champ est obligatoire."),
        ("ar", "بياناتك", ">ألمانيا<", "هذا الحقل مطلوب."),
        ("ja", "お客様の情報", ">ドイツ<", "この項目は必須です。"),
    ],
)
async def test_it_speaks_the_buyers_language(desk, tongue, title, country, needed):
    path = await form_of(desk)
    expected = {"Accept-Language": f"tlh, {tongue}-x;q=0.9, en;q=0.1"}
    page = (await desk.ask("GET", path, expected)).text
    assert f"<h1>{title}</h1>" in page
    assert country in page
    response = await submit(desk, page, lang=tongue)
    assert needed in response.text
    # another language on request, with the entered values, and without error messages so far
    other = await submit(desk, response.text, lang=tongue, speak="en", fullName="Ada")
    assert other.status == 200
    assert "<h1>Your details</h1>" in other.text
    assert inputs_of(other.text)["fullName"]["value"] == "Ada"
    assert 'id="faults"' not in other.text
    closed = (await desk.ask("GET", "/collect/", expected)).text
    assert f'<html lang="{tongue}"' in closed


async def test_rate_limited_visitor_gets_a_page(tmp_path):
    few = LimitSettings(page_burst=2)
    async with open_service(tmp_path, limits=few, capture={"enabled": True}) as desk:
        path = await form_of(desk)
        page = await desk.ask("GET", f"{path}&lang=de")
        assert page.status == 200
        await desk.ask("GET", path)
        shown, handed_in = await desk.ask("GET", f"{path}&lang=de"), await submit(desk, page.text)
        for answer, language in ((shown, "de"), (handed_in, "en")):
            assert answer.status == 429
            assert int(get_headers(answer)["retry-after"]) >= 1
            # it can be retried: nothing has failed yet
            assert message_of(answer.text) is None
            # in the text that all pages have for it
            assert get_translations(language, "site").plain("too_many") in answer.text
        assert (await submit_form(desk, "?" + path.partition("?")[2], DATA)).refusal == (
            *(429, "rate_limited"),
        )


async def test_sites_that_the_operator_lists_may_frame_it(tmp_path):
    sites = ["https://wallet.example", "https://other.example:8443"]
    chosen = {"enabled": True, "frame_origins": sites}
    async with open_service(tmp_path, capture=chosen) as desk:
        page = await desk.ask("GET", await form_of(desk))
        done = await submit(desk, page.text, **FORM)
        for answer in (page, done):
            assert policy_of(answer)["frame-ancestors"] == " ".join(sites)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
async def test_it_is_read_or_handed_in(desk, method):
    answer = await desk.ask(method, "/collect/")
    assert answer.refusal == (405, "invalid_params")
    assert get_headers(answer)["allow"] == "GET, HEAD, POST"


async def test_a_merchants_name_is_text_and_nothing_else(desk):
    tenant = await desk.tenant()
    await tenant.change_merchant(name=HOSTILE_TEXT)
    created = await desk.rest.call("POST", "/v1/payments", tenant.headers, ORDER)
    answer = await desk.rest.options(created["paymentId"], [EvmTestWallet().account])
    page = (await desk.ask("GET", get_path(answer["collectData"]["url"]))).text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &#34;Söhne&#34;" in page
    assert "<img" not in page
    assert page.count("<script") == 1
