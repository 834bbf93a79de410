"""Ends payments and transactions of one chain, by the evidence of blocks or of node calls."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager

from florin_server.domain.payments.payment import FailureCode, Payment, PaymentStatus
from florin_server.domain.quarantine import QuarantinedItemKind, format_error
from florin_server.domain.settlement.chain_txs import (
    PaymentOutcome,
    SettlementItem,
    WatchedTransaction,
)
from florin_server.money.ledger.service import postings
from florin_server.money.settlement.store import settlement_items
from florin_server.money.settlement.worker import gas_spending, held_money
from florin_server.money.settlement.worker.context import SettlementContext
from florin_server.money.settlement.worker.ended_transactions import EndedTransaction
from florin_server.money.settlement.worker.reorg_watch import list_watched
from florin_server.operations.service.quarantine import is_unexpected
from florin_server.rails.protocol import is_relayed
from florin_server.rails.types import SettlementEvent

_log = logging.getLogger(__name__)


# named in a chain's health; all are in the log
_NAMED_MAX = 3


class AwaitingProof:
    """Payments that the settlement contract reports as paid, while no node returns their events.

    They keep their status until their events are found.
    """

    def __init__(self, context: SettlementContext) -> None:
        self._context = context
        self._ids: set[str] = set()

    async def contains(self, item: SettlementItem) -> bool:
        """Return True if the chain reports an item as paid by a wallet: it must have an event."""
        direct, option = self._context.rail.direct_settlement, item.option
        if direct is None or not direct.is_direct(option) or not await direct.is_paid(option):
            return False
        await self._context.open_payments.find_events([item])
        if self._context.open_payments.has_event(item):
            self.remove([item.payment.id])
        elif item.payment.id not in self._ids:
            self._ids.add(item.payment.id)
            text = (
                "payment %s is paid according to the contract, but no node returns its transaction"
            )
            _log.error(text, item.payment.id)
        return True

    def remove(self, payment_ids: Iterable[str]) -> None:
        """Forget payments whose events were found, or that other evidence ended."""
        self._ids.difference_update(payment_ids)

    def describe_problem(self, unsettled_items: Iterable[SettlementItem]) -> str:
        """Return the operator's text, given all payments that are not settled; empty if nothing."""
        payment_ids = sorted(self._ids & {item.payment.id for item in unsettled_items})
        if not payment_ids:
            return ""
        more = f" and {len(payment_ids) - _NAMED_MAX} more" if len(payment_ids) > _NAMED_MAX else ""
        return (
            f"payments paid whose events are missing: {', '.join(payment_ids[:_NAMED_MAX])}{more}"
        )


