"""The relayer keys with which one chain is settled, each a sender with a lease of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Sequence

from florin_server.domain.settlement.chain_txs import ChainTx, Share
from florin_server.flows.app import Core
from florin_server.rails.protocol import Rail
from florin_server.store.engine.store import Store
from florin_server.store.settlement import chain_txs, leases
from florin_server.workers.settlement.blocks import Follower
from florin_server.workers.settlement.tx_sender import Ended, TxSender


async def free_of_dead(store: Store, owners: Collection[str]) -> None:
    """Lets others have the leases of processes that are known to be dead, at once."""
    if owners:
        await store.write(leases.free(owners))


class Senders:
    """All keys of one chain; only those of which this process has the lease send.

    `may_send` tells of an open transaction whether it may still be handed over, `pauses` are the
    accounts (CAIP-10) that the operator paused.
    """

    def __init__(
        self,
        app: Core,
        rail: Rail,
        owner: str,
        blocks: Follower,
        *,
        may_send: Callable[[ChainTx], bool],
        wake: Callable[[], None],
        pauses: Container[str],
    ) -> None:
        self._app = app
        self._rail = rail
        self.all: Sequence[TxSender] = [
            TxSender(
                app,
                rail,
                address,
                owner,
                blocks,
                cannot_be_mined=self._cannot_be_mined,
                in_time=may_send,
                wake=wake,
                paused=f"{rail.chain_id}:{address}" in pauses,
            )
            for address in rail.senders
        ]

    async def lead(self) -> bool:
        """Takes or renews the leases; True if the lease of any key is taken anew, or lost."""
        changed = False
        for sender in self.all:
            before = sender.epoch
            await sender.lead()
            changed |= sender.epoch != before
        return changed

    def led(self) -> list[TxSender]:
        """Those of which this process has the lease."""
        return [sender for sender in self.all if sender.leads]

    def free(self) -> TxSender | None:
        """The sender with the fewest open transactions among those with room."""
        with_room = [sender for sender in self.all if sender.has_room]
        return min(with_room, key=lambda sender: sender.open_transactions, default=None)

    @property
    def paused(self) -> list[str]:
        """The addresses that the operator paused."""
        return [sender.address for sender in self.all if sender.paused]

    @property
    def all_paused(self) -> bool:
        """True if the operator paused every key."""
        return len(self.paused) == len(self.all)

    @property
    def leased_elsewhere(self) -> list[str]:
        """The addresses of which another process has the lease."""
        return [sender.address for sender in self.all if not sender.leads]

    @property
    def open_transactions(self) -> int:
        """How many transactions of all keys are neither final nor replaced."""
        return sum(sender.open_transactions for sender in self.all)

    def holds(self, payment_id: str) -> bool:
        """True if a payment is in an open transaction."""
        return any(sender.holds(payment_id) for sender in self.all)

    def shares(self) -> list[tuple[str, Share]]:
        """What the payments of open transactions may use, by payment."""
        return [one for sender in self.all for one in sender.shares()]

    async def load(self) -> None:
        """Reads again which transactions are open."""
        for sender in self.led():
            await sender.load()

    async def ask(self) -> list[ChainTx]:
        """Looks for all open transactions, whatever the blocks told; those that were found."""
        return [tx for sender in self.led() for tx in await sender.ask()]

    async def final(self) -> list[Ended]:
        """The transactions that are final, as far as the evidence goes."""
        return [end for sender in self.led() for end in await sender.final()]

    async def replaced(self) -> list[Ended]:
        """The transactions that no block can hold any more."""
        return [end for sender in self.led() for end in await sender.replaced()]

    def over(self, ends: Iterable[Ended]) -> None:
        """Forgets transactions whose end is committed."""
        ended = list(ends)
        for sender in self.all:
            sender.over(ended)

    async def _cannot_be_mined(self, tx: ChainTx) -> bool:
        issued = await self._app.store.read(chain_txs.issued(tx.item_ids))
        return await self._rail.observer.cannot_be_mined(tx, issued)
