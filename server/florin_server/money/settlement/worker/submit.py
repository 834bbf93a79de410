"""Sends what is accepted on one chain, as far as the keys have room, and sets aside the rest."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Sequence

from florin_server.db.engine.query import Op, operation
from florin_server.domain.quarantine import QuarantinedItemKind, format_error
from florin_server.domain.settlement.chain_txs import GasShare, PayerKind, SettlementItem
from florin_server.money.settlement.store import settlement_items
from florin_server.money.settlement.worker.context import SettlementContext
from florin_server.money.settlement.worker.direct_payments import is_paid_by_others
from florin_server.money.settlement.worker.payment_finalizer import PaymentFinalizer
from florin_server.money.settlement.worker.transaction_queue import TransactionQueue
from florin_server.operations.service.quarantine import is_unexpected
from florin_server.rails.roles import GasPlanner, SettlementRelay
from florin_server.rails.types import SignedTransaction

_log = logging.getLogger(__name__)

# a payment that would not settle now (for example without balance) is retried after a quarter of
# its age, within these bounds
_RETRY_MIN_US, _RETRY_MAX_US = 1_000_000, 5_000_000
# after this many batches that failed unexpectedly the others wait for the next turn
_FAILED_BATCHES_MAX = 100


class PaymentSubmitter:
    """Claims payments together with the transaction that pays them."""

    def __init__(self, context: SettlementContext, finalizer: PaymentFinalizer) -> None:
        self._context = context
        self._finalizer = finalizer

    async def submit(self) -> None:
        """Send what waits, until nothing does or no key has room."""
        batch_size, chain_id, failed = (
            self._context.app.settings.settle_batch,
            self._context.rail.chain_id,
            0,
        )
        while (
            self._context.senders.find_free() is not None
            and self._context.app.chains[chain_id].has_opening_balances
        ):
            now_us = self._context.app.clock.now_us()
            items = self._context.app.quarantine.filter_active(
                QuarantinedItemKind.PAYMENT,
                chain_id,
                await self._context.app.store.read(
                    settlement_items.list_waiting(chain_id, batch_size, now_us)
                ),
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
        chain_id, batch_size = self._context.rail.chain_id, self._context.app.settings.settle_batch
        for item in items:
            async with self._context.app.quarantine.isolate(
                QuarantinedItemKind.PAYMENT, chain_id, item.payment.id, "submit"
            ):
                # payments that were sent or postponed before the batch failed are not sent again
                now_us = self._context.app.clock.now_us()
                waiting_items = await self._context.app.store.read(
                    settlement_items.list_waiting(chain_id, batch_size, now_us)
                )
                if any(each_item.payment.id == item.payment.id for each_item in waiting_items):
                    await self._submit([item])

    async def _submit(self, items: Sequence[SettlementItem]) -> bool:
        """Send what can be sent of a batch, put the rest off; False if no key has room left."""
        if not (waiting_items := await self._select_own(items)):
            return True
        free_items, blocked_items = await self._context.blocked_payers.partition(waiting_items)
        late_items = [
            item for item in free_items if not self._context.open_payments.is_in_time(item)
        ]
        # an account may have received code since the confirm
        free_items = await _refresh_payers(
            self._context.rail.gas,
            [each_item for each_item in free_items if each_item not in late_items],
        )
        free_items = await self._context.gas_budgets.select_affordable(
            free_items, self._list_pending()
        )
        good = await _check_settleable(
            self._context.rail.relay, free_items, self._context.open_payments.items
        )
        for item in waiting_items:
            self._context.open_payments.follow(item)
        ready_items = [item for item, ok in zip(free_items, good, strict=True) if ok]
        deferred_items = (
            [item for item, ok in zip(free_items, good, strict=True) if not ok]
            + blocked_items
            + late_items
        )
        for batch in _partition(self._context.rail.gas, ready_items):
            queue = self._context.senders.find_free()
            if queue is None:
                return False
            sent_items = await _select_settleable(
                self._context.rail.relay, queue.key.address, batch
            )
            deferred_items += [item for item in batch if item not in sent_items]
            if sent_items:
                await self._send(queue, sent_items)
        if deferred_items:
            await self._defer(deferred_items)
        return True

    def _list_pending(self) -> list[tuple[SettlementItem, GasShare]]:
        items = self._context.open_payments.items_by_id
        return [
            (items[item_id], share)
            for item_id, share in self._context.senders.list_shares()
            if item_id in items
        ]

    async def _select_own(self, items: Sequence[SettlementItem]) -> list[SettlementItem]:
        """Leave payments alone that a wallet or another sender sends; return the others.

        Their effect can be in a block that was read long before their confirm.
        """
        direct_items = [item for item in items if is_paid_by_others(self._context.rail, item)]
        if direct_items:
            await self._context.open_payments.find_events(direct_items)
            for item in direct_items:
                self._context.open_payments.follow(item)
            await self._context.app.store.write(
                settlement_items.leave_to_buyer([item.payment.id for item in direct_items])
            )
            await self._finalizer.finalize_proven()
        return [item for item in items if item not in direct_items]

    async def _send(self, queue: TransactionQueue, items: Sequence[SettlementItem]) -> None:
        ids = [item.payment.id for item in items]

        async def sign(nonce: int) -> SignedTransaction:
            return await self._context.rail.relay.sign(queue.key.address, nonce, items)

        await queue.send(ids, sign, lambda: settlement_items.claim(ids))

    async def _defer(self, items: Sequence[SettlementItem]) -> None:
        """Keep payments that would not settle now for later; end those that never can."""
        now_us = self._context.app.clock.now_us()
        await self._context.app.store.write(_reschedule(items, now_us))
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
        yield from settlement_items.release(ids, now_us + pause_us)


def _partition(
    gas: GasPlanner | None, items: Sequence[SettlementItem]
) -> list[Sequence[SettlementItem]]:
    """Partition items into transactions; items that failed before share none, and come last."""
    if gas is None:
        return [[item] for item in sorted(items, key=lambda item: item.isolated)]
    together = [item for item in items if not item.isolated]
    return [*gas.split_into_batches(together), *([item] for item in items if item.isolated)]


async def _refresh_payers(
    gas: GasPlanner | None, items: list[SettlementItem]
) -> list[SettlementItem]:
    """Return the items with their payers' present kind, where that makes a difference."""
    return items if gas is None else await gas.refresh_payers(items)


