"""Binds payments without a confirm to the settlement events that pay them.

A wallet that sends its transaction itself can disappear before it confirms, or never fetch its
actions. Anyone who gets a buyer's signature can submit it to the settlement contract, which moves
the money to its destination. The event names the payment; money that can no longer pay it is
returned.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from florin_server.base.context import EventContext
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.db.context import StorageContext
from florin_server.domain.payments import results
from florin_server.domain.payments.payment import (
    Confirmation,
    Payment,
    PaymentOption,
    PaymentStatus,
)
from florin_server.domain.payments.state import PaymentStateEvent
from florin_server.domain.quarantine import QuarantinedItemKind
from florin_server.domain.settlement.chain_txs import SettlementItem
from florin_server.money.payments.store import offered_options, payments
from florin_server.money.settlement.store import late_payments
from florin_server.money.settlement.worker.address_payments import AddressPayments
from florin_server.money.settlement.worker.blocks import ChainFollower
from florin_server.money.settlement.worker.deposit_payers import find_return_account
from florin_server.money.settlement.worker.late_payments import LatePayments, get_event_subject
from florin_server.operations.context import QuarantineContext
from florin_server.rails.protocol import Rail, has_own_address, is_relayed
from florin_server.rails.types import RailUnavailable, SettlementEvent
from florin_server.settings.context import SettingsContext


class _Context(
    EventContext, QuarantineContext, ScreeningContext, SettingsContext, StorageContext, Protocol
):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

# read at once: a query of a few milliseconds
_REFS_PER_QUERY = 500


class DirectPayments:
    """Searches the events of one chain for those that pay an option of Florin.

    A payment by a wallet's transaction is bound at once, so that the buyer does not pay twice. A
    payment by a signature that a stranger submitted is bound when it is final, so that nothing is
    reverted; so is every payment on a chain that reports final data only.
    """

    def __init__(
        self, app: _Context, rail: Rail, follower: ChainFollower, address_payments: AddressPayments
    ) -> None:
        self._app = app
        self._rail = rail
        self._follower = follower
        self._evidence = follower.evidence
        self._address_payments = address_payments
        self._late_payments = LatePayments(app, rail, follower)
        self._waiting_events: dict[
            SettlementEvent, tuple[Payment, PaymentOption]
        ] = {}  # until they are final

    @property
    def waiting_events(self) -> Sequence[SettlementEvent]:
        """Return the events that are not final, and need an action once they are."""
        return [*self._waiting_events, *self._late_payments.waiting_events]

    def take_lost_events(self) -> list[SettlementEvent]:
        """Return the awaited events that no longer exist, to be requested by their references.

        A block that was replaced is read again, but events about which nodes differ are requested
        here only.
        """
        lost, self._late_payments.lost_events = self._late_payments.lost_events, []
        return lost

    async def adopt(self, items: Mapping[str, SettlementItem]) -> None:
        """Check the events of new blocks, and bind what is final by now.

        `items` are the payments, by reference, that only wait for their events.
        """
        await self.take_events(self._evidence.new_events, items)
        self._evidence.new_events.clear()
        for event, (payment, option) in list(self._waiting_events.items()):
            if event.ref in items or event not in self._evidence.settlement_events.get(
                event.ref, ()
            ):
                # it was confirmed meanwhile, or a block was replaced, or nodes differ about it
                if event.ref not in items:
                    self._late_payments.lost_events.append(event)
                del self._waiting_events[event]
                continue
            async with self._isolate(event, "bind"):
                if has_own_address(option) and not self._address_payments.has_read(
                    option, event.block_number
                ):
                    continue  # only deposits show whose money it was
                if await self._follower.is_settled(event):
                    if await self._is_in_time(payment, option, event):
                        await self._bind(payment, option, event)
                    else:
                        self._late_payments.add(payment, option, event, cannot_settle=True)
                    del self._waiting_events[event]
            if self._is_quarantined(event):
                self._waiting_events.pop(event, None)
        await self._late_payments.record()

    def _isolate(self, event: SettlementEvent, step: str) -> AbstractAsyncContextManager[None]:
        chain_id = self._rail.chain_id
        return self._app.quarantine.isolate(
            QuarantinedItemKind.EVENT, chain_id, get_event_subject(event), step
        )

    def _is_quarantined(self, event: SettlementEvent) -> bool:
        chain_id = self._rail.chain_id
        return self._app.quarantine.contains(
            QuarantinedItemKind.EVENT, chain_id, get_event_subject(event)
        )

    async def _is_in_time(
        self, payment: Payment, option: PaymentOption, event: SettlementEvent
    ) -> bool:
        """Return True unless the price had lapsed when the money moved.

        A signature is valid for some time longer, so that Florin can send it if it was confirmed in
        time; others must not wait with it for a better price.
        """
        blocks = self._rail.blocks
        if blocks is None:
            # the block's time comes with the event, and ends payments without a quote too
            last_s = payment.expires_at if option.expires_at is None else option.expires_at
            return event.time is not None and event.time < min(last_s, payment.expires_at)
        if option.expires_at is None:
            return True
        view = await blocks.find_block(event.block_number)
        if view is None or view.hash != event.block_hash:
            raise RailUnavailable(f"{self._rail.chain_id}: a block changed while it was read")
        return view.time < option.expires_at

    async def take_events(
        self, events: Sequence[SettlementEvent], items: Mapping[str, SettlementItem]
    ) -> None:
        """Keep the events that pay an option of Florin, and drop all others."""
        references = {event.ref for event in events}
        open_ones = {ref: items[ref] for ref in references if ref in items}
        payments_by_ref = {ref: (item.payment, item.option) for ref, item in open_ones.items()}
        required = sorted(references - payments_by_ref.keys())
        for start in range(0, len(required), _REFS_PER_QUERY):
            part = required[start : start + _REFS_PER_QUERY]
            for found_payments in await self._app.quarantine.run_each(
                QuarantinedItemKind.EVENT,
                self._rail.chain_id,
                [event for event in events if event.ref in part],
                get_event_subject,
                "find payments",
                self._find_payments,
            ):
                payments_by_ref |= found_payments
        strange = []
        for event in events:
            if self._is_quarantined(event):
                continue
            async with self._isolate(event, "check the event"):
                if not await self._handle_event(payments_by_ref.get(event.ref), event):
                    strange.append(event)
        self._report_unknown(strange)

    async def _find_payments(
        self, events: Sequence[SettlementEvent]
    ) -> dict[str, tuple[Payment, PaymentOption]]:
        references = sorted({event.ref for event in events})
        rows = await self._app.store.read(
            offered_options.list_by_reference(self._rail.chain_id, references)
        )
        return {
            self._rail.terms.get_reference(option): (payment, option) for payment, option in rows
        }

    async def _handle_event(
        self, match: tuple[Payment, PaymentOption] | None, event: SettlementEvent
    ) -> bool:
        """Return True if an event moved an option's money, and act on it."""
        if match is None:
            return False
        payment, option = match
        direct = self._rail.direct_settlement
        if direct is not None and direct.is_resembled(option, event):
            # the money, but not as offered: it is returned, whatever the payment's end is
            self._evidence.add_event(event)
            self._late_payments.add(payment, option, event, cannot_settle=True)
            return True
        if not self._rail.terms.is_proven(option, event):
            # anyone who has seen the reference may have sent anything with it
            return False
        self._evidence.add_event(event)
        current_payment = payment.with_expiry(self._app.clock.now_us())
        if late_payments.is_late(current_payment, option):
            self._late_payments.add(payment, option, event)
        elif current_payment.status is not PaymentStatus.REQUIRES_ACTION:
            pass  # the settler waits for it, or has concluded from it
        elif is_relayed(self._rail, option) or self._rail.blocks is None:
            # without blocks, no later one can take back what a single node reports
            self._waiting_events[event] = payment, option
        else:
            await self._bind(payment, option, event)
        return True

    async def _bind(self, payment: Payment, option: PaymentOption, event: SettlementEvent) -> None:
        """Accept the chain's evidence in place of a wallet's confirm; it can be late."""
        now_us = self._app.clock.now_us()
        output = f'"{event.tx_hash}"'
        digest = results.compute_digest(option.id, [output])
        confirmation = Confirmation(payment.id, option.id, (output,), digest, now_us)
        first = option.first_block(self._rail.reorg_depth, event.block_number)
        payer = await find_return_account(self._app, self._rail, option)
        changed_payment = await self._app.store.write(
            payments.accept(
                confirmation,
                option,
                first,
                ("unknown", None),
                now_us,
                cause=PaymentStateEvent.SEEN_ON_CHAIN,
                payer=payer,
            )
        )
        if changed_payment is None:
            self._late_payments.add(payment, option, event)
            return
        if is_relayed(self._rail, option):
            _log.warning(
                "payment %s was settled by another sender, in %s", payment.id, event.tx_hash
            )
        self._app.notifier.publish_payment(changed_payment)

    def _report_unknown(self, events: Sequence[SettlementEvent]) -> None:
        """Log money that the treasury received for no known payment; one line a turn."""
        chain = self._rail.chain_id
        tokens = {asset.address for asset in self._rail.assets.values()}
        here = [
            event
            for event in events
            if event.token in tokens and f"{chain}:{event.dest}" == self._rail.treasury
        ]
        if here:
            first = here[0]
            text = "%s paid %d of %s to the treasury for no known payment; such events: %d"
            _log.warning(text, first.tx_hash, first.value, first.token, len(here))


def is_paid_by_others(rail: Rail, item: SettlementItem) -> bool:
    """Return True if a wallet sends the payment of an item, or another sender did.

    It is bound to a transaction then, where a wallet would have signed something.
    """
    match = results.match_outputs([results.OutputKind.TX_HASH], item.confirmation.outputs)
    return not is_relayed(rail, item.option) or match.verdict is results.OutputVerdict.OK
