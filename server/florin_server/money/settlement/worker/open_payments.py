"""The accepted, unsettled payments of one chain, and the evidence of blocks about them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import Protocol

from florin_server.db.context import StorageContext
from florin_server.domain.quarantine import QuarantinedItemKind
from florin_server.domain.settlement.chain_txs import ChainTx, SettlementItem
from florin_server.money.settlement.store import settlement_items
from florin_server.money.settlement.worker.blocks import ChainFollower
from florin_server.operations.context import QuarantineContext
from florin_server.rails.protocol import Rail
from florin_server.rails.types import SettlementEvent


class _Context(QuarantineContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_REFS_PER_CALL = 50
# blocks left for a transaction until its payment lapses
_LAST_BLOCKS = 2

_GET_PAYMENT_ID = attrgetter("payment.id")


class OpenPayments:
    """Each with the settlement events that were seen of it, final or not."""

    def __init__(self, app: _Context, rail: Rail, follower: ChainFollower) -> None:
        self._app = app
        self._rail = rail
        self._terms = rail.terms
        self._follower = follower
        self.items_by_ref: dict[str, SettlementItem] = {}

    def __len__(self) -> int:
        return len(self.items_by_ref)

    # -- the payments

    @property
    def items(self) -> Collection[SettlementItem]:
        """Return all of them except those that are quarantined."""
        return self._filter_active(self.items_by_ref.values())

    @property
    def items_by_id(self) -> dict[str, SettlementItem]:
        """Return all of them, by payment."""
        return {item.payment.id: item for item in self.items}

    def _filter_active(self, items: Iterable[SettlementItem]) -> list[SettlementItem]:
        chain_id = self._rail.chain_id
        return self._app.quarantine.filter_active(
            QuarantinedItemKind.PAYMENT, chain_id, items, _GET_PAYMENT_ID
        )

    async def load(self) -> None:
        """Read them again."""
        unsettled_items = await self._app.store.read(
            settlement_items.list_unsettled(self._rail.chain_id)
        )
        chain_id, quarantine = self._rail.chain_id, self._app.quarantine
        items_by_ref: dict[str, SettlementItem] = {}
        for item in self._filter_active(unsettled_items):
            async with quarantine.isolate(
                QuarantinedItemKind.PAYMENT, chain_id, item.payment.id, "resume"
            ):
                items_by_ref[self._terms.get_reference(item.option)] = item
        self.items_by_ref = items_by_ref

    async def drop_ended(self) -> None:
        """Drop those that others ended."""
        unsettled_ids = await self._app.store.read(
            settlement_items.list_unsettled_ids(self._rail.chain_id)
        )
        self.items_by_ref = {
            ref: item for ref, item in self.items_by_ref.items() if item.payment.id in unsettled_ids
        }

    def follow(self, item: SettlementItem) -> None:
        """Follow a payment from now on, in its present state."""
        self.items_by_ref[self._terms.get_reference(item.option)] = item

    def remove(self, payment_ids: Collection[str]) -> None:
        """Forget payments whose end is committed, and the events that proved it."""
        for ref in {r for r, item in self.items_by_ref.items() if item.payment.id in payment_ids}:
            proves = partial(self._terms.is_proven, self.items_by_ref.pop(ref).option)
            self._follower.evidence.consume(ref, proves)

    # -- their evidence

    async def find_events(self, items: Sequence[SettlementItem]) -> None:
        """Request the events of payments from the chain, in addition to the blocks."""
        for start in range(0, len(items), _REFS_PER_CALL):
            await self._app.quarantine.run_each(
                QuarantinedItemKind.PAYMENT,
                self._rail.chain_id,
                items[start : start + _REFS_PER_CALL],
                _GET_PAYMENT_ID,
                "find events",
                self._find_events,
            )

    async def _find_events(self, items: Sequence[SettlementItem]) -> None:
        options = {self._terms.get_reference(item.option): item.option for item in items}
        for event in await self._rail.observer.find_settlement_events(items):
            if self._terms.is_proven(options[event.ref], event):
                self._follower.evidence.add_event(event)

    def has_event(self, item: SettlementItem) -> bool:
        """Return True if there is an event of a payment, final or not."""
        return bool(self._list_proofs(item))

    def get_paying_blocks(self) -> dict[str, int]:
        """Return the newest block that pays each payment, final or not; absent ones are in none."""
        proofs = {item.payment.id: self._list_proofs(item) for item in self.items}
        return {
            payment_id: max(event.block_number for event in events)
            for payment_id, events in proofs.items()
            if events
        }

    def is_paid_by(self, item: SettlementItem, tx: ChainTx) -> bool:
        """Return True if a transaction paid a payment, as far as was seen."""
        return any(event.tx_hash in tx.hashes for event in self._list_proofs(item))

    async def find_proof(self, item: SettlementItem) -> SettlementEvent | None:
        """Return the final event that pays a payment, if there is one."""
        for event in self._list_proofs(item):
            if await self._follower.is_settled(event):
                return event
        return None

    def list_unseen(self, accepted_by_us: int) -> list[SettlementItem]:
        """Return those, accepted before a time, for which no block has shown anything yet."""
        now_us = self._app.clock.now_us()
        return [
            item
            for item in self.items
            # an acceptance in the future means that the clock was set back since
            if not accepted_by_us < item.confirmation.at_us <= now_us and not self.has_event(item)
        ]

    def _list_proofs(self, item: SettlementItem) -> list[SettlementEvent]:
        events = self._follower.evidence.settlement_events.get(
            self._terms.get_reference(item.option), ()
        )
        return [event for event in events if self._terms.is_proven(item.option, event)]

    # -- how long they can be paid

    def is_in_time(self, item: SettlementItem) -> bool:
        """Return True if a transaction sent now can still be mined before the item lapses."""
        last = self._terms.find_last_second(item.option)
        now = max(self._follower.time, self._app.clock.now_us() // 1_000_000)
        return last is None or last - now >= _LAST_BLOCKS * self._follower.interval

    def may_send(self, tx: ChainTx) -> bool:
        """Return False for an item with a lapsed price that does not lapse on the chain.

        Where a chain checks the time, or transactions wait for each other, all are sent.
        """
        items = [item for item in self.items if item.payment.id in tx.item_ids]
        return self._rail.blocks is not None or all(map(self.is_in_time, items))
