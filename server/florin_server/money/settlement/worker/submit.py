"""Sends what is accepted on one chain, as far as the keys have room, and sets aside the rest."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain.quarantine import QuarantinedItemKind, format_error
from florin_server.domain.settlement.chain_txs import GasShare, SettlementItem
from florin_server.money.settlement.store import chain_txs
from florin_server.money.settlement.worker import dry_runs
from florin_server.money.settlement.worker.blocked_payers import BlockedPayers
from florin_server.money.settlement.worker.direct_payments import is_paid_by_others
from florin_server.money.settlement.worker.gas_spending import GasBudgets
from florin_server.money.settlement.worker.open_payments import OpenPayments
from florin_server.money.settlement.worker.payment_finalizer import PaymentFinalizer
from florin_server.money.settlement.worker.senders import SenderPool
from florin_server.money.settlement.worker.tx_sender import TxSender
from florin_server.operations.context import QuarantineContext
from florin_server.operations.service.quarantine import is_unexpected
from florin_server.rails.context import ChainContext
from florin_server.rails.protocol import Rail
from florin_server.rails.types import SignedTransaction
from florin_server.settings.context import SettingsContext


class _Context(ChainContext, QuarantineContext, SettingsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

# a payment that would not settle now (for example without balance) is retried after a quarter of
# its age, within these bounds
_RETRY_MIN_US, _RETRY_MAX_US = 1_000_000, 5_000_000
# after this many batches that failed unexpectedly the others wait for the next turn
_FAILED_BATCHES_MAX = 100


class PaymentSubmitter:
    """Claims payments together with the transaction that pays them."""

    def __init__(  # noqa: PLR0917  (one of each, none alike)
        self,
        app: _Context,
        rail: Rail,
        open_payments: OpenPayments,
        senders: SenderPool,
        gas_budgets: GasBudgets,
        blocked_payers: BlockedPayers,
        finalizer: PaymentFinalizer,
    ) -> None:
        self._app = app
        self._rail = rail
        self._open_payments = open_payments
        self._senders = senders
        self._gas_budgets = gas_budgets
        self._blocked_payers = blocked_payers
        self._finalizer = finalizer

    async def submit(self) -> None:
        """Send what waits, until nothing does or no key has room."""
        batch_size, chain_id, failed = self._app.settings.settle_batch, self._rail.chain_id, 0
        while (
            self._senders.find_free() is not None
            and self._app.chains[chain_id].has_opening_balances
        ):
            now_us = self._app.clock.now_us()
            items = self._app.quarantine.filter_active(
                QuarantinedItemKind.PAYMENT,
                chain_id,
                await self._app.store.read(chain_txs.list_waiting(chain_id, batch_size, now_us)),
                lambda item: item.payment.id,
            )
            if not items:
                return
            try:
                has_room = await self._submit(items)
            except Exception as error:
                if not is_unexpected(error):
                    raise
                _log.warning(
                    "a group of payments could not be submitted together; Florin submits each "
                    "alone: %s",
                    format_error(error),
                )
                await self._submit_each(items)
                failed += 1
                if failed >= _FAILED_BATCHES_MAX:
                    return
                continue
            if not has_room:
                return

    async def _submit_each(self, items: Sequence[SettlementItem]) -> None:
        """Submit the waiting ones of a batch, each alone; what fails alone is quarantined."""
        chain_id, batch_size = self._rail.chain_id, self._app.settings.settle_batch
        for item in items:
            async with self._app.quarantine.isolate(
                QuarantinedItemKind.PAYMENT, chain_id, item.payment.id, "submit"
            ):
                # payments that were sent or postponed before the batch failed are not sent again
                now_us = self._app.clock.now_us()
                waiting_items = await self._app.store.read(
                    chain_txs.list_waiting(chain_id, batch_size, now_us)
                )
                if any(each_item.payment.id == item.payment.id for each_item in waiting_items):
                    await self._submit([item])

    async def _submit(self, items: Sequence[SettlementItem]) -> bool:
        """Send what can be sent of a batch, put the rest off; False if no key has room left."""
        if not (waiting_items := await self._select_own(items)):
            return True
        free_items, blocked_items = await self._blocked_payers.partition(waiting_items)
        late_items = [item for item in free_items if not self._open_payments.is_in_time(item)]
        # an account may have received code since the confirm
        free_items = await dry_runs.refresh_payers(
            self._rail.gas, [each_item for each_item in free_items if each_item not in late_items]
        )
        free_items = await self._gas_budgets.select_affordable(free_items, self._list_pending())
        good = await dry_runs.check_settleable(
            self._rail.relay, free_items, self._open_payments.items
        )
        for item in waiting_items:
            self._open_payments.follow(item)
        ready_items = [item for item, ok in zip(free_items, good, strict=True) if ok]
        deferred_items = (
            [item for item, ok in zip(free_items, good, strict=True) if not ok]
            + blocked_items
            + late_items
        )
        for batch in dry_runs.partition(self._rail.gas, ready_items):
            sender = self._senders.find_free()
            if sender is None:
                return False
            sent_items = await dry_runs.select_settleable(self._rail.relay, sender.address, batch)
            deferred_items += [item for item in batch if item not in sent_items]
            if sent_items:
                await self._send(sender, sent_items)
        if deferred_items:
            await self._defer(deferred_items)
        return True

    def _list_pending(self) -> list[tuple[SettlementItem, GasShare]]:
        items = self._open_payments.items_by_id
        return [
            (items[item_id], share)
            for item_id, share in self._senders.list_shares()
            if item_id in items
        ]

    async def _select_own(self, items: Sequence[SettlementItem]) -> list[SettlementItem]:
        """Leave payments alone that a wallet or another sender sends; return the others.

        Their effect can be in a block that was read long before their confirm.
        """
        direct_items = [item for item in items if is_paid_by_others(self._rail, item)]
        if direct_items:
            await self._open_payments.find_events(direct_items)
            for item in direct_items:
                self._open_payments.follow(item)
            await self._app.store.write(
                chain_txs.leave_to_buyer([item.payment.id for item in direct_items])
            )
            await self._finalizer.finalize_proven()
        return [item for item in items if item not in direct_items]

    async def _send(self, sender: TxSender, items: Sequence[SettlementItem]) -> None:
        ids = [item.payment.id for item in items]

        async def sign(nonce: int) -> SignedTransaction:
            return await self._rail.relay.sign(sender.address, nonce, items)

        await sender.send(ids, sign, lambda: chain_txs.claim(ids))

    async def _defer(self, items: Sequence[SettlementItem]) -> None:
        """Keep payments that would not settle now for later; end those that never can."""
        now_us = self._app.clock.now_us()
        await self._app.store.write(_reschedule(items, now_us))
        await self._finalizer.fail_unpayable(items)


@operation
def _reschedule(items: Sequence[SettlementItem], now_us: int) -> Op[None]:
    """Return when they are due again: soon if a wallet's transaction is not mined yet.

    That is mostly an approval. The older they are, the longer they wait.
    """
    due: dict[int, list[str]] = {}
    for item in items:
        pause_us = (now_us - item.confirmation.at_us) // 4
        pause_us = min(max(pause_us, _RETRY_MIN_US), _RETRY_MAX_US)
        due.setdefault(pause_us, []).append(item.payment.id)
    for pause_us, ids in due.items():
        yield from chain_txs.release(ids, now_us + pause_us)
