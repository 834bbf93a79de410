"""Consoles show every value of the API as text: all values here are hostile."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from florin.v1 import (
    account_pb2,
    audit_pb2,
    held_pb2,
    ledger_pb2,
    listing_pb2,
    merchant_pb2,
    note_pb2,
    partner_pb2,
    payment_pb2,
    payout_pb2,
    quarantine_pb2,
    system_pb2,
    trace_pb2,
    webhook_admin_pb2,
    webhook_pb2,
)
from florin_server.accounts.store.console_views import SavedView
from florin_server.base.clock import TestClock
from florin_server.domain.accounts.account import ApiKey
from florin_server.domain.accounts.credentials import ApiKeyKind
from florin_server.domain.ledger.accounts import LedgerAccountKind
from florin_server.domain.payments.payment import Merchant
from florin_server.money.ledger.service.owed import MerchantBalance
from florin_server.web import render
from florin_server.web.console.charts import (
    BASE,
    HEIGHT,
    build_time_charts,
    build_volume_chart,
    compute_totals,
)
from florin_server.web.console.config import NavGroup, NavLink
from florin_server.web.console.confirmation import ActionConfirmation
from florin_server.web.console.deliveries import Delivery
from florin_server.web.console.fields import FormValues, group_fields
from florin_server.web.console.figures import (
    build_key_figures,
    list_outcomes,
    list_token_shares,
)
from florin_server.web.console.languages import load_script_texts
from florin_server.web.console.list_controls import build_controls
from florin_server.web.console.listing import PaymentFilters, build_csv
from florin_server.web.console.operator import health
from florin_server.web.console.operator.alarms import list_alarms
from florin_server.web.console.operator.books import BalanceLine, LedgerAccountList, LedgerGroup
from florin_server.web.console.pills import list_payment_pills
from florin_server.web.console.shell import Shell, SignedInKey
from florin_server.web.console.timeline import list_steps, list_traced_steps
from florin_server.web.console.undo import UndoOffer
from florin_server.web.console.view import Formatter
from florin_server.web.language import LANGUAGES, Translations, get_translations
from google.protobuf.descriptor import FieldDescriptor as Field
from google.protobuf.timestamp_pb2 import Timestamp

from tests.support.page_texts import HOSTILE_MARKUP, ParsedPage

NOW_US = 1_800_000_000_000_000
TEXTS = get_translations("en", "console")
APP = SimpleNamespace(
    find_asset=lambda _: None,
    list_assets=lambda **_: {},
    clock=TestClock(NOW_US),
)
FORMATTER = Formatter(APP, TEXTS)
_SCALAR = {Field.CPPTYPE_BOOL: True, Field.CPPTYPE_DOUBLE: 1.5, Field.CPPTYPE_FLOAT: 1.5}


def filled(message, word: str):
    """Return a message with every field set: texts are the word, lists have two members."""
    for field in message.DESCRIPTOR.fields:
        if field.message_type is not None and field.message_type.name == "Timestamp":
            getattr(message, field.name).seconds = NOW_US // 1_000_000
        elif field.message_type is not None and field.message_type.GetOptions().map_entry:
            getattr(message, field.name)[word] = word
        elif field.message_type is not None and field.is_repeated:
            for _ in range(2):
                filled(getattr(message, field.name).add(), word)
        elif field.message_type is not None:
            filled(getattr(message, field.name), word)
        else:
            value = word if field.cpp_type == Field.CPPTYPE_STRING else _value(field)
            if field.is_repeated:
                getattr(message, field.name).extend([value, value])
            else:
                setattr(message, field.name, value)
    return message


def _value(field):
    if field.enum_type is not None:
        return field.enum_type.values[1].number
    return _SCALAR.get(field.cpp_type, 7)


def _overview(word: str, listed, texts: Translations) -> dict:
    """Return the values of the overview."""
    totals = compute_totals(texts, listed.data, NOW_US, 7)
    return {
        "figures": build_key_figures(texts, listed.data, listed.data, {}, totals[0]),
        "volume": build_volume_chart(texts, listed.data, NOW_US, 7, totals[0].key),
        "unit": totals[0].key,
        "times": build_time_charts(texts, listed.data, {}, NOW_US, 7),
        "outcomes": list_outcomes(texts, listed.data),
        "tokens": list_token_shares(texts, listed.data, 1),
        "totals": totals,
        "todo": filled(webhook_pb2.ListWebhookEndpointsResponse(), word).endpoints,
        "recent": listed.data,
        "count": 2,
        "all_shown": True,
        "days": 7,
        "spans": (7, 30),
        "height": HEIGHT,
        "base": BASE,
    }


def merchants(word: str, texts: Translations = TEXTS) -> dict[str, dict]:
    """Return the values of the merchants' pages."""
    listed = filled(listing_pb2.ListPaymentsResponse(), word)
    payment = filled(merchant_pb2.PaymentDetail(), word)
    values = dict.fromkeys(
        (
            *("merchant", "amount", "unit", "reference", "description", "minutes"),
            *("success_url", "error_url"),
        ),
        word,
    )
    own = filled(account_pb2.ListMerchantsResponse(), word)
    for row in listed.data:
        row.status = payment_pb2.PAYMENT_STATUS_SUCCEEDED
        row.fiat_amount.value = row.fees.total.value = "7"
    return {
        "payments": {
            "response": listed,
            "merchants": own.merchants,
            "partners": (),
            **_lists(word, texts),
            **_views(word),
        },
        "merchant/overview": _overview(word, listed, texts),
        "merchant/payment": {
            "payment": payment,
            "steps": list_steps(
                Formatter(APP, texts),
                filled(payment_pb2.ListPaymentEventsResponse(), word).events,
                payment.refunds,
            ),
            "deliveries": [
                Delivery(
                    filled(webhook_pb2.WebhookEndpoint(), word),
                    filled(webhook_pb2.WebhookAttempt(), word),
                )
            ],
            "explorer": word,
            "receipt": word,
            "code": word,
            "pills": list_payment_pills(texts),
            "outcomes": {"succeeded": 1},
            "rest": payment.refunded,
            "notes": _notes(word),
            "can_cancel": True,
            "can_simulate": True,
            "path": "/x",
        },
        "merchant/create": {
            "values": values,
            "problem": word,
            "merchants": own.merchants,
            "units": {word: word},
        },
        "merchant/merchants": {"response": own, "search": word},
        "merchant/merchant": {
            "merchant": own.merchants[0],
            "settlements": filled(account_pb2.Settlements(), word),
            "assets": {word: word},
            "path": "/x",
        },
        "audit": _audit(word, texts),
        **_messages(word, listed),
        **_webhooks(word),
    }


