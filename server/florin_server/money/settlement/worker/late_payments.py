"""Money that arrived too late, or twice: posted once it is final, and returned by a payout.

Its payment stays as it ended. Money from a blocked payer is held instead.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final, Protocol

from florin_server.base.context import EventContext
from florin_server.base.topics import Topic
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.db.context import StorageContext
from florin_server.domain.ids import generate_short_id
from florin_server.domain.payments.payment import Payment, PaymentOption
from florin_server.domain.payouts.held_money import HeldMoney
from florin_server.domain.payouts.payout import Payout, PayoutKind
from florin_server.domain.quarantine import QuarantinedItemKind
from florin_server.money.ledger.service import postings
from florin_server.money.settlement.store import late_payments
from florin_server.money.settlement.worker import held_money
from florin_server.money.settlement.worker.blocks import ChainFollower
from florin_server.money.settlement.worker.deposit_payers import (
    PayerBlock,
    find_payer_block,
    find_return_account,
    with_payer,
)
from florin_server.operations.context import QuarantineContext
from florin_server.rails.protocol import Rail
from florin_server.rails.types import SettlementEvent
from florin_server.settings.context import SettingsContext


class _Context(
    EventContext, QuarantineContext, ScreeningContext, SettingsContext, StorageContext, Protocol
):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

_UNKNOWN_SENDER: Final = "its sender is unknown, a contract, or several accounts"


def get_event_subject(event: SettlementEvent) -> str:
    """Return the subject under which an event is quarantined; `parse_event_subject` reads it."""
    return f"{event.block_number}/{event.ref}/{event.tx_hash}"


def parse_event_subject(subject: str) -> tuple[str, int]:
    """Return the reference and the block of a quarantined event."""
    number, ref, _ = subject.split("/", 2)
    return ref, int(number)


class LatePayments:
    """Settlement events of one chain that pay for nothing, until they are final and posted."""

    def __init__(self, app: _Context, rail: Rail, follower: ChainFollower) -> None:
        self._app = app
        self._rail = rail
        self._follower = follower
        self._waiting_events: dict[SettlementEvent, tuple[Payment, PaymentOption, bool]] = {}
        self.lost_events: list[
            SettlementEvent
        ] = []  # events that no longer exist, or about which nodes differ; as in DirectPayments

    def add(
        self,
        payment: Payment,
        option: PaymentOption,
        event: SettlementEvent,
        *,
        cannot_settle: bool = False,
    ) -> None:
        """Follow an event that provably pays an option of a payment.

        `cannot_settle` means that it cannot pay the payment: it moved the money in another way than
        offered, or after its price had lapsed.
        """
        if cannot_settle or event not in self._waiting_events:
            self._waiting_events[event] = payment, option, cannot_settle

    @property
    def waiting_events(self) -> Collection[SettlementEvent]:
        """Return the followed events."""
        return self._waiting_events.keys()

    async def record(self) -> None:
        """Record what is final by now; what is not so for now is lost."""
        events_by_ref = self._follower.evidence.settlement_events
        for event, (payment, option, cannot_settle) in list(self._waiting_events.items()):
            if event not in events_by_ref.get(event.ref, ()):
                self.lost_events.append(event)
                del self._waiting_events[event]
                continue
            subject = get_event_subject(event)
            async with self._app.quarantine.isolate(
                QuarantinedItemKind.EVENT, self._rail.chain_id, subject, "record late money"
            ):
                if await self._follower.is_settled(event):
                    await self._record(payment, option, event, cannot_settle=cannot_settle)
                    del self._waiting_events[event]
            if self._app.quarantine.contains(
                QuarantinedItemKind.EVENT, self._rail.chain_id, subject
            ):
                # it is requested again once the operator retries it
                self._waiting_events.pop(event, None)

    async def _record(
        self,
        payment: Payment,
        option: PaymentOption,
        event: SettlementEvent,
        *,
        cannot_settle: bool,
    ) -> None:
        app, rail, now_us = self._app, self._rail, self._app.clock.now_us()
        held_or_payout: Payout | HeldMoney
        account = await find_return_account(app, rail, option)
        block = await find_payer_block(app, option)
        if block is None and account is None:
            block = PayerBlock(option.payer, _UNKNOWN_SENDER)
        if block is not None:
            held_option = with_payer(option, block.payer)
            held_or_payout = held_money.build_held_money(
                app, rail, held_option, event, block.reason, is_late=True
            )
            ledger_postings = postings.build_held_postings(rail, held_option)
        else:
            held_or_payout = self._build_return_payout(
                payment, with_payer(option, account or option.payer), now_us
            )
            ledger_postings = postings.build_late_postings(rail, payment.merchant_id, option)
        record_operation = late_payments.record(
            option,
            held_money.get_event_key(event),
            ledger_postings,
            held_or_payout,
            now_us,
            exact=rail.terms.is_proven(option, event),
            in_time=not cannot_settle,
        )
        if not await app.store.write(record_operation):
            return
        if isinstance(held_or_payout, HeldMoney):
            held_money.alert_operator(held_or_payout)
            return
        _log.error(
            "payment %s was paid late, or twice, by %s: payout %s returns %d of %s to %s",
            payment.id,
            event.tx_hash,
            held_or_payout.id,
            option.value,
            option.asset,
            held_or_payout.account,
        )
        app.notifier.publish(Topic.PAYOUTS_DUE)

    def _build_return_payout(self, payment: Payment, option: PaymentOption, now_us: int) -> Payout:
        """Return the payout that sends all of it back, fee included."""
        return Payout(
            id=generate_short_id("pout_", self._app.randbytes),
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
