"""Pays out of one chain's treasury: store, broadcast, wait for evidence, conclude.

A payout is in at most one transaction that can still be mined. It is done when that is final and
moved exactly the amount; it waits for another transaction when the first failed or provably can
never be mined. Nothing else repeats a transfer, because no contract would refuse the second one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Container, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol

from florin_server.accounts.service.own_accounts import find_reserved_role
from florin_server.base.clock import wait_for_first
from florin_server.base.context import EventContext, MeterContext
from florin_server.base.topics import Topic
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.compliance.screening.service.check import check_lists, is_blocked
from florin_server.db import installation
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, StoreError, operation
from florin_server.domain.accounts.destinations import AssetAccount
from florin_server.domain.conditions import ConditionName
from florin_server.domain.errors import ApiError
from florin_server.domain.health import ChainHealth, ConditionTracker
from florin_server.domain.payouts.held_money import HeldMoneyState
from florin_server.domain.payouts.payout import Payout, PayoutStatus
from florin_server.domain.quarantine import QuarantinedItemKind, format_error
from florin_server.domain.settlement.chain_txs import ChainTx, ReorgWatcher
from florin_server.money.payouts.service import account_opening
from florin_server.money.payouts.store import covered, held_money, payouts
from florin_server.money.payouts.store.payouts import CreditLimits, InsufficientBalance
from florin_server.money.payouts.worker.adopt import (
    adopt,
    check_database,
    check_history,
    pause_for_unknown_transactions,
)
from florin_server.money.payouts.worker.outcomes import format_outcome, get_outcome, to_transfer
from florin_server.money.payouts.worker.polled_head import PolledHead
from florin_server.money.settlement.store.token_accounts import AccountNotOpenable
from florin_server.money.settlement.worker.reorg_watch import ReorgWatch, list_watched
from florin_server.money.settlement.worker.tx_sender import (
    EndedTransaction,
    TxSender,
    get_lease_name,
)
from florin_server.operations.context import QuarantineContext
from florin_server.operations.store import executors
from florin_server.operations.worker import StepFailed, TurnSteps
from florin_server.rails.context import ChainContext
from florin_server.rails.protocol import Rail
from florin_server.rails.roles import TreasuryPayouts
from florin_server.rails.types import (
    RailUnavailable,
    ReceiverUnavailable,
    SignedTransaction,
    TreasuryTransaction,
    TreasuryTransfer,
)
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

_BATCH = 50
# pages of payments that are marked as settled before payouts continue
_COVERED_PAGES = 20
# a payout that was not sent is retried after a quarter of its age, within these bounds
_RETRY_MIN_US, _RETRY_MAX_US = 5_000_000, 60_000_000
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
        self._has_waiting = False
        self._store_behind_reason = ""  # why the store may lack payouts, until that is resolved
        self._database_id = ""  # the database that the store was on at the latest check
        self._copied_at_us = copied_at_us
        self.sender = TxSender(
            app,
            rail,
            treasury.sender,
            owner,
            self._follower,
            cannot_be_mined=self._cannot_be_mined,
            wake=self._wake_event.set,
            payer=treasury.gas_payer,
            pays_out=True,
            may_rebroadcast=self.may_rebroadcast,
            adopt=self._adopt,
            is_paused=f"{rail.chain_id}:{treasury.sender}" in pauses,
        )

    @property
    def chain_id(self) -> str:
        """Return the CAIP-2 id of the chain on which it pays out."""
        return self._rail.chain_id

    @property
    def executors(self) -> Sequence[TxSender]:
        """Return the sender of its transactions."""
        return (self.sender,)

    @property
    def leases(self) -> Mapping[str, int]:
        """Return the lease of the treasury's key with its epoch, if this process works with it."""
        works = self._is_started and self.sender.has_lease
        return {get_lease_name(self._rail, self.sender.address): self.sender.epoch} if works else {}

    @property
    def head(self) -> int:
        """Return the newest block that was seen; 0 if none was."""
        return self._follower.head

    def health(self) -> ChainHealth:
        """Return the present state of paying out."""
        name, why = self._problem
        paused, copied, behind = "paused by the operator" if self.sender.is_paused else "", "", ""
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
            ConditionName.PAYOUT_TRANSACTION_STUCK: self.sender.problem,
            name: why,
        }
        report = {each_name: [f"payouts: {text}"] for each_name, text in wrong.items() if text}
        return ChainHealth(
            self._follower.head,
            self.sender.open_transactions,
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
                if await self.sender.acquire_lease():
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
        if self._has_waiting or self.sender.open_transactions:
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
        self._database_id = await check_database(self._app)
        await self._check_pause()
        await self.sender.load()
        await self.sender.start()
        await check_history(self._app, self._rail, self.sender)
        await self._check_pause()
        await self._reorg_watch.load()
        self._needs_reconcile, self._reconcile_at_us, self._recheck_at_us = True, 0, 0

    async def _check_pause(self) -> None:
        """Start a pause that any process decided, and read its reason."""
        read = self._app.store.read
        if not self.sender.is_paused and self.sender.account in await read(executors.list_pauses()):
            self.sender.pause()
        self._store_behind_reason = (
            await read(installation.get_behind_reason()) if self.sender.is_paused else ""
        )

    async def _adopt(self, lost_transfers: Mapping[int, TreasuryTransaction | None]) -> None:
        await self._check_pause()
        await adopt(self._app, self._rail, self.sender, lost_transfers)

    async def _run_turn(self) -> None:
        if self._store_behind_reason and not self.sender.is_paused:
            # a transaction that was in no final block at the last check can be in one by now
            self._store_behind_reason = ""
            await check_history(self._app, self._rail, self.sender)
        steps = TurnSteps(f"pay_out {self.chain_id}")
        if self.sender.open_transactions:
            await steps.run("follow", self._follow_transactions())
        if self._reorg_watch.is_watching and self._app.clock.steady_us() >= self._recheck_at_us:
            await steps.run("check for reorganizations", self._undo_reorged())
        await steps.run("submit", self._submit())
        await steps.run("settle covered", self._settle_covered())
        await steps.run("record broadcasts", self.sender.record_broadcasts())
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

    # -- submitting

    async def _submit(self) -> None:
        while self.sender.has_room and self._app.chains[self.chain_id].has_opening_balances:
            now_us = self._app.clock.now_us()
            found_payouts = await self._app.store.read(
                payouts.list_due(self._rail.chain_id, _BATCH, now_us)
            )
            if not (
                due_payouts := [
                    payout for payout in found_payouts if not self._is_quarantined(payout.id)
                ]
            ):
                break
            for payout in due_payouts:
                if self.sender.has_room:
                    async with self._isolate(payout.id, "send"):
                        await self._try_send(payout)
        left = await self._app.store.read(payouts.count_problems())
        self._has_waiting = any(chain == self._rail.chain_id for chain, _, _ in left)

    def _isolate(self, payout_id: str, step: str) -> AbstractAsyncContextManager[None]:
        return self._app.quarantine.isolate(
            QuarantinedItemKind.PAYOUT, self.chain_id, payout_id, step
        )

    def _is_quarantined(self, payout_id: str) -> bool:
        return self._app.quarantine.contains(QuarantinedItemKind.PAYOUT, self.chain_id, payout_id)

    async def _try_send(self, payout: Payout) -> None:
        """Send a payout, or leave it for later with the reason."""
        try:
            problem = await self._find_obstacle(payout)
            if problem is None:
                await self._send(payout)
        except (InsufficientBalance, AccountNotOpenable, ReceiverUnavailable) as error:
            problem = str(error)
        except RailUnavailable as error:
            # other payouts take their turn before it, once the chain answers
            await self._defer(payout, str(error) or type(error).__name__)
            raise
        if problem is not None:
            await self._defer(payout, problem)

    async def _defer(self, payout: Payout, problem: str) -> None:
        if problem != payout.problem:
            _log.warning("payout %s waits: %s", payout.id, problem)
        await self._app.store.write(
            payouts.defer(payout.id, problem, self._get_retry_time_us(payout))
        )
        self._app.notifier.publish(Topic.PAYOUT, payout.id)

    def _get_retry_time_us(self, payout: Payout) -> int:
        now_us = self._app.clock.now_us()
        return now_us + min(max((now_us - payout.created_at_us) // 4, _RETRY_MIN_US), _RETRY_MAX_US)

    async def _find_obstacle(self, payout: Payout) -> str | None:
        """Return why a payout cannot be sent now; None if it can."""
        if self._treasury.problem:
            return self._treasury.problem
        try:
            await check_lists(self._app, live=payout.live)
        except ApiError:
            return "the screening lists are missing or too old"
        if role := find_reserved_role(self._app.rails.values(), payout.account):
            return f"its destination is {role}"
        read = self._app.store.read
        returned_money = await read(held_money.find(payout.held_id)) if payout.held_id else None
        if returned_money is not None and returned_money.state is HeldMoneyState.UNDONE:
            return "a reorganization removed the money that it returns"
        # the operator who decided to return it may have known that its payer is blocked
        may_be_blocked = returned_money is not None and returned_money.even_if_blocked
        if not may_be_blocked and await is_blocked(self._app, payout.account):
            return "its destination is blocked"
        if (
            missing := await read(payouts.find_shortfall(payout, self._find_credit(payout)))
        ) is not None:
            return str(missing)
        pending_transfers = [
            to_transfer(submitted_payout)
            for submitted_payout in await read(payouts.list_submitted(self._rail.chain_id))
            if self.sender.has_item(submitted_payout.id)
        ]
        return await self._treasury.check_transfer(
            await self._get_transfer(payout), pending_transfers
        )

    async def _get_transfer(self, payout: Payout) -> TreasuryTransfer:
        """Return the transfer, with whether its receiving account can be opened for it."""
        receiving_account = AssetAccount(payout.asset, payout.account)
        may_open = await account_opening.list_openable(
            self._app, self._rail, payout.merchant_id, [receiving_account]
        )
        return replace(to_transfer(payout), may_open_account=receiving_account in may_open)

    def _find_credit(self, payout: Payout) -> CreditLimits | None:
        """Return the credit for refunds in the payout's asset; None if unlimited."""
        if not payout.live:
            return None
        credit = self._app.settings.refund_credit.get(payout.asset)
        if credit is None:
            return CreditLimits(merchant=0, partner=0, total=0)
        return CreditLimits(credit.merchant_max, credit.partner, credit.total_max)

    async def _send(self, payout: Payout) -> None:
        signed: list[SignedTransaction] = []
        transfer = await self._get_transfer(payout)
        now_us = self._app.clock.now_us()

        async def sign(nonce: int) -> SignedTransaction:
            signed.append(await self._treasury.sign(nonce, transfer))
            return signed[0]

        @operation
        def claim() -> Op[None]:
            # an operation runs at its commit, which is after the signing
            (signed_transaction,) = signed
            yield from executors.require_running(self.sender.account)
            if self._app.store.identity != self._database_id:
                raise executors.ExecutorPaused("the database changed since the last check")
            yield from payouts.claim(
                payout,
                signed_transaction.hash,
                signed_transaction.lapses_at,
                self._find_credit(payout),
                now_us,
            )
            opened = (
                [AssetAccount(payout.asset, payout.account)]
                if signed_transaction.opens_account
                else []
            )
            yield from account_opening.claim(
                self._app, self._rail, payout.merchant_id, payout.id, opened
            )

        await self.sender.send([payout.id], sign, claim)
        self._app.notifier.publish(Topic.PAYOUT, payout.id)

    # -- concluding

    async def _follow_transactions(self) -> None:
        news = await self._follower.poll()
        if news or self._needs_reconcile:
            self._needs_reconcile = True
            # earlier results may have moved to another block
            self._follower.evidence.drop_from(0)
            await self.sender.find_transactions()
            await self._commit_ended(await self.sender.list_final())
            self._needs_reconcile = False
        steady_us = self._app.clock.steady_us()
        if steady_us >= self._reconcile_at_us:
            self._reconcile_at_us = steady_us + _RECONCILE_US
            await self._commit_ended(await self.sender.list_replaced())
            await self.sender.rebroadcast(immediately=True)
        await self.sender.maintain(has_news=news)

    async def _undo_reorged(self) -> None:
        """Start again with transactions that a reorganization removed after they were final."""
        self._recheck_at_us = self._app.clock.steady_us() + _RECONCILE_US
        if await self._follower.poll():
            self._needs_reconcile = True
        if await self._reorg_watch.check([self.sender.address]):
            await self.sender.load()
            self._follower.evidence.drop_from(0)
            self._needs_reconcile = True
            await self.sender.rebroadcast()
        await self._reorg_watch.drop_deep()

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
            await get_outcome(
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
        lost = await pause_for_unknown_transactions(self._app, self._rail, self.sender, ended_txs)
        watched_txs = self._reorg_watch.list_new(list_watched([], ended_txs))
        watch_operation = self._reorg_watch.record_watched(watched_txs)
        await self._app.store.write(
            payouts.finalize(payout_outcomes, transaction_outcomes, now_us, watch_operation)
        )
        for payout_outcome in payout_outcomes:
            self._app.meters.record_payout(self.chain_id, format_outcome(payout_outcome))
            if payout_outcome.posting is not None:
                payout = payout_outcome.payout
                self._app.traces.record_root(payout.id, "payout", payout.created_at_us, now_us)
        for payout_id in ids:
            self._app.notifier.publish(Topic.PAYOUT, payout_id)
        self._reorg_watch.add(watched_txs)
        self.sender.remove(ended_txs)
        if lost:
            await self._adopt(lost)
