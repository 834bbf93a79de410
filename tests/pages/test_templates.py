"""Templates show every value as text, and every fault has a message."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from florin_server.domain.capture.buyer_data import BuyerDataFault
from florin_server.domain.errors import ErrorCode
from florin_server.domain.payments.payment import PaymentStatus
from florin_server.domain.payments.return_links import ReturnLink
from florin_server.domain.payouts.deposit_claims import DepositClaimState
from florin_server.domain.payouts.refund_amounts import RefundProgress
from florin_server.domain.text import escape_unsafe, has_unsafe
from florin_server.money.payments.service.checkout import CheckoutTransaction
from florin_server.money.payments.service.panel import SandboxPanel
from florin_server.money.payments.service.ways import NetworkFee
from florin_server.web import render
from florin_server.web.capture import page as capture
from florin_server.web.capture.page import CaptureFormView, PageAppearance
from florin_server.web.language import LANGUAGES, get_translations
from florin_server.web.payments import page as payments
from florin_server.web.payments.claim_box import (
    ClaimableAmount,
    ClaimData,
    ClaimEntry,
    ClaimForm,
)
from florin_server.web.payments.page import (
    CheckoutChain,
    CheckoutData,
    CheckoutLine,
    CheckoutOffer,
    CheckoutRefund,
    PaidAmount,
    RefundEntry,
)
from jinja2 import UndefinedError

from tests.support.page_texts import HOSTILE_MARKUP, ParsedPage

FOLDER = Path(render.__file__).with_name("templates")
HTML = sorted(str(file.relative_to(FOLDER)) for file in FOLDER.rglob("*.html"))


def forms(word: str) -> CaptureFormView:
    return CaptureFormView(
        merchant=word,
        icon=f"/icons/{word}",
        token=word,
        live=False,
        days=30,
        today=word,
        values={"fullName": word, "dob": word, "porCountry": word, "tosConfirmed": "true"},
        errors={"dob": "date", "tosConfirmed": "confirm", "": "unknown"},
    )


def checkout(word: str, status: PaymentStatus) -> CheckoutData:
    return CheckoutData(
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
        return_url=f"https://shop.example/{word}",
        return_link=ReturnLink(f"example.app://{word}", needs_tap=True),
        description=word,
        lines=[CheckoutLine(word, 2, Decimal(1))],
        support_email=f"{word}@shop.example",
        support_url=f"https://shop.example/{word}",
        downloads=[(word, f"https://wallet.example/{word}")],
        offers=[CheckoutOffer(word, Decimal(1), word, word, word, NetworkFee.NONE, 3)],
        refund=CheckoutRefund(
            RefundProgress.PARTLY,
            Decimal(1),
            Decimal(2),
            word,
            [RefundEntry(Decimal(1), 0, CheckoutTransaction(word, None))],
        ),
        accent="#ffcc00",
        wallets=[(word, "https://wallet.example/{place}")],
        chains=[CheckoutChain("eip155:1", word, word)],
        paid=PaidAmount(Decimal("12.5"), word, word),
        transaction=CheckoutTransaction(word, f"https://explorer.example/{word}"),
        panel=SandboxPanel([(word, word)], ["failed"], (60,)),
        claims=ClaimData(
            [ClaimableAmount(word, word, word, Decimal(5))],
            [ClaimEntry(word, Decimal(5), DepositClaimState.OPEN)],
            ClaimForm(word, word, "claims.refused"),
        ),
        refusal_key="panel.refused",
    )


def pages(word: str) -> dict[str, bytes]:
    """Return every page that shows values, with a word in place of each value."""
    look = PageAppearance(theme=word, variables=word)
    shown = {
        f"checkout {s}": payments.render_checkout(checkout(word, s), "en") for s in PaymentStatus
    }
    shown |= {
        "form": capture.render_form(forms(word), look),
        "failed": capture.render_failure(ErrorCode.UNAUTHORIZED, word, look, 400),
    }
    return {name: answer.body for name, answer in shown.items()}


@pytest.mark.parametrize("name", pages("x"))
def test_every_value_is_text_and_nothing_else(name):
    usual, hostile = ParsedPage(pages("Zephyr")[name]), ParsedPage(pages(HOSTILE_MARKUP)[name])
    # no value became a tag or an attribute
    assert hostile.tags == usual.tags
    # and nothing was lost
    assert hostile.times(HOSTILE_MARKUP) == usual.times("Zephyr") > 0


STEERING = "a\x9b\u202e\u2066\u0000b"


@pytest.mark.parametrize("name", pages("x"))
def test_no_page_holds_a_character_that_steers(name):
    page = pages(STEERING)[name].decode()
    assert not has_unsafe(page.replace("\n", ""))
    seen, shown = ParsedPage(page.encode()), escape_unsafe(STEERING)
    in_json = json.dumps(shown)[1:-1]
    usual = ParsedPage(pages("Zephyr")[name]).times("Zephyr")
    assert seen.times(shown) + seen.times(in_json) == usual


def test_json_for_scripts_is_cleaned_in_names_and_texts():
    value = {STEERING: [STEERING, {"a": STEERING}]}
    shown = escape_unsafe(STEERING)
    template = render._TEMPLATES.from_string("{{ value|tojson }}")  # noqa: SLF001
    for script in (render.ScriptData.encode_json(value), template.render(value=value)):
        assert json.loads(script) == {shown: [shown, {"a": shown}]}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("fault", [fault.name.lower() for fault in BuyerDataFault] + ["unreadable"])
def test_every_fault_has_its_text_in_every_language(language, fault):
    page = capture.render_form(
        replace(forms("x"), errors={"dob": fault}), PageAppearance(language)
    ).body.decode()
    result = re.findall(r'id="dob-error"><svg.*?</svg><span>([^<]+)</span>', page)
    assert len(result) == 1
    assert page.count(result[0]) >= 2  # there, and in the summary


def test_unsupported_theme_is_not_rendered():
    for theme, output in (("dark", ' data-theme="dark"'), (HOSTILE_MARKUP, ""), ("", "")):
        page = capture.render_done(PageAppearance(theme=theme)).body.decode()
        assert f'<html lang="en" dir="ltr"{output}>' in page


@pytest.mark.parametrize("name", HTML)
def test_no_template_turns_escaping_off(name):
    text = (FOLDER / name).read_text()
    assert not any(word in text for word in ("safe", "autoescape", "Markup"))
    # browsers do not unescape texts in scripts
    for script in re.findall(r"<script.*?</script>", text, re.DOTALL):
        values = re.findall(r"\{\{(.*?)\}\}", script.partition(">")[2])
        assert all(re.fullmatch(r" \w+\|tojson ", value) for value in values)


def test_missing_template_value_raises_an_error():
    with pytest.raises(UndefinedError, match="'key' is undefined"):
        render.render_page(
            "notice.html", 404, (), texts=get_translations("en", "error"), bare=False
        )
    with pytest.raises(UndefinedError, match="has no attribute .status"):
        render.render_page(
            "payments/checkout.html", 200, (), texts=get_translations("en", "checkout"), payment={}
        )
