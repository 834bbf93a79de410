"""The relayer keys with which one chain is settled, each a sender with a lease of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Sequence
from typing import Protocol

from florin_server.base.context import EventContext, MeterContext
from florin_server.db.context import StorageContext
from florin_server.db.engine.store import Store
from florin_server.domain.settlement.chain_txs import ChainTx, GasShare
from florin_server.money.settlement.store import chain_txs
from florin_server.money.settlement.worker.blocks import ChainFollower
from florin_server.money.settlement.worker.tx_sender import EndedTransaction, TxSender
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
    """All keys of one chain; only those whose lease this process has send.

    `may_send` says whether an open transaction can still be broadcast, `pauses` are the accounts
    (CAIP-10) that the operator paused.
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
        self.senders: Sequence[TxSender] = [
            TxSender(
                app,
                rail,
                address,
                owner,
                follower,
                cannot_be_mined=self._cannot_be_mined,
                is_in_time=may_send,
                wake=wake,
                is_paused=f"{rail.chain_id}:{address}" in pauses,
            )
            for address in rail.senders
        ]

    async def acquire_leases(self) -> bool:
        """Acquire or renew the leases.

        Return True if the lease of any key is newly acquired, or lost.
        """
        changed = False
        for sender in self.senders:
            before = sender.epoch
            await sender.acquire_lease()
            changed |= sender.epoch != before
        return changed

    def list_leading(self) -> list[TxSender]:
        """Return the senders whose lease this process has."""
        return [sender for sender in self.senders if sender.has_lease]

    def find_free(self) -> TxSender | None:
        """Return the sender with the fewest open transactions among those with room."""
        with_room = [sender for sender in self.senders if sender.has_room]
        return min(with_room, key=lambda sender: sender.open_transactions, default=None)

    @property
    def paused_addresses(self) -> list[str]:
        """Return the addresses that the operator paused."""
        return [sender.address for sender in self.senders if sender.is_paused]

    @property
    def is_all_paused(self) -> bool:
        """Return True if the operator paused every key."""
        return len(self.paused_addresses) == len(self.senders)

    @property
    def addresses_leased_elsewhere(self) -> list[str]:
        """Return the addresses whose lease another process has."""
        return [sender.address for sender in self.senders if not sender.has_lease]

    @property
    def open_transactions(self) -> int:
        """Return how many transactions of all keys are neither final nor replaced."""
        return sum(sender.open_transactions for sender in self.senders)

    def has_payment(self, payment_id: str) -> bool:
        """Return True if a payment is in an open transaction."""
        return any(sender.has_item(payment_id) for sender in self.senders)

    def list_shares(self) -> list[tuple[str, GasShare]]:
        """Return what the payments of open transactions can use, by payment."""
        return [share for sender in self.senders for share in sender.list_shares()]

    async def load(self) -> None:
        """Read again which transactions are open."""
        for sender in self.list_leading():
            await sender.load()

    async def find_transactions(self) -> list[ChainTx]:
        """Request all open transactions from the chain; return those that were found."""
        return [tx for sender in self.list_leading() for tx in await sender.find_transactions()]

    async def list_final(self) -> list[EndedTransaction]:
        """Return the transactions that are final, as far as the evidence goes."""
        return [
            ended_tx for sender in self.list_leading() for ended_tx in await sender.list_final()
        ]

    async def list_replaced(self) -> list[EndedTransaction]:
        """Return the transactions that no block can hold any more."""
        return [
            ended_tx for sender in self.list_leading() for ended_tx in await sender.list_replaced()
        ]

    def remove(self, ended_txs: Iterable[EndedTransaction]) -> None:
        """Forget transactions whose end is committed."""
        ended_txs = list(ended_txs)
        for sender in self.senders:
            sender.remove(ended_txs)

    async def _cannot_be_mined(self, tx: ChainTx) -> bool:
        resolved_builds = await self._app.store.read(chain_txs.list_resolved_builds(tx.item_ids))
        return await self._rail.observer.cannot_be_mined(tx, resolved_builds)
