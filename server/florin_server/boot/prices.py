"""Who is asked what coins cost, as the settings tell."""

from __future__ import annotations

from collections.abc import Mapping

from florin_server.boot.home import Refused
from florin_server.config import Settings
from florin_server.rails.evm.oracles import Feed, OraclePrices, Reading
from florin_server.rails.http_prices import HttpPrices, Wanted
from florin_server.rails.market import Kept, Market, Teller
from florin_server.rails.price_settings import Fixed, FromHttp
from florin_server.rails.prices import FixedPrices, Pair


def market(settings: Settings, chains: Mapping[str, Reading]) -> Market:
    """The market of the settings; `chains` are those that feeds may be on, by CAIP-2."""
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
