"""The page behind a payment link: what is asked for, by whom, how to pay it, and where it stands.

All of it is there without a script; scripts make it live. A wallet needs the link only, not the
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

from florin_gateway.plain import PlainAnswer

from florin_server.domain.payments.payment import Status
from florin_server.domain.payouts.refund_amounts import RefundProgress
from florin_server.flows.payments.checkout import Progress, Transaction
from florin_server.flows.payments.panel import Panel
from florin_server.web.language import Words, words
from florin_server.web.payments import accent, qr
from florin_server.web.render import Headers, Script, html, strict

_NOUN: Final = "checkout"
# texts that scripts show
_SCRIPTS: Final = "js."


class View(NamedTuple):
    """One state as the page shows it: its name for scripts, its look, and its texts."""

    name: str
    style: str
    sign: str
    text: str


_SIGNS: Final = {
    Status.REQUIRES_ACTION: "○",
    Status.PROCESSING: "…",
    Status.SUCCEEDED: "✓",
    Status.FAILED: "✕",
    Status.EXPIRED: "⌛\ufe0e",
    Status.CANCELLED: "–",
}
_VIEWS: Final = {status: View(status, status, sign, status) for status, sign in _SIGNS.items()}
_REFUND_VIEWS: Final = {
    progress: View("succeeded", "refunded", "↩\ufe0e", progress) for progress in RefundProgress
}


class Chain(NamedTuple):
    """A chain that wallets may pay on: CAIP-2, its name, and the symbol and name of its coin.

    `node` and `explorer` are public addresses that wallets are given to add the chain.
    """

    id: str
    name: str
    coin: str
    coin_name: str = ""
    node: str = ""
    explorer: str = ""


@dataclass(frozen=True, slots=True)
class Paid:
    """What a buyer paid with, and where: an amount in whole units of a token on a network."""

    value: Decimal
    symbol: str
    network: str


@dataclass(frozen=True, slots=True)
class CheckoutRefund:
    """How far a payment is refunded: `value` of `paid`, in whole units of the paid asset."""

    progress: RefundProgress
    value: Decimal
    paid: Decimal
    symbol: str


@dataclass(frozen=True, slots=True)
class Checkout:
    """What the page tells. `value` is in whole units of `symbol`; times are Unix seconds.

    `back` is where the merchant wants its buyer now: an absolute https URL; with `waits` money may
    still be on its way, and only a tap leads there. `logo` is a path of this host, `wallets` are
    names of apps and addresses with blanks for the link, `accent` is `#rrggbb`, `refused` is the
    name of a text.
    """

    id: str
    merchant: str
    value: Decimal
    symbol: str
    status: Status
    link: str
    live: bool
    expires_at: int
    now_ms: int
    updated_at: int
    app_id: str
    poll_ms: int = 1000
    back: str | None = None
    waits: bool = False
    logo: str | None = None
    accent: str | None = None
    wallets: Sequence[tuple[str, str]] = ()
    chains: Sequence[Chain] = ()
    progress: Progress | None = None
    paid: Paid | None = None
    transaction: Transaction | None = None
    refund: CheckoutRefund | None = None
    panel: Panel | None = None
    refused: str = ""


@dataclass(frozen=True, slots=True)
class _Told:
    """The same as the template shows it, in one language."""

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
    ended_told: str
    refunded: str
    refunded_of: str
    wallets: Sequence[tuple[str, str]] = field(default=())


def page(checkout: Checkout, language: str, theme: str = "", looks: str = "") -> PlainAnswer:
    """The page of a payment.

    `theme` is light, dark, or empty for what the buyer prefers; `looks` is the part of an address
    that has a page shown as this one.
    """
    said = words(language, _NOUN)
    open_ = checkout.status is Status.REQUIRES_ACTION
    return html(
        "payments/checkout.html",
        200,
        _headers(checkout.accent),
        words=said,
        here=f"/{checkout.id}",
        theme=theme,
        looks=looks,
        told=_told(checkout, said),
        views=_views(checkout),
        colours=checkout.accent and accent.style(checkout.accent),
        progress=checkout.progress,
        transaction=checkout.transaction,
        panel=checkout.panel,
        refused=checkout.refused,
        qr=qr.code(checkout.link, said.plain("link.qr")) if open_ else "",
        script=_script(checkout, said),
        said=_scripts_texts(language),
    )


@functools.lru_cache(256)
def _headers(colour: str | None) -> Headers:
    return (*strict(style=accent.style(colour) if colour else None), (b"vary", b"accept-language"))


def _views(checkout: Checkout) -> Sequence[View]:
    """The state as it is, then those that it may turn into while the page is open."""
    shown = _VIEWS[checkout.status]
    if checkout.status is Status.SUCCEEDED and checkout.refund is not None:
        shown = _REFUND_VIEWS[checkout.refund.progress]
    later = checkout.status is Status.REQUIRES_ACTION
    return (shown, _VIEWS[Status.PROCESSING]) if later else (shown,)


def _told(checkout: Checkout, said: Words) -> _Told:
    paid, refund = checkout.paid, checkout.refund
    open_ = checkout.status is Status.REQUIRES_ACTION
    ended = datetime.fromtimestamp(checkout.updated_at, UTC)
    done = checkout.status is Status.SUCCEEDED
    return _Told(
        id=checkout.id,
        merchant=checkout.merchant,
        amount=said.amount(checkout.value, checkout.symbol),
        status=checkout.status,
        link=checkout.link,
        live=checkout.live,
        back=checkout.back,
        logo=checkout.logo,
        until=said.time(checkout.expires_at) if open_ else "",
        paid=None if paid is None else _paid(paid, said),
        ended=ended.isoformat(),
        ended_told=said.time(checkout.updated_at) if done else "",
        refunded=said.amount(_short(refund.value), refund.symbol) if refund else "",
        refunded_of=said.amount(_short(refund.paid), refund.symbol) if refund else "",
        wallets=_wallets(checkout.link, tuple(checkout.wallets)) if open_ else (),
    )


def _paid(paid: Paid, said: Words) -> str:
    return f"{said.amount(_short(paid.value), paid.symbol)}, {paid.network}"


def _short(value: Decimal) -> Decimal:
    """Without zeros at the end, but for two."""
    places = -int(value.normalize().as_tuple().exponent)
    return value.quantize(Decimal(1).scaleb(-max(places, 2)))


def _wallets(link: str, wallets: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    encoded, place = quote(link, safe=""), link.partition("://")[2]
    return [
        (name, url.replace("{url}", encoded).replace("{place}", place)) for name, url in wallets
    ]


def _script(checkout: Checkout, said: Words) -> Mapping[str, Any]:
    """What scripts know: no more than the page shows, and the public id to call the API with."""
    return {
        "id": checkout.id,
        "status": checkout.status,
        "isFinal": checkout.status.is_final,
        "expiresAt": checkout.expires_at,
        "now": checkout.now_ms,
        "pollInMs": checkout.poll_ms,
        "appId": checkout.app_id,
        "merchant": checkout.merchant,
        "waits": checkout.waits,
        "language": said.language,
        "chains": [_chain(chain) for chain in checkout.chains],
    }


def _chain(chain: Chain) -> Mapping[str, str]:
    return {
        "id": chain.id,
        "name": chain.name,
        "coin": chain.coin,
        "coinName": chain.coin_name,
        "node": chain.node,
        "explorer": chain.explorer,
    }


@functools.cache
def _scripts_texts(language: str) -> Script:
    texts = words(language, _NOUN).texts
    told = {
        key.removeprefix(_SCRIPTS): text for key, text in texts.items() if key.startswith(_SCRIPTS)
    }
    return Script.of({**told, "confirmations": texts["confirmations"]})