async def _check_settleable(
    relay: SettlementRelay,
    items: Sequence[SettlementItem],
    unsettled_items: Collection[SettlementItem],
) -> list[bool]:
    """Return which items would settle now, given all that were tried or sent before.

    A payment that was just verified alone needs no second check. A retried payment, or one whose
    payer has another open payment, may have lost its funds to that. One that needs more than a
    signature may wait for the buyer's own transaction.
    """
    payers = Counter(item.option.payer for item in items)
    payers.update(item.option.payer for item in unsettled_items)
    before = {item.payment.id for item in unsettled_items}
    if all(
        payers[item.option.payer] == 1
        and item.payment.id not in before
        and len(item.confirmation.outputs) == 1
        for item in items
    ):
        return [True] * len(items)
    return await relay.simulate(items)


async def _select_settleable(
    relay: SettlementRelay, sender: str, items: Sequence[SettlementItem]
) -> Sequence[SettlementItem]:
    """Return the items that would settle if a key sent them now.

    An account with code can have changed its answer a moment ago, or give other callers another
    answer than the sender; and so can what failed before.
    """
    if all(item.payer_kind in {None, PayerKind.KEY} and not item.isolated for item in items):
        return items
    good = await relay.simulate(items, sender)
    return [item for item, ok in zip(items, good, strict=True) if ok]
