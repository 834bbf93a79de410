"""Names and decimals of assets, from settings and known networks; no chain is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

from florin_server.domain.caip import canonicalize_asset, parse_asset
from florin_server.domain.money import CURRENCIES
from florin_server.domain.reports.assets import (
    FindReportAsset,
    ReportAsset,
    make_unknown_asset,
)
from florin_server.rails.networks.embedded import EMBEDDED_EVM, EMBEDDED_SOLANA
from florin_server.rails.networks.known_networks import NETWORKS
from florin_server.settings import Settings

_FIAT, _ASSET = "iso4217/", "caip19/"
# coins: 18 digits on every EVM chain, nine on Solana
_COINS = {"eip155": 18, "solana": 9}


def build_decimals_finder(settings: Settings) -> Callable[[str], int | None]:
    """Return a finder of the decimals of a unit or a CAIP-19 asset; None if unknown."""
    decimals_by_asset = {asset.id: asset.decimals for asset in _list_assets(settings)}

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


def build_asset_finder(settings: Settings) -> FindReportAsset:
    """Return a finder of the names of CAIP-19 assets; it never fails."""
    assets = {asset.id: asset for asset in _list_assets(settings)}
    chains = {asset.id.partition("/")[0]: asset for asset in assets.values()}

    @cache
    def find_asset(text: str) -> ReportAsset:
        try:
            asset_id = parse_asset(canonicalize_asset(text, checksum=False))
        except ValueError:
            return make_unknown_asset(text)
        if (asset := assets.get(str(asset_id))) is not None:
            return replace(asset, id=text)
        like = chains.get(str(asset_id.chain))
        decimals = _COINS.get(asset_id.chain.namespace)
        if like is None or asset_id.namespace != "slip44" or decimals is None:
            return make_unknown_asset(text)
        return ReportAsset(text, "coin", like.network, decimals, like.live)

    return find_asset


def _list_assets(settings: Settings) -> Iterator[ReportAsset]:
    """Let the last entry win: the operator knows best."""
    for network in NETWORKS:
        if network.coin is not None and network.coin_id is not None:
            coin = network.coin
            yield ReportAsset(
                network.coin_id, coin.symbol, network.name, coin.decimals, network.live
            )
        for token in network.tokens:
            if token.decimals is not None:
                yield ReportAsset(
                    network.to_asset_id(token.address),
                    token.symbol,
                    network.name,
                    token.decimals,
                    network.live,
                )
    yield from _list_embedded_assets()
    for chain in settings.chains:
        where = chain.name, chain.live
        for asset in chain.assets:
            name = f"{chain.caip2}/erc20:{asset.address}"
            yield _make_asset(name, asset.symbol, asset.decimals, *where)
        if chain.coin is not None:
            name = f"{chain.caip2}/slip44:{chain.native_slip44}"
            yield _make_asset(name, chain.coin.symbol, _COINS["eip155"], *where)
    for cluster in settings.solana_chains:
        where = cluster.name, cluster.live
        for spl in cluster.assets:
            name = f"{cluster.caip2}/token:{spl.mint}"
            yield _make_asset(name, spl.symbol, spl.decimals, *where)
        if cluster.coin is not None:
            yield _make_asset(cluster.coin_id, cluster.coin.symbol, _COINS["solana"], *where)


def _list_embedded_assets() -> Iterator[ReportAsset]:
    for network, kind in ((EMBEDDED_EVM, "erc20"), (EMBEDDED_SOLANA, "token")):
        decimals = _COINS[network.chain_id.partition(":")[0]]
        yield _make_asset(network.coin_id, "coin", decimals, network.name, live=False)
        for token in network.tokens:
            name = f"{network.chain_id}/{kind}:{token.address}"
            yield _make_asset(name, token.symbol, token.decimals, network.name, live=False)


def _make_asset(name: str, symbol: str, decimals: int, network: str, live: bool) -> ReportAsset:
    return ReportAsset(canonicalize_asset(name, checksum=False), symbol, network, decimals, live)
