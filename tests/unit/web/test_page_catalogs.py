"""Catalogs of pages' texts: each language has every message, and each message is used."""

from __future__ import annotations

import inspect
import re
import string
from collections.abc import Iterator
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog, Message
from babel.messages.plurals import get_plural
from florin_server.domain.capture.buyer_data import BuyerDataFault
from florin_server.domain.payments.payment import PaymentStatus, RefundStatus
from florin_server.domain.payouts.refund_amounts import RefundProgress
from florin_server.money.payments.service.panel import OUTCOMES
from florin_server.money.payments.service.ways import NetworkFee
from florin_server.web import error_pages, language, render
from florin_server.web.assets import FOLDER as STATIC
from florin_server.web.capture import page as capture
from florin_server.web.landing import routes as landing
from florin_server.web.language import LANGUAGES, get_catalog_path, read_catalog
from florin_server.web.payments import page as checkout
from florin_server.web.receipts import routes as receipts

TEMPLATES = Path(render.__file__).with_name("templates")
# the context of the messages of each folder of templates
CONTEXTS = {
    "": "error",
    "capture": "capture",
    "payments": "checkout",
    "people": "landing",
    "receipts": "receipt",
}
SHARED = "site"
LINE = re.compile(r'|#.*|((msgctxt|msgid|msgid_plural|msgstr(\[\d\])?) )?"([^"\\]|\\.)*"')
Key = tuple[str, str]


def load(tongue: str) -> Catalog:
    with get_catalog_path(tongue).open("rb") as source:
        return read_catalog(source)


def list_messages(tongue: str) -> dict[Key, Message]:
    """Messages by context and key, without the header."""
    return {(message.context, to_key(message)): message for message in load(tongue) if message.id}


def to_key(message: Message) -> str:
    if isinstance(message.id, str):
        return message.id
    singular, plural = message.id
    assert singular == plural, "a message with plural forms has one key"
    return singular


def list_forms(message: Message) -> tuple[str, ...]:
    return (message.string,) if isinstance(message.string, str) else tuple(message.string)


def list_placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


@pytest.mark.parametrize("tongue", LANGUAGES)
def test_catalog_states_its_language_and_plural_rule(tongue):
    catalog = load(tongue)
    assert str(catalog.locale) == tongue
    assert catalog.num_plurals == get_plural(tongue).num_plurals
    assert catalog.plural_expr == get_plural(tongue).plural_expr
    assert not catalog.obsolete
    assert not [message.id for message in catalog if message.id and message.fuzzy]


@pytest.mark.parametrize("tongue", LANGUAGES)
def test_catalog_has_no_broken_line_and_no_message_twice(tongue):
    lines = get_catalog_path(tongue).read_text().splitlines()
    # the parser accepts a text without its last quote, and the last of two messages of one key
    assert not [line for line in lines if not LINE.fullmatch(line)]
    keys = sum(line.startswith("msgid ") for line in lines)
    assert keys == len(list_messages(tongue)) + len(["header"])


@pytest.mark.parametrize("tongue", LANGUAGES)
def test_catalog_has_each_message_of_english_in_the_same_order(tongue):
    messages, english = list_messages(tongue), list_messages("en")
    assert list(messages) == list(english) == sorted(english)
    for key, message in messages.items():
        forms = list_forms(message)
        assert len(forms) == (get_plural(tongue).num_plurals if message.pluralizable else 1), key
        assert message.pluralizable == english[key].pluralizable, key
        assert all(form.strip() == form != "" for form in forms), key


@pytest.mark.parametrize("tongue", LANGUAGES)
def test_translation_has_the_placeholders_of_the_english_text(tongue):
    english = list_messages("en")
    for key, message in list_messages(tongue).items():
        *special_forms, general = map(list_placeholders, list_forms(message))
        assert general == list_placeholders(list_forms(english[key])[-1]), key
        # "one day" needs no number
        assert all(form <= general for form in special_forms), key


def list_templates() -> Iterator[tuple[str, str]]:
    """The text of each template with translated messages, and the context of its own."""
    for folder, context in CONTEXTS.items():
        for file in (TEMPLATES / folder).glob("*.html"):
            yield context, file.read_text()


def list_template_keys() -> set[Key]:
    """The messages that templates name; those whose keys they put together are left out."""
    return {
        (context, key)
        for context, text in list_templates()
        for key in re.findall(r'texts\.(?:say|plain|count)\("([^"]+)"[,)]', text)
    }


def list_script_keys() -> set[Key]:
    """The messages that scripts name, as an argument or in the table of refusals."""
    scripts = "\n".join(file.read_text() for file in (STATIC / "checkout").glob("*.js"))
    arguments = re.findall(r"\b(?:translate|WalletError)\(([^;,{]*)", scripts)
    keys = {key for text in arguments for key in re.findall(r'"(\w+)"', text)}
    keys |= set(re.findall(r'\["\w+", "(\w+)"\]', scripts))
    # shown by the template too, so that its key has no prefix
    return {("checkout", f"js.{key}") for key in keys - {"confirmations"}}


def list_computed_keys() -> set[Key]:
    """The messages whose keys code puts together."""
    faults = [fault.name.lower() for fault in BuyerDataFault] + ["unreadable"]
    states = [*PaymentStatus, *RefundProgress]
    rows = re.findall(r'\("(\w+)", ', inspect.getsource(receipts._build_details))  # noqa: SLF001
    errors = {*error_pages._TEXTS.values(), "broken", "unreadable", "unknown"}  # noqa: SLF001
    keys_by_context = {
        "capture": {
            *(f"fault.{fault}" for fault in faults),
            *(f"field.{name}" for name in capture.INPUTS),
            *(f"group.{group.legend}" for group in capture.GROUPS if group.legend),
            *("kept", "kept_years", "failed", "unusable", *capture._TEXTS.values()),  # noqa: SLF001
        },
        "checkout": {
            *(f"{state}.{part}" for state in states for part in ("title", "text")),
            *(f"panel.{outcome}" for outcome in OUTCOMES),
            *("panel.refused", "panel.refused.busy", "link.qr", "back", "back.app"),
            *(f"fee.{network_fee}" for network_fee in NetworkFee),
            *checkout._ABOVE.values(),  # noqa: SLF001
        },
        "error": {f"{error}{part}" for error in errors for part in ("", ".next")},
        "landing": {link.text for link in landing._LINKS},  # noqa: SLF001
        "receipt": {
            *(f"row.{row}" for row in rows),
            *(f"refund.{status}" for status in RefundStatus),
        },
    }
    return {(context, key) for context, keys in keys_by_context.items() for key in keys}


def test_each_message_is_used_and_each_used_message_exists():
    messages = set(list_messages("en"))
    shared = {key for context, key in messages if context == SHARED}
    used = {
        (SHARED if key in shared else context, key)
        for context, key in list_template_keys() | list_script_keys() | list_computed_keys()
    }
    assert sorted(used - messages) == [], "missing"
    assert sorted(messages - used) == [], "unused"
    # a key of all pages is not one of a page too: that would hide it
    assert not {key for context, key in messages if context != SHARED and key in shared}


def test_message_without_a_translation_raises():
    translations = language.get_translations("de", "capture")
    with pytest.raises(KeyError):
        translations.say("no such key")
    with pytest.raises(KeyError):
        translations.count("no such key", 1)
