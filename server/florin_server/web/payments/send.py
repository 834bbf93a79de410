"""Addresses of a payment on its checkout page: opening one, and what arrived there."""

from __future__ import annotations

from decimal import Decimal
from typing import Final, Protocol

from florin_server.accounts.service.wallets import create_checkout_caller
from florin_server.base.context import EventContext, MeterContext
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.db.context import StorageContext
from florin_server.domain.addresses import get_peer_network
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import Payment, PaymentStatus
from florin_server.limits.context import LimitContext
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.context import UsageContext
from florin_server.money.payments.service.address_state import (
    AddressView,
    PaymentAddressState,
    load_address_state,
)
from florin_server.money.payments.service.addresses import list_address_assets, open_addresses
from florin_server.money.payments.service.price import find_price
from florin_server.operations.context import WorkerContext
from florin_server.rails.context import ChainContext
from florin_server.rails.types import Asset
from florin_server.settings.context import SettingsContext
from florin_server.web.payments.send_box import NO_ADDRESSES, SendAddress, SendAsset, SendData

ASSET_PARAMETER: Final = "asset"


class _Context(
    ArchiveContext,
    ChainContext,
    EventContext,
    LimitContext,
    MeterContext,
    ScreeningContext,
    SettingsContext,
    StorageContext,
    UsageContext,
    WorkerContext,
    Protocol,
):
    """The parts of the application that this module uses."""


async def open_address(app: _Context, payment: Payment, asset_id: str, peer: str) -> str:
    """Open an address of a payment for an asset (CAIP-19).

    Return the message key of the refusal; empty without one.
    """
    network = get_peer_network(peer)
    caller = await create_checkout_caller(app, live=payment.live, network=network, use="page")
    try:
        await open_addresses(app, caller, payment.id, [asset_id])
    except ApiError as error:
        if error.details.get("reason") == "too_small":
            return "send.refused.small"
        if error.code is ErrorCode.RATE_LIMITED:
            return "send.refused.busy"
        return "send.refused"
    return ""


async def load(app: _Context, payment: Payment, chosen: str | None, refusal_key: str) -> SendData:
    """Return what the page shows about addresses; `chosen` is the asset (CAIP-19) in its link."""
    if payment.status is not PaymentStatus.REQUIRES_ACTION:
        return NO_ADDRESSES
    assets = [
        _to_asset(asset, price.value)
        for asset in list_address_assets(app, payment)
        if (price := find_price(app, payment, asset)) is not None
    ]
    state = await load_address_state(app, payment)
    view = _select(state, chosen)
    address = None if view is None else _to_address(app, view)
    return SendData(assets, address, _describe_received(state), refusal_key)


async def find_received(app: _Context, payment: Payment) -> str | None:
    """Return what arrived at the addresses of an open payment, in minor units of each.

    None without an address. Scripts compare it only.
    """
    if payment.status is not PaymentStatus.REQUIRES_ACTION:
        return None
    state = await load_address_state(app, payment)
    return _describe_received(state) or None


def _describe_received(state: PaymentAddressState) -> str:
    return " ".join(str(view.totals.received) for view in state.addresses)


def _select(state: PaymentAddressState, chosen: str | None) -> AddressView | None:
    """Return the address to show: that with money in it, that of the link, or the newest."""
    if not state.addresses:
        return None
    holding = [view for view in state.addresses if view.totals.received]
    linked = [view for view in state.addresses if view.asset == chosen]
    return (holding or linked or state.addresses)[-1]


def _to_asset(asset: Asset, value: int) -> SendAsset:
    whole = Decimal(value).scaleb(-asset.decimals)
    return SendAsset(asset.id, asset.symbol, asset.chain_id, asset.network_name, whole)


def _to_address(app: ChainContext, view: AddressView) -> SendAddress | None:
    rail = app.rails.get(view.asset.partition("/")[0])
    asset = None if rail is None else rail.assets.get(view.asset)
    if asset is None:
        return None

    def scale(value: int) -> Decimal:
        return Decimal(value).scaleb(-asset.decimals)

    return SendAddress(
        asset=_to_asset(asset, view.value),
        address=view.address,
        uri=view.uri,
        expires_at=view.expires_at,
        received=scale(view.totals.received),
        missing=scale(view.totals.missing),
    )
