"""Pays out of one chain's treasury: write down, broadcast, wait for evidence, conclude.

A payout is in one transaction at most that can still be mined. It is done when that is final and
moved exactly the amount; it waits for another one when it failed or provably never can be mined.
Nothing else repeats a transfer, for no contract would refuse the second one.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import UTC, datetime

from florin_server.clock import first_of
from florin_server.domain.accounts.destinations import AssetAccount
from florin_server.domain.conditions import ConditionName
from florin_server.domain.errors import FlorinError
from florin_server.domain.health import Board, Health
from florin_server.domain.payouts.held_money import HeldState
from florin_server.domain.payouts.payout import Payout, PayoutStatus
from florin_server.domain.quarantine import ItemKind, describe_error
from florin_server.domain.settlement.chain_txs import ChainTx, Watcher
from florin_server.flows.accounts.own_accounts import reserved
from florin_server.flows.app import Core
from florin_server.flows.payouts import opening
from florin_server.flows.screening.check import check_lists, is_blocked
from florin_server.rails.protocol import Rail
from florin_server.rails.roles import Payouts
from florin_server.rails.types import (
    NotReceivable,
    RailUnavailable,
    SentTransfer,
    Signed,
    Transfer,
)
from florin_server.store.engine.query import Op, StoreError, operation
from florin_server.store.operator import executors, installation
from florin_server.store.payouts import covered, held_money, payouts
from florin_server.store.payouts.payouts import Credit, Uncovered
from florin_server.store.settlement.token_accounts import NotOpenable
from florin_server.workers.payouts.adopt import (
    adopt,
    look_at_database,
    look_at_history,
    pause_for_strangers,
)
from florin_server.workers.payouts.outcomes import judge, name_of, transfer_of
from florin_server.workers.payouts.polled_head import PolledHead
from florin_server.workers.settlement.reorg_watch import ReorgWatch, ended_in
from florin_server.workers.settlement.tx_sender import Ended, TxSender, lease_of
from florin_server.workers.supervise import StepFailed, Steps

_log = logging.getLogger(__name__)

_BATCH = 50
# pages of payments that are marked as settled before payouts go on
_COVERED_PAGES = 20
# a payout that was not sent is tried again after a quarter of its age, within these
_RETRY_MIN_US, _RETRY_MAX_US = 5_000_000, 60_000_000
# how often lost transactions are looked for, and what is final is compared with the chain
_RECONCILE_US = 10_000_000
# without anything to do the store is looked at this often, for what others have asked for
_IDLE_S = 1.0
_LEASED = ConditionName.PAYOUTS_LEASED_ELSEWHERE
_NAMES = (
    ConditionName.PAYOUTS_PAUSED,
    ConditionName.STORE_RESTORED,
    ConditionName.STORE_BEHIND,
    ConditionName.PAYOUTS_STARTING,
    _LEASED,
    ConditionName.PAYOUTS_FAILING,
    ConditionName.PAYOUT_TRANSACTION_STUCK,
)


class PayoutWorker:
    """The one that sends with the treasury's key; others wait for its lease.

    `copied_at_us` tells that a pause it begins with is for a store that was copied then.
    """

    def __init__(
        self,
        app: Core,
        rail: Rail,
        treasury: Payouts,
        owner: str,
        pauses: Container[str] = (),
        *,
        copied_at_us: int | None = None,
    ) -> None:
        self._app = app
        self._rail = rail
        self._treasury = treasury
        self._turns = 0
        self._started = False
        self._woken = app.chains[rail.chain_id].payout_asked
        self._blocks = PolledHead(rail.observer, rail.blocks, rail.confirmations)
        self._reorg_watch = ReorgWatch(app, rail, self._blocks, Watcher.PAYOUTS)
        self._board = Board(_NAMES, app.clock.now_us)
        # what keeps the worker as a whole from its work, if anything does
        self._trouble = ConditionName.PAYOUTS_STARTING, "starting"
        self._unsure = True  # what is open was not compared with the chain since something changed
        self._reconcile_at_us = 0
        self._look_back_at_us = 0
        self._waits = False
        self._behind = ""  # why the store may lack what was paid out, until that is settled
        self._database = ""  # on which the store was when that was looked at last
        self._copied_at_us = copied_at_us
        self.sender = TxSender(
            app,
            rail,
            treasury.sender,
            owner,
            self._blocks,
            cannot_be_mined=self._cannot_be_mined,
            wake=self.wake,
            payer=treasury.gas_payer,
            pays_out=True,
            again=self.may_repeat,
            adopt=self._adopt,
            paused=f"{rail.chain_id}:{treasury.sender}" in pauses,
        )

    @property
    def chain_id(self) -> str:
        """CAIP-2 of the chain that it pays out on."""
        return self._rail.chain_id

    @property
    def executors(self) -> Sequence[TxSender]:
        """The one that sends for it."""
        return (self.sender,)

    def wake(self) -> None:
        """Tells that there is something to pay out."""
        self._woken.set()

    @property
    def leases(self) -> Mapping[str, int]:
        """The lease of the treasury's key with its epoch, if this process works with it."""
        works = self._started and self.sender.leads
        return {lease_of(self._rail, self.sender.address): self.sender.epoch} if works else {}

    @property
    def head(self) -> int:
        """The newest block that was seen; 0 if none was."""
        return self._blocks.head

    def health(self) -> Health:
        """How paying out looks now."""
        name, why = self._trouble
        paused, copied, behind = "paused by the operator" if self.sender.paused else "", "", ""
        if not paused:
            # another pause is the operator's
            self._copied_at_us = None
        elif self._behind:
            paused, behind = "", f"paused: {self._behind}"
        elif self._copied_at_us is not None:
            at = datetime.fromtimestamp(self._copied_at_us // 1_000_000, UTC)
            paused, copied = (
                "",
                f"paused: what was paid out since {at:%Y-%m-%d %H:%M:%S} UTC is not known",
            )
        wrong = {
            ConditionName.PAYOUTS_PAUSED: paused,
            ConditionName.STORE_RESTORED: copied,
            ConditionName.STORE_BEHIND: behind,
            ConditionName.PAYOUT_TRANSACTION_STUCK: self.sender.problem,
            name: why,
        }
        told = {one: [f"payouts: {text}"] for one, text in wrong.items() if text}
        return Health(
            self._blocks.head,
            self.sender.open_transactions,
            self._board.look(told),
            turns=self._turns,
        )

    async def may_repeat(self, tx: ChainTx) -> bool:
        """False for what must not pay again: its payout was, or will be, paid by another one."""
        found = await self._app.store.read(payouts.some(tx.item_ids))
        return all(one.tx_id in tx.hashes for one in found.values())

    async def run(self) -> None:
        """Works until cancelled."""
        self._started, generation = False, self._app.quarantine.generation
        while True:
            try:
                await self._app.quarantine.load()
                if generation != self._app.quarantine.generation:
                    # something was given back
                    self._started, generation = False, self._app.quarantine.generation
                if await self.sender.lead():
                    if not self._started:
                        await self._start()
                        self._started = True
                    await self._turn()
                    self._trouble = _LEASED, ""
                else:
                    self._started = False
                    self._trouble = _LEASED, "another service has the lease"
            except (RailUnavailable, FlorinError, StoreError) as error:
                if isinstance(error, StoreError):
                    # what was written of the last turn, only the store knows
                    self._started = False
                told = str(error) or type(error).__name__
                self._trouble = ConditionName.PAYOUTS_FAILING, told
                _log.warning("payouts on %s wait: %s", self._rail.chain_id, told)
            except StepFailed as error:
                self._started = False
                self._trouble = ConditionName.PAYOUTS_FAILING, str(error)
            except Exception as error:  # noqa: BLE001  (no item stops a worker)
                self._started = False
                self._trouble = ConditionName.PAYOUTS_FAILING, describe_error(error)
                _log.exception("payouts on %s failed", self._rail.chain_id)
            self._turns += 1
            # what changed is known by its time, also if nobody asks
            self.health()
            await self._rest()

    async def _rest(self) -> None:
        if self._waits or self.sender.open_transactions:
            # the chain's pace is the machine's, not the service's clock
            await first_of(self._rail.nodes.wait_for_block("payouts"), self._woken.wait())
        else:
            await first_of(self._woken.wait(), seconds=_IDLE_S)
        self._woken.clear()

    async def _start(self) -> None:
        """Picks up where the last owner of the lease stopped."""
        await self._blocks.start()
        self._database = await look_at_database(self._app)
        await self._look_at_pause()
        await self.sender.load()
        await self.sender.start()
        await look_at_history(self._app, self._rail, self.sender)
        await self._look_at_pause()
        await self._reorg_watch.load()
        self._unsure, self._reconcile_at_us, self._look_back_at_us = True, 0, 0

    async def _look_at_pause(self) -> None:
        """Begins a pause that was decided anywhere, and learns why."""
        read = self._app.store.read
        if not self.sender.paused and self.sender.account in await read(executors.pauses()):
            self.sender.pause()
        self._behind = await read(installation.behind()) if self.sender.paused else ""

    async def _adopt(self, lost: Mapping[int, SentTransfer | None]) -> None:
        await self._look_at_pause()
        await adopt(self._app, self._rail, self.sender, lost)

    async def _turn(self) -> None:
        if self._behind and not self.sender.paused:
            # what was in no final block when it was looked for may be in one by now
            self._behind = ""
            await look_at_history(self._app, self._rail, self.sender)
        steps = Steps(f"pay_out {self.chain_id}")
        if self.sender.open_transactions:
            await steps.run("follow", self._follow())
        if self._reorg_watch.is_watching and self._app.clock.steady_us() >= self._look_back_at_us:
            await steps.run("look back", self._look_back())
        await steps.run("submit", self._submit())
        await steps.run("settle covered", self._settle_covered())
        await steps.run("note", self.sender.note())
        steps.end()

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
                self._app.webhooks.asked.set()

    # -- submitting

    async def _submit(self) -> None:
        while self.sender.has_room and self._app.chains[self.chain_id].books_begun:
            now_us = self._app.clock.now_us()
            found = await self._app.store.read(payouts.due(self._rail.chain_id, _BATCH, now_us))
            if not (due := [one for one in found if not self._is_set_aside(one.id)]):
                break
            for one in due:
                if self.sender.has_room:
                    async with self._isolating(one.id, "send"):
                        await self._try(one)
        left = await self._app.store.read(payouts.problems())
        self._waits = any(chain == self._rail.chain_id for chain, _, _ in left)

    def _isolating(self, payout_id: str, step: str) -> AbstractAsyncContextManager[None]:
        return self._app.quarantine.isolating(ItemKind.PAYOUT, self.chain_id, payout_id, step)

    def _is_set_aside(self, payout_id: str) -> bool:
        return self._app.quarantine.holds(ItemKind.PAYOUT, self.chain_id, payout_id)

    async def _try(self, one: Payout) -> None:
        """Sends a payout, or leaves it for later and says why."""
        try:
            problem = await self._obstacle(one)
            if problem is None:
                await self._send(one)
        except (Uncovered, NotOpenable, NotReceivable) as error:
            problem = str(error)
        except RailUnavailable as error:
            # others take their turn before it, once the chain answers
            await self._set_aside(one, str(error) or type(error).__name__)
            raise
        if problem is not None:
            await self._set_aside(one, problem)

    async def _set_aside(self, one: Payout, problem: str) -> None:
        if problem != one.problem:
            _log.warning("payout %s waits: %s", one.id, problem)
        await self._app.store.write(payouts.set_aside(one.id, problem, self._retry_at(one)))
        self._app.ring(one.id)

    def _retry_at(self, one: Payout) -> int:
        now_us = self._app.clock.now_us()
        return now_us + min(max((now_us - one.created_at_us) // 4, _RETRY_MIN_US), _RETRY_MAX_US)

    async def _obstacle(self, one: Payout) -> str | None:
        """Why a payout cannot be sent now; None if it can."""
        if self._treasury.problem:
            return self._treasury.problem
        try:
            await check_lists(self._app, live=one.live)
        except FlorinError:
            return "the screening lists are missing or too old"
        if what := reserved(self._app.rails.values(), one.account):
            return f"the account that it goes to is {what}"
        read = self._app.store.read
        returned = await read(held_money.get(one.held_id)) if one.held_id else None
        if returned is not None and returned.state is HeldState.UNDONE:
            return "a reorganisation undid that the money came which it returns"
        # whoever decided to return it may have known that its payer is blocked
        insisted = returned is not None and returned.even_if_blocked
        if not insisted and await is_blocked(self._app, one.account):
            return "the account that it goes to is blocked"
        if (missing := await read(payouts.uncovered(one, self._credit(one)))) is not None:
            return str(missing)
        ahead = [
            transfer_of(other)
            for other in await read(payouts.submitted(self._rail.chain_id))
            if self.sender.holds(other.id)
        ]
        return await self._treasury.obstacle(await self._openable(one), ahead)

    async def _openable(self, one: Payout) -> Transfer:
        """The transfer, with whether the place that it goes to may be opened for it."""
        place = AssetAccount(one.asset, one.account)
        may_open = await opening.openable(self._app, self._rail, one.merchant_id, [place])
        return replace(transfer_of(one), may_open=place in may_open)

    def _credit(self, one: Payout) -> Credit | None:
        """What may be owed for refunds in the payout's asset; None if without limit."""
        if not one.live:
            return None
        found = self._app.settings.refund_credit.get(one.asset)
        if found is None:
            return Credit(merchant=0, partner=0, total=0)
        return Credit(found.merchant_max, found.partner, found.total_max)

    async def _send(self, one: Payout) -> None:
        signed: list[Signed] = []
        transfer = await self._openable(one)
        now_us = self._app.clock.now_us()

        async def sign(nonce: int) -> Signed:
            signed.append(await self._treasury.sign(nonce, transfer))
            return signed[0]

        @operation
        def claim() -> Op[None]:
            # an operation runs when it is committed, and that is after the signing
            (made,) = signed
            yield from executors.require_running(self.sender.account)
            if self._app.store.identity != self._database:
                raise executors.Paused("the database is another one since the last look")
            yield from payouts.claim(one, made.hash, made.lapses_at, self._credit(one), now_us)
            opened = [AssetAccount(one.asset, one.account)] if made.opens else []
            yield from opening.claim(self._app, self._rail, one.merchant_id, one.id, opened)

        await self.sender.send([one.id], sign, claim)
        self._app.ring(one.id)

    # -- concluding

    async def _follow(self) -> None:
        news = await self._blocks.look()
        if news or self._unsure:
            self._unsure = True
            # what was found before may have moved to another block
            self._blocks.evidence.forget_from(0)
            await self.sender.ask()
            await self._finish(await self.sender.final())
            self._unsure = False
        steady_us = self._app.clock.steady_us()
        if steady_us >= self._reconcile_at_us:
            self._reconcile_at_us = steady_us + _RECONCILE_US
            await self._finish(await self.sender.replaced())
            await self.sender.rebroadcast(at_once=True)
        await self.sender.tend(news=news)

    async def _look_back(self) -> None:
        """Begins again with what a reorganisation undid after it was final."""
        self._look_back_at_us = self._app.clock.steady_us() + _RECONCILE_US
        if await self._blocks.look():
            self._unsure = True
        if await self._reorg_watch.check([self.sender.address]):
            await self.sender.load()
            self._blocks.evidence.forget_from(0)
            self._unsure = True
            await self.sender.rebroadcast()
        await self._reorg_watch.forget()

    async def _cannot_be_mined(self, tx: ChainTx) -> bool:
        found = await self._app.store.read(payouts.some(tx.item_ids))
        lapses = [one.lapses_at for one in found.values()]
        return await self._treasury.cannot_be_mined(tx, lapses[0] if lapses else None)

    async def _finish(self, ended: Sequence[Ended]) -> None:
        """Commits what is proven; what fails unexpectedly alone is set aside, with its payout."""
        left = [
            one
            for one in ended
            if not any(self._is_set_aside(item) for item in (one.tx.id, *one.tx.item_ids))
        ]
        if left:
            await self._app.quarantine.each(
                ItemKind.PAYOUT,
                self.chain_id,
                left,
                # one that fills a nonce has no payout
                lambda one: next(iter(one.tx.item_ids), one.tx.id),
                "end",
                self._commit,
            )

    async def _commit(self, ended: Sequence[Ended]) -> None:
        ids = [item for one in ended for item in one.tx.item_ids]
        found = await self._app.store.read(payouts.some(ids))
        outcomes = [
            await judge(self._app, self._rail, self._treasury, found[item], one)
            for one in ended
            for item in one.tx.item_ids
            if found[item].status is PayoutStatus.SUBMITTED
        ]
        for one in outcomes:
            if one.problem:
                # that what nobody landed in time lapses is foreseen, and it is sent again at once
                level = logging.WARNING if one.lapsed else logging.ERROR
                _log.log(level, "payout %s: %s", one.payout.id, one.problem)
        ends = [one.end for one in ended]
        now_us = self._app.clock.now_us()
        lost = await pause_for_strangers(self._app, self._rail, self.sender, ended)
        watched = self._reorg_watch.new(ended_in([], ended))
        commit = self._reorg_watch.commit(watched)
        await self._app.store.write(payouts.conclude(outcomes, ends, now_us, commit))
        for outcome in outcomes:
            self._app.meters.payout(self.chain_id, name_of(outcome))
            if outcome.posting is not None:
                paid = outcome.payout
                self._app.traces.whole(paid.id, "payout", paid.created_at_us, now_us)
        self._app.ring(*ids)
        self._reorg_watch.committed(watched)
        self.sender.over(ended)
        if lost:
            await self._adopt(lost)
