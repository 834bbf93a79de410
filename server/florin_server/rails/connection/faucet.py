"""Asking a test chain for money."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from florin_server.rails.connection.coalesce import Shared
from florin_server.rails.connection.jsonrpc import Rpc, RpcError
from florin_server.rails.types import RailUnavailable

_log = logging.getLogger(__name__)


class Tap:
    """One chain's way to its faucet, which has bounds of its own.

    `given` is called when accounts may hold more than before.
    """

    def __init__(self, rpc: Rpc, name: str, given: Callable[[], None]) -> None:
        self._rpc = rpc
        self._name = name
        self._given = given
        self._gifts: Shared[None] = Shared()

    async def ask(self, accounts: Sequence[str], **gift: object) -> None:
        """Asks for accounts (CAIP-10) to be filled; equal questions are asked once."""
        key = (*accounts, repr(gift))
        await self._gifts(key, lambda: self._ask(accounts, gift))

    async def _ask(self, accounts: Sequence[str], gift: Mapping[str, object]) -> None:
        addresses = [account.rpartition(":")[2] for account in accounts]
        try:
            await self._rpc.call("florin_faucet", {"accounts": addresses, **gift})
        except (RpcError, RailUnavailable) as refusal:
            # without funds there is no option, which is all that a faucet that gives none may cause
            _log.warning("%s: no test money: %s", self._name, refusal)
        self._given()
