"""Catalogs of pages' texts: each language has every message, and each message is used.

Templates of the consoles have no text besides those messages.
"""

from __future__ import annotations

import inspect
import re
import string
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog, Message
from babel.messages.plurals import get_plural
from florin_server.domain.audit import AuditAction
from florin_server.domain.capture.buyer_data import BuyerDataFault
from florin_server.domain.conditions import ConditionName
from florin_server.domain.payments.payment import PaymentStatus, RefundStatus
from florin_server.domain.payments.state import PaymentStateEvent
from florin_server.domain.payouts.deposit_claims import DepositClaimState
from florin_server.domain.payouts.refund_amounts import RefundProgress
from florin_server.domain.quarantine import QuarantinedItemKind
from florin_server.domain.reports.assets import ReportAsset
from florin_server.domain.reports.statement import AssetStatement
from florin_server.features.reports.service import statement as statements
from florin_server.money.payments.service.panel import OUTCOMES
from florin_server.money.payments.service.ways import NetworkFee
from florin_server.web import error_pages, language, render
from florin_server.web.assets import FOLDER as STATIC
from florin_server.web.capture import page as capture
from florin_server.web.console import audit_words
from florin_server.web.console import view as console_views
from florin_server.web.console.list_controls import NAMED_CHIPS, TABS
from florin_server.web.console.merchant import branding, claims, payment
from florin_server.web.console.operator import payouts
from florin_server.web.console.operator.books import GROUPS
from florin_server.web.console.operator.held import VERDICTS
from florin_server.web.console.pills import LOOKS
from florin_server.web.console.refusals import TRANSLATED_CODES
from florin_server.web.console.timeline import TITLE_SIGNS
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
    "console": "console",
    "console/merchant": "console",
    "console/operator": "console",
}
CATALOGS = ("florin", "console")
# a name, a format of files, the beginning of an address, a color
UNTRANSLATED = {"Florin", "CSV", "https://", "#3c4bd3"}
VISIBLE_ATTRIBUTES = {"title", "aria-label", "placeholder", "alt", "label", "aria-description"}
SHARED = "site"
LINE = re.compile(r'|#.*|((msgctxt|msgid|msgid_plural|msgstr(\[\d\])?) )?"([^"\\]|\\.)*"')
Key = tuple[str, str]


def load(tongue: str, name: str) -> Catalog:
    with get_catalog_path(tongue, name).open("rb") as source:
        return read_catalog(source)


def list_messages(tongue: str, name: str) -> dict[Key, Message]:
    """Messages by context and key, without the header."""
    catalog = load(tongue, name)
    return {(message.context, to_key(message)): message for message in catalog if message.id}


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


@pytest.mark.parametrize("name", CATALOGS)
@pytest.mark.parametrize("tongue", LANGUAGES)
def test_catalog_states_its_language_and_plural_rule(tongue, name):
    catalog = load(tongue, name)
    assert str(catalog.locale) == tongue
    assert catalog.num_plurals == get_plural(tongue).num_plurals
    assert catalog.plural_expr == get_plural(tongue).plural_expr
    assert not catalog.obsolete
    assert not [message.id for message in catalog if message.id and message.fuzzy]


@pytest.mark.parametrize("name", CATALOGS)
@pytest.mark.parametrize("tongue", LANGUAGES)
def test_catalog_has_no_broken_line_and_no_message_twice(tongue, name):
    lines = get_catalog_path(tongue, name).read_text().splitlines()
    # the parser accepts a text without its last quote, and the last of two messages of one key
    assert not [line for line in lines if not LINE.fullmatch(line)]
    keys = sum(line.startswith("msgid ") for line in lines)
    assert keys == len(list_messages(tongue, name)) + len(["header"])


@pytest.mark.parametrize("name", CATALOGS)
@pytest.mark.parametrize("tongue", LANGUAGES)
def test_catalog_has_each_message_of_english_in_the_same_order(tongue, name):
    messages, english = list_messages(tongue, name), list_messages("en", name)
    assert list(messages) == list(english) == sorted(english)
    for key, message in messages.items():
        forms = list_forms(message)
        assert len(forms) == (get_plural(tongue).num_plurals if message.pluralizable else 1), key
        assert message.pluralizable == english[key].pluralizable, key
        assert all(form.strip() == form != "" for form in forms), key


