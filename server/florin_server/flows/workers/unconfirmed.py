"""Binds payments to what their wallets sent without ever confirming it.

A wallet that sends its transaction by itself may be gone before it says so, or say so when its
quote has lapsed. The money moved all the same, and the settlement event tells for what. What it
can pay for no more goes back.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence

from florin_server.domain import results
from florin_server.domain.journal import Accepted, Sent
from florin_server.domain.payment import Confirmation
from florin_server.domain.state import Event
from florin_server.flows.app import App
from florin_server.flows.workers.blocks import Follower
from florin_server.flows.workers.late import LateMoney
from florin_server.rails.base import Paid, Rail
from florin_server.store import installation, journal, late, payments

_log = logging.getLogger(__name__)

_REFS_A_CALL = 50
# no contract takes what a wallet signed or sends much later than its payment ends
_LATE_S = 3600


class WalletWatch:
    """Looks through the evidence of one chain for events that belong to no accepted payment."""

    def __init__(self, app: App, rail: Rail, blocks: Follower, late: LateMoney) -> None:
        self._app = app
        self._rail = rail
        self._blocks = blocks
        self._evidence = blocks.evidence
        self._late = late
        self._seen: dict[str, list[Paid]] = {}  # events that need no second look, by reference

    async def look_back(self, accepted: Mapping[str, Accepted]) -> None:
        """Asks for what was sent while nobody followed the blocks."""
        sent = await self._app.store.read(journal.unconfirmed(self._rail.chain_id))
        await self._ask(sent, 0)
        # and for what came late meanwhile
        stopped = await self._app.store.read(installation.followed(self._rail.chain_id))
        if stopped is not None:
            block, at = stopped
            ended = journal.sent_since(self._rail.chain_id, at - _LATE_S)
            least = max(0, block + 1 - self._rail.confirmations)
            await self._ask(await self._app.store.survey(ended), least)
        await self.adopt(accepted)

    async def _ask(self, sent: Sequence[Sent], least: int) -> None:
        """Asks for the events of what wallets were told to send, from a block on."""
        for start in range(0, len(sent), _REFS_A_CALL):
            part = sent[start : start + _REFS_A_CALL]
            first = max(least, min(self._first_block(one) for one in part))
            for event in await self._rail.paid([one.reference for one in part], first):
                self._evidence.add_paid(event)

    async def adopt(self, accepted: Mapping[str, Accepted]) -> None:
        """Binds what was sent; `accepted` are payments by reference that need no such thing.

        A payment that is over stays over: its money came late.
        """
        paid = self._evidence.paid
        for ref in paid.keys() & accepted.keys():
            self._late.again(accepted[ref].payment, accepted[ref].option)
        new = {ref for ref, events in paid.items() if self._seen.get(ref) != events}
        if unknown := new - accepted.keys():
            found = await self._app.store.read(journal.sent_by_wallets(unknown))
            for sent in found:
                for event in paid[sent.reference]:
                    if self._rail.proves(sent.option, event):
                        await self._bind(sent, event)
                self._late.again(sent.payment, sent.option)
            await self._others(unknown - {sent.reference for sent in found})
        self._seen = {ref: list(paid[ref]) for ref in paid.keys() - accepted.keys()}
        await self._late.record()

    async def _others(self, references: Collection[str]) -> None:
        """Events of what wallets signed for us to send; others may have sent it, too late."""
        paid, chain = self._evidence.paid, self._rail.chain_id
        here = [event for ref in references for event in paid[ref] if self._is_ours(event)]
        if not here:
            return
        payers = {f"{chain}:{event.payer}" for event in here}
        least = self._app.clock.now_us() // 1_000_000 - _LATE_S
        offered = await self._app.store.survey(late.offered_since(chain, payers, least))
        known = set()
        for payment, option in offered:
            self._late.again(payment, option)
            for event in paid.get(self._rail.reference(option), ()):
                if self._rail.proves(option, event):
                    known.add(event)
                    self._late.add(payment, option, event)
        for event in here:
            unknown = event not in known and not self._late.knows(event)
            if unknown and f"{chain}:{event.dest}" == self._rail.treasury:
                text = "%s paid %d of %s to the treasury, for nothing that is known"
                _log.warning(text, event.tx_hash, event.value, event.token)

    def _is_ours(self, event: Paid) -> bool:
        return any(asset.address == event.token for asset in self._rail.assets.values())

    def _first_block(self, sent: Sent) -> int:
        return max(0, sent.head - self._rail.confirmations)

    async def _bind(self, sent: Sent, event: Paid) -> None:
        now_us = self._app.clock.now_us()
        output = f'"{event.tx_hash}"'
        digest = results.digest(sent.option.id, [output])
        content = Confirmation(sent.payment.id, sent.option.id, (output,), digest, now_us)
        bound = await self._app.store.write(
            payments.accept(
                content,
                sent.option,
                self._first_block(sent),
                ("unknown", None),
                now_us,
                cause=Event.SEEN_ON_CHAIN,
            )
        )
        if bound is not None:
            await self._app.changed(bound)
        else:
            self._late.add(sent.payment, sent.option, event)