class PaymentFinalizer:
    """Commits what is proven, all that follows from it at once."""

    def __init__(self, context: SettlementContext) -> None:
        self._context = context
        self.awaiting_proof = AwaitingProof(context)

    async def finalize_proven(self) -> None:
        """End what final events pay, and the transactions that are final."""
        outcomes = []
        for item in list(self._context.open_payments.items):
            async with self._isolate(item.payment.id, "conclude"):
                if (event := await self._context.open_payments.find_proof(item)) is not None:
                    outcome = self._build_success(item, event)
                    outcomes.append(
                        await held_money.screen_success(
                            self._context.app, self._context.rail, item, event, outcome
                        )
                    )
        await self.commit(outcomes, await self._context.senders.list_final())

    def _isolate(self, payment_id: str, step: str) -> AbstractAsyncContextManager[None]:
        chain_id = self._context.rail.chain_id
        return self._context.app.quarantine.isolate(
            QuarantinedItemKind.PAYMENT, chain_id, payment_id, step
        )

    async def fail_unpayable(self, items: Sequence[SettlementItem]) -> None:
        """End payments that never can be settled; the chain may not answer."""
        outcomes = []
        for item in items:
            async with self._isolate(item.payment.id, "end as unpayable"):
                if (outcome := await self._find_unpayable(item)) is not None:
                    outcomes.append(outcome)
        await self.commit(outcomes, [])

    async def commit(
        self, outcomes: Sequence[PaymentOutcome], ended_txs: Sequence[EndedTransaction]
    ) -> None:
        """Commit proven outcomes, notify watchers, and free payments whose transaction failed.

        If that fails unexpectedly, each is committed alone, and what fails alone is quarantined.
        """
        if not outcomes and not ended_txs:
            return
        try:
            await self._commit(outcomes, ended_txs)
        except Exception as error:
            if not is_unexpected(error):
                raise
            _log.warning("outcomes are committed one by one: %s", format_error(error))
            await self._commit_each(outcomes, ended_txs)

    async def _commit_each(
        self, outcomes: Sequence[PaymentOutcome], ended_txs: Sequence[EndedTransaction]
    ) -> None:
        for outcome in outcomes:
            async with self._isolate(outcome.payment_id, "commit the end"):
                await self._commit([outcome], [])
        for ended_tx in ended_txs:
            async with self._context.app.quarantine.isolate(
                QuarantinedItemKind.TRANSACTION,
                self._context.rail.chain_id,
                ended_tx.tx.id,
                "commit the end",
            ):
                await self._commit([], [ended_tx])

    async def _commit(
        self, outcomes: Sequence[PaymentOutcome], ended_txs: Sequence[EndedTransaction]
    ) -> None:
        now_us = self._context.app.clock.now_us()
        watched_txs = self._context.reorg_watch.list_new(list_watched(outcomes, ended_txs))
        watch_operation = self._context.reorg_watch.record_watched(watched_txs)
        finished_ids = {outcome.payment_id for outcome in outcomes}
        if freed_items := self._list_freed(ended_txs, finished_ids):
            # their payments may have become final after the read
            await self._context.open_payments.find_events(freed_items)
        ended_txs = await self._context.gas_budgets.add_gas_spending(
            ended_txs,
            self._context.open_payments.items_by_id,
            self._context.open_payments.is_paid_by,
        )
        retries = self._context.gas_budgets.plan_retries(
            ended_txs, self._list_freed(ended_txs, finished_ids), now_us
        )
        changed_payments = await self._context.app.store.write(
            gas_spending.commit_outcomes(outcomes, ended_txs, retries, now_us, watch_operation)
        )
        self._context.reorg_watch.add(watched_txs)
        for retry in retries:
            self._context.open_payments.follow(retry.item)
        await self._context.gas_budgets.report_committed(ended_txs, retries)
        held_money.report_held(outcomes, changed_payments)
        for payment in changed_payments:
            self._record_settle_time(payment, now_us)
            self._context.app.notifier.publish_payment(payment)
        self._context.blocked_payers.remove(finished_ids)
        self.awaiting_proof.remove(finished_ids)
        self._context.open_payments.remove(finished_ids)
        self._context.senders.remove(ended_txs)
        await self.fail_unpayable([each_retry.item for each_retry in retries])

    def _record_settle_time(self, payment: Payment, now_us: int) -> None:
        item = self._context.open_payments.items_by_id.get(payment.id)
        if item is not None and payment.status.is_final:
            seconds = max(0, now_us - item.confirmation.at_us) / 1_000_000
            chain_id, began_us = self._context.rail.chain_id, item.confirmation.at_us
            self._context.app.meters.record_settlement(chain_id, payment.status, seconds)
            self._context.observations.record_settle_time(item, payment, seconds)
            self._context.app.traces.record_step(
                payment.id, "settle", began_us, now_us, chain=chain_id
            )

    def _build_success(self, item: SettlementItem, event: SettlementEvent) -> PaymentOutcome:
        option, split = item.option, self._context.rail.terms.get_split(item.option)
        return PaymentOutcome(
            payment_id=item.payment.id,
            status=PaymentStatus.SUCCEEDED,
            tx_hash=event.tx_hash,
            settled_value=option.value - split.fee if split.settled else None,
            postings=postings.build_settlement_postings(
                self._context.rail, item.payment.merchant_id, option
            ),
            watched_transaction=WatchedTransaction(
                event.tx_hash, event.block_number, event.block_hash
            ),
            position=event.position,
        )

    def _list_freed(
        self, ended_txs: Sequence[EndedTransaction], finished_ids: Collection[str]
    ) -> list[SettlementItem]:
        """Return payments of transactions that ended without their event.

        They need another transaction.
        """
        freed_ids = {
            item_id for ended_tx in ended_txs for item_id in ended_tx.tx.item_ids
        }.difference(finished_ids)
        return [
            item
            for item in self._context.open_payments.items
            if item.payment.id in freed_ids and not self._context.open_payments.has_event(item)
        ]

    async def _find_unpayable(self, item: SettlementItem) -> PaymentOutcome | None:
        """Return the proof that a payment's authorization can never be used, if there is one."""
        item = item.extend_to_offer(self._context.rail.reorg_depth)
        if await self.awaiting_proof.contains(item):
            return None
        resolved_builds = await self._context.app.store.read(
            settlement_items.list_resolved_builds([item.payment.id])
        )
        reason = await self._context.rail.observer.find_unpayable_reason(item, resolved_builds)
        if reason is None:
            return None
        await self._context.open_payments.find_events([item])
        if self._context.open_payments.has_event(item):
            return None
        if item.payment.status is PaymentStatus.SUCCEEDED:
            text = "payment %s was removed by a reorganization and can never be paid again: %s"
            _log.error(text, item.payment.id, reason)
        else:
            _log.warning("payment %s failed: %s", item.payment.id, reason)
        code = FailureCode.DECLINED_USER if await self._was_held(item) else None
        return PaymentOutcome(
            item.payment.id, PaymentStatus.FAILED, failure_code=code, failure_detail=reason
        )

    async def _was_held(self, item: SettlementItem) -> bool:
        """Return True if Florin had to send a payment, and did not send it because of its payer."""
        ours = is_relayed(self._context.rail, item.option)
        return (
            ours
            and not self._context.senders.has_payment(item.payment.id)
            and await self._context.blocked_payers.is_blocked(item)
        )
