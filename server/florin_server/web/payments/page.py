"""The checkout page: merchant, amount, ways to pay, and status of a payment.

It is complete without a script; scripts keep it up to date. A wallet needs the link only, not the
page.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from grpc_rest_gateway.plain import PlainResponse

from florin_server.domain.payments.payment import PaymentStatus
from florin_server.domain.payments.return_links import ReturnLink
from florin_server.domain.payouts.refund_amounts import RefundProgress
from florin_server.money.payments.service.checkout import CheckoutTransaction, ConfirmationProgress
from florin_server.money.payments.service.panel import SandboxPanel
from florin_server.web.language import Translations, get_translations
from florin_server.web.payments import accent, qr
from florin_server.web.render import (
    HttpHeaders,
    ScriptData,
    build_security_headers,
    render_page,
)

_NOUN: Final = "checkout"
# the prefix of keys of texts that scripts show
_SCRIPT_PREFIX: Final = "js."


class StatusView(NamedTuple):
    """A state as the page shows it: its name for scripts, style, sign and message key."""

    name: str
    style: str
    sign: str
    text: str


_SIGNS: Final = {
    PaymentStatus.REQUIRES_ACTION: "○",
    PaymentStatus.PROCESSING: "…",
    PaymentStatus.SUCCEEDED: "✓",
    PaymentStatus.FAILED: "✕",
    PaymentStatus.EXPIRED: "⌛\ufe0e",
    PaymentStatus.CANCELLED: "–",
}
_VIEWS: Final = {
    status: StatusView(status, status, sign, status) for status, sign in _SIGNS.items()
}
_REFUND_VIEWS: Final = {
    progress: StatusView("succeeded", "refunded", "↩\ufe0e", progress)
    for progress in RefundProgress
}


class CheckoutChain(NamedTuple):
    """A chain that wallets can pay on: CAIP-2 id, name, and symbol and name of its native coin.

    `node` and `explorer` are public addresses with which wallets add the chain.
    """

    id: str
    name: str
    coin: str
    coin_name: str = ""
    node: str = ""
    explorer: str = ""


@dataclass(frozen=True, slots=True)
class PaidAmount:
    """The amount that a buyer paid, in whole units of an asset on a network."""

    value: Decimal
    symbol: str
    network: str


class CheckoutLine(NamedTuple):
    """A line of the order; `value` is for all its pieces, in whole units of the payment."""

    name: str
    quantity: int
    value: Decimal


class LineView(NamedTuple):
    """A line of the order as the page shows it."""

    name: str
    quantity: int
    amount: str


@dataclass(frozen=True, slots=True)
class CheckoutRefund:
    """The refunds of a payment: `value` of `paid`, in whole units of the paid asset."""

    progress: RefundProgress
    value: Decimal
    paid: Decimal
    symbol: str


@dataclass(frozen=True, slots=True)
class CheckoutData:
    """The content of the page. `value` is in whole units of `symbol`; times are Unix seconds.

    `return_url` is the merchant's return URL, absolute and https. With `may_receive_money` money
    can still be on its way, and the page opens the URL only when the buyer taps it. `logo_path` is
    a path of this host, `wallets` are names of apps and their URL templates, `accent` is
    `#rrggbb`, `refusal_key` is a message key. `support_email` and `support_url` are checked forms,
    `return_link` leads to the app that opened the page.
    """

    id: str
    merchant: str
    value: Decimal
    symbol: str
    status: PaymentStatus
    link: str
    live: bool
    expires_at: int
    now_ms: int
    updated_at: int
    app_id: str
    poll_ms: int = 1000
    return_url: str | None = None
    may_receive_money: bool = False
    logo_path: str | None = None
    accent: str | None = None
    wallets: Sequence[tuple[str, str]] = ()
    chains: Sequence[CheckoutChain] = ()
    progress: ConfirmationProgress | None = None
    paid: PaidAmount | None = None
    transaction: CheckoutTransaction | None = None
    refund: CheckoutRefund | None = None
    panel: SandboxPanel | None = None
    refusal_key: str = ""
    description: str | None = None
    lines: Sequence[CheckoutLine] = ()
    support_email: str | None = None
    support_url: str | None = None
    return_link: ReturnLink | None = None
    prefers_universal_links: bool = False


@dataclass(frozen=True, slots=True)
class _CheckoutContext:
    """The content of the page as the template shows it, in one language."""

    id: str
    merchant: str
    amount: str
    status: str
    link: str
    live: bool
    back: str | None
    logo: str | None
    until: str
    paid: str | None
    ended: str
    ended_text: str
    refunded: str
    refunded_of: str
    wallets: Sequence[tuple[str, str]] = field(default=())


def render_checkout(
    checkout: CheckoutData, language: str, theme: str = "", appearance_query: str = ""
) -> PlainResponse:
    """Return the page of a payment.

    `theme` is light, dark, or empty for the buyer's preference; `appearance_query` is the query
    that keeps language and theme in links.
    """
    translations = get_translations(language, _NOUN)
    open_ = checkout.status is PaymentStatus.REQUIRES_ACTION
    return render_page(
        "payments/checkout.html",
        200,
        _build_headers(checkout.accent),
        texts=translations,
        here=f"/{checkout.id}",
        theme=theme,
        appearance_query=appearance_query,
        payment=_build_context(checkout, translations),
        views=_list_views(checkout),
        accent_style=checkout.accent and accent.build_accent_style(checkout.accent),
        progress=checkout.progress,
        transaction=checkout.transaction,
        panel=checkout.panel,
        refused=checkout.refusal_key,
        description=checkout.description,
        lines=_list_lines(checkout, translations),
        support_email=checkout.support_email,
        support_url=checkout.support_url,
        return_link=checkout.return_link,
        prefers_universal_links=checkout.prefers_universal_links,
        qr=qr.render_code(checkout.link, translations.plain("link.qr")) if open_ else "",
        script=_build_script_data(checkout, translations),
        script_texts=_load_script_texts(language),
    )


@functools.lru_cache(256)
def _build_headers(color: str | None) -> HttpHeaders:
    return (
        *build_security_headers(style=accent.build_accent_style(color) if color else None),
        (b"vary", b"accept-language"),
    )


def _list_views(checkout: CheckoutData) -> Sequence[StatusView]:
    """Return the current state, then those that can follow while the page is open."""
    shown = _VIEWS[checkout.status]
    if checkout.status is PaymentStatus.SUCCEEDED and checkout.refund is not None:
        shown = _REFUND_VIEWS[checkout.refund.progress]
    later = checkout.status is PaymentStatus.REQUIRES_ACTION
    return (shown, _VIEWS[PaymentStatus.PROCESSING]) if later else (shown,)


def _list_lines(checkout: CheckoutData, translations: Translations) -> Sequence[LineView]:
    return [
        LineView(line.name, line.quantity, translations.format_amount(line.value, checkout.symbol))
        for line in checkout.lines
    ]


def _build_context(checkout: CheckoutData, translations: Translations) -> _CheckoutContext:
    paid, refund = checkout.paid, checkout.refund
    open_ = checkout.status is PaymentStatus.REQUIRES_ACTION
    ended = datetime.fromtimestamp(checkout.updated_at, UTC)
    done = checkout.status is PaymentStatus.SUCCEEDED
    return _CheckoutContext(
        id=checkout.id,
        merchant=checkout.merchant,
        amount=translations.format_amount(checkout.value, checkout.symbol),
        status=checkout.status,
        link=checkout.link,
        live=checkout.live,
        back=checkout.return_url,
        logo=checkout.logo_path,
        until=translations.format_time(checkout.expires_at) if open_ else "",
        paid=None if paid is None else _format_paid(paid, translations),
        ended=ended.isoformat(),
        ended_text=translations.format_time(checkout.updated_at) if done else "",
        refunded=translations.format_amount(_trim_zeros(refund.value), refund.symbol)
        if refund
        else "",
        refunded_of=translations.format_amount(_trim_zeros(refund.paid), refund.symbol)
        if refund
        else "",
        wallets=_list_wallet_links(checkout.link, tuple(checkout.wallets)) if open_ else (),
    )


def _format_paid(paid: PaidAmount, translations: Translations) -> str:
    return f"{translations.format_amount(_trim_zeros(paid.value), paid.symbol)}, {paid.network}"


def _trim_zeros(value: Decimal) -> Decimal:
    """Return a value without trailing zeros, with at least two decimals."""
    places = -int(value.normalize().as_tuple().exponent)
    return value.quantize(Decimal(1).scaleb(-max(places, 2)))


def _list_wallet_links(link: str, wallets: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    encoded, place = quote(link, safe=""), link.partition("://")[2]
    return [
        (name, url.replace("{url}", encoded).replace("{place}", place)) for name, url in wallets
    ]


def _build_script_data(checkout: CheckoutData, translations: Translations) -> Mapping[str, Any]:
    """Return the data of scripts: only what the page shows, and the public app id."""
    return {
        "id": checkout.id,
        "status": checkout.status,
        "isFinal": checkout.status.is_final,
        "expiresAt": checkout.expires_at,
        "now": checkout.now_ms,
        "pollInMs": checkout.poll_ms,
        "appId": checkout.app_id,
        "merchant": checkout.merchant,
        "waits": checkout.may_receive_money,
        "language": translations.language,
        "chains": [_to_script_chain(chain) for chain in checkout.chains],
    }


def _to_script_chain(chain: CheckoutChain) -> Mapping[str, str]:
    return {
        "id": chain.id,
        "name": chain.name,
        "coin": chain.coin,
        "coinName": chain.coin_name,
        "node": chain.node,
        "explorer": chain.explorer,
    }


@functools.cache
def _load_script_texts(language: str) -> ScriptData:
    texts = get_translations(language, _NOUN).texts
    report = {
        key.removeprefix(_SCRIPT_PREFIX): text
        for key, text in texts.items()
        if key.startswith(_SCRIPT_PREFIX)
    }
    return ScriptData.encode_json({**report, "confirmations": texts["confirmations"]})
