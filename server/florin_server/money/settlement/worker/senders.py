"""The relayer keys with which one chain is settled, each with a lease and a queue of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Sequence
from typing import Protocol

from florin_server.base.context import EventContext, MeterContext
from florin_server.db.context import StorageContext
from florin_server.db.engine.store import Store
from florin_server.domain.settlement.chain_txs import ChainTx, GasShare
from florin_server.money.settlement.store import settlement_items
from florin_server.money.settlement.worker.blocks import ChainFollower
from florin_server.money.settlement.worker.ended_transactions import EndedTransaction
from florin_server.money.settlement.worker.signing_key import SigningKey
from florin_server.money.settlement.worker.transaction_queue import QueueRules, TransactionQueue
from florin_server.money.x402 import store as facilitations
from florin_server.operations.context import QuarantineContext
from florin_server.operations.store import leases
from florin_server.rails.context import ChainContext
from florin_server.rails.protocol import Rail


class _Context(
    ChainContext, EventContext, MeterContext, QuarantineContext, StorageContext, Protocol
):
    """The parts of the application that this module uses."""


async def release_dead_leases(store: Store, owners: Collection[str]) -> None:
    """Release the leases of dead processes at once."""
    if owners:
        await store.write(leases.release_all(owners))


class SenderPool:
    """All keys of one chain, each with its queue; only those whose lease this process has send.

    `may_send` says whether an open transaction can still be broadcast, `pauses` are the accounts
    (CAIP-10) that the operator paused, `wake` requests a turn of the owner at once.
    """

    def __init__(
        self,
        app: _Context,
        rail: Rail,
        owner: str,
        follower: ChainFollower,
        *,
        may_send: Callable[[ChainTx], bool],
        wake: Callable[[], None],
        pauses: Container[str],
    ) -> None:
        self._app = app
        self._rail = rail
        self.keys: Sequence[SigningKey] = [
            SigningKey(
                app,
                rail,
                address,
                owner,
                wake=wake,
                is_paused=f"{rail.chain_id}:{address}" in pauses,
            )
            for address in rail.senders
        ]
        rules = QueueRules(cannot_be_mined=self._cannot_be_mined, is_in_time=may_send)
        self.queues: Sequence[TransactionQueue] = [
            TransactionQueue(app, rail, key, follower, rules) for key in self.keys
        ]

    async def acquire_leases(self) -> bool:
        """Acquire or renew the leases.

        Return True if the lease of any key is newly acquired, or lost.
        """
        changed = False
        for queue in self.queues:
            before = queue.key.epoch
            await queue.acquire_lease()
            changed |= queue.key.epoch != before
        return changed

    def list_leading(self) -> list[TransactionQueue]:
        """Return the queues of the keys whose lease this process has."""
        return [queue for queue in self.queues if queue.key.has_lease]

    def find_free(self) -> TransactionQueue | None:
        """Return the queue with the fewest open transactions among those with room."""
        with_room = [queue for queue in self.queues if queue.has_room]
        return min(with_room, key=lambda queue: queue.open_transactions, default=None)

    @property
    def paused_addresses(self) -> list[str]:
        """Return the addresses that the operator paused."""
        return [key.address for key in self.keys if key.is_paused]

    @property
    def is_all_paused(self) -> bool:
        """Return True if the operator paused every key."""
        return len(self.paused_addresses) == len(self.keys)

    @property
    def addresses_leased_elsewhere(self) -> list[str]:
        """Return the addresses whose lease another process has."""
        return [key.address for key in self.keys if not key.has_lease]

    @property
    def open_transactions(self) -> int:
        """Return how many transactions of all keys are neither final nor replaced."""
        return sum(queue.open_transactions for queue in self.queues)

    def has_payment(self, payment_id: str) -> bool:
        """Return True if a payment is in an open transaction."""
        return any(queue.has_item(payment_id) for queue in self.queues)

    def list_shares(self) -> list[tuple[str, GasShare]]:
        """Return what the payments of open transactions can use, by payment."""
        return [share for queue in self.queues for share in queue.list_shares()]

    async def load(self) -> None:
        """Read again which transactions are open."""
        for queue in self.list_leading():
            await queue.load()

    async def find_transactions(self) -> list[ChainTx]:
        """Request all open transactions from the chain; return those that were found."""
        return [tx for queue in self.list_leading() for tx in await queue.find_transactions()]

    async def list_final(self) -> list[EndedTransaction]:
        """Return the transactions that are final, as far as the evidence goes."""
        return [ended_tx for queue in self.list_leading() for ended_tx in await queue.list_final()]

    async def list_replaced(self) -> list[EndedTransaction]:
        """Return the transactions that no block can hold any more."""
        return [
            ended_tx for queue in self.list_leading() for ended_tx in await queue.list_replaced()
        ]

    def remove(self, ended_txs: Iterable[EndedTransaction]) -> None:
        """Forget transactions whose end is committed."""
        ended_txs = list(ended_txs)
        for queue in self.queues:
            queue.remove(ended_txs)

    async def _cannot_be_mined(self, tx: ChainTx) -> bool:
        if not tx.item_ids:
            answer = await self._find_end_of_transfer(tx)
            if answer is not None:
                return answer
        resolved_builds = await self._app.store.read(
            settlement_items.list_resolved_builds(tx.item_ids)
        )
        return await self._rail.observer.cannot_be_mined(tx, resolved_builds)

    async def _find_end_of_transfer(self, tx: ChainTx) -> bool | None:
        """Return whether no block can include a transfer of others; None for all else."""
        facilitation = await self._app.store.read(
            facilitations.find_by_transaction(self._rail.chain_id, tx.hash)
        )
        if facilitation is None:
            return None
        return await self._rail.facilitator.cannot_be_mined(facilitation.transfer, tx)
