"""Payouts whose ends are asked of several endpoints: a second transfer would be a gift."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from florin_server.domain.settlement.chain_txs import ChainTx
from florin_server.rails.connection.endpoints import Endpoints
from florin_server.rails.connection.jsonrpc import Rpc
from florin_server.rails.connection.witness import Witnesses
from florin_server.rails.roles import Payouts
from florin_server.rails.types import Effect, Signed, Transfer


class AgreedPayouts:
    """Implements the Payouts protocol; `make` makes those of one endpoint."""

    def __init__(
        self, make: Callable[[Rpc], Payouts], endpoints: Endpoints, witnesses: Witnesses
    ) -> None:
        self._make = make
        self._own = make(endpoints)
        self._witnesses = witnesses

    @property
    def sender(self) -> str:
        """Address of the key."""
        return self._own.sender

    @property
    def gas_payer(self) -> str:
        """Address that pays for its transactions."""
        return self._own.gas_payer

    @property
    def problem(self) -> str:
        """Why nothing can be paid out at all; empty if it can."""
        return self._own.problem

    async def obstacle(self, transfer: Transfer, ahead: Sequence[Transfer]) -> str | None:
        """Why a transfer would fail if it were sent now; None if it would not."""
        return await self._own.obstacle(transfer, ahead)

    async def sign(self, nonce: int, transfer: Transfer) -> Signed:
        """Signs the one transaction that makes a transfer."""
        return await self._own.sign(nonce, transfer)

    async def effect(self, tx: ChainTx, tx_hash: str, transfer: Transfer) -> Effect:
        """What a final transaction moved, as all of them tell."""
        return await self._witnesses.same(
            lambda rpc: self._make(rpc).effect(tx, tx_hash, transfer), f"what {tx_hash} moved"
        )

    async def cannot_be_mined(self, tx: ChainTx, lapses_at: int | None) -> bool:
        """True if all of them tell that no block can hold the transaction any more."""

        async def answer(rpc: Rpc) -> bool | None:
            return await self._make(rpc).cannot_be_mined(tx, lapses_at) or None

        return await self._witnesses.unanimous(answer) is not None
