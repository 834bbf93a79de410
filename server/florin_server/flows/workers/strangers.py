"""Recognises payments that somebody settled before their wallets confirmed them.

Whoever gets hold of what a buyer signed can take it to the settlement contract, which carries the
money where it belongs. The event proves the payment as it proves all others; what Florin was not
told is bound once the event is final, so that nothing has to be taken back.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from florin_server.domain import results
from florin_server.domain.journal import Accepted
from florin_server.domain.payment import Confirmation, Option, Payment
from florin_server.domain.state import Event
from florin_server.flows.app import App
from florin_server.flows.workers.blocks import Follower
from florin_server.flows.workers.late import LateMoney
from florin_server.rails.base import Paid, Rail, RailUnavailable
from florin_server.store import installation, journal, payments

_log = logging.getLogger(__name__)

# how often it is written down up to where a chain is read; what is read twice does no harm
_WRITTEN_US = 60_000_000
# blocks that are read again after Florin was down, and how many of them at a time: a day of a
# chain with a block every ten seconds. Payments are open for as long only if somebody wants that.
_BLOCKS_MAX = 10_000
_BLOCKS_A_CALL = 1_000


class StrangerWatch:
    """Looks through the evidence of one chain for payments that nobody confirmed."""

    def __init__(self, app: App, rail: Rail, blocks: Follower, late: LateMoney) -> None:
        self._app = app
        self._rail = rail
        self._blocks = blocks
        self._late = late
        self._seen: set[str] = set()  # references that were looked up
        self._waiting: dict[str, tuple[Payment, Option]] = {}  # by reference, until final
        self._unread = range(0)  # blocks that came while nobody followed them
        self._written = 0
        self._write_at_us = 0
        self.problem = ""  # what keeps blocks from being read

    async def load(self) -> None:
        """Finds out which blocks came while nobody followed them; the newest is the head."""
        if not self._rail.by_block:
            return
        chain, head = self._rail.chain_id, self._blocks.head
        stopped = await self._app.store.read(installation.followed(chain))
        seen = stopped[0] if stopped is not None else None
        self._written, self._write_at_us = seen or 0, 0
        first = head if seen is None else max(0, seen + 1 - self._rail.confirmations)
        if head + 1 - first > _BLOCKS_MAX:
            text = "%s: blocks %d to %d are not searched for payments that others settled"
            _log.error(text, chain, first, head - _BLOCKS_MAX)
            first = head + 1 - _BLOCKS_MAX
        self._unread = range(first, head + 1)

    async def catch_up(self, accepted: Collection[str]) -> None:
        """Reads some of the blocks that nobody followed, and writes down how far all are read."""
        if not self._rail.by_block:
            return
        if part := self._unread[:_BLOCKS_A_CALL]:
            try:
                events = await self._rail.paid_between(part[0], part[-1])
            except RailUnavailable as error:
                self.problem = f"blocks {part[0]} to {self._unread[-1]} are not read yet: {error}"
                return
            self.problem, self._unread = "", self._unread[len(part) :]
            await self._adopt_missed(events, accepted)
        read = self._unread[0] - 1 if self._unread else self._blocks.head
        now_us = self._app.clock.now_us()
        if read != self._written and now_us >= self._write_at_us:
            now = now_us // 1_000_000
            await self._app.store.write(installation.follow(self._rail.chain_id, read, now))
            self._written, self._write_at_us = read, now_us + _WRITTEN_US

    async def _adopt_missed(self, events: Collection[Paid], accepted: Collection[str]) -> None:
        missed: dict[str, list[Paid]] = {}
        for event in events:
            if event.ref not in accepted:
                missed.setdefault(event.ref, []).append(event)
        await self._look_up(missed)
        for ref in self._waiting.keys() & missed.keys():
            for event in missed[ref]:
                self._blocks.evidence.add_paid(event)
        await self.adopt(accepted)

    async def adopt(self, accepted: Collection[str]) -> None:
        """Binds what is final; `accepted` are the references of payments that need no such thing.

        Contracts are shared and anybody may call them, so most events belong to nobody here.
        """
        paid = self._blocks.evidence.paid
        self._seen &= paid.keys()
        unknown = paid.keys() - set(accepted) - self._seen
        if unknown:
            await self._look_up({ref: paid[ref] for ref in unknown})
            self._seen |= unknown
        for ref, (payment, option) in list(self._waiting.items()):
            events = [one for one in paid.get(ref, ()) if self._rail.proves(option, one)]
            if ref in accepted or not events:
                del self._waiting[ref]
                # a block that was replaced may come back
                self._seen.discard(ref)
            elif await self._blocks.is_settled(events[0]):
                if await self._in_time(option, events[0]):
                    await self._bind(payment, option, events[0])
                else:
                    self._late.add(payment, option, events[0], in_vain=True)
                del self._waiting[ref]

    async def _in_time(self, option: Option, event: Paid) -> bool:
        """True unless the price was over when the money moved.

        What is signed is good for some time longer, for us to send it if it was confirmed in time;
        nobody is to wait with it for a better price.
        """
        if option.expires_at is None:
            return True
        view = await self._rail.block(event.block_number)
        if view is None or view.hash != event.block_hash:
            raise RailUnavailable(f"{self._rail.chain_id}: a block changed while it was read")
        return view.time < option.expires_at

    async def _look_up(self, unknown: dict[str, list[Paid]]) -> None:
        tokens = {asset.address for asset in self._rail.assets.values()}
        chain = self._rail.chain_id
        payers = {
            f"{chain}:{event.payer}"
            for events in unknown.values()
            for event in events
            if event.token in tokens
        }
        if not payers:
            return
        for payment, option in await self._app.store.survey(journal.offered(chain, payers)):
            reference = self._rail.reference(option)
            if reference in unknown and self._rail.submits(option):
                self._waiting[reference] = payment, option

    async def _bind(self, payment: Payment, option: Option, event: Paid) -> None:
        now_us = self._app.clock.now_us()
        output = f'"{event.tx_hash}"'
        digest = results.digest(option.id, [output])
        content = Confirmation(payment.id, option.id, (output,), digest, now_us)
        bound = await self._app.store.write(
            payments.accept(
                content,
                option,
                event.block_number,
                ("unknown", None),
                now_us,
                cause=Event.SEEN_ON_CHAIN,
            )
        )
        if bound is not None:
            _log.warning("payment %s was settled by others, in %s", payment.id, event.tx_hash)
            await self._app.changed(bound)


def settled_by_others(item: Accepted) -> bool:
    """True if a payment is bound to a transaction, where a wallet would have signed something."""
    return results.match([results.Kind.TX_HASH], item.confirmation.outputs).verdict is (
        results.Verdict.OK
    )
