"""What the checkout page shows about sending to an address: assets, the address, what arrived."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, NamedTuple

from markupsafe import Markup

from florin_server.web.language import Translations, trim_zeros
from florin_server.web.payments import qr

# characters that buyers compare, at each end of an address
_SHOWN: Final = (6, 4)


class SendAsset(NamedTuple):
    """An asset that can be sent to an address: CAIP-19, and its price in whole units."""

    id: str
    symbol: str
    chain_id: str
    network: str
    value: Decimal


@dataclass(frozen=True, slots=True)
class SendAddress:
    """An address of a payment, with its asset at the price of the address.

    `received` and `missing` are in whole units; `expires_at` is in Unix seconds. `uri` is
    the link that wallets read.
    """

    asset: SendAsset
    address: str
    uri: str
    expires_at: int
    received: Decimal
    missing: Decimal


@dataclass(frozen=True, slots=True)
class SendData:
    """The assets that can have an address, and the address to show.

    `received` changes with what arrives, and `refusal_key` is a message key.
    """

    assets: Sequence[SendAsset] = ()
    address: SendAddress | None = None
    received: str = ""
    refusal_key: str = ""


NO_ADDRESSES: Final = SendData()


class SendAssetRow(NamedTuple):
    """An asset in the words of one language."""

    id: str
    symbol: str
    chain_id: str
    network: str
    amount: str


@dataclass(frozen=True, slots=True)
class SendAddressRow:
    """An address in the words of one language; `digits` is the amount to copy."""

    symbol: str
    network: str
    amount: str
    digits: str
    address: str
    start: str
    middle: str
    end: str
    code: Markup
    until: str
    received: str
    missing: str
    has_received: bool


@dataclass(frozen=True, slots=True)
class SendBox:
    """The section of the page about addresses, in one language."""

    assets: Sequence[SendAssetRow]
    address: SendAddressRow | None
    received: str
    refusal_key: str


def build_send_box(send: SendData, translations: Translations) -> SendBox | None:
    """Return the section in one language; None without an asset that can have an address."""
    if not send.assets and send.address is None:
        return None
    shown = send.address
    return SendBox(
        # two addresses with money in them would pay once, and return the rest
        assets=()
        if shown and shown.received
        else [
            _to_asset_row(asset, translations)
            for asset in send.assets
            if shown is None or asset.id != shown.asset.id
        ],
        address=None if shown is None else _to_address_row(shown, translations),
        received=send.received,
        refusal_key=send.refusal_key,
    )


def _to_asset_row(asset: SendAsset, translations: Translations) -> SendAssetRow:
    amount = translations.format_amount(trim_zeros(asset.value), asset.symbol)
    return SendAssetRow(asset.id, asset.symbol, asset.chain_id, asset.network, amount)


def _to_address_row(shown: SendAddress, translations: Translations) -> SendAddressRow:
    asset, address = shown.asset, shown.address
    start, end = _SHOWN
    # what has arrived need not be sent again
    value = trim_zeros(shown.missing or asset.value)
    return SendAddressRow(
        symbol=asset.symbol,
        network=asset.network,
        amount=translations.format_amount(value, asset.symbol),
        digits=f"{value:f}",
        address=address,
        start=address[:start],
        middle=address[start:-end],
        end=address[-end:],
        code=qr.render_code(shown.uri, translations.plain("send.qr")),
        until=translations.format_time(shown.expires_at),
        received=translations.format_amount(trim_zeros(shown.received), asset.symbol),
        missing=translations.format_amount(trim_zeros(shown.missing), asset.symbol),
        has_received=bool(shown.received),
    )
