"""Pays out of one chain's treasury: store, broadcast, wait for evidence, conclude.

A payout is in at most one transaction that can still be mined. It is done when that is final and
moved exactly the amount; it waits for another transaction when the first failed or provably can
never be mined. Nothing else repeats a transfer, because no contract would refuse the second one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Container, Mapping, Sequence
from datetime import UTC, datetime
from typing import Protocol

from florin_server.base.clock import wait_for_first
from florin_server.base.context import EventContext, MeterContext
from florin_server.base.topics import Topic
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.db import installation
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import StoreError
from florin_server.domain.conditions import ConditionName
from florin_server.domain.errors import ApiError
from florin_server.domain.health import ChainHealth, ConditionTracker
from florin_server.domain.ledger.postings import build_payout_posting
from florin_server.domain.payouts.payout import Payout, PayoutStatus
from florin_server.domain.quarantine import QuarantinedItemKind, format_error
from florin_server.domain.settlement.chain_txs import ChainTx, ReorgWatcher
from florin_server.money.payouts.store import covered, payouts
from florin_server.money.payouts.store.payouts import PayoutOutcome
from florin_server.money.payouts.worker.adopt import (
    adopt,
    check_database,
    check_history,
    pause_for_unknown_transactions,
)
from florin_server.money.payouts.worker.polled_head import PolledHead
from florin_server.money.payouts.worker.send import PayoutSender, to_transfer
from florin_server.money.settlement.worker.ended_transactions import EndedTransaction
from florin_server.money.settlement.worker.reorg_watch import ReorgWatch, list_watched
from florin_server.money.settlement.worker.signing_key import SigningKey
from florin_server.money.settlement.worker.transaction_queue import QueueRules, TransactionQueue
from florin_server.operations.context import QuarantineContext
from florin_server.operations.store import executors
from florin_server.operations.worker import StepFailed, TurnSteps
from florin_server.rails.context import ChainContext
from florin_server.rails.protocol import Rail
from florin_server.rails.roles import TreasuryPayouts
from florin_server.rails.types import RailUnavailable, TransferEffect, TreasuryTransaction
from florin_server.settings.context import SettingsContext


class _Context(
    ChainContext,
    EventContext,
    MeterContext,
    QuarantineContext,
    ScreeningContext,
    SettingsContext,
    StorageContext,
    Protocol,
):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

# pages of payments that are marked as settled before payouts continue
_COVERED_PAGES = 20
# A failed transaction cost gas, and its receiver may want that: the payout is sent again once it is
# twice as old, so at most about twenty times a year.
_FAILED_MIN_US = 60_000_000
# the interval of searches for lost transactions, and of comparisons of final ones with the chain
_RECONCILE_US = 10_000_000
# an idle worker reads the store this often, for requests of others
_IDLE_S = 1.0
_LEASED_ELSEWHERE = ConditionName.PAYOUTS_LEASED_ELSEWHERE
_CONDITIONS = (
    ConditionName.PAYOUTS_PAUSED,
    ConditionName.STORE_RESTORED,
    ConditionName.STORE_BEHIND,
    ConditionName.PAYOUTS_STARTING,
    _LEASED_ELSEWHERE,
    ConditionName.PAYOUTS_FAILING,
    ConditionName.PAYOUT_TRANSACTION_STUCK,
)


class PayoutWorker:
    """The worker that sends with the treasury's key; other processes wait for its lease.

    `copied_at_us` means that an initial pause is for a store that was copied then.
    """

    def __init__(
        self,
        app: _Context,
        rail: Rail,
        treasury: TreasuryPayouts,
        owner: str,
        pauses: Container[str] = (),
        *,
        copied_at_us: int | None = None,
    ) -> None:
        self._app = app
        self._rail = rail
        self._treasury = treasury
        self._turn_count = 0
        self._is_started = False
        self._wake_event = asyncio.Event()
        app.notifier.subscribe(Topic.PAYOUTS_DUE, self._wake_event)
        self._follower = PolledHead(rail.observer, rail.blocks, rail.confirmations)
        self._reorg_watch = ReorgWatch(app, rail, self._follower, ReorgWatcher.PAYOUTS)
        self._conditions = ConditionTracker(_CONDITIONS, app.clock.now_us)
        # the fault of the worker as a whole, if any
        self._problem = ConditionName.PAYOUTS_STARTING, "starting"
        self._needs_reconcile = (
            True  # open transactions were not compared with the chain since a change
        )
        self._reconcile_at_us = 0
        self._recheck_at_us = 0
        self._store_behind_reason = ""  # why the store may lack payouts, until that is resolved
        self._copied_at_us = copied_at_us
        self.key = SigningKey(
            app,
            rail,
            treasury.sender,
            owner,
            wake=self._wake_event.set,
            is_paused=f"{rail.chain_id}:{treasury.sender}" in pauses,
        )
        rules = QueueRules(
            cannot_be_mined=self._cannot_be_mined,
            may_rebroadcast=self.may_rebroadcast,
            adopt=self._adopt,
            payer=treasury.gas_payer,
            pays_out=True,
        )
        self._queue = TransactionQueue(app, rail, self.key, self._follower, rules)
        self._payout_sender = PayoutSender(app, rail, treasury, self._queue)

    @property
    def chain_id(self) -> str:
        """Return the CAIP-2 id of the chain on which it pays out."""
        return self._rail.chain_id

    @property
    def executors(self) -> Sequence[SigningKey]:
        """Return the key that signs its transactions."""
        return (self.key,)

    @property
    def leases(self) -> Mapping[str, int]:
        """Return the lease of the treasury's key with its epoch, if this process works with it."""
        works = self._is_started and self.key.has_lease
        return {self.key.lease_name: self.key.epoch} if works else {}

    @property
    def open_transactions(self) -> int:
        """Return how many of its transactions are neither final nor replaced."""
        return self._queue.open_transactions

    @property
    def head(self) -> int:
        """Return the newest block that was seen; 0 if none was."""
        return self._follower.head

    @property
    def seen_block(self) -> int:
        """Return the newest block that this process ever saw; 0 if it saw none."""
        return self._follower.head

    def health(self) -> ChainHealth:
        """Return the present state of paying out."""
        name, why = self._problem
        paused, copied, behind = "paused by the operator" if self.key.is_paused else "", "", ""
        if not paused:
            # any other pause is the operator's
            self._copied_at_us = None
        elif self._store_behind_reason:
            paused, behind = "", f"paused: {self._store_behind_reason}"
        elif self._copied_at_us is not None:
            at = datetime.fromtimestamp(self._copied_at_us // 1_000_000, UTC)
            paused, copied = (
                "",
                f"paused: payouts since {at:%Y-%m-%d %H:%M:%S} UTC are unknown",
            )
        wrong = {
            ConditionName.PAYOUTS_PAUSED: paused,
            ConditionName.STORE_RESTORED: copied,
            ConditionName.STORE_BEHIND: behind,
            ConditionName.PAYOUT_TRANSACTION_STUCK: self._queue.problem,
            name: why,
        }
        report = {each_name: [f"payouts: {text}"] for each_name, text in wrong.items() if text}
        return ChainHealth(
            self._follower.head,
            self._queue.open_transactions,
            self._conditions.update(report),
            turn_count=self._turn_count,
        )

    async def may_rebroadcast(self, tx: ChainTx) -> bool:
        """Return False for a transaction whose payout was, or will be, paid by another one."""
        found_payouts = await self._app.store.read(payouts.find_many(tx.item_ids))
        return all(payout.tx_id in tx.hashes for payout in found_payouts.values())

    async def run(self) -> None:
        """Run until canceled."""
        self._is_started, generation = False, self._app.quarantine.version
        while True:
            try:
                await self._app.quarantine.load()
                if generation != self._app.quarantine.version:
                    # an item was returned
                    self._is_started, generation = False, self._app.quarantine.version
                if await self._queue.acquire_lease():
                    if not self._is_started:
                        await self._start()
                        self._is_started = True
                    await self._run_turn()
                    self._problem = _LEASED_ELSEWHERE, ""
                else:
                    self._is_started = False
                    self._problem = _LEASED_ELSEWHERE, "another process has the lease"
            except (RailUnavailable, ApiError, StoreError) as error:
                if isinstance(error, StoreError):
                    # only the store knows what was written of the last turn
                    self._is_started = False
                message = str(error) or type(error).__name__
                self._problem = ConditionName.PAYOUTS_FAILING, message
                _log.warning("payouts on %s wait: %s", self._rail.chain_id, message)
            except StepFailed as error:
                self._is_started = False
                self._problem = ConditionName.PAYOUTS_FAILING, str(error)
            except Exception as error:  # noqa: BLE001  (no item stops a worker)
                self._is_started = False
                self._problem = ConditionName.PAYOUTS_FAILING, format_error(error)
                _log.exception("payouts on %s failed", self._rail.chain_id)
            self._turn_count += 1
            # conditions need the time of a change, even if they are not read
            self.health()
            await self._wait()

    async def _wait(self) -> None:
        if self._payout_sender.has_waiting or self._queue.open_transactions:
            # the chain runs on the machine's clock, not on the service's
            await wait_for_first(
                self._rail.nodes.wait_for_block("payouts"), self._wake_event.wait()
            )
        else:
            await wait_for_first(self._wake_event.wait(), timeout_s=_IDLE_S)
        self._wake_event.clear()

    async def _start(self) -> None:
        """Pick up where the last owner of the lease stopped."""
        await self._follower.start()
        self._payout_sender.database_id = await check_database(self._app)
        await self._check_pause()
        await self._queue.load()
        await self._queue.start()
        await check_history(self._app, self._rail, self._queue)
        await self._check_pause()
        await self._reorg_watch.load()
        self._needs_reconcile, self._reconcile_at_us, self._recheck_at_us = True, 0, 0

    async def _check_pause(self) -> None:
        """Start a pause that any process decided, and read its reason."""
        read = self._app.store.read
        if not self.key.is_paused and self.key.account in await read(executors.list_pauses()):
            self.key.pause()
        self._store_behind_reason = (
            await read(installation.get_behind_reason()) if self.key.is_paused else ""
        )

    async def _adopt(self, lost_transfers: Mapping[int, TreasuryTransaction | None]) -> None:
        await self._check_pause()
        await adopt(self._app, self._rail, self._queue, lost_transfers)

    async def _run_turn(self) -> None:
        if self._store_behind_reason and not self.key.is_paused:
            # a transaction that was in no final block at the last check can be in one by now
            self._store_behind_reason = ""
            await check_history(self._app, self._rail, self._queue)
        steps = TurnSteps(f"pay_out {self.chain_id}")
        if self._queue.open_transactions:
            await steps.run("follow", self._follow_transactions())
        if self._reorg_watch.is_watching and self._app.clock.steady_us() >= self._recheck_at_us:
            await steps.run("check for reorganizations", self._undo_reorged())
        await steps.run("submit", self._payout_sender.submit())
        await steps.run("settle covered", self._settle_covered())
        await steps.run("record broadcasts", self._queue.record_broadcasts())
        steps.raise_failures()

    async def _settle_covered(self) -> None:
        """Mark the payments that final payouts to their merchants cover, page by page."""
        store = self._app.store
        for _ in range(_COVERED_PAGES):
            if not await store.read(covered.has_payouts()):
                break
            marked = await store.write(covered.settle_covered())
            if marked is None:
                break
            if marked:
                self._app.notifier.publish(Topic.WEBHOOKS)

    # -- concluding

    async def _follow_transactions(self) -> None:
        news = await self._follower.poll()
        if news or self._needs_reconcile:
            self._needs_reconcile = True
            # earlier results may have moved to another block
            self._follower.evidence.drop_from(0)
            await self._queue.find_transactions()
            await self._commit_ended(await self._queue.list_final())
            self._needs_reconcile = False
        steady_us = self._app.clock.steady_us()
        if steady_us >= self._reconcile_at_us:
            self._reconcile_at_us = steady_us + _RECONCILE_US
            await self._commit_ended(await self._queue.list_replaced())
            await self._queue.rebroadcast(immediately=True)
        await self._queue.maintain(has_news=news)

    async def _undo_reorged(self) -> None:
        """Start again with transactions that a reorganization removed after they were final."""
        self._recheck_at_us = self._app.clock.steady_us() + _RECONCILE_US
        if await self._follower.poll():
            self._needs_reconcile = True
        if await self._reorg_watch.check([self.key.address]):
            await self._queue.load()
            self._follower.evidence.drop_from(0)
            self._needs_reconcile = True
            await self._queue.rebroadcast()
        await self._reorg_watch.drop_deep()

    def _is_quarantined(self, item_id: str) -> bool:
        return self._app.quarantine.contains(QuarantinedItemKind.PAYOUT, self.chain_id, item_id)

    async def _cannot_be_mined(self, tx: ChainTx) -> bool:
        found_payouts = await self._app.store.read(payouts.find_many(tx.item_ids))
        lapses = [payout.lapses_at for payout in found_payouts.values()]
        return await self._treasury.cannot_be_mined(tx, lapses[0] if lapses else None)

    async def _commit_ended(self, ended_txs: Sequence[EndedTransaction]) -> None:
        """Commit proven outcomes.

        An outcome that alone fails unexpectedly is quarantined, with its payout.
        """
        active_txs = [
            ended_tx
            for ended_tx in ended_txs
            if not any(
                self._is_quarantined(item_id) for item_id in (ended_tx.tx.id, *ended_tx.tx.item_ids)
            )
        ]
        if active_txs:
            await self._app.quarantine.run_each(
                QuarantinedItemKind.PAYOUT,
                self.chain_id,
                active_txs,
                # a transaction that fills a nonce has no payout
                lambda ended_tx: next(iter(ended_tx.tx.item_ids), ended_tx.tx.id),
                "end",
                self._commit_together,
            )

    async def _commit_together(self, ended_txs: Sequence[EndedTransaction]) -> None:
        ids = [payout_id for ended_tx in ended_txs for payout_id in ended_tx.tx.item_ids]
        found_payouts = await self._app.store.read(payouts.find_many(ids))
        payout_outcomes = [
            await _get_outcome(
                self._app, self._rail, self._treasury, found_payouts[payout_id], ended_tx
            )
            for ended_tx in ended_txs
            for payout_id in ended_tx.tx.item_ids
            if found_payouts[payout_id].status is PayoutStatus.SUBMITTED
        ]
        for payout_outcome in payout_outcomes:
            if payout_outcome.problem:
                # a lapse before landing is expected, and the payout is sent again at once
                level = logging.WARNING if payout_outcome.has_lapsed else logging.ERROR
                _log.log(level, "payout %s: %s", payout_outcome.payout.id, payout_outcome.problem)
        transaction_outcomes = [ended_tx.outcome for ended_tx in ended_txs]
        now_us = self._app.clock.now_us()
        lost = await pause_for_unknown_transactions(self._app, self._rail, self._queue, ended_txs)
        watched_txs = self._reorg_watch.list_new(list_watched([], ended_txs))
        watch_operation = self._reorg_watch.record_watched(watched_txs)
        await self._app.store.write(
            payouts.finalize(payout_outcomes, transaction_outcomes, now_us, watch_operation)
        )
        for payout_outcome in payout_outcomes:
            self._app.meters.record_payout(self.chain_id, _format_outcome(payout_outcome))
            if payout_outcome.posting is not None:
                payout = payout_outcome.payout
                self._app.traces.record_root(payout.id, "payout", payout.created_at_us, now_us)
        for payout_id in ids:
            self._app.notifier.publish(Topic.PAYOUT, payout_id)
        self._reorg_watch.add(watched_txs)
        self._queue.remove(ended_txs)
        if lost:
            await self._adopt(lost)


async def _get_outcome(
    app: StorageContext,
    rail: Rail,
    treasury: TreasuryPayouts,
    payout: Payout,
    ended_tx: EndedTransaction,
) -> PayoutOutcome:
    """Return whether a payout is done, waits again, or is left to the operator."""
    tx = ended_tx.tx
    if ended_tx.mined is None:
        lapsed = payout.lapses_at is not None
        end_text = "lapsed before it landed" if lapsed else "was replaced by another transaction"
        problem, now_us = f"its transaction {tx.hash} {end_text}", app.clock.now_us()
        return PayoutOutcome(payout, retry_at_us=now_us, problem=problem, has_lapsed=lapsed)
    tx_hash = ended_tx.outcome.final_hash or tx.hash
    effect = await treasury.read_effect(tx, tx_hash, to_transfer(payout))
    if effect is TransferEffect.EXACT:
        return PayoutOutcome(payout, tx_hash, build_payout_posting(payout, rail.treasury))
    if effect is TransferEffect.NOTHING:
        problem = f"its transaction {tx_hash} failed"
        now_us = app.clock.now_us()
        due_us = now_us + max(now_us - payout.created_at_us, _FAILED_MIN_US)
        return PayoutOutcome(payout, retry_at_us=due_us, problem=problem)
    problem = f"its transaction {tx_hash} is final, but what it moved is not proven"
    return PayoutOutcome(payout, tx_hash, problem=problem)


def _format_outcome(outcome: PayoutOutcome) -> str:
    """Return what became of a payout, as it is counted."""
    if outcome.posting is not None:
        return "done"
    return "unproven" if outcome.retry_at_us is None else "again"
