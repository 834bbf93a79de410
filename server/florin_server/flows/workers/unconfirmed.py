"""Binds payments to what their wallets sent without ever confirming it.

A wallet that sends its transaction by itself may be gone before it says so, or say so when its
quote has lapsed. The money moved all the same, and the settlement event tells for what.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from florin_server.domain import results
from florin_server.domain.journal import Sent
from florin_server.domain.payment import Confirmation, Status
from florin_server.domain.state import Event
from florin_server.flows.app import App
from florin_server.flows.workers.blocks import Evidence
from florin_server.rails.base import Paid, Rail
from florin_server.store import journal, payments

_log = logging.getLogger(__name__)

_REFS_A_CALL = 50


class WalletWatch:
    """Looks through the evidence of one chain for events that belong to no accepted payment."""

    def __init__(self, app: App, rail: Rail, evidence: Evidence) -> None:
        self._app = app
        self._rail = rail
        self._evidence = evidence
        self._seen: set[str] = set()  # references that need no second look

    async def look_back(self, accepted: Collection[str]) -> None:
        """Asks for what was sent while nobody followed the blocks."""
        sent = await self._app.store.read(journal.unconfirmed(self._rail.chain_id))
        for start in range(0, len(sent), _REFS_A_CALL):
            part = sent[start : start + _REFS_A_CALL]
            first = min(self._first_block(one) for one in part)
            for event in await self._rail.paid([one.reference for one in part], first):
                self._evidence.add_paid(event)
        await self.adopt(accepted)

    async def adopt(self, accepted: Collection[str]) -> None:
        """Binds what was sent; `accepted` are the references of payments that need no such thing.

        A payment that is over stays over: its money came late.
        """
        paid = self._evidence.paid
        self._seen &= paid.keys()
        unknown = paid.keys() - set(accepted) - self._seen
        if not unknown:
            return
        for sent in await self._app.store.read(journal.sent_by_wallets(unknown)):
            for event in paid[sent.reference]:
                if self._rail.proves(sent.option, event):
                    await self._bind(sent, event)
        self._seen |= unknown

    def over(self, references: Collection[str]) -> None:
        """Tells of payments that have ended: their events stay known for a while."""
        self._seen.update(references)

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
        elif sent.payment.at(now_us).status in {Status.CANCELLED, Status.EXPIRED, Status.FAILED}:
            _log.error("payment %s was paid late, by %s", sent.payment.id, event.tx_hash)
