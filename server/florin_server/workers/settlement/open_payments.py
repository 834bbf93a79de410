"""The payments of one chain that are accepted and not settled, and what blocks tell of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from operator import attrgetter

from florin_server.domain.quarantine import ItemKind
from florin_server.domain.settlement.chain_txs import Accepted, ChainTx
from florin_server.flows.app import Core
from florin_server.rails.protocol import Rail
from florin_server.rails.types import Paid
from florin_server.store.settlement import chain_txs
from florin_server.workers.settlement.blocks import Follower

_REFS_A_CALL = 50
# blocks that must be left for a transaction until what it brings lapses
_LAST_BLOCKS = 2

_PAYMENT_ID = attrgetter("payment.id")


class OpenPayments:
    """Each with the settlement events that were seen of it, final or not."""

    def __init__(self, app: Core, rail: Rail, blocks: Follower) -> None:
        self._app = app
        self._rail = rail
        self._terms = rail.terms
        self._blocks = blocks
        self.by_ref: dict[str, Accepted] = {}

    def __len__(self) -> int:
        return len(self.by_ref)

    # -- which they are

    @property
    def items(self) -> Collection[Accepted]:
        """All of them but those that are set aside."""
        return self._left_in(self.by_ref.values())

    @property
    def by_id(self) -> dict[str, Accepted]:
        """All of them, by payment."""
        return {item.payment.id: item for item in self.items}

    def _left_in(self, items: Iterable[Accepted]) -> list[Accepted]:
        chain_id = self._rail.chain_id
        return self._app.quarantine.left_in(ItemKind.PAYMENT, chain_id, items, _PAYMENT_ID)

    async def load(self) -> None:
        """Reads again which they are."""
        unsettled = await self._app.store.read(chain_txs.unsettled(self._rail.chain_id))
        chain_id, quarantine = self._rail.chain_id, self._app.quarantine
        found: dict[str, Accepted] = {}
        for item in self._left_in(unsettled):
            async with quarantine.isolating(ItemKind.PAYMENT, chain_id, item.payment.id, "take up"):
                found[self._terms.reference(item.option)] = item
        self.by_ref = found

    async def drop_ended(self) -> None:
        """Lets go of those that others ended."""
        left = await self._app.store.read(chain_txs.unsettled_ids(self._rail.chain_id))
        self.by_ref = {ref: item for ref, item in self.by_ref.items() if item.payment.id in left}

    def keep(self, item: Accepted) -> None:
        """Follows a payment from now on, as it stands now."""
        self.by_ref[self._terms.reference(item.option)] = item

    def over(self, payment_ids: Collection[str]) -> None:
        """Forgets payments whose end is committed, and the events that proved it."""
        for ref in {r for r, item in self.by_ref.items() if item.payment.id in payment_ids}:
            proves = partial(self._terms.proves, self.by_ref.pop(ref).option)
            self._blocks.evidence.spend(ref, proves)

    # -- what was seen of them

    async def find_events(self, items: Sequence[Accepted]) -> None:
        """Asks the chain for the events of payments, whatever blocks told."""
        for start in range(0, len(items), _REFS_A_CALL):
            await self._app.quarantine.each(
                ItemKind.PAYMENT,
                self._rail.chain_id,
                items[start : start + _REFS_A_CALL],
                _PAYMENT_ID,
                "find events",
                self._find,
            )

    async def _find(self, items: Sequence[Accepted]) -> None:
        options = {self._terms.reference(item.option): item.option for item in items}
        for event in await self._rail.observer.find(items):
            if self._terms.proves(options[event.ref], event):
                self._blocks.evidence.add_paid(event)

    def seen(self, item: Accepted) -> bool:
        """True if there is an event of a payment, final or not."""
        return bool(self._proofs(item))

    def paid_in(self) -> dict[str, int]:
        """The newest block that pays each payment, final or not; absent ones are in none."""
        proofs = {item.payment.id: self._proofs(item) for item in self.items}
        return {
            payment_id: max(event.block_number for event in events)
            for payment_id, events in proofs.items()
            if events
        }

    def paid_by(self, item: Accepted, tx: ChainTx) -> bool:
        """True if a transaction paid a payment, as far as was seen."""
        return any(event.tx_hash in tx.hashes for event in self._proofs(item))

    async def proof(self, item: Accepted) -> Paid | None:
        """The final event that pays a payment, if there is one."""
        for event in self._proofs(item):
            if await self._blocks.is_settled(event):
                return event
        return None

    def unseen(self, accepted_by_us: int) -> list[Accepted]:
        """Those, accepted by a time, of which no block has told anything yet."""
        now_us = self._app.clock.now_us()
        return [
            item
            for item in self.items
            # nothing was accepted in the future: the clock was set back since
            if not accepted_by_us < item.confirmation.at_us <= now_us and not self.seen(item)
        ]

    def _proofs(self, item: Accepted) -> list[Paid]:
        events = self._blocks.evidence.paid.get(self._terms.reference(item.option), ())
        return [event for event in events if self._terms.proves(item.option, event)]

    # -- how long they can be paid

    def in_time(self, item: Accepted) -> bool:
        """True if a transaction that is sent now can still be mined before the item lapses."""
        last = self._terms.last_second(item.option)
        now = max(self._blocks.time, self._app.clock.now_us() // 1_000_000)
        return last is None or last - now >= _LAST_BLOCKS * self._blocks.interval

    def may_send(self, tx: ChainTx) -> bool:
        """False for what would pay at a price that is over, and does not lapse by itself.

        Where a chain looks at the time, or transactions wait for each other, all are sent.
        """
        items = [item for item in self.items if item.payment.id in tx.item_ids]
        return self._rail.blocks is not None or all(map(self.in_time, items))
