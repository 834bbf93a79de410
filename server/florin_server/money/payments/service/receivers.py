"""The receivers of a payment's money, and what keeps them from taking it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from florin_server.accounts.service.own_accounts import find_reserved_role
from florin_server.accounts.store import destinations
from florin_server.db.context import StorageContext
from florin_server.domain.accounts.destinations import AssetAccount
from florin_server.domain.caip import canonicalize_account, canonicalize_asset
from florin_server.domain.money import compute_share
from florin_server.rails.context import ChainContext
from florin_server.rails.protocol import Rail
from florin_server.rails.types import Asset, Split
from florin_server.settings.context import SettingsContext


def normalize_asset(asset: str) -> str:
    """Return an asset in the form of settlements."""
    return canonicalize_asset(asset, checksum=False)


async def read_destinations(app: StorageContext, merchant_id: str) -> dict[str, str]:
    """Return the accounts (CAIP-10) at which a merchant is paid, by normalized asset."""
    return {
        item.asset_key: canonicalize_account(item.account)
        for item in await app.store.read(destinations.list_destinations(merchant_id))
    }


def compute_split(  # noqa: PLR0917  (one of each, none alike)
    app: SettingsContext,
    rail: Rail,
    asset: str,
    value: int,
    fixed_fee: int,
    accounts_by_asset: Mapping[str, str],
) -> Split:
    """Return the receivers of a value; `accounts_by_asset` are the merchant's destinations."""
    fee = min(fixed_fee + compute_share(value, app.settings.fee_basis_points), value)
    own = accounts_by_asset.get(normalize_asset(asset))
    # without a merchant's destination the treasury receives the money for it
    return Split(own or rail.treasury, rail.treasury if fee else None, fee, settled=own is not None)


async def find_receiver_obstacle(  # noqa: PLR0917  (one of each, none alike)
    app: ChainContext,
    rail: Rail,
    asset: Asset,
    value: int,
    split: Split,
    openable_accounts: Collection[AssetAccount] = (),
) -> str | None:
    """Return why the receivers of a split cannot take a value, or must not; None if they can."""
    if split.settled and (what := find_reserved_role(app.rails.values(), split.dest)):
        return f"the merchant's settlement destination {split.dest} is {what}"
    return await rail.offers.check_receivable(asset, value, split, openable_accounts)
