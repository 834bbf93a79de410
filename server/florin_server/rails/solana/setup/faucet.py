"""Test money on a Solana cluster that has a faucet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from florin_server.rails.connection.faucet import FaucetClient


class SolanaFaucet:
    """Implement the Faucet protocol.

    `coin` is the CAIP-19 id of the coin that pays fees; `get_rent` returns what an account must
    keep of it.
    """

    def __init__(self, client: FaucetClient, coin: str, get_rent: Callable[[], int]) -> None:
        self._client = client
        self._coin = coin
        self._get_rent = get_rent

    async def give_usual(self, accounts: Sequence[str], prices: Mapping[str, int]) -> None:  # noqa: ARG002
        """Give the usual gift, of every asset, to accounts that have less than half of it."""
        await self._client.request(accounts)

    async def fill_accounts(self, accounts: Sequence[str], prices: Mapping[str, int]) -> None:
        """Fill accounts up to prices."""
        dearest = max((prices[asset] for asset in prices if asset != self._coin), default=0)
        # the faucet may refuse the tokens but not the coin, or the reverse
        await self._client.request(accounts, tokenUnits=dearest)
        coin = prices.get(self._coin, 0) + self._get_rent()
        await self._client.request(accounts, tokens=[], lamports=coin)
