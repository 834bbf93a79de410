"""Settles accepted payments on one chain: store, broadcast, wait for evidence, conclude.

Only evidence ends a payment: its settlement event at final depth, or proof that its authorization
can never be used again. Its queues commit a transaction to the journal before others see it, and
broadcast nothing else, so a crash at any point repeats at most a broadcast.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from florin_server.base.clock import wait_for_first
from florin_server.base.topics import Topic
from florin_server.db.engine.query import StoreError
from florin_server.domain.conditions import ConditionName
from florin_server.domain.errors import ApiError
from florin_server.domain.health import ChainHealth
from florin_server.domain.quarantine import QuarantinedItemKind, format_error
from florin_server.domain.settlement.chain_txs import SettlementItem
from florin_server.money.settlement.store import settlement_items
from florin_server.money.settlement.worker.context import SettlementApp, SettlementContext
from florin_server.money.settlement.worker.health import SettlementHealth
from florin_server.money.settlement.worker.payment_finalizer import PaymentFinalizer
from florin_server.money.settlement.worker.signing_key import SigningKey
from florin_server.money.settlement.worker.submit import PaymentSubmitter
from florin_server.operations.worker import StepFailed, TurnSteps
from florin_server.rails.chain_state import ChainState
from florin_server.rails.protocol import Rail
from florin_server.rails.types import RailUnavailable
from florin_server.rails.worker_failures import catch_unavailable

_log = logging.getLogger(__name__)

# how often everything open is compared with the chain, in addition to the blocks
_RECONCILE_S = 10
_LEASED_ELSEWHERE = ConditionName.SETTLEMENT_LEASED_ELSEWHERE
_Step: TypeAlias = Callable[[], Awaitable[None]]


class ChainSettler:
    """Settles on one chain, with every relayer key of which it has the lease."""

    def __init__(
        self, app: SettlementApp, rail: Rail, owner: str, pauses: Container[str] = ()
    ) -> None:
        self._app = app
        self._rail = rail
        # steady time of the next comparison, and the time of day of the last one
        self._reconcile_at_us = self._reconciled_at_us = 0
        self._is_started = False
        self._start_steps = TurnSteps("")
        # what is left of a start; None if none is under way
        self._steps_to_start: deque[Callable[[], Awaitable[object]]] | None = None
        self._quarantine_version = app.quarantine.version
        self._turn_count = 0
        self._wake_event = asyncio.Event()
        for topic in (Topic.SETTLEMENT, Topic.RECEIVERS):
            app.notifier.subscribe(topic, self._wake_event, rail.chain_id)
        self.context = SettlementContext.create(app, rail, owner, pauses, self._wake_event.set)
        self._finalizer = PaymentFinalizer(self.context)
        self._submitter = PaymentSubmitter(self.context, self._finalizer)
        self._settlement_health = SettlementHealth(self.context, self._finalizer.awaiting_proof)
        # the fault of the settler as a whole, if any
        self._problem = ConditionName.SETTLEMENT_STARTING, "starting"
        # the values at the latest check of all conditions
        self._noted_health: tuple[int, tuple[ConditionName, str], list[str]] = 0, self._problem, []

    @property
    def chain_id(self) -> str:
        """Return the CAIP-2 id of the chain on which it settles."""
        return self._rail.chain_id

    @property
    def executors(self) -> Sequence[SigningKey]:
        """Return the keys that sign its transactions."""
        return self.context.senders.keys

    @property
    def leases(self) -> Mapping[str, int]:
        """Return the leases of relayer keys with which this process works, each with its epoch."""
        queues = self.context.senders.list_leading() if self._is_started else []
        return {queue.key.lease_name: queue.key.epoch for queue in queues}

    @property
    def open_transactions(self) -> int:
        """Return how many of its transactions are neither final nor replaced."""
        return self.context.senders.open_transactions

    @property
    def head(self) -> int:
        """Return the newest block that was seen; 0 if none was, or another process settles."""
        return self.context.head

    @property
    def seen_block(self) -> int:
        """Return the newest block that this process ever saw; 0 if it saw none."""
        return self.context.follower.head

    def health(self) -> ChainHealth:
        """Return the present state of the chain, from a check of every unsettled payment."""
        name, why = self._problem
        if unoffered := self._state.describe_settlement_problem(self._app.clock.steady_us()):
            why = f"{why}; {unoffered}"
        unfunded = self._state.funding_problem
        low = () if unfunded else self._state.describe_shortages()
        wrong = {
            name: [why],
            ConditionName.RELAYER_FUNDS_LOW: low,
            ConditionName.RELAYER_EMPTY: [unfunded],
            ConditionName.DURABLE_NONCES_MISSING: [self.context.durable_nonces.shortage],
            ConditionName.PACE_CHANGED: [self.context.observations.problem],
        }
        return self._settlement_health.get_health(wrong, self._turn_count)

    async def run(self) -> None:
        """Run until canceled."""
        while True:
            fault: Exception | None
            try:
                await self._app.quarantine.load()
                if self._quarantine_version != self._app.quarantine.version:
                    # an item was returned
                    self._start_over()
                if await self._acquire_leases():
                    if not self._is_started:
                        self._quarantine_version = self._app.quarantine.version
                        await self._start()
                        self._is_started = True
                    await self._run_turn()
                    self._problem = self._get_lease_problem()
                else:
                    self._problem = _LEASED_ELSEWHERE, "another process has the lease"
                    # as of the time when this process had it
                    self._state.paying_blocks = {}
                    await self.context.observations.refresh()
            except (RailUnavailable, ApiError, StoreError) as error:
                if isinstance(error, StoreError):
                    # only the store knows what was written of the last turn
                    self._start_over()
                fault, message = error, str(error) or type(error).__name__
                self._problem = ConditionName.SETTLEMENT_FAILING, message
                _log.warning("settlement on %s waits: %s", self._rail.chain_id, message)
            except StepFailed as error:
                fault = error
                self._start_over()
                self._problem = ConditionName.SETTLEMENT_FAILING, str(error)
            except Exception as error:  # noqa: BLE001  (no item stops a worker)
                fault = error
                self._start_over()
                self._problem = ConditionName.SETTLEMENT_FAILING, format_error(error)
                _log.exception("settlement on %s failed", self._rail.chain_id)
            else:
                fault = None
            self._record_error(fault)
            self._turn_count += 1
            self._refresh_health()
            await self._wait()

    def _record_error(self, error: Exception | None) -> None:
        """Remember since when the chain cannot be asked; what one item fails with is not that."""
        if not isinstance(error, RailUnavailable):
            self._state.failing_since_us = None
        elif self._state.failing_since_us is None:
            self._state.failing_since_us = self._app.clock.steady_us()

    @property
    def _state(self) -> ChainState:
        return self._app.chains[self._rail.chain_id]

    def _refresh_health(self) -> None:
        """Record the time of a change of health, to a block, even if it is not read.

        There is a turn for each accepted payment, and each check reads all open payments.
        """
        seen = self.context.follower.head, self._problem, self.context.senders.paused_addresses
        if seen != self._noted_health:
            self._noted_health = seen
            self.health()

    def _get_lease_problem(self) -> tuple[ConditionName, str]:
        keys = self.context.senders.addresses_leased_elsewhere
        message = f"another process has the lease of {', '.join(keys)}" if keys else ""
        return _LEASED_ELSEWHERE, message

    async def _wait(self) -> None:
        """Return when a new block is possible, or there is work."""
        await wait_for_first(self._rail.nodes.wait_for_block(), self._wake_event.wait())
        self._wake_event.clear()

    async def _acquire_leases(self) -> bool:
        """Acquire or renew the leases; return True if there is a key to work with."""
        if await self.context.senders.acquire_leases():
            # transactions of the last owner are taken over, those of the next one are not ours
            self._start_over()
        return bool(self.context.senders.list_leading())

    def _start_over(self) -> None:
        """Read everything again before the next turn."""
        self._is_started, self._steps_to_start = False, None

    async def _start(self) -> None:
        """Pick up where the last owner of a lease stopped.

        If nodes do not answer, the next attempt continues with the step that failed. After an
        outage there is much to read, and nodes that fail now and then never answer all of it.
        """
        if self._steps_to_start is None:
            self._start_steps = TurnSteps(f"settle {self._rail.chain_id}")
            self._steps_to_start = deque(self._list_start_steps())
        while self._steps_to_start:
            await self._steps_to_start[0]()
            self._steps_to_start.popleft()
        self._steps_to_start = None
        self._start_steps.raise_failures()

    def _list_start_steps(self) -> Iterator[Callable[[], Awaitable[object]]]:
        context, steps = self.context, self._start_steps
        yield context.observations.restore
        yield context.follower.start
        yield self._restart_reading
        yield lambda: steps.run("load missed blocks", context.missed_blocks.load())
        yield lambda: steps.run("load the reorg watch", context.reorg_watch.load())
        yield lambda: steps.run("revert reorganized transactions", self._undo_reorged())
        yield self._start_queues
        accepted_by_us = self._app.clock.now_us()
        for step in self._list_reconcile_steps(steps, accepted_by_us):
            yield partial(self._run_unless_stalled, step)
        yield lambda: steps.run("resume returned items", self._release_retried())

    async def _restart_reading(self) -> None:
        self.context.address_payments.restart()
        await self._load()

    async def _start_queues(self) -> None:
        for queue in self.context.senders.list_leading():
            await queue.start()

    async def _release_retried(self) -> None:
        """Send payments that were returned from quarantine, and that no transaction paid.

        Their transaction may have ended meanwhile; what it paid was just found.
        """
        retried_ids = await self._app.quarantine.list_retried(
            QuarantinedItemKind.PAYMENT, self._rail.chain_id
        )
        unpaid_items = self.context.open_payments.list_unseen(self._app.clock.now_us())
        ids = {item.payment.id for item in unpaid_items}.intersection(retried_ids)
        if ids:
            now_us = self._app.clock.now_us()
            await self._app.store.write(settlement_items.release(sorted(ids), now_us))

    async def _load(self) -> None:
        await self.context.open_payments.load()
        await self.context.senders.load()

    async def _run_turn(self) -> None:
        steps = TurnSteps(f"settle {self._rail.chain_id}")
        # before the events of what others forwarded: only deposits show whose money it was
        await catch_unavailable(
            steps.run("read deposits", self.context.address_payments.run_turn())
        )
        news = await self.context.follower.poll(is_idle=self._is_idle)
        process = partial(self._process_news, steps)
        stalled = await self._run_unless_stalled(process) if news else None
        await self._read_requested(steps)
        # for example too expensive now; open transactions are maintained all the same
        stalled = await catch_unavailable(steps.run("submit", self._submitter.submit())) or stalled
        transfers = self.context.facilitated_transfers.run_turn(self.context.senders)
        stalled = await catch_unavailable(steps.run("send transfers", transfers)) or stalled
        if (queue := self.context.senders.find_free()) is not None:
            await steps.run("open token accounts", self.context.token_accounts.run_turn(queue))
            await steps.run("return stray money", self.context.stray_money.run_turn(queue))
        for queue in self.context.senders.list_leading():
            await steps.run("maintain transactions", queue.maintain(has_news=news))
        if self._app.clock.steady_us() >= self._reconcile_at_us:
            await self._reconcile(steps, self._reconciled_at_us)
        observed = self.context.observations.save(is_open=self._has_open)
        await steps.run("keep observations", observed)
        if stalled is not None:
            raise stalled
        steps.raise_failures()

    async def _read_requested(self, steps: TurnSteps) -> None:
        """Find payments that wallets sent by themselves, on chains where only addresses lead there.

        They are final already; only their quorum may need another turn.
        """
        if self._rail.transaction_requests is None:
            return
        items = self.context.open_payments.items_by_ref
        await steps.run("read requested payments", self.context.requested_payments.run_turn(items))
        if self.context.direct_payments.waiting_events:
            await catch_unavailable(
                steps.run("read events", self.context.direct_payments.adopt(items))
            )

    @property
    def _has_open(self) -> bool:
        return bool(self.context.open_payments or self.context.senders.open_transactions)

    @property
    def _is_idle(self) -> bool:
        """Return whether no block can show anything expected, as far as is known here."""
        return self._rail.direct_settlement is not None and not (
            self.context.open_payments
            or self.context.senders.open_transactions
            or self.context.direct_payments.waiting_events
            or self.context.reorg_watch.is_watching
        )

    async def _process_news(self, steps: TurnSteps) -> None:
        if self._rail.blocks is None:
            await steps.run("find transactions", self._find_paid())
        await steps.run("revert reorganized transactions", self._undo_reorged())
        await steps.run(
            "read events",
            self.context.direct_payments.adopt(self.context.open_payments.items_by_ref),
        )
        await steps.run("conclude", self._finalizer.finalize_proven())
        await steps.run("drop old evidence", self._drop_old())

    async def _run_unless_stalled(self, step: _Step) -> RailUnavailable | None:
        """Return why it must wait.

        Where transactions lapse in half a minute, they are sent meanwhile.
        """
        if (fault := await catch_unavailable(step())) is not None and self._rail.blocks is not None:
            raise fault
        return fault

    async def _drop_old(self) -> None:
        """Record which blocks pay, and drop old evidence that is not expected."""
        self._app.chains[
            self._rail.chain_id
        ].paying_blocks = self.context.open_payments.get_paying_blocks()
        awaited_refs = {event.ref for event in self.context.direct_payments.waiting_events}
        self.context.follower.drop_old(
            awaited_refs | self.context.open_payments.items_by_ref.keys()
        )

    async def _undo_reorged(self) -> None:
        """Start again with transactions that a reorganization removed after they were final."""
        if await self.context.reorg_watch.check(
            [queue.key.address for queue in self.context.senders.list_leading()]
        ):
            await self._load()
            # another sender that moved the money may have done so again by now
            await self.context.open_payments.find_events(list(self.context.open_payments.items))

    async def _find_paid(self) -> None:
        """Request what blocks would have shown: own final transactions, and what they paid."""
        mined_item_ids = {
            item_id
            for tx in await self.context.senders.find_transactions()
            for item_id in tx.item_ids
        }
        mined_items = [
            item for item in self.context.open_payments.items if item.payment.id in mined_item_ids
        ]
        await self.context.open_payments.find_events(
            [item for item in mined_items if not self.context.open_payments.has_event(item)]
        )

    async def _reconcile(self, steps: TurnSteps, accepted_by_us: int) -> None:
        """Find what no block showed: others' settlements, lost transactions, lapsed authorizations.

        Payments accepted after a time are left to the blocks for now: a busy service has many of
        them, and nearly all end before the next comparison.
        """
        for step in self._list_reconcile_steps(steps, accepted_by_us):
            await step()

    def _list_reconcile_steps(self, steps: TurnSteps, accepted_by_us: int) -> Iterator[_Step]:
        context, payments = self.context, self.context.open_payments

        def list_unseen() -> list[SettlementItem]:
            return payments.list_unseen(accepted_by_us)

        yield self._begin_reconcile
        yield lambda: steps.run("check funds", self._refresh_funds())
        yield lambda: steps.run("catch up", self._catch_up())
        yield lambda: steps.run(
            "read missed blocks", context.missed_blocks.catch_up(payments.items_by_ref)
        )
        yield lambda: steps.run("read events", context.direct_payments.adopt(payments.items_by_ref))
        yield lambda: steps.run("forget watched transactions", context.reorg_watch.drop_deep())
        yield lambda: steps.run("keep durable nonces", self._keep_nonces())
        for name, work in (
            ("find events", lambda: payments.find_events(list_unseen())),
            ("find transactions", self._find_transactions),
            ("conclude", self._finalizer.finalize_proven),
            ("end replaced transactions", self._commit_replaced),
            ("end unpayable payments", lambda: self._finalizer.fail_unpayable(list_unseen())),
        ):
            yield partial(self._run_if_open, steps, name, work)
        yield partial(self._broadcast_again, steps)

    async def _run_if_open(self, steps: TurnSteps, name: str, work: _Step) -> None:
        """Do a step that only open payments and transactions need."""
        if self._has_open:
            await steps.run(name, work())

    async def _begin_reconcile(self) -> None:
        self._reconcile_at_us = self._app.clock.steady_us() + _RECONCILE_S * 1_000_000
        self._reconciled_at_us = self._app.clock.now_us()
        if not self._rail.assets:
            # the chain did not answer, or had nothing to offer, at the latest check
            await self._rail.start()

    async def _keep_nonces(self) -> None:
        if (queue := self.context.senders.find_free()) is not None:
            await self.context.durable_nonces.run_turn(queue)

    async def _broadcast_again(self, steps: TurnSteps) -> None:
        """Broadcast what is open; no queue keeps another from it."""
        if self._has_open:
            for queue in self.context.senders.list_leading():
                await steps.run("broadcast again", queue.rebroadcast(immediately=True))

    async def _refresh_funds(self) -> None:
        shortages = await self._rail.relay.list_shortages()
        self._state.record_funds(shortages, len(self._rail.senders), self._app.clock.steady_us())

    async def _find_transactions(self) -> None:
        await self.context.senders.find_transactions()

    async def _commit_replaced(self) -> None:
        await self._finalizer.commit([], await self.context.senders.list_replaced())

    async def _catch_up(self) -> None:
        """Drop payments that others ended, and follow those accepted during a pause."""
        if self.context.senders.is_all_paused:
            await self._load()
        else:
            await self.context.open_payments.drop_ended()
