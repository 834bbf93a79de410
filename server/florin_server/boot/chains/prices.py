"""Who is asked what coins cost, as the settings tell."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping

from florin_server.boot.home import Refused
from florin_server.config import Settings
from florin_server.devnet.genesis import DEVNET
from florin_server.devnet.solana import SOLNET
from florin_server.domain.caip import canonical_asset
from florin_server.pricing.http import HttpPrices, Wanted
from florin_server.pricing.market import Kept, Market, Teller
from florin_server.pricing.prices import FixedPrices, Pair
from florin_server.pricing.settings import Fixed, FromHttp
from florin_server.rails.evm.reading.oracles import Feed, OraclePrices, Reading
from florin_server.rails.evm.settings import EvmAsset, EvmChain
from florin_server.rails.networks.chain_files import Chain

_log = logging.getLogger(__name__)


def market(settings: Settings, chains: Mapping[str, Reading]) -> Market:
    """The market of the settings; `chains` are those that feeds may be on, by CAIP-2.

    What has no price at all is told once.
    """
    for told in unpriced_everywhere(settings):
        _log.warning("%s", told)
    ways: dict[Pair, list[Kept | str]] = {}
    wanted: dict[str, list[Wanted]] = {}
    feeds: dict[str, list[Feed]] = {}
    for asset, by_currency in settings.prices.pairs.items():
        for currency, named in by_currency.items():
            kept_of = ways[asset, currency] = []
            for way in named:
                if isinstance(way, Fixed):
                    kept_of.append(way.price)
                    continue
                kept = Kept("", way.stale_s, way.change_max_percent)
                kept_of.append(kept)
                if isinstance(way, FromHttp):
                    kept.source = f"http:{way.source}"
                    wanted.setdefault(way.source, []).append(Wanted(way.base, way.quote, kept))
                    continue
                kept.source = f"oracle:{way.chain}:{way.feed}"
                if way.chain not in chains:
                    raise Refused(f"prices of {asset}: {way.chain} is no EVM chain of the settings")
                feeds.setdefault(way.chain, []).append(Feed(way.feed, kept))
    tellers: list[Teller] = [
        *(HttpPrices(settings.prices.http[name], ones) for name, ones in wanted.items()),
        *(OraclePrices(chains[chain], ones) for chain, ones in feeds.items()),
    ]
    return Market(tellers, ways, FixedPrices(settings.rates))


def unpriced(settings: Settings, chain: Chain) -> list[str]:
    """A sentence for each asset of a chain that is worth no fixed amount and has no rate at all.

    What a source does not tell just now is another matter: the running service tells that.
    """
    known = settings.rates.keys() | settings.prices.pairs.keys()
    return [
        f"{symbol} is not offered for prices in a currency: the settings have no rate for {asset}"
        for symbol, asset in _without_peg(chain)
        if asset not in known
    ]


def unpriced_everywhere(settings: Settings) -> Iterable[str]:
    """The same for all chains that the operator named, each with its chain's name."""
    chains: tuple[Chain, ...] = (*settings.chains, *settings.solana_chains)
    for chain in chains:
        for told in unpriced(settings, chain):
            yield f"{chain.name}: {told}"


def payable_currencies(settings: Settings, *, live: bool) -> list[str] | None:
    """Return the enabled currencies that an asset of a mode can pay; None without any chain."""
    chains: tuple[Chain, ...] = (*settings.chains, *settings.solana_chains)
    pegs: dict[str, str | None] = {}
    modes = [chain for chain in chains if chain.live is live]
    for chain in modes:
        pegs.update(chain.pegs)
    embedded: list[bool] = []
    if not live and settings.has_embedded:
        embedded.append(True)
        pegs.update(dict.fromkeys([f"eip155:{DEVNET.chain_id}/slip44:60"]))
        pegs.update({token.address: token.peg for token in DEVNET.tokens})
    if not live and settings.has_embedded_solana:
        embedded.append(True)
        pegs.update(dict.fromkeys([f"{SOLNET.chain_id}/slip44:501"]))
        pegs.update({token.address: token.peg for token in SOLNET.tokens})
    if not modes and not embedded:
        return None
    found: set[str] = set()
    for asset, peg in pegs.items():
        if peg is None:
            found.update(settings.rates.get(asset, {}), settings.prices.pairs.get(asset, {}))
        else:
            found.add(peg)
    return [code for code in settings.currencies if code in found]


def currencies(settings: Settings) -> Iterator[tuple[str, str]]:
    """Describe for each mode which currencies can be paid, and which enabled ones cannot."""
    for live, mode in ((False, "test"), (True, "live")):
        payable = payable_currencies(settings, live=live)
        if payable is None:
            continue
        said = f"{mode} payments can be asked for in {', '.join(payable) or 'no currency'}"
        missing = [code for code in settings.currencies if code not in payable]
        if not missing:
            yield said, ""
            continue
        names = ", ".join(missing)
        yield said, f"nothing can be paid in {names}: add rates, or change `currencies`"


def _without_peg(chain: Chain) -> Iterator[tuple[str, str]]:
    """Symbol and CAIP-19 of the assets whose price changes, the chain's own coin among them."""
    for one in chain.assets:
        if one.peg is None:
            place = f"erc20:{one.address}" if isinstance(one, EvmAsset) else f"token:{one.mint}"
            yield one.symbol, canonical_asset(f"{chain.caip2}/{place}", checksum=False)
    if chain.coin is not None:
        if isinstance(chain, EvmChain):
            yield chain.coin.symbol, f"{chain.caip2}/slip44:{chain.native_slip44}"
        else:
            yield chain.coin.symbol, chain.coin_id
