"""The assets that can pay a payment before a wallet names its accounts, and obstacles of chains.

Nothing here calls a node: pages show the assets to everyone with the link.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from florin_server.db.context import StorageContext
from florin_server.domain.payments.payment import Payment, PaymentStatus
from florin_server.domain.settlement.settle_times import round_promise
from florin_server.money.payments.service.conversion import find_fixed_fee
from florin_server.money.payments.service.price import find_price
from florin_server.operations.context import WorkerContext
from florin_server.rails.context import ChainContext
from florin_server.rails.protocol import Rail
from florin_server.rails.types import Asset
from florin_server.settings.context import SettingsContext


class _Context(ChainContext, SettingsContext, StorageContext, WorkerContext, Protocol):
    """The parts of the application that this module uses."""


class NetworkFee(StrEnum):
    """The payer of the network's fee of a payment."""

    # the installation sends the transaction
    NONE = "none"
    # the wallet may send one transaction first, which allows the payment
    ALLOWANCE = "allowance"
    WALLET = "wallet"


# by the method of an asset; wallets send the transactions of all others
_FEES = {
    **dict.fromkeys(("eip3009", "solana"), NetworkFee.NONE),
    "permit2": NetworkFee.ALLOWANCE,
}


@dataclass(frozen=True, slots=True)
class PaymentWay:
    """An asset that can pay a payment: its price in minor units, and the usual seconds."""

    asset: Asset
    value: int
    network_fee: NetworkFee
    eta_s: int


def list_ways(app: _Context, payment: Payment) -> Sequence[PaymentWay]:
    """List what a payment can be paid with at present, the cheapest and fastest first.

    Options of accounts can differ: balances, and receivers that refuse an asset, are unknown here.
    """
    if payment.status is not PaymentStatus.REQUIRES_ACTION:
        return []
    ways = [
        way
        for rail in app.rails.values()
        if rail.live is payment.live and not describe_delay(app, rail)
        for asset in rail.assets.values()
        if (way := _find_way(app, payment, rail, asset)) is not None
    ]
    order = list(NetworkFee)
    return sorted(ways, key=lambda way: (order.index(way.network_fee), way.eta_s))


def find_usual_s(app: ChainContext, payment: Payment) -> float | None:
    """Return the usual seconds from confirm to final on the chain of a payment's option.

    None before its confirm, and for a chain that is not configured.
    """
    asset = (payment.option_unit or "").removeprefix("caip19/")
    rail = app.rails.get(asset.rpartition("/")[0])
    if rail is None:
        return None
    usual_s = app.chains[rail.chain_id].get_promised_s(rail.eta_s, rail.eta_s)
    return usual_s + rail.extra_wait_s(asset, payment.option_value or 0)


def describe_delay(app: _Context, rail: Rail) -> str:
    """Return in a sentence why a chain can settle no payment at present; empty if it can.

    Coin that is missing counts as far as it was noticed.
    """
    return describe_obstacle(app, rail) or app.chains[rail.chain_id].funding_problem


def describe_obstacle(app: _Context, rail: Rail) -> str:
    """Return in a sentence why a chain is not offered, its coin aside; empty if it is.

    A payment that cannot be sent could lapse before the chain or the relayer works again.
    """
    state = app.chains[rail.chain_id]
    return (
        rail.nodes.stall_problem
        or state.describe_settlement_problem(app.clock.steady_us())
        or ("the operator paused every relayer" if _is_relaying_paused(app, rail) else "")
    )


def _is_relaying_paused(app: WorkerContext, rail: Rail) -> bool:
    senders = (app.executors.get(f"{rail.chain_id}:{address}") for address in rail.senders)
    return all(sender is not None and sender.is_paused for sender in senders)


def _find_way(app: _Context, payment: Payment, rail: Rail, asset: Asset) -> PaymentWay | None:
    price = find_price(app, payment, asset)
    # an unknown fee is not 0
    if price is None or find_fixed_fee(app, payment, asset) is None:
        return None
    promised_s = app.chains[rail.chain_id].get_promised_s(rail.eta_s, rail.eta_s)
    eta_s = round_promise(promised_s + rail.extra_wait_s(asset.id, price.value))
    network_fee = _FEES.get(asset.method, NetworkFee.WALLET)
    return PaymentWay(asset, price.value, network_fee, eta_s)
