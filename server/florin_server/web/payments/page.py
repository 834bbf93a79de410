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
from florin_server.money.payments.service.ways import NetworkFee
from florin_server.web.assets import get_asset_url
from florin_server.web.language import Translations, get_translations, trim_zeros
from florin_server.web.payments import accent, qr
from florin_server.web.payments.claim_box import NO_CLAIMS, ClaimData, build_claim_box
from florin_server.web.payments.send_box import NO_ADDRESSES, SendData, build_send_box
from florin_server.web.payments.transfer_box import (
    NO_TRANSFERS,
    TransferData,
    build_transfer_box,
)
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
    """A state as the page shows it: its name for scripts, look, icon and message key."""

    name: str
    look: str
    sign: str
    text: str


_VIEWS: Final = {
    status: StatusView(status, look, sign, status)
    for status, (look, sign) in {
        PaymentStatus.REQUIRES_ACTION: ("plain", "wallet"),
        PaymentStatus.PROCESSING: ("info", "chain"),
        PaymentStatus.SUCCEEDED: ("good", "check"),
        PaymentStatus.FAILED: ("bad", "cross"),
        PaymentStatus.EXPIRED: ("warn", "clock"),
        PaymentStatus.CANCELLED: ("plain", "ban"),
    }.items()
}
_REFUND_VIEWS: Final = {
    progress: StatusView("succeeded", "refunded", "undo", progress) for progress in RefundProgress
}
# message keys of what stands above the amount; ended payments without success have the last one
_ABOVE: Final = {
    PaymentStatus.REQUIRES_ACTION: "asks",
    PaymentStatus.PROCESSING: "asked",
    PaymentStatus.SUCCEEDED: "asked.paid",
}
_ABOVE_OTHERS: Final = "asked"


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


class RefundEntry(NamedTuple):
    """One refund: whole units of the paid asset, Unix seconds, and its transaction, if any."""

    value: Decimal
    at_s: int
    transaction: CheckoutTransaction | None = None


class CheckoutLine(NamedTuple):
    """A line of the order; `value` is for all its pieces, in whole units of the payment."""

    name: str
    quantity: int
    value: Decimal


@dataclass(frozen=True, slots=True)
class CheckoutRefund:
    """The refunds of a payment: `value` of `paid`, in whole units of the paid asset."""

    progress: RefundProgress
    value: Decimal
    paid: Decimal
    symbol: str
    entries: Sequence[RefundEntry] = ()


class CheckoutOffer(NamedTuple):
    """An asset that can pay: its unit, price in whole units, network, and the usual seconds."""

    unit: str
    value: Decimal
    symbol: str
    chain_id: str
    network: str
    network_fee: NetworkFee
    eta_s: int


@dataclass(frozen=True, slots=True)
class CheckoutData:
    """The content of the page. `value` is in whole units of `symbol`; times are Unix seconds.

    `return_url` is the merchant's return URL, absolute and https; `return_link` leads to the app
    that opened the page. With `may_receive_money` money can still be on its way, and the page opens
    them only when the buyer taps. `logo_path` is a path of this host, `wallets` are names of apps
    and their URL templates, `downloads` are names of wallets and where to get them, `accent` is
    `#rrggbb`, `refusal_key` is a message key, and `usual_s` the seconds that a processing payment
    usually takes. `solana_pay_url` is empty if no Solana wallet can pay. `support_email` and
    `support_url` are checked forms.
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
    downloads: Sequence[tuple[str, str]] = ()
    offers: Sequence[CheckoutOffer] = ()
    chains: Sequence[CheckoutChain] = ()
    progress: ConfirmationProgress | None = None
    usual_s: int | None = None
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
    solana_pay_url: str = ""
    send: SendData = NO_ADDRESSES
    transfers: TransferData = NO_TRANSFERS
    claims: ClaimData = NO_CLAIMS


class _Row(NamedTuple):
    """A line of a list: a name, what belongs to it, and an amount."""

    name: str
    note: str
    amount: str


class _BackLink(NamedTuple):
    """A link away from the page, and the message key of its text."""

    href: str
    text: str


class _OfferRow(NamedTuple):
    """An asset that can pay, in the words of one language."""

    unit: str
    symbol: str
    chain_id: str
    network: str
    amount: str
    fee_key: str
    duration: str


class _RefundRow(NamedTuple):
    """A refund, in the words of one language."""

    amount: str
    at: str
    at_text: str
    transaction: CheckoutTransaction | None


@dataclass(frozen=True, slots=True)
class _CheckoutContext:
    """The content of the page as the template shows it, in one language."""

    id: str
    merchant: str
    number: str
    symbol: str
    amount: str
    above: str
    status: str
    link: str
    live: bool
    back: Sequence[_BackLink]
    logo: str | None
    until: str
    paid: str | None
    ended: str
    ended_text: str
    refunded: str
    refunded_of: str
    refunds: Sequence[_RefundRow]
    usual: str
    description: str | None
    lines: Sequence[_Row]
    support_email: str | None
    support_url: str | None
    offers: Sequence[_OfferRow]
    wallets: Sequence[tuple[str, str]] = field(default=())
    downloads: Sequence[tuple[str, str]] = field(default=())
    solana_pay_url: str = ""


def render_checkout(
    checkout: CheckoutData,
    language: str,
    theme: str = "",
    appearance_query: str = "",
    return_query: str = "",
) -> PlainResponse:
    """Return the page of a payment.

    `theme` is light, dark, or empty for the buyer's preference; `appearance_query` is the query
    that keeps all that was chosen in links, `return_query` the part of it for the way back.
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
        return_query=return_query,
        payment=_build_context(checkout, translations),
        views=_list_views(checkout),
        accent_style=checkout.accent and accent.build_accent_style(checkout.accent),
        progress=checkout.progress,
        transaction=checkout.transaction,
        panel=checkout.panel,
        refused=checkout.refusal_key,
        qr=qr.render_code(checkout.link, translations.plain("link.qr")) if open_ else "",
        solana_qr=qr.render_code(checkout.solana_pay_url, translations.plain("solana.qr"))
        if open_ and checkout.solana_pay_url
        else "",
        send=build_send_box(checkout.send, translations) if open_ else None,
        transfer=build_transfer_box(checkout.transfers, translations) if open_ else None,
        claims=build_claim_box(checkout.claims, translations),
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


