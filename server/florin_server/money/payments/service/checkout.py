"""Data of a payment for its page, which everyone with the link can see."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, Protocol

from florin_server.base.context import EventContext
from florin_server.db.context import StorageContext
from florin_server.domain.addresses import get_peer_network
from florin_server.domain.payments.payment import Merchant, Payment, PaymentStatus, Refund
from florin_server.domain.settlement.settle_times import round_promise
from florin_server.domain.urls import add_query_parameter
from florin_server.limits.context import LimitContext
from florin_server.limits.service.stream_limits import Release
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.payments.service.load import find_payment_id, get_merchant, load_payment
from florin_server.money.payments.service.watch import watch
from florin_server.money.payments.service.ways import describe_delay, find_usual_s
from florin_server.money.payments.store import arrivals
from florin_server.operations.context import WorkerContext
from florin_server.rails.context import ChainContext
from florin_server.rails.networks.registry import find_network
from florin_server.rails.protocol import Rail
from florin_server.settings.context import SettingsContext


class _Context(
    ArchiveContext,
    ChainContext,
    EventContext,
    LimitContext,
    SettingsContext,
    StorageContext,
    WorkerContext,
    Protocol,
):
    """The parts of the application that this module uses."""


# hashes and signatures; simulated payments have names of another form
_TRANSACTION_ID: Final = re.compile(r"[0-9A-Za-z]{32,128}")


@dataclass(frozen=True, slots=True)
class ConfirmationProgress:
    """Blocks on top of a payment, its own included, and how many of them make it final.

    `is_delayed` is true if nothing can be sent for the payment at present: its chain has stopped,
    or its relayers are paused or lack coin.
    """

    confirmations: int
    required_confirmations: int
    is_delayed: bool = False


@dataclass(frozen=True, slots=True)
class CheckoutTransaction:
    """The transaction that paid a payment; `url` is its page in an explorer, None without one."""

    id: str
    url: str | None


async def find_payment(app: _Context, payment_ref: str) -> Payment | None:
    """Return the payment of a link at present; None if it does not exist."""
    payment_id = find_payment_id(app, payment_ref)
    return await load_payment(app, payment_id) if payment_id else None


async def find_checkout(app: _Context, payment_ref: str) -> tuple[Payment, Merchant] | None:
    """Return the payment of a link, with its merchant; None if it does not exist."""
    payment = await find_payment(app, payment_ref)
    return None if payment is None else (payment, await get_merchant(app, payment))


def find_return_url(payment: Payment) -> str | None:
    """Return the merchant's URL for its buyer after the payment's end, with the payment's id.

    None before the end, and without such a URL.
    """
    if not payment.status.is_final:
        return None
    paid = payment.status is PaymentStatus.SUCCEEDED
    url = payment.success_url if paid else payment.error_url
    return add_query_parameter(url, "payment_id", payment.id) if url else None


async def may_receive_money(app: StorageContext, payment: Payment) -> bool:
    """Return whether a payment that ended without success can still receive money.

    True once a wallet confirmed with a signature or a transaction, or fetched what it can send, and
    if money arrived late.
    """
    if not payment.status.is_final or payment.status is PaymentStatus.SUCCEEDED:
        return False
    return await app.store.read(arrivals.has_traces(payment.id))


def find_progress(app: _Context, payment: Payment) -> ConfirmationProgress | None:
    """Return the progress of a payment on its chain; None where no progress is visible.

    That is so on chains whose blocks are not read one by one, and where another process settles.
    """
    rail = app.rails.get(get_chain_id(payment))
    if payment.status is not PaymentStatus.PROCESSING or rail is None or rail.blocks is None:
        return None
    block = app.chains[rail.chain_id].paying_blocks.get(payment.id)
    settler = app.settlers.get(rail.chain_id)
    asset = (payment.option_unit or "").removeprefix("caip19/")
    needed = rail.depth_of(asset, payment.option_value or 0)
    if block is None or settler is None:
        return ConfirmationProgress(0, needed, is_delayed=bool(describe_delay(app, rail)))
    return ConfirmationProgress(max(0, min(settler.head - block + 1, needed)), needed)


def find_processing_s(app: ChainContext, payment: Payment) -> int | None:
    """Return the whole seconds that a payment usually takes; None unless it is processing."""
    if payment.status is not PaymentStatus.PROCESSING:
        return None
    usual_s = find_usual_s(app, payment)
    return None if usual_s is None else round_promise(usual_s)


def find_transaction(app: SettingsContext, payment: Payment) -> CheckoutTransaction | None:
    """Return the transaction of a succeeded payment; None for a simulated success."""
    tx_id = payment.tx_id
    if (
        payment.status is not PaymentStatus.SUCCEEDED
        or tx_id is None
        or not _TRANSACTION_ID.fullmatch(tx_id)
    ):
        return None
    return _link_transaction(app, get_chain_id(payment), tx_id)


def find_refund_transaction(
    app: SettingsContext, payment: Payment, refund: Refund
) -> CheckoutTransaction | None:
    """Return the transaction of a refund; None before it has one, and for a simulated refund."""
    if refund.tx_id is None or not _TRANSACTION_ID.fullmatch(refund.tx_id):
        return None
    return _link_transaction(app, get_chain_id(payment), refund.tx_id)


def _link_transaction(app: SettingsContext, chain_id: str, tx_id: str) -> CheckoutTransaction:
    explorer_url = app.settings.checkout.explorers.get(chain_id)
    return CheckoutTransaction(tx_id, explorer_url and explorer_url.replace("{tx}", tx_id))


def find_coin(rail: Rail) -> tuple[str, str] | None:
    """Return symbol and name of what gas is paid with, if it is taken or registered."""
    if (taken := rail.assets.get(rail.native_asset)) is not None:
        return taken.symbol, taken.name
    network = find_network(rail.chain_id)
    money = None if network is None else network.gas_money
    return (money.symbol, money.name) if money else None


def find_registered(asset: str) -> tuple[int, str] | None:
    """Return decimals and symbol of a token (CAIP-19) of the registry, taken or not."""
    chain_id, _, name = asset.rpartition("/")
    network = find_network(chain_id)
    token = None if network is None else network.find_token_at(name.rpartition(":")[2])
    if token is None or token.decimals is None:
        return None
    return token.decimals, token.symbol


def get_chain_id(payment: Payment) -> str:
    """Return the CAIP-2 id of the chain of a payment; empty before its confirm."""
    return (payment.option_unit or "").removeprefix("caip19/").rpartition("/")[0]


def follow(
    app: _Context, payment: Payment, after_version: int | None, peer: str
) -> tuple[AsyncIterator[Payment], Release]:
    """Return the states of a payment for a page, and what gives the page's place back.

    ApiError(rate_limited) if the payment, or the address of `peer`, has no place left.
    """
    release = app.limits.streams.hold_for_page(get_peer_network(peer), payment.id)
    return watch(app, payment, after_version), release
