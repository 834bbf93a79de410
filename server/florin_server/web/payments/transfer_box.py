"""The section of the checkout page about transfers that Solana wallets make from a link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, NamedTuple, Protocol

from markupsafe import Markup

from florin_server.accounts.service.wallets import create_checkout_caller
from florin_server.base.context import EventContext, MeterContext
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.db.context import StorageContext
from florin_server.domain.addresses import get_peer_network
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import Merchant, Payment, PaymentStatus
from florin_server.limits.context import LimitContext
from florin_server.money.context import UsageContext
from florin_server.money.payments.service.address_state import load_address_state
from florin_server.money.payments.service.transfer_request import (
    TransferLink,
    find_link,
    list_transfer_assets,
    open_link,
)
from florin_server.operations.context import WorkerContext
from florin_server.rails.context import ChainContext
from florin_server.rails.types import Asset
from florin_server.settings.context import SettingsContext
from florin_server.web.language import Translations, trim_zeros
from florin_server.web.payments import qr

TRANSFER_PARAMETER: Final = "transfer"


class _Context(
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


class TransferAmount(NamedTuple):
    """An amount in whole units of an asset (CAIP-19)."""

    id: str
    symbol: str
    value: Decimal


@dataclass(frozen=True, slots=True)
class TransferData:
    """The assets that can be transferred, the link to show, and what came and pays nothing.

    `refusal_key` is a message key.
    """

    assets: Sequence[TransferAmount] = ()
    chosen: TransferAmount | None = None
    url: str = ""
    wrong: Sequence[TransferAmount] = ()
    refusal_key: str = ""


NO_TRANSFERS: Final = TransferData()


class TransferBox(NamedTuple):
    """The section in one language: buttons as (asset, text), the code, and what is shown of it."""

    buttons: Sequence[tuple[str, str]]
    url: str
    code: Markup
    amount: str
    wrong: Sequence[str]
    refusal_key: str


async def open_transfer(
    app: _Context, payment: Payment, merchant: Merchant, asset_id: str, peer: str
) -> str:
    """Open the link of a payment for an asset (CAIP-19).

    Return the message key of the refusal; empty without one.
    """
    network = get_peer_network(peer)
    caller = await create_checkout_caller(app, live=payment.live, network=network, use="page")
    try:
        await open_link(app, caller, payment, merchant, asset_id)
    except ApiError as error:
        is_busy = error.code is ErrorCode.RATE_LIMITED
        return "send.refused.busy" if is_busy else "send.refused"
    return ""


async def load_transfers(
    app: _Context, payment: Payment, merchant: Merchant, chosen: str | None, refusal_key: str
) -> TransferData:
    """Return what the page shows; `chosen` is the asset (CAIP-19) in its link."""
    if payment.status is not PaymentStatus.REQUIRES_ACTION:
        return NO_TRANSFERS
    usable = await list_transfer_assets(app, payment)
    if not usable:
        return NO_TRANSFERS
    link = await find_link(app, payment, merchant, chosen) if chosen else None
    state = await load_address_state(app, payment)
    assets = {asset.id: asset for rail in app.rails.values() for asset in rail.assets.values()}
    accounts = {f"{item.asset.chain_id}:" for item in usable}
    return TransferData(
        assets=[_to_amount(item.asset, item.value) for item in usable],
        chosen=None if link is None else _to_chosen(link, assets),
        url="" if link is None else link.uri,
        wrong=[
            _to_amount(asset, item.recorded.deposit.value)
            for item in state.deposits
            if any(item.address.startswith(account) for account in accounts)
            and (asset := assets.get(item.recorded.deposit.asset)) is not None
        ],
        refusal_key=refusal_key,
    )


def build_transfer_box(transfers: TransferData, translations: Translations) -> TransferBox | None:
    """Return the section in one language; None without an asset that can be transferred."""
    if not transfers.assets:
        return None

    def format_amount(amount: TransferAmount) -> str:
        return translations.format_amount(trim_zeros(amount.value), amount.symbol)

    chosen = transfers.chosen
    return TransferBox(
        [
            (amount.id, format_amount(amount))
            for amount in transfers.assets
            if chosen is None or amount.id != chosen.id
        ],
        transfers.url,
        qr.render_code(transfers.url, translations.plain("solana.qr"))
        if transfers.url
        else Markup(),
        "" if chosen is None else format_amount(chosen),
        [format_amount(amount) for amount in transfers.wrong],
        transfers.refusal_key,
    )


def _to_amount(asset: Asset, value: int) -> TransferAmount:
    return TransferAmount(asset.id, asset.symbol, Decimal(value).scaleb(-asset.decimals))


def _to_chosen(link: TransferLink, assets: dict[str, Asset]) -> TransferAmount | None:
    asset = assets.get(link.option.asset)
    return None if asset is None else _to_amount(asset, link.option.value)