def _build_context(checkout: CheckoutData, translations: Translations) -> _CheckoutContext:
    paid, refund = checkout.paid, checkout.refund
    open_ = checkout.status is PaymentStatus.REQUIRES_ACTION
    done = checkout.status is PaymentStatus.SUCCEEDED
    return _CheckoutContext(
        id=checkout.id,
        merchant=checkout.merchant,
        number=translations.format_number(checkout.value),
        symbol=checkout.symbol,
        amount=translations.format_amount(checkout.value, checkout.symbol),
        above=_ABOVE.get(checkout.status, _ABOVE_OTHERS),
        status=checkout.status,
        link=checkout.link,
        live=checkout.live,
        back=_list_back_links(checkout),
        logo=checkout.logo_path,
        until=translations.format_time(checkout.expires_at) if open_ else "",
        paid=None if paid is None else _format_paid(paid, translations),
        ended=_to_iso_time(checkout.updated_at),
        ended_text=translations.format_time(checkout.updated_at) if done else "",
        refunded=translations.format_amount(trim_zeros(refund.value), refund.symbol)
        if refund
        else "",
        refunded_of=translations.format_amount(trim_zeros(refund.paid), refund.symbol)
        if refund
        else "",
        refunds=_list_refund_rows(refund, translations) if refund else (),
        usual="" if checkout.usual_s is None else translations.format_duration(checkout.usual_s),
        description=checkout.description,
        lines=[_to_row(line, checkout.symbol, translations) for line in checkout.lines],
        support_email=checkout.support_email,
        support_url=checkout.support_url,
        offers=[_to_offer_row(offer, translations) for offer in checkout.offers],
        wallets=_list_wallet_links(checkout.link, tuple(checkout.wallets)) if open_ else (),
        downloads=checkout.downloads if open_ else (),
        solana_pay_url=checkout.solana_pay_url if open_ else "",
    )


def _list_back_links(checkout: CheckoutData) -> Sequence[_BackLink]:
    """Return the links to merchant and app; the page opens the first automatically, if it may."""
    links = [_BackLink(checkout.return_url, "back")] if checkout.return_url else []
    app = checkout.return_link
    return links if app is None else [*links, _BackLink(app.href, "back.app")]


def _waits_for_tap(checkout: CheckoutData) -> bool:
    """Return True if the page must not leave automatically.

    That is so where money can still move or be claimed, and where only an app's link leads away
    that is not the merchant's own.
    """
    app = checkout.return_link
    is_foreign = checkout.return_url is None and app is not None and app.needs_tap
    has_claims = bool(checkout.claims.amounts or checkout.claims.claims)
    return checkout.may_receive_money or has_claims or checkout.refund is not None or is_foreign


def _to_row(line: CheckoutLine, symbol: str, translations: Translations) -> _Row:
    note = f"{translations.format_number(Decimal(line.quantity))} ×" if line.quantity > 1 else ""
    return _Row(line.name, note, translations.format_amount(line.value, symbol))


def _to_offer_row(offer: CheckoutOffer, translations: Translations) -> _OfferRow:
    return _OfferRow(
        offer.unit,
        offer.symbol,
        offer.chain_id,
        offer.network,
        translations.format_amount(trim_zeros(offer.value), offer.symbol),
        f"fee.{offer.network_fee}",
        translations.format_duration(offer.eta_s),
    )


def _list_refund_rows(refund: CheckoutRefund, translations: Translations) -> Sequence[_RefundRow]:
    return [
        _RefundRow(
            translations.format_amount(trim_zeros(entry.value), refund.symbol),
            _to_iso_time(entry.at_s),
            translations.format_time(entry.at_s),
            entry.transaction,
        )
        for entry in refund.entries
    ]


def _to_iso_time(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat()


def _format_paid(paid: PaidAmount, translations: Translations) -> str:
    return f"{translations.format_amount(trim_zeros(paid.value), paid.symbol)}, {paid.network}"


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
        "waits": _waits_for_tap(checkout),
        "scripts": _get_script_urls(),
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
def _get_script_urls() -> Mapping[str, str]:
    """Return the addresses of the scripts that the page loads on demand."""
    return {
        name: get_asset_url(f"checkout/{name}.js") for name in ("wallets", "redirect", "deposits")
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
