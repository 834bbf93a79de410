"""What a buyer's page tells of a payment; whoever has the link may see it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from florin_server.domain.addresses import network_of
from florin_server.domain.payments.payment import Merchant, Payment, Status
from florin_server.domain.urls import with_parameter
from florin_server.flows.app import App
from florin_server.flows.limits.held_answers import Release
from florin_server.flows.payments.load import current, merchant_of, payment_id_of
from florin_server.flows.payments.watch import watch
from florin_server.rails.networks.registry import network
from florin_server.rails.protocol import Rail
from florin_server.store.payments import arrivals

# hashes and signatures; simulated payments have names of another form
_TRANSACTION: Final = re.compile(r"[0-9A-Za-z]{32,128}")


@dataclass(frozen=True, slots=True)
class Progress:
    """Blocks on top of a payment, its own included, and how many of them make it final."""

    seen: int
    needed: int


@dataclass(frozen=True, slots=True)
class Transaction:
    """What paid a payment; `url` shows it to people, None where nobody is known who does."""

    id: str
    url: str | None


async def named(app: App, payment_ref: str) -> Payment | None:
    """The payment that a link names, as it stands; None if there is none."""
    payment_id = payment_id_of(app, payment_ref)
    payment = await app.store.reader.payment(payment_id) if payment_id else None
    return None if payment is None else await current(app, payment)


async def checkout(app: App, payment_ref: str) -> tuple[Payment, Merchant] | None:
    """The payment that a link names, with its merchant; None if there is none."""
    payment = await named(app, payment_ref)
    return None if payment is None else (payment, await merchant_of(app, payment))


def back_to_shop(payment: Payment) -> str | None:
    """Where the merchant wants its buyer once a payment is over, with the payment's id.

    None before that, and if the merchant did not say.
    """
    if not payment.status.is_final:
        return None
    paid = payment.status is Status.SUCCEEDED
    url = payment.success_url if paid else payment.error_url
    return with_parameter(url, "payment_id", payment.id) if url else None


async def may_receive_money(app: App, payment: Payment) -> bool:
    """Return whether money may still be on its way to a payment that ended without success.

    True once a wallet handed in a signature or a transaction, or fetched what it may send, and if
    money came late.
    """
    if not payment.status.is_final or payment.status is Status.SUCCEEDED:
        return False
    return await app.store.read(arrivals.has_traces(payment.id))


def progress(app: App, payment: Payment) -> Progress | None:
    """How far a payment is on its chain; None where nothing is seen between nothing and its end.

    That is so on chains whose blocks are not read one by one, and where another process settles.
    """
    rail = app.rails.get(chain_of(payment))
    if payment.status is not Status.PROCESSING or rail is None or rail.blocks is None:
        return None
    block = app.chains[rail.chain_id].paid_in.get(payment.id)
    settler = app.settlers.get(rail.chain_id)
    asset = (payment.option_unit or "").removeprefix("caip19/")
    needed = rail.depth_of(asset, payment.option_value or 0)
    if block is None or settler is None:
        return Progress(0, needed)
    return Progress(max(0, min(settler.head - block + 1, needed)), needed)


def transaction(app: App, payment: Payment) -> Transaction | None:
    """What paid a succeeded payment; None for one whose success was simulated."""
    tx_id = payment.tx_id
    if payment.status is not Status.SUCCEEDED or tx_id is None or not _TRANSACTION.fullmatch(tx_id):
        return None
    shown = app.settings.checkout.explorers.get(chain_of(payment))
    return Transaction(tx_id, shown and shown.replace("{tx}", tx_id))


def find_coin(rail: Rail) -> tuple[str, str] | None:
    """Return symbol and name of what gas is paid with, if it is taken or registered."""
    if (taken := rail.assets.get(rail.native_asset)) is not None:
        return taken.symbol, taken.name
    known = network(rail.chain_id)
    money = None if known is None else known.gas_money
    return (money.symbol, money.name) if money else None


def find_registered(asset: str) -> tuple[int, str] | None:
    """Return decimals and symbol of a token (CAIP-19) of the registry, taken or not."""
    chain_id, _, name = asset.rpartition("/")
    known = network(chain_id)
    token = None if known is None else known.at(name.rpartition(":")[2])
    if token is None or token.decimals is None:
        return None
    return token.decimals, token.symbol


def chain_of(payment: Payment) -> str:
    """CAIP-2 of the chain that a payment is paid on; empty before its confirm."""
    return (payment.option_unit or "").removeprefix("caip19/").rpartition("/")[0]


def follow(
    app: App, payment: Payment, after_version: int | None, peer: str
) -> tuple[AsyncIterator[Payment], Release]:
    """The states of a payment for a page, and what gives the page's place back.

    FlorinError(rate_limited) if the payment, or the address of `peer`, has no place left.
    """
    release = app.limits.held.by_page(network_of(peer), payment.id)
    return watch(app, payment, after_version), release
