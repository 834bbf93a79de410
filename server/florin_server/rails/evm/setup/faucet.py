"""Test money on an EVM chain that has a faucet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from florin_server.domain.caip import parse_asset
from florin_server.rails.connection.faucet import FaucetClient


class EvmFaucet:
    """Implement the Faucet protocol. `coin` is the CAIP-19 id of the gas money."""

    def __init__(self, client: FaucetClient, coin: str) -> None:
        self._client = client
        self._coin = coin

    async def give_usual(self, accounts: Sequence[str], prices: Mapping[str, int]) -> None:
        """Give the usual gift to accounts that have less than half of it."""
        await self._client.request(accounts, tokens=self._list_tokens(prices))

    async def fill_accounts(self, accounts: Sequence[str], prices: Mapping[str, int]) -> None:
        """Fill accounts up to prices; up to twice the coin's price, as coin pays for gas too."""
        dearest = max((prices[asset] for asset in prices if asset != self._coin), default=0)
        coin = 2 * prices.get(self._coin, 0)
        # the faucet may refuse the tokens but not the coin, or the reverse
        gift = {"tokenUnits": hex(dearest), "nativeWei": "0x0"}
        await self._client.request(accounts, tokens=self._list_tokens(prices), **gift)
        await self._client.request(accounts, tokens=[], nativeWei=hex(coin))

    def _list_tokens(self, prices: Mapping[str, int]) -> list[str]:
        return [parse_asset(asset).reference for asset in prices if asset != self._coin]
