"""Templates show every value as text, whoever it is from, and are all there."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from florin_server.domain.capture.buyer_data import Fault
from florin_server.domain.errors import Code
from florin_server.domain.payments.payment import Status
from florin_server.domain.text import escape_unsafe, has_unsafe
from florin_server.flows.payments.checkout import Transaction
from florin_server.flows.payments.panel import Panel
from florin_server.web import render
from florin_server.web.capture import page as capture
from florin_server.web.capture.page import Form, Look
from florin_server.web.language import LANGUAGES, words
from florin_server.web.payments import page as payments
from florin_server.web.payments.page import Chain, Checkout, Paid
from jinja2 import UndefinedError

from tests.support.page_texts import HOSTILE, Seen

FOLDER = Path(render.__file__).with_name("templates")
HTML = sorted(str(file.relative_to(FOLDER)) for file in FOLDER.rglob("*.html"))


def forms(word: str) -> Form:
    return Form(
        merchant=word,
        icon=f"/icons/{word}",
        token=word,
        live=False,
        days=30,
        today=word,
        values={"fullName": word, "dob": word, "porCountry": word, "tosConfirmed": "true"},
        errors={"dob": "date", "tosConfirmed": "confirm", "": "unknown"},
    )


def checkout(word: str, status: Status) -> Checkout:
    return Checkout(
        id="pay_1",
        merchant=word,
        value=Decimal("12.50"),
        symbol=word,
        status=status,
        link=f"https://pay.example/{word}",
        live=False,
        expires_at=1_800_000_000,
        now_ms=1_799_999_000_000,
        updated_at=1_799_999_000,
        app_id="app_checkout_test",
        back=f"https://shop.example/{word}",
        accent="#ffcc00",
        wallets=[(word, "https://wallet.example/{place}")],
        chains=[Chain("eip155:1", word, word)],
        paid=Paid(Decimal("12.5"), word, word),
        transaction=Transaction(word, f"https://explorer.example/{word}"),
        panel=Panel([(word, word)], ["failed"], (60,)),
        refused="panel.refused",
    )


def pages(word: str) -> dict[str, bytes]:
    """Every page that shows a value, with a word in place of each."""
    look = Look(theme=word, variables=word)
    shown = {f"checkout {s}": payments.page(checkout(word, s), "en") for s in Status}
    shown |= {
        "form": capture.form(forms(word), look),
        "failed": capture.failed(Code.UNAUTHORIZED, word, look, 400),
    }
    return {name: answer.body for name, answer in shown.items()}


@pytest.mark.parametrize("name", pages("x"))
def test_every_value_is_text_and_nothing_else(name):
    usual, hostile = Seen(pages("Zephyr")[name]), Seen(pages(HOSTILE)[name])
    # nothing that was given became a tag or an attribute
    assert hostile.tags == usual.tags
    # and nothing was lost
    assert hostile.times(HOSTILE) == usual.times("Zephyr") > 0


STEERING = "a\x9b\u202e\u2066\u0000b"


@pytest.mark.parametrize("name", pages("x"))
def test_no_page_holds_a_character_that_steers(name):
    page = pages(STEERING)[name].decode()
    assert not has_unsafe(page.replace("\n", ""))
    seen, shown = Seen(page.encode()), escape_unsafe(STEERING)
    in_json = json.dumps(shown)[1:-1]
    usual = Seen(pages("Zephyr")[name]).times("Zephyr")
    assert seen.times(shown) + seen.times(in_json) == usual


def test_json_for_scripts_is_cleaned_in_names_and_texts():
    value = {STEERING: [STEERING, {"a": STEERING}]}
    shown = escape_unsafe(STEERING)
    template = render._TEMPLATES.from_string("{{ value|tojson }}")  # noqa: SLF001
    for script in (render.Script.of(value), template.render(value=value)):
        assert json.loads(script) == {shown: [shown, {"a": shown}]}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("fault", [one.name.lower() for one in Fault] + ["unreadable"])
def test_every_fault_has_its_text_in_every_language(language, fault):
    page = capture.form(replace(forms("x"), errors={"dob": fault}), Look(language)).body.decode()
    told = re.findall(r'id="dob-error">([^<]+)</span>', page)
    assert len(told) == 1
    assert page.count(told[0]) >= 2  # there, and in the summary


def test_a_theme_is_one_of_two():
    for theme, told in (("dark", ' data-theme="dark"'), (HOSTILE, ""), ("", "")):
        page = capture.done(Look(theme=theme)).body.decode()
        assert f'<html lang="en" dir="ltr"{told}>' in page


@pytest.mark.parametrize("name", HTML)
def test_no_template_turns_escaping_off(name):
    text = (FOLDER / name).read_text()
    assert not any(word in text for word in ("safe", "autoescape", "Markup"))
    # texts in a script are not what browsers unescape
    for script in re.findall(r"<script.*?</script>", text, re.DOTALL):
        values = re.findall(r"\{\{(.*?)\}\}", script.partition(">")[2])
        assert all(re.fullmatch(r" \w+\|tojson ", value) for value in values)


def test_a_value_that_nobody_gave_is_an_error():
    with pytest.raises(UndefinedError, match="'key' is undefined"):
        render.html("notice.html", 404, (), words=words("en", "notice"), bare=False)
    with pytest.raises(UndefinedError, match="has no attribute .amount"):
        render.html("payments/checkout.html", 200, (), words=words("en", "checkout"), told={})
