"""Test money on an EVM chain that has a faucet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from florin_server.domain.caip import parse_asset
from florin_server.rails.connection.faucet import Tap


class EvmFaucet:
    """Implements the Faucet protocol. `coin` is the CAIP-19 id of what pays gas."""

    def __init__(self, tap: Tap, coin: str) -> None:
        self._tap = tap
        self._coin = coin

    async def give(self, accounts: Sequence[str], prices: Mapping[str, int]) -> None:
        """Gives the usual gift to accounts that have less than half of it."""
        await self._tap.ask(accounts, tokens=self._tokens(prices))

    async def fill(self, accounts: Sequence[str], prices: Mapping[str, int]) -> None:
        """Fills accounts up to prices; of coin to twice its price, as gas is paid with it too."""
        dearest = max((prices[asset] for asset in prices if asset != self._coin), default=0)
        coin = 2 * prices.get(self._coin, 0)
        # one may be refused and the other not
        gift = {"tokenUnits": hex(dearest), "nativeWei": "0x0"}
        await self._tap.ask(accounts, tokens=self._tokens(prices), **gift)
        await self._tap.ask(accounts, tokens=[], nativeWei=hex(coin))

    def _tokens(self, prices: Mapping[str, int]) -> list[str]:
        return [parse_asset(asset).reference for asset in prices if asset != self._coin]