@pytest.mark.parametrize("name", CATALOGS)
@pytest.mark.parametrize("tongue", LANGUAGES)
def test_translation_has_the_placeholders_of_the_english_text(tongue, name):
    english = list_messages("en", name)
    for key, message in list_messages(tongue, name).items():
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
        for keys in re.findall(
            r'texts\.(?:say|plain|count)\("([\w.]+)"(?:[,)]| if [^,]*? else "([\w.]+)")', text
        )
        for key in keys
        if key
    }


def list_console_keys() -> set[Key]:
    """The messages that modules and scripts of the consoles name."""
    messages = {key for _, key in list_messages("en", "console")}
    files = Path(console_views.__file__).parent.rglob("*.py")
    code = "\n".join(file.read_text() for file in files)
    call = r'(?:plain|count|ConsoleError)\(\s*(?:\d+, )?"([\w.]+)"(?: if [^,]*? else "([\w.]+)")?'
    keys = {key for keys_of_call in re.findall(call, code) for key in keys_of_call if key}
    # keys in tables, and those that a function is given; each has a dot
    keys |= messages.intersection(re.findall(r'"(\w+\.[\w.]+)"', code))
    # a function is given the beginning of the keys of a question
    questions = re.findall(r'_confirm\(\s*console_request,\s*"([\w.]+)"', code)
    keys |= {f"{question}.{part}" for question in questions for part in ("ask", "button")}
    scripts = "\n".join(file.read_text() for file in (STATIC / "console").glob("*.js"))
    keys |= {f"js.{key}" for key in re.findall(r'(?:translate\(|key: )"([\w.]+)"', scripts)}
    return {("console", key) for key in keys}


def list_statement_lines() -> Iterator[statements.StatementLine]:
    """The lines that a section of a statement can have, in this order."""
    asset = ReportAsset("eip155:1/erc20:0xa", "USDC", "Base", 6)
    sums = AssetStatement(asset.id, held_opening=1)
    section = statements._build_section(asset, sums)  # noqa: SLF001
    yield from section.lines


