"""Money that came too late, or twice: booked once it is final, and sent back by a payout.

The payment that it was for stays as it ended. What comes from a blocked payer is held instead.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from florin_server.domain.ids import short_id
from florin_server.domain.payments.payment import Option, Payment
from florin_server.domain.payouts.held_money import HeldMoney
from florin_server.domain.payouts.payout import Payout, PayoutKind
from florin_server.domain.quarantine import ItemKind
from florin_server.flows.app import Core
from florin_server.flows.ledger import postings
from florin_server.flows.screening.check import why_blocked
from florin_server.rails.protocol import Rail
from florin_server.rails.types import Paid
from florin_server.store.settlement import late_payments
from florin_server.workers.settlement import held_money
from florin_server.workers.settlement.blocks import Follower

_log = logging.getLogger(__name__)


def name_of(event: Paid) -> str:
    """Return the subject under which an event is set aside; `place_of` reads it."""
    return f"{event.block_number}/{event.ref}/{event.tx_hash}"


def place_of(name: str) -> tuple[str, int]:
    """Return the reference and the block of an event that was set aside."""
    number, ref, _ = name.split("/", 2)
    return ref, int(number)


class LateMoney:
    """Settlement events of one chain that pay for nothing, until they are final and booked."""

    def __init__(self, app: Core, rail: Rail, blocks: Follower) -> None:
        self._app = app
        self._rail = rail
        self._blocks = blocks
        self._waiting: dict[Paid, tuple[Payment, Option, bool]] = {}
        self.lost: list[
            Paid
        ] = []  # what stands no more, or nodes differ about; as in DirectPayments

    def add(self, payment: Payment, option: Option, event: Paid, *, in_vain: bool = False) -> None:
        """Looks after an event that is proven to pay an option of a payment.

        `in_vain` tells that it cannot count for it by itself: it moved the money in another way
        than was offered, or when its price was over.
        """
        if in_vain or event not in self._waiting:
            self._waiting[event] = payment, option, in_vain

    @property
    def waiting(self) -> Collection[Paid]:
        """Events that are looked after."""
        return self._waiting.keys()

    async def record(self) -> None:
        """Books what is final by now; what is not so for now is lost."""
        paid = self._blocks.evidence.paid
        for event, (payment, option, in_vain) in list(self._waiting.items()):
            if event not in paid.get(event.ref, ()):
                self.lost.append(event)
                del self._waiting[event]
                continue
            name = name_of(event)
            async with self._app.quarantine.isolating(
                ItemKind.EVENT, self._rail.chain_id, name, "record late money"
            ):
                if await self._blocks.is_settled(event):
                    await self._record(payment, option, event, in_vain=in_vain)
                    del self._waiting[event]
            if self._app.quarantine.holds(ItemKind.EVENT, self._rail.chain_id, name):
                # it is asked for again once the operator retries it
                self._waiting.pop(event, None)

    async def _record(
        self, payment: Payment, option: Option, event: Paid, *, in_vain: bool
    ) -> None:
        app, rail, now_us = self._app, self._rail, self._app.clock.now_us()
        what: Payout | HeldMoney
        if why := await why_blocked(app, option.payer):
            what = held_money.money(app, rail, option, event, why, is_late=True)
            legs = postings.held(rail, option)
        else:
            what = self._return(payment, option, now_us)
            legs = postings.late(rail, payment.merchant_id, option)
        recorded = late_payments.record(
            option,
            held_money.event_of(event),
            legs,
            what,
            now_us,
            exact=rail.terms.proves(option, event),
            in_time=not in_vain,
        )
        if not await app.store.write(recorded):
            return
        if isinstance(what, HeldMoney):
            held_money.alarm(what)
            return
        _log.error(
            "payment %s was paid late, or twice, by %s: payout %s returns %d of %s to %s",
            payment.id,
            event.tx_hash,
            what.id,
            option.value,
            option.asset,
            option.payer,
        )
        app.wake_payouts()

    def _return(self, payment: Payment, option: Option, now_us: int) -> Payout:
        """The payout that sends all of it back, fee included."""
        return Payout(
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
            backed=postings.is_backed(self._rail, option),
        )
