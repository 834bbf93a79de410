"""Test money on a Solana cluster that has a faucet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from florin_server.rails.connection.faucet import Tap


class SolanaFaucet:
    """Implements the Faucet protocol.

    `coin` is the CAIP-19 id of what pays fees, `rent` tells what an account must keep of it.
    """

    def __init__(self, tap: Tap, coin: str, rent: Callable[[], int]) -> None:
        self._tap = tap
        self._coin = coin
        self._rent = rent

    async def give(self, accounts: Sequence[str], prices: Mapping[str, int]) -> None:  # noqa: ARG002
        """Gives the usual gift to accounts that have less than half of it, of all that there is."""
        await self._tap.ask(accounts)

    async def fill(self, accounts: Sequence[str], prices: Mapping[str, int]) -> None:
        """Fills accounts up to prices."""
        dearest = max((prices[asset] for asset in prices if asset != self._coin), default=0)
        # one may be refused and the other not
        await self._tap.ask(accounts, tokenUnits=dearest)
        coin = prices.get(self._coin, 0) + self._rent()
        await self._tap.ask(accounts, tokens=[], lamports=coin)
