"""Consoles show every value of the API as text: all values here are hostile."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from florin.v1 import (
    account_pb2,
    listing_pb2,
    webhook_admin_pb2,
    webhook_pb2,
)
from florin_server.web import render
from florin_server.web.console.config import NavGroup, NavLink
from florin_server.web.console.fields import FormValues
from florin_server.web.console.languages import load_script_texts
from florin_server.web.console.listing import PaymentFilters, build_csv
from florin_server.web.console.undo import UndoOffer
from florin_server.web.console.view import Formatter
from florin_server.web.language import LANGUAGES, Translations, get_translations
from google.protobuf.timestamp_pb2 import Timestamp

from tests.support.console_values import (
    APP,
    FORMATTER,
    NOW_US,
    TEXTS,
    build_shell,
    filled,
    merchants,
    operators,
)
from tests.support.page_texts import HOSTILE_MARKUP, ParsedPage

PAGES = [("merchant", text) for text in merchants("x")] + [("operator", o) for o in operators("x")]


def page(console: str, template: str, word: str) -> ParsedPage:
    return render_values(
        console, template, (merchants if console == "merchant" else operators)(word)[template], word
    )


def render_values(
    console: str, template: str, values: dict, word: str, texts: Translations = TEXTS
) -> ParsedPage:
    common = {
        "config": SimpleNamespace(
            name=console,
            groups=(NavGroup("nav.money", (NavLink("/console", "nav.payments", "home", True),)),),
        ),
        "session": SimpleNamespace(holder=word, live=True),
        "shell": build_shell(word),
        "chosen_merchant": word,
        "title": word,
        "texts": texts,
        "script_texts": load_script_texts(texts.language),
        "here": "/console",
        "return_query": f"q={word}",
        "languages_shown": True,
        "formatter": Formatter(APP, texts),
        "csrf": word,
        "form_id": lambda: word,
        "request_path": word,
        "undo": UndoOffer("undo.note_deleted", word, {"note": word}),
    }
    return ParsedPage(
        render.render_page(f"console/{template}.html", 200, (), **common, **values).body
    )


@pytest.mark.parametrize(("console", "template"), PAGES)
def test_every_text_is_a_text_and_nothing_else(console, template):
    usual, hostile = page(console, template, "Zephyr"), page(console, template, HOSTILE_MARKUP)
    assert hostile.tags == usual.tags
    # the sign-in page shows a problem alone
    assert sum("Zephyr" in text for text in usual.texts) > (0 if template == "login" else 3)


def test_commands_in_alarms_are_code_and_other_markup_is_text():
    alarm = "Run `florin <b> list`, or `x`; a ` alone stays"
    expected = (
        'Run <code dir="ltr">florin &lt;b&gt; list</code>, or <code dir="ltr">x</code>; '
        "a ` alone stays"
    )
    assert render.mark_code(alarm) == expected


def test_lists_without_rows_say_so():
    """Each page with lists has a sentence for the empty ones."""
    empty = {
        "payments": ("merchant", "No payments yet"),
        "merchant/merchants": ("merchant", "No merchants match"),
        "merchant/webhooks": ("merchant", "No endpoints."),
        "merchant/overview": ("merchant", "No payments in this period"),
        "merchant/balances": ("merchant", "Nothing is owed."),
        "operator/payouts": ("operator", "No payouts."),
        "operator/held": ("operator", "No money is held."),
        "operator/quarantine": ("operator", "Nothing is set aside."),
        "operator/webhooks": ("operator", "No endpoints here."),
    }
    nothing = {
        "response": {
            "payments": listing_pb2.ListPaymentsResponse(),
            "merchant/merchants": account_pb2.ListMerchantsResponse(),
            "merchant/webhooks": webhook_pb2.ListWebhookEndpointsResponse(),
            "operator/webhooks": webhook_admin_pb2.ListPartnerEndpointsResponse(),
        }
    }
    for template, (console, sentence) in empty.items():
        values = (merchants if console == "merchant" else operators)("x")[template]
        for name in ("payouts", "held", "items", "recent", "todo", "totals", "balances"):
            if name in values:
                values[name] = []
        if "response" in values:
            values["response"] = nothing["response"][template]
        if template == "payments":
            values |= {"filters": PaymentFilters(FormValues()), "chips": []}
        shown = render_values(console, template, values, "x")
        assert sentence in " ".join(shown.texts), template


def test_a_file_has_no_cell_that_computes():
    for begin in ("=", "+", "-", "@", "\t", "\r"):
        rows = filled(listing_pb2.ListPaymentsResponse(), f"{begin}1").data
        for line in build_csv(FORMATTER, rows).body.decode().splitlines()[1:]:
            assert not any(text.lstrip('"').startswith(begin) for text in line.split(","))


@pytest.mark.parametrize(
    ("nanos", "text"), [(0, "2027-01-15T08:00:00.000Z"), (7_999_999, "2027-01-15T08:00:00.007Z")]
)
def test_times_for_programs_have_as_many_digits_each_time(nanos, text):
    assert FORMATTER.iso(Timestamp(seconds=NOW_US // 1_000_000, nanos=nanos)) == text


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("console", "template"), PAGES)
def test_each_page_is_complete_in_each_language(console, template, language):
    """No message is missing, none has an unfilled value, and none is left in English."""
    texts = get_translations(language, "console")
    values = (merchants if console == "merchant" else operators)("Zephyr", texts)[template]
    shown = render_values(console, template, values, "Zephyr", texts)
    assert f'<html lang="{language}" dir="{texts.direction}">' in shown.source
    visible = shown.source.partition('id="texts"')[0]
    assert not re.search(r"\{[a-z]\w*\}", visible)
    words = {"Sign out", "Skip to the content", "Status", "Amount", "Created", "Continue", "Search"}
    same = {"Status"} if language == "de" else set()
    left = {text.strip() for text in shown.texts} & words
    assert left <= same or language == "en"
