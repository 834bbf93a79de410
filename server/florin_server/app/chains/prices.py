"""The price sources of the settings."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping

from florin_server.app.home import SetupError
from florin_server.domain.caip import canonicalize_asset
from florin_server.rails.evm.reading.oracles import ContractReader, OracleFeed, OraclePrices
from florin_server.rails.evm.settings import EvmAssetSettings, EvmChainSettings
from florin_server.rails.networks.chain_files import AnyChainSettings
from florin_server.rails.networks.embedded import EMBEDDED_EVM, EMBEDDED_SOLANA, EmbeddedNetwork
from florin_server.rails.pricing.http import HttpPriceFetcher, PriceQuery
from florin_server.rails.pricing.market import LastPrice, MarketPrices, PriceFetcher
from florin_server.rails.pricing.prices import FixedPrices, PricePair
from florin_server.rails.pricing.settings import FixedPriceSettings, HttpPriceSettings
from florin_server.settings import Settings

_log = logging.getLogger(__name__)


def build_market(settings: Settings, chains: Mapping[str, ContractReader]) -> MarketPrices:
    """Return the market of the settings; `chains` are those that feeds can be on, by CAIP-2.

    Assets without any price are logged once.
    """
    for message in list_all_unpriced(settings):
        _log.warning("%s", message)
    sources: dict[PricePair, list[LastPrice | str]] = {}
    queries: dict[str, list[PriceQuery]] = {}
    feeds: dict[str, list[OracleFeed]] = {}
    for asset, by_currency in settings.prices.pairs.items():
        for currency, pair_settings in by_currency.items():
            pair_prices = sources[asset, currency] = []
            for source_settings in pair_settings:
                if isinstance(source_settings, FixedPriceSettings):
                    pair_prices.append(source_settings.price)
                    continue
                last_price = LastPrice(
                    "", source_settings.stale_s, source_settings.change_max_percent
                )
                pair_prices.append(last_price)
                if isinstance(source_settings, HttpPriceSettings):
                    last_price.source = f"http:{source_settings.source}"
                    queries.setdefault(source_settings.source, []).append(
                        PriceQuery(source_settings.base, source_settings.quote, last_price)
                    )
                    continue
                last_price.source = f"oracle:{source_settings.chain}:{source_settings.feed}"
                if source_settings.chain not in chains:
                    raise SetupError(
                        f"prices of {asset}: {source_settings.chain} is not an EVM chain in the "
                        "settings"
                    )
                feeds.setdefault(source_settings.chain, []).append(
                    OracleFeed(source_settings.feed, last_price)
                )
    fetchers: list[PriceFetcher] = [
        *(
            HttpPriceFetcher(settings.prices.http[name], http_queries)
            for name, http_queries in queries.items()
        ),
        *(OraclePrices(chains[chain], chain_feeds) for chain, chain_feeds in feeds.items()),
    ]
    return MarketPrices(fetchers, sources, FixedPrices(settings.rates))


def list_unpriced(settings: Settings, chain: AnyChainSettings) -> list[str]:
    """Return a sentence for each asset of a chain that has neither a fixed value nor a rate.

    A source without a price at the moment is another matter, which the running service reports.
    """
    priced_assets = settings.rates.keys() | settings.prices.pairs.keys()
    return [
        f"{symbol} is not offered for prices in a currency: the settings have no rate for {asset}"
        for symbol, asset in _list_unpegged_assets(chain)
        if asset not in priced_assets
    ]


def list_all_unpriced(settings: Settings) -> Iterable[str]:
    """Yield these sentences for all configured chains, each with its chain's name."""
    chains: tuple[AnyChainSettings, ...] = (*settings.chains, *settings.solana_chains)
    for chain in chains:
        for message in list_unpriced(settings, chain):
            yield f"{chain.name}: {message}"


def find_payable_currencies(settings: Settings, *, live: bool) -> list[str] | None:
    """Return the enabled currencies that an asset of a mode can pay; None without any chain."""
    chains: tuple[AnyChainSettings, ...] = (*settings.chains, *settings.solana_chains)
    pegs: dict[str, str | None] = {}
    mode_chains = [chain for chain in chains if chain.live is live]
    for chain in mode_chains:
        pegs.update(chain.pegs)
    embedded_networks = [] if live else _list_embedded_networks(settings)
    for network in embedded_networks:
        pegs[network.coin_id] = None
        pegs.update({token.address: token.peg for token in network.tokens})
    if not mode_chains and not embedded_networks:
        return None
    codes: set[str] = set()
    for asset, peg in pegs.items():
        if peg is None:
            codes.update(settings.rates.get(asset, {}), settings.prices.pairs.get(asset, {}))
        else:
            codes.add(peg)
    return [code for code in settings.currencies if code in codes]


def _list_embedded_networks(settings: Settings) -> list[EmbeddedNetwork]:
    """Return the networks of the embedded chains that run."""
    networks = (
        (settings.has_embedded, EMBEDDED_EVM),
        (settings.has_embedded_solana, EMBEDDED_SOLANA),
    )
    return [network for runs, network in networks if runs]


def describe_currencies(settings: Settings) -> Iterator[tuple[str, str]]:
    """Describe for each mode which currencies can be paid, and which enabled ones cannot."""
    for live, mode in ((False, "test"), (True, "live")):
        payable = find_payable_currencies(settings, live=live)
        if payable is None:
            continue
        text = f"{mode} payments can be requested in {', '.join(payable) or 'no currency'}"
        missing = [code for code in settings.currencies if code not in payable]
        if not missing:
            yield text, ""
            continue
        names = ", ".join(missing)
        yield text, f"no asset can pay amounts in {names}: add rates, or change `currencies`"


def _list_unpegged_assets(chain: AnyChainSettings) -> Iterator[tuple[str, str]]:
    """Return symbol and CAIP-19 of the assets whose price changes, including the native coin."""
    for token in chain.assets:
        if token.peg is None:
            reference = (
                f"erc20:{token.address}"
                if isinstance(token, EvmAssetSettings)
                else f"token:{token.mint}"
            )
            yield token.symbol, canonicalize_asset(f"{chain.caip2}/{reference}", checksum=False)
    if chain.coin is not None:
        if isinstance(chain, EvmChainSettings):
            yield chain.coin.symbol, f"{chain.caip2}/slip44:{chain.native_slip44}"
        else:
            yield chain.coin.symbol, chain.coin_id
