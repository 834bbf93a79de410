"""Decimals of assets, from settings and known networks; no chain is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from florin_server.domain.caip import canonicalize_asset, parse_asset
from florin_server.domain.money import CURRENCIES
from florin_server.rails.networks.embedded import EMBEDDED_EVM, EMBEDDED_SOLANA
from florin_server.rails.networks.known_networks import NETWORKS
from florin_server.settings import Settings

_FIAT, _ASSET = "iso4217/", "caip19/"
# coins: 18 digits on every EVM chain, nine on Solana
_COINS = {"eip155": 18, "solana": 9}


def build_decimals_finder(settings: Settings) -> Callable[[str], int | None]:
    """Return a finder of the decimals of a unit or a CAIP-19 asset; None if unknown."""
    decimals_by_asset = {
        canonicalize_asset(asset, checksum=False): digits
        for asset, digits in _list_token_decimals(settings)
    }

    @cache
    def find_decimals(unit: str) -> int | None:
        if unit.startswith(_FIAT):
            currency = CURRENCIES.get(unit.removeprefix(_FIAT))
            return None if currency is None else currency.decimals
        try:
            asset = parse_asset(unit.removeprefix(_ASSET))
            decimals = decimals_by_asset.get(canonicalize_asset(str(asset), checksum=False))
        except ValueError:
            return None
        if decimals is None and asset.namespace == "slip44":
            return _COINS.get(asset.chain.namespace)
        return decimals

    return find_decimals


def _list_token_decimals(settings: Settings) -> Iterator[tuple[str, int]]:
    """Let the last entry win: the operator knows best."""
    for network in NETWORKS:
        for token in network.tokens:
            if token.decimals is not None:
                yield network.to_asset_id(token.address), token.decimals
    for embedded_token in EMBEDDED_EVM.tokens:
        asset_id = f"{EMBEDDED_EVM.chain_id}/erc20:{embedded_token.address}"
        yield asset_id, embedded_token.decimals
    for mint in EMBEDDED_SOLANA.tokens:
        yield f"{EMBEDDED_SOLANA.chain_id}/token:{mint.address}", mint.decimals
    for chain in settings.chains:
        for asset in chain.assets:
            yield f"{chain.caip2}/erc20:{asset.address}", asset.decimals
    for cluster in settings.solana_chains:
        for spl in cluster.assets:
            yield f"{cluster.caip2}/token:{spl.mint}", spl.decimals