def make_api_key(word: str) -> ApiKey:
    scopes = frozenset({word})
    return ApiKey(
        word, ApiKeyKind.PARTNER, False, word, b"", word, scopes, None, NOW_US, None, word
    )


def _messages(word: str, listed: listing_pb2.ListPaymentsResponse) -> dict[str, dict]:
    return {
        "merchant/keys": {
            "keys": [make_api_key(word), make_api_key(word)],
            "count": 3,
            "uses": {word: NOW_US},
        },
        "merchant/balances": {
            "balances": [MerchantBalance(word, word, 7), MerchantBalance(word, word, -7)],
            "names": {word: word},
            "next_cursor": word,
        },
        "merchant/sessions": {"problem": word, "ended": True, "limit": 4},
        "switched": {"owner": word},
        "search": {"text": word, "rows": listed.data},
        "error": {"message": word, "request_id": word, "sign": "alert"},
        "confirm": {
            "question": ActionConfirmation(word, word, word, ((word, word),), word, word),
            "fields": [(word, word)],
            "typed_field": word,
            "problem": word,
        },
    }


def _notes(word: str) -> list:
    return [
        (note, own)
        for note in filled(note_pb2.ListPaymentNotesResponse(), word).notes
        for own in (True, False)
    ]


def _audit(word: str, texts: Translations) -> dict:
    entries = filled(audit_pb2.ListAuditEntriesResponse(), word).entries
    return {
        "entries": [(entry, word, path) for entry in entries for path in ("", word)],
        "next_query": word,
        "query": group_fields([(name, word) for name in ("action", "actor", "object", "cursor")]),
        "chips": [(word, word)],
        "file_query": word,
        "actions": {word: word},
        "objects": {word: word},
        "path": "/x",
    }


def _webhooks(word: str) -> dict[str, dict]:
    endpoint = filled(webhook_pb2.WebhookEndpoint(), word)
    attempts = filled(webhook_pb2.ListWebhookAttemptsResponse(), word).attempts
    values = {"url": word, "merchant": word, "description": word}
    return {
        "merchant/webhooks": {
            "response": filled(webhook_pb2.ListWebhookEndpointsResponse(), word),
            "merchant": word,
            "merchants": filled(account_pb2.ListMerchantsResponse(), word).merchants,
            "types": (word,),
            "values": values,
            "events": (word,),
            "problem": word,
        },
        "merchant/webhook": {
            "endpoint": endpoint,
            "attempts": attempts,
            "received": (word,),
            "path": "/x",
        },
        "merchant/webhook_secret": {"endpoint": endpoint, "secret": word, "path": "/x"},
        "merchant/webhook_replayed": {
            "count": 7,
            "problem": word,
            "since": word,
            "events": [word],
            "cursor": word,
            "path": "/x",
        },
    }


def _lists(word: str, texts: Translations) -> dict:
    choices = {"statuses": ("failed",), "networks": [word], "tokens": [word]}
    query = group_fields(
        [(name, word) for name in ("from", "reference", "merchant", "token", "cursor")]
    )
    filters = PaymentFilters(query)
    controls = build_controls(texts, filters, {"succeeded": 7})
    return {"filters": filters, "choices": choices, "path": "/console/payments", **controls}


