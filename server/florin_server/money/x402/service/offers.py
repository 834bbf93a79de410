"""The ways in which programs can pay a payment by x402.

On EVM chains the transfer goes to an address of the payment, and Florin forwards it. On Solana it
goes to the merchant, with the payment's address as its note, where Florin takes no fee.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from florin_server.accounts.service.wallets import create_checkout_caller
from florin_server.base.context import EventContext, MeterContext
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.db.context import StorageContext
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.caip import format_checksum_address
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import Payment, PaymentOption
from florin_server.domain.x402.messages import X402Requirements
from florin_server.limits.context import LimitContext
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.context import UsageContext
from florin_server.money.payments.service.addresses import (
    has_unread_chain,
    list_address_assets,
    open_addresses,
)
from florin_server.money.payments.service.load import chain_unavailable_error
from florin_server.money.payments.service.transfer_request import (
    has_unread_transfers,
    list_transfer_assets,
    open_transfer,
)
from florin_server.money.x402.service.transfers import get_address
from florin_server.operations.context import WorkerContext
from florin_server.rails.context import ChainContext
from florin_server.rails.types import Asset
from florin_server.settings.context import SettingsContext


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


class _AssetContext(ChainContext, SettingsContext, StorageContext, WorkerContext, Protocol):
    """The parts of the application that the list of assets needs."""


# the tokens' own transfers by signature, which clients sign unless another method is named
_DEFAULT_METHOD: Final = "eip3009"
# a transfer needs time to be sent, seen and forwarded before the payment's end
_ADDRESS_LAST_S: Final = 30
# what was sent to the merchant lands until its blockhash expires, and late money is the merchant's
_TRANSFER_LAST_S: Final = 60
_TIMEOUT_MAX_S: Final = 300


@dataclass(frozen=True, slots=True)
class X402Offer:
    """A way to pay a payment, and until when a transfer for it can be sent, in Unix seconds."""

    requirements: X402Requirements
    until_s: int


async def accepts_x402(app: _AssetContext, payment: Payment) -> bool:
    """Return whether programs can pay a payment by x402, as far as is known here."""
    return bool(_list_address_assets(app, payment) or await _list_transfer_assets(app, payment))


async def may_accept_x402(app: _AssetContext, payment: Payment) -> bool:
    """Return whether programs can pay a payment by x402, or could if a chain answered."""
    return await _has_unread_chain(app, payment) or await accepts_x402(app, payment)


async def _has_unread_chain(app: _AssetContext, payment: Payment) -> bool:
    return has_unread_chain(app, payment) or await has_unread_transfers(app, payment)


async def list_offers(app: _Context, payment: Payment, network: str) -> list[X402Offer]:
    """Return the ways to pay a payment by x402; ApiError if there is no way now.

    `network` is the network of the call, as limits count addresses.
    """
    caller = await create_checkout_caller(app, live=payment.live, network=network, use="x402")
    offers: list[X402Offer] = []
    refusal: ApiError | None = None
    assets = [(asset, _open_address) for asset in _list_address_assets(app, payment)]
    assets += [(asset, _open_transfer) for asset in await _list_transfer_assets(app, payment)]
    for asset, open_offer in assets:
        try:
            offer = await open_offer(app, caller, payment, asset)
        except ApiError as error:
            # another asset may have a way
            refusal = refusal or error
            continue
        if offer is not None:
            offers.append(offer)
    if not offers:
        if refusal is None and await _has_unread_chain(app, payment):
            # a program that reads a refusal gives up
            raise chain_unavailable_error()
        text = "Payment cannot be paid by x402: open its payment link instead"
        raise refusal or ApiError(ErrorCode.INVALID_STATE, text)
    return offers


def _list_address_assets(app: _AssetContext, payment: Payment) -> list[Asset]:
    """Return the assets whose transfers programs can sign for an address of the payment."""
    return [
        asset
        for asset in list_address_assets(app, payment)
        if asset.method in app.rails[asset.chain_id].facilitator.methods
    ]


async def _list_transfer_assets(app: _AssetContext, payment: Payment) -> list[Asset]:
    """Return the tokens that programs can transfer to the merchant."""
    return [
        item.asset
        for item in await list_transfer_assets(app, payment)
        if item.asset.id != app.rails[item.asset.chain_id].native_asset
    ]


async def _open_address(
    app: _Context, caller: Caller, payment: Payment, asset: Asset
) -> X402Offer | None:
    (address,) = await open_addresses(app, caller, payment.id, [asset.id])
    option = address.opened.option
    return _build_offer(
        app,
        payment,
        option,
        _ADDRESS_LAST_S,
        asset=format_checksum_address(asset.address),
        pay_to=get_address(option.account),
        extra=_build_extra(asset),
    )


async def _open_transfer(
    app: _Context, caller: Caller, payment: Payment, asset: Asset
) -> X402Offer | None:
    option, rail = await open_transfer(app, caller, payment, asset.id), app.rails[asset.chain_id]
    return _build_offer(
        app,
        payment,
        option,
        _TRANSFER_LAST_S,
        asset=asset.address,
        pay_to=get_address(rail.terms.get_split(option).dest),
        extra={**rail.facilitator.extra, "memo": get_address(option.account)},
    )


def _build_offer(
    app: _Context,
    payment: Payment,
    option: PaymentOption,
    last_s: int,
    *,
    asset: str,
    pay_to: str,
    extra: Mapping[str, Any],
) -> X402Offer | None:
    """Return the offer of an option; None if too little time is left."""
    end = min(option.expires_at or payment.expires_at, payment.expires_at) - last_s
    left_s = end - app.clock.now_us() // 1_000_000
    if left_s <= 0:
        return None
    requirements = X402Requirements(
        network=option.chain_id,
        asset=asset,
        amount=option.value,
        pay_to=pay_to,
        timeout_s=min(left_s, _TIMEOUT_MAX_S),
        extra=extra,
    )
    return X402Offer(requirements, end)


def _build_extra(asset: Asset) -> dict[str, str]:
    """Return what clients need to sign a transfer of the asset."""
    if asset.method != _DEFAULT_METHOD:
        return {"assetTransferMethod": asset.method}
    return {"name": asset.domain_name, "version": asset.domain_version or ""}