def list_computed_console_keys() -> set[Key]:
    """The messages of the consoles whose keys code or templates put together."""
    causes = {*PaymentStateEvent, "created", "operator_decided"}
    kinds = {
        kind: [
            console_views.Formatter.state(None, kind, n)
            for n in console_views.ENUMS[kind].values()[1:]
        ]
        for kind in ("payout_kind", "key_kind")
    }
    keys = {
        *(f"state.{name}" for name in LOOKS),
        *(f"cause.{cause}" for cause in causes),
        *(f"timeline.{cause}" for cause in TITLE_SIGNS),
        *(f"{kind}.{name}" for kind, names in kinds.items() for name in names),
        *(f"item_kind.{kind}" for kind in QuarantinedItemKind),
        *(f"alarm.{name}{part}" for name in ConditionName for part in ("", ".meaning", ".remedy")),
        *(f"code.{code}" for code in TRANSLATED_CODES),
        *(f"tab.{tab}" for tab in TABS),
        *(f"chip.{chip}" for chip in NAMED_CHIPS),
        *(f"books.{kind}" for kind in GROUPS),
        *(f"audit.did.{action}" for action in AuditAction),
        *(f"audit.object.{name}" for name in audit_words.OBJECTS),
        *(f"audit.chip.{name}" for name in ("action", "actor", "object")),
        *(f"branding.{field}" for field in branding.FIELDS),
        *(f"branding.adjusted_{scheme}" for scheme in ("light", "dark")),
        *(f"notes.hint.{name}" for name in ("merchant", "operator")),
        *(f"fault.statement_{field}" for field in ("month", "zone")),
        *(f"health.{items}_left" for items in ("payments", "payouts")),
        *(f"statement.line.{line.key}" for line in list_statement_lines()),
        *(f"outcome.{outcome}" for outcome in payment.OUTCOMES),
        *(
            f"held.{verdict}.{part}"
            for verdict in VERDICTS
            for part in ("ask", "button", "warning")
        ),
        *(f"claims.{part}.{verdict}" for verdict in claims.VERDICTS for part in ("ask", "button")),
        *(f"payout.{outcome}.{part}" for outcome in payouts.OUTCOMES for part in ("ask", "button")),
        *(f"destination.{verb}.warning" for verb in ("add", "change", "remove")),
        *(f"chart.{name}" for name in ("volume", "fees", "finality", "pay")),
        *(f"chart.{name}.text" for name in ("volume", "finality", "pay")),
        *(f"js.ago.{unit}" for unit in ("days", "hours", "minutes", "seconds")),
        *(f"fault.url.{field}" for field in ("success_url", "error_url")),
        *(
            f"{key}.{name}"
            for key in ("console", "login.title", "login.text", "login.secret")
            for name in ("merchant", "operator")
        ),
        *(
            f"{key}.{name}"
            for key in ("reauthenticate.secret", "fault.enter_secret")
            for name in ("merchant", "operator")
        ),
    }
    return {("console", key) for key in keys}


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
            *("panel.refused", "panel.refused.busy", "link.qr", "solana.qr", "back", "back.app"),
            *("send.qr", "send.refused", "send.refused.busy", "send.refused.small"),
            *("claims.refused", "claims.refused.account"),
            *(f"claims.{state}" for state in DepositClaimState),
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
    messages = {key for name in CATALOGS for key in list_messages("en", name)}
    shared = {key for context, key in messages if context == SHARED}
    named = list_template_keys() | list_script_keys() | list_console_keys()
    used = {
        (SHARED if key in shared else context, key)
        for context, key in named | list_computed_keys() | list_computed_console_keys()
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


def test_pages_of_buyers_do_not_load_the_messages_of_the_consoles():
    assert "nav.payments" in language.get_translations("en", "console").texts
    assert "languages" in language.get_translations("en", "console").texts
    assert {context for context, _ in list_messages("en", "console")} == {"console"}
    assert "console" not in {context for context, _ in list_messages("en", "florin")}


class _LiteralTexts(HTMLParser):
    """Collects the texts of a template that a reader sees, without its expressions."""

    def __init__(self, template: str) -> None:
        super().__init__()
        self.literals: list[str] = []
        plain = re.sub(r"\{#.*?#\}", "", template, flags=re.DOTALL)
        # statements and expressions separate texts; a quote in them would end an attribute
        plain = re.sub(r"\{%.*?%\}|\{\{.*?\}\}", " \x00 ", plain, flags=re.DOTALL)
        self.feed(plain)
        self.close()

    def handle_starttag(self, _tag, attrs):
        for name, value in attrs:
            if name in VISIBLE_ATTRIBUTES:
                self._add(value or "")

    def handle_data(self, data):
        self._add(data)

    def _add(self, text: str) -> None:
        parts = (part.strip() for part in text.split("\x00"))
        self.literals += [part for part in parts if any(map(str.isalpha, part))]


def find_literals(template: str) -> set[str]:
    """Return the texts that a template of the consoles shows untranslated."""
    # literals in calls of macros, such as the sentences of an empty list
    calls = re.findall(r"\{\{\s*(?:empty|crumb|copy|id|account)\(.*?\}\}|\{% call .*?%\}", template)
    quoted = [text for call in calls for text in re.findall(r'"([^"]*)"', call)]
    sentences = {text for text in quoted if " " in text.strip() or text[:1].isupper()}
    # classes that a block puts into the tag of the frame
    template = re.sub(r'{% block body %} class="\w+"{% endblock %}', "", template)
    return {*_LiteralTexts(template).literals, *sentences} - UNTRANSLATED


@pytest.mark.parametrize(
    "file", sorted((TEMPLATES / "console").rglob("*.html")), ids=lambda file: file.name
)
def test_console_template_has_no_untranslated_text(file):
    assert find_literals(file.read_text()) == set()


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("<p>Hello</p>", "Hello"),
        ("<p>{{ x }} found</p>", "found"),
        ('<p title="Hello {{ x }}">{{ y }}</p>', "Hello"),
        ('<input placeholder="Search">', "Search"),
        ('<nav aria-label="Pages"></nav>', "Pages"),
        ("{% if x %}Yes{% endif %}", "Yes"),
        ('{{ empty("hook", "No endpoints.", texts.plain("x")) }}', "No endpoints."),
        ('{% call empty("search", "Nothing") %}{% endcall %}', "Nothing"),
    ],
)
def test_untranslated_text_of_a_template_fails_the_check(template, text):
    assert text in find_literals(template)
