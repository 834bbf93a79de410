"""Values of the templates of the consoles' pages, in which every text is a given word."""

from __future__ import annotations

from types import SimpleNamespace

from florin.v1 import (
    account_pb2,
    address_pb2,
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
from florin_server.domain.reports.assets import ReportAsset, ReportUnit
from florin_server.domain.reports.period import parse_period
from florin_server.features.reports.service.statement import (
    MonthStatement,
    RequestedLine,
    StatementLine,
    StatementSection,
)
from florin_server.money.ledger.service.owed import MerchantBalance
from florin_server.money.payments.service.checkout import ConfirmationProgress
from florin_server.web.console.charts import (
    BASE,
    HEIGHT,
    build_time_charts,
    build_volume_chart,
    compute_totals,
)
from florin_server.web.console.confirmation import ActionConfirmation
from florin_server.web.console.deliveries import Delivery
from florin_server.web.console.fields import group_fields
from florin_server.web.console.figures import (
    build_key_figures,
    list_outcomes,
    list_token_shares,
)
from florin_server.web.console.list_controls import build_controls
from florin_server.web.console.listing import PaymentFilters
from florin_server.web.console.merchant.branding import (
    FIELDS,
    BrandingChange,
    LogoPreview,
    LogoState,
)
from florin_server.web.console.operator import health
from florin_server.web.console.operator.alarms import list_alarms
from florin_server.web.console.operator.books import BalanceLine, LedgerAccountList, LedgerGroup
from florin_server.web.console.pills import list_payment_pills
from florin_server.web.console.shell import Shell, SignedInKey
from florin_server.web.console.timeline import list_steps, list_traced_steps
from florin_server.web.console.view import Formatter
from florin_server.web.language import Translations, get_translations
from google.protobuf.descriptor import FieldDescriptor as Field

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
            "duration": word,
            "confirming": ConfirmationProgress(5, 12),
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
            "claims": filled(held_pb2.ListDepositClaimsResponse(), word).claims,
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
        "merchant/branding": _branding(word, texts),
        **_sign_in_pages(word),
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
        "merchant/statement": _statement(word),
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


def _sign_in_pages(word: str) -> dict[str, dict]:
    return {
        "login": {"back": word, "problem": word},
        "reauthenticate": {"fields": [(word, word)], "problem": word, "name": word},
    }


def _branding(word: str, texts: Translations) -> dict:
    values = dict.fromkeys(FIELDS, word)
    return {
        "merchant": filled(account_pb2.MerchantRecord(), word),
        "values": values,
        "shown": values,
        "problem": word,
        "changes": [BrandingChange(word, word, ""), BrandingChange(word, "", word)],
        "is_saved": True,
        "accent_style": "",
        "adjusted": [("light", word), ("dark", word)],
        "logo": LogoPreview(LogoState.FAULTY, word, word),
        "sample": (word, word),
        "checkout": get_translations(texts.language, "checkout"),
        "path": "/x",
    }


def _statement(word: str) -> dict:
    """Return a statement of an open month, with a difference and an unknown asset."""
    line = StatementLine("fees", word, 7, -7)
    section = StatementSection(ReportAsset(word, word, word, 2), [line], [], 7, 0)
    requested = RequestedLine(ReportUnit(word, 2, word), word, 7, 7)
    period = parse_period("2026-10")
    merchant = filled(account_pb2.MerchantRecord(), word)
    return {
        "statement": MonthStatement(period, False, [section], [requested], (), [word]),
        "merchant": merchant,
        "merchants": [merchant],
        "zones": (word,),
        "latest": word,
        "csv_path": word,
        "path": "/x",
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


def _health(word: str, system, history, texts: Translations) -> dict:
    """Return the values of chains, nodes and executors."""
    executors = filled(system_pb2.ListExecutorsResponse(), word).executors
    return {
        "executors": executors,
        "pills": {word: health.find_chain_pill(texts, system.chains[0], executors)},
        "strips": {word: [health.build_strip(texts, node, NOW_US) for node in history]},
        "node_paths": {word: health.build_nodes_path(word)},
        "gauges": health.build_gauges(texts, system, executors),
    }


def _views(word: str) -> dict:
    views = [SavedView(word, "reference=x"), SavedView(word, "status=failed")]
    return {"views": views, "view_query": "reference=x", "view_name_chars": 40}


def build_shell(word: str) -> Shell:
    """Return the frame: two keys, two merchants, and a page with more than 99 items."""
    signed_in = [SignedInKey(word, live, word, word, word, word) for live in (True, False)]
    named = {"id": word, "partner_id": word, "name": word, "email": word, "icon_url": word}
    merchant = Merchant(**named, status=word, live=True, created_at_us=NOW_US, deleted_at_us=None)
    return Shell(signed_in, [merchant, merchant], True, {"/console": 100})


def _books(word: str) -> dict:
    lines = [BalanceLine(word, word, word), BalanceLine(word, word, word, 2, word)]
    return {
        "groups": [LedgerGroup(LedgerAccountKind.WALLET, lines, [BalanceLine("", word, word)])],
        "listed": LedgerAccountList(word, word, word, 1, lines[:1], word, word),
        "kinds": (word,),
        "checked": filled(ledger_pb2.CheckLedgerResponse(), word),
    }


def _addresses(word: str) -> dict[str, object]:
    return {
        "items": filled(address_pb2.ListAddressMoneyResponse(), word).items,
        "has_more": True,
        "chains": (word,),
        "chain_id": word,
        "problem": word,
    }


def operators(word: str, texts: Translations = TEXTS) -> dict[str, dict]:
    """Return the values of the operator's pages."""
    listed = filled(listing_pb2.ListPaymentsResponse(), word)
    traced = filled(trace_pb2.TracePaymentResponse(), word)
    system = filled(system_pb2.GetSystemStatusResponse(), word)
    balances = filled(ledger_pb2.ListBalancesResponse(), word).balances
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
        **_sign_in_pages(word),
        "operator/status": {
            "system": system,
            "alarms": list_alarms(Formatter(APP, texts), system),
            **_health(word, system, history, texts),
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
            "duration": word,
            "confirming": ConfirmationProgress(5, 12),
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
        "operator/addresses": _addresses(word),
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
