"""Requests for money on a test chain."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from florin_server.rails.connection.coalesce import SharedRequests
from florin_server.rails.connection.jsonrpc import ChainRpc, RpcError
from florin_server.rails.types import RailUnavailable

_log = logging.getLogger(__name__)


class FaucetClient:
    """The client of one chain's faucet, which has limits of its own.

    `on_gift` is called after each request, as accounts may hold more than before.
    """

    def __init__(self, rpc: ChainRpc, name: str, on_gift: Callable[[], None]) -> None:
        self._rpc = rpc
        self._name = name
        self._on_gift = on_gift
        self._requests: SharedRequests[None] = SharedRequests()

    async def request(self, accounts: Sequence[str], **gift: object) -> None:
        """Request money for accounts (CAIP-10); equal concurrent requests are sent once."""
        key = (*accounts, repr(gift))
        await self._requests(key, lambda: self._request(accounts, gift))

    async def _request(self, accounts: Sequence[str], gift: Mapping[str, object]) -> None:
        addresses = [account.rpartition(":")[2] for account in accounts]
        try:
            await self._rpc.call("florin_faucet", {"accounts": addresses, **gift})
        except (RpcError, RailUnavailable) as refusal:
            # a faucet that refuses must cause no other error: without funds there are no options
            _log.warning("%s: no test money: %s", self._name, refusal)
        self._on_gift()
