"""Money that came too late, or twice: booked once it is final, and sent back by a payout.

The payment that it was for stays as it ended.
"""

from __future__ import annotations

import logging

from florin_server.domain.ids import short_id
from florin_server.domain.payment import Option, Payment
from florin_server.domain.payout import Payout, PayoutKind
from florin_server.flows import postings
from florin_server.flows.app import App
from florin_server.flows.workers.blocks import Follower
from florin_server.rails.base import Paid, Rail
from florin_server.store import late

_log = logging.getLogger(__name__)


class LateMoney:
    """Settlement events of one chain that pay for nothing, until they are final and booked."""

    def __init__(self, app: App, rail: Rail, blocks: Follower) -> None:
        self._app = app
        self._rail = rail
        self._blocks = blocks
        self._waiting: dict[Paid, tuple[Payment, Option, bool]] = {}
        self._booked: set[Paid] = set()  # of the blocks that are remembered

    def add(self, payment: Payment, option: Option, event: Paid, *, in_vain: bool = False) -> None:
        """Looks after an event that is proven to pay an option of a payment.

        `in_vain` tells that it cannot count for it by itself: it moved the money in another way
        than was offered, or when its price was over.
        """
        if event not in self._booked and (in_vain or event not in self._waiting):
            self._waiting[event] = payment, option, in_vain

    def again(self, payment: Payment, option: Option) -> None:
        """Looks after all that was paid for an option besides, or to another end than offered."""
        for event in self._blocks.evidence.paid.get(self._rail.reference(option), ()):
            if self._rail.resembles(option, event):
                self.add(payment, option, event, in_vain=True)

    def knows(self, event: Paid) -> bool:
        """True if an event is looked after, or was booked of late."""
        return event in self._waiting or event in self._booked

    async def record(self) -> None:
        """Books what is final by now. What a reorganisation took back comes again, or never."""
        paid = self._blocks.evidence.paid
        self._booked = {event for event in self._booked if event in paid.get(event.ref, ())}
        for event, (payment, option, in_vain) in list(self._waiting.items()):
            if event not in paid.get(event.ref, ()):
                del self._waiting[event]
            elif await self._blocks.is_settled(event):
                await self._record(payment, option, event, in_vain=in_vain)
                del self._waiting[event]

    async def _record(
        self, payment: Payment, option: Option, event: Paid, *, in_vain: bool
    ) -> None:
        now_us = self._app.clock.now_us()
        back = Payout(
            id=short_id("pout_", self._app.randbytes),
            kind=PayoutKind.RETURN,
            merchant_id=payment.merchant_id,
            payment_id=payment.id,
            live=payment.live,
            chain_id=option.chain_id,
            asset=option.asset,
            value=option.value,
            account=option.payer,
            created_at_us=now_us,
            backed=postings.is_here(self._rail, option),
        )
        legs = postings.late(self._rail, payment.merchant_id, option)
        # a nonce is used once, in whatever block it comes to stand
        name = event.nonce or f"{event.tx_hash}:{event.ref}"
        exact = self._rail.proves(option, event)
        event_id = event.tx_hash, name
        done = await self._app.store.write(
            late.record(option, event_id, legs, back, now_us, exact=exact, in_time=not in_vain)
        )
        if done is not None:
            self._booked.add(event)
        if done:
            _log.error(
                "payment %s was paid late, or twice, by %s: payout %s returns %d of %s to %s",
                payment.id,
                event.tx_hash,
                back.id,
                option.value,
                option.asset,
                option.payer,
            )
            self._app.wake_payouts()
