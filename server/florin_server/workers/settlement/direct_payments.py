"""Binds payments that nobody confirmed to the settlement events that pay them.

A wallet that sends its transaction by itself may be gone before it says so, or may never ask what
to send. Whoever gets hold of what a buyer signed can take it to the settlement contract, which
carries the money where it belongs. The event tells for what the money is; what it can pay for no
more goes back.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from florin_server.domain.payments import results
from florin_server.domain.payments.payment import Confirmation, Option, Payment, Status
from florin_server.domain.payments.state import Event
from florin_server.domain.quarantine import ItemKind
from florin_server.domain.settlement.chain_txs import Accepted
from florin_server.flows.app import Core
from florin_server.rails.protocol import Rail, submits
from florin_server.rails.types import Paid, RailUnavailable
from florin_server.store.payments import offered, payments
from florin_server.store.settlement import late_payments
from florin_server.workers.settlement.blocks import Follower
from florin_server.workers.settlement.late_payments import LateMoney, name_of

_log = logging.getLogger(__name__)

# looked up at once: a question to the store that takes a few milliseconds
_REFS_A_QUERY = 500


class DirectPayments:
    """Looks through the events of one chain for those that pay an option of ours.

    What a wallet sends is bound at once, so that nobody pays twice; what a wallet signed and
    somebody else took to the chain is bound when it is final, so that nothing is taken back.
    """

    def __init__(self, app: Core, rail: Rail, blocks: Follower) -> None:
        self._app = app
        self._rail = rail
        self._blocks = blocks
        self._evidence = blocks.evidence
        self._late = LateMoney(app, rail, blocks)
        self._waiting: dict[Paid, tuple[Payment, Option]] = {}  # until they are final

    @property
    def waiting(self) -> Sequence[Paid]:
        """Events that are not final, and for which something is to be done then."""
        return [*self._waiting, *self._late.waiting]

    def take_lost(self) -> list[Paid]:
        """Events that were waited for and stand no more, to be asked for by their references.

        A block that was replaced is read again, but what nodes differ about, nobody else asks for.
        """
        lost, self._late.lost = self._late.lost, []
        return lost

    async def adopt(self, accepted: Mapping[str, Accepted]) -> None:
        """Looks at the events of new blocks, and binds what is final by now.

        `accepted` are the payments, by reference, that only wait for their events.
        """
        await self.take(self._evidence.fresh, accepted)
        self._evidence.fresh.clear()
        for event, (payment, option) in list(self._waiting.items()):
            if event.ref in accepted or event not in self._evidence.paid.get(event.ref, ()):
                # it was confirmed meanwhile, or a block was replaced, or nodes differ about it
                if event.ref not in accepted:
                    self._late.lost.append(event)
                del self._waiting[event]
                continue
            async with self._isolating(event, "bind"):
                if await self._blocks.is_settled(event):
                    if await self._in_time(option, event):
                        await self._bind(payment, option, event)
                    else:
                        self._late.add(payment, option, event, in_vain=True)
                    del self._waiting[event]
            if self._is_set_aside(event):
                self._waiting.pop(event, None)
        await self._late.record()

    def _isolating(self, event: Paid, step: str) -> AbstractAsyncContextManager[None]:
        chain_id = self._rail.chain_id
        return self._app.quarantine.isolating(ItemKind.EVENT, chain_id, name_of(event), step)

    def _is_set_aside(self, event: Paid) -> bool:
        chain_id = self._rail.chain_id
        return self._app.quarantine.holds(ItemKind.EVENT, chain_id, name_of(event))

    async def _in_time(self, option: Option, event: Paid) -> bool:
        """True unless the price was over when the money moved.

        What is signed is good for some time longer, for us to send it if it was confirmed in time;
        nobody is to wait with it for a better price.
        """
        if option.expires_at is None:
            return True
        blocks = self._rail.blocks
        view = None if blocks is None else await blocks.block(event.block_number)
        if view is None or view.hash != event.block_hash:
            raise RailUnavailable(f"{self._rail.chain_id}: a block changed while it was read")
        return view.time < option.expires_at

    async def take(self, events: Sequence[Paid], accepted: Mapping[str, Accepted]) -> None:
        """Keeps the events that pay an option of ours; all others are nobody's, and forgotten."""
        references = {event.ref for event in events}
        open_ones = {ref: accepted[ref] for ref in references if ref in accepted}
        known = {ref: (item.payment, item.option) for ref, item in open_ones.items()}
        wanted = sorted(references - known.keys())
        for start in range(0, len(wanted), _REFS_A_QUERY):
            part = wanted[start : start + _REFS_A_QUERY]
            for found in await self._app.quarantine.each(
                ItemKind.EVENT,
                self._rail.chain_id,
                [event for event in events if event.ref in part],
                name_of,
                "look up",
                self._look_up,
            ):
                known |= found
        strange = []
        for event in events:
            if self._is_set_aside(event):
                continue
            async with self._isolating(event, "judge"):
                if not await self._judge(known.get(event.ref), event):
                    strange.append(event)
        self._tell_of(strange)

    async def _look_up(self, events: Sequence[Paid]) -> dict[str, tuple[Payment, Option]]:
        references = sorted({event.ref for event in events})
        found = await self._app.store.read(offered.by_reference(self._rail.chain_id, references))
        return {self._rail.terms.reference(option): (payment, option) for payment, option in found}

    async def _judge(self, paid_for: tuple[Payment, Option] | None, event: Paid) -> bool:
        """True if an event moved an option's money; does what follows from that."""
        if paid_for is None:
            return False
        payment, option = paid_for
        direct = self._rail.direct
        if direct is not None and direct.resembles(option, event):
            # the money, but not as it was offered: it goes back, whatever becomes of the payment
            self._evidence.add_paid(event)
            self._late.add(payment, option, event, in_vain=True)
            return True
        if not self._rail.terms.proves(option, event):
            # whoever has seen the reference may have sent anything with it
            return False
        self._evidence.add_paid(event)
        seen = payment.at(self._app.clock.now_us())
        if late_payments.is_late(seen, option):
            self._late.add(payment, option, event)
        elif seen.status is not Status.REQUIRES_ACTION:
            pass  # the settler waits for it, or has concluded from it
        elif submits(self._rail, option):
            self._waiting[event] = payment, option
        else:
            await self._bind(payment, option, event)
        return True

    async def _bind(self, payment: Payment, option: Option, event: Paid) -> None:
        """Accepts what the chain says in the place of a wallet; it is late if that is too late."""
        now_us = self._app.clock.now_us()
        output = f'"{event.tx_hash}"'
        digest = results.digest(option.id, [output])
        content = Confirmation(payment.id, option.id, (output,), digest, now_us)
        first = option.first_block(self._rail.reorg_depth, event.block_number)
        bound = await self._app.store.write(
            payments.accept(
                content, option, first, ("unknown", None), now_us, cause=Event.SEEN_ON_CHAIN
            )
        )
        if bound is None:
            self._late.add(payment, option, event)
            return
        if submits(self._rail, option):
            _log.warning("payment %s was settled by others, in %s", payment.id, event.tx_hash)
        await self._app.changed(bound)

    def _tell_of(self, strange: Sequence[Paid]) -> None:
        """Tells of money that the treasury got for nothing that is known; one line a look."""
        chain = self._rail.chain_id
        tokens = {asset.address for asset in self._rail.assets.values()}
        here = [
            event
            for event in strange
            if event.token in tokens and f"{chain}:{event.dest}" == self._rail.treasury
        ]
        if here:
            first = here[0]
            text = "%s paid %d of %s to the treasury, for nothing that is known; such events: %d"
            _log.warning(text, first.tx_hash, first.value, first.token, len(here))


def is_left_to_others(rail: Rail, item: Accepted) -> bool:
    """True if a wallet sends what pays an item, or somebody else has.

    It is bound to a transaction then, where a wallet would have signed something.
    """
    given = results.match([results.Kind.TX_HASH], item.confirmation.outputs)
    return not submits(rail, item.option) or given.verdict is results.Verdict.OK
