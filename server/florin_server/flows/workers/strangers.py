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
from florin_server.rails.base import Paid, Rail
from florin_server.store import journal, payments

_log = logging.getLogger(__name__)


class StrangerWatch:
    """Looks through the evidence of one chain for payments that nobody confirmed."""

    def __init__(self, app: App, rail: Rail, blocks: Follower) -> None:
        self._app = app
        self._rail = rail
        self._blocks = blocks
        self._seen: set[str] = set()  # references that were looked up
        self._waiting: dict[str, tuple[Payment, Option]] = {}  # by reference, until final

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
                del self._waiting[ref]
                await self._bind(payment, option, events[0])

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