def _views(word: str) -> dict:
    views = [SavedView(word, "reference=x"), SavedView(word, "status=failed")]
    return {"views": views, "view_query": "reference=x", "view_name_chars": 40}


def _shell(word: str) -> Shell:
    """Return the frame: two keys, two merchants, and a page with more than 99 items."""
    signed_in = [SignedInKey(word, live, word, word, word, word) for live in (True, False)]
    named = {"id": word, "partner_id": word, "name": word, "email": word, "icon_url": word}
    merchant = Merchant(**named, status=word, live=True, created_at_us=NOW_US, deleted_at_us=None)
    return Shell(signed_in, [merchant, merchant], True, {"/console": 100})


def _books(word: str) -> dict:
    return {
        "groups": [
            LedgerGroup(
                LedgerAccountKind.WALLET,
                [BalanceLine(word, word, word), BalanceLine(word, word, word, 2, word)],
                [BalanceLine("", word, word)],
            )
        ],
        "listed": LedgerAccountList(
            word, word, word, 1, [BalanceLine(word, word, word)], word, word
        ),
        "kinds": (word,),
        "checked": filled(ledger_pb2.CheckLedgerResponse(), word),
    }


def operators(word: str, texts: Translations = TEXTS) -> dict[str, dict]:
    """Return the values of the operator's pages."""
    listed = filled(listing_pb2.ListPaymentsResponse(), word)
    traced = filled(trace_pb2.TracePaymentResponse(), word)
    system = filled(system_pb2.GetSystemStatusResponse(), word)
    balances = filled(ledger_pb2.ListBalancesResponse(), word).balances
    executors = filled(system_pb2.ListExecutorsResponse(), word).executors
    history = filled(system_pb2.ListNodeHistoryResponse(), word).nodes
    partners = filled(partner_pb2.ListPartnersResponse(), word).partners
    return {
        "payments": {
            "response": listed,
            "merchants": (),
            "partners": partners,
            **_lists(word, texts),
        },
        "audit": _audit(word, texts),
        "operator/status": {
            "system": system,
            "alarms": list_alarms(Formatter(APP, texts), system),
            "executors": executors,
            "pills": {word: health.find_chain_pill(texts, system.chains[0], executors)},
            "strips": {word: [health.build_strip(texts, node, NOW_US) for node in history]},
            "node_paths": {word: health.build_nodes_path(word)},
            "gauges": health.build_gauges(texts, system, executors),
            "coins": {word: balances},
            "burn": balances,
        },
        "operator/nodes": {"nodes": history, "chain_id": word},
        "operator/payment": {
            "payment": traced.payment,
            "partner": word,
            "steps": list_traced_steps(
                Formatter(APP, texts), traced.events, traced.payment.refunds
            ),
            "explorer": word,
            "transactions": traced.transactions,
            "notes": _notes(word),
            "path": "/x",
            "entries": filled(ledger_pb2.ListEntriesResponse(), word).entries,
        },
        "operator/payouts": {
            "payouts": filled(payout_pb2.ListPayoutsResponse(), word).payouts,
            "everything": True,
            "assets": {word: word},
        },
        "operator/held": {
            "held": filled(held_pb2.ListHeldPaymentsResponse(), word).held_payments,
            "everything": False,
        },
        "operator/quarantine": {
            "items": filled(quarantine_pb2.ListQuarantinedItemsResponse(), word).items,
            "everything": True,
        },
        "operator/books": _books(word),
        "operator/accounts": {
            "partners": partners,
            "keys": filled(partner_pb2.ListApiKeysResponse(), word).keys,
            "wallets": filled(partner_pb2.ListWalletsResponse(), word).wallets,
            "scopes": (word,),
        },
        "operator/webhooks": {
            "response": filled(webhook_admin_pb2.ListPartnerEndpointsResponse(), word),
            "paused": True,
        },
        "operator/webhook": {
            "attempts": filled(webhook_pb2.ListWebhookAttemptsResponse(), word).attempts
        },
        "operator/key": {"key": filled(partner_pb2.ApiKey(), word), "secret": word},
    }


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
        "shell": _shell(word),
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
        "undo": UndoOffer(word, word, {"note": word}),
    }
    return ParsedPage(
        render.render_page(f"console/{template}.html", 200, (), **common, **values).body
    )


@pytest.mark.parametrize(("console", "template"), PAGES)
def test_every_text_is_a_text_and_nothing_else(console, template):
    usual, hostile = page(console, template, "Zephyr"), page(console, template, HOSTILE_MARKUP)
    assert hostile.tags == usual.tags
    assert sum("Zephyr" in text for text in usual.texts) > 3


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
    visible = shown.source[: shown.source.index('id="texts"')]
    assert not re.search(r"\{\w+\}", visible)
    words = {"Sign out", "Skip to the content", "Status", "Amount", "Created", "Continue", "Search"}
    same = {"Status"} if language == "de" else set()
    left = {text.strip() for text in shown.texts} & words
    assert left <= same or language == "en"
