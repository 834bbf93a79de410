"""Settles accepted payments on one chain: write down, broadcast, wait for evidence, conclude.

Only evidence ends a payment: its settlement event at final depth, or proof that its authorization
can never be used again. Its senders commit a transaction to the journal before others see it,
and broadcast nothing else, so a crash at any point repeats at most a broadcast.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Container, Mapping, Sequence

from florin_server.clock import first_of
from florin_server.domain.conditions import ConditionName
from florin_server.domain.errors import FlorinError
from florin_server.domain.health import Health
from florin_server.domain.quarantine import ItemKind, describe_error
from florin_server.domain.settlement.chain_txs import Watcher
from florin_server.flows.app import ChainState, Core
from florin_server.rails.protocol import Rail
from florin_server.rails.types import RailUnavailable
from florin_server.store.engine.query import StoreError
from florin_server.store.settlement import chain_txs
from florin_server.workers.provisioning.durable_nonces import NonceKeeper
from florin_server.workers.provisioning.token_accounts import TokenAccountKeeper
from florin_server.workers.settlement.blocked_payers import BlockedPayers
from florin_server.workers.settlement.blocks import follow
from florin_server.workers.settlement.conclude import Concluder
from florin_server.workers.settlement.direct_payments import DirectPayments
from florin_server.workers.settlement.gas_spending import Spending
from florin_server.workers.settlement.missed_blocks import MissedBlocks
from florin_server.workers.settlement.observations import Observations
from florin_server.workers.settlement.open_payments import OpenPayments
from florin_server.workers.settlement.reorg_watch import ReorgWatch
from florin_server.workers.settlement.senders import Senders
from florin_server.workers.settlement.submit import Submitter
from florin_server.workers.settlement.symptoms import Symptoms
from florin_server.workers.settlement.tx_sender import TxSender, lease_of
from florin_server.workers.supervise import StepFailed, Steps
from florin_server.workers.wait import fault_of

_log = logging.getLogger(__name__)

# how often everything open is compared with the chain, whatever the blocks told
_RECONCILE_S = 10
_LEASED = ConditionName.SETTLEMENT_LEASED_ELSEWHERE


class ChainSettler:
    """Settles on one chain, with every relayer key of which it has the lease."""

    def __init__(self, app: Core, rail: Rail, owner: str, pauses: Container[str] = ()) -> None:
        self._app = app
        self._rail = rail
        # steady time of the next comparison, and the time of day of the last one
        self._reconcile_at_us = self._reconciled_us = 0
        self._started = False
        self._generation = app.quarantine.generation
        self._turns = 0
        self._woken = asyncio.Event()
        self._blocks = follow(rail)
        self._open = OpenPayments(app, rail, self._blocks)
        self._senders = Senders(
            app,
            rail,
            owner,
            self._blocks,
            may_send=self._open.may_send,
            wake=self.wake,
            pauses=pauses,
        )
        self._unconfirmed = DirectPayments(app, rail, self._blocks)
        self._missed = MissedBlocks(app, rail, self._blocks, self._unconfirmed)
        self._blocked = BlockedPayers(app)
        self._spending = Spending(app, rail)
        self._durable_nonces = NonceKeeper(app, rail)
        self._token_accounts = TokenAccountKeeper(app, rail)
        self._reorg_watch = ReorgWatch(app, rail, self._blocks, Watcher.SETTLER)
        parts = self._open, self._senders, self._spending, self._blocked
        self._observations = Observations(app, rail)
        self._concluder = Concluder(app, rail, *parts, self._reorg_watch, self._observations)
        self._submitter = Submitter(app, rail, *parts, self._concluder)
        self._symptoms = Symptoms(app, *parts, self._missed, self._concluder, self._blocks)
        # what keeps the settler as a whole from its work, if anything does
        self._trouble = ConditionName.SETTLEMENT_STARTING, "starting"
        # with what all conditions were looked at
        self._noted: tuple[int, tuple[ConditionName, str], list[str]] = 0, self._trouble, []

    def wake(self) -> None:
        """Tells that a payment was accepted."""
        self._woken.set()

    @property
    def chain_id(self) -> str:
        """CAIP-2 of the chain that it settles on."""
        return self._rail.chain_id

    @property
    def executors(self) -> Sequence[TxSender]:
        """Those who send for it."""
        return self._senders.all

    @property
    def leases(self) -> Mapping[str, int]:
        """The leases of relayer keys with which this process works, each with its epoch."""
        senders = self._senders.led() if self._started else []
        return {lease_of(self._rail, one.address): one.epoch for one in senders}

    @property
    def head(self) -> int:
        """The newest block that was seen; 0 if none was."""
        return self._blocks.head

    def health(self) -> Health:
        """How the chain looks now; every payment that is not settled is looked at."""
        name, why = self._trouble
        if unoffered := self._state.settlement_problem(self._app.clock.steady_us()):
            why = f"{why}; {unoffered}"
        unfunded = self._state.unfunded
        low = () if unfunded else tuple(one.text for one in self._state.shortages)
        wrong = {
            name: [why],
            ConditionName.RELAYER_FUNDS_LOW: low,
            ConditionName.RELAYER_EMPTY: [unfunded],
            ConditionName.DURABLE_NONCES_MISSING: [self._durable_nonces.shortage],
            ConditionName.PACE_CHANGED: [self._observations.problem],
        }
        return self._symptoms.health(wrong, self._turns)

    async def run(self) -> None:
        """Works until cancelled."""
        while True:
            fault: Exception | None
            try:
                await self._app.quarantine.load()
                if self._generation != self._app.quarantine.generation:
                    # something was given back
                    self._started = False
                if await self._lead():
                    if not self._started:
                        self._generation = self._app.quarantine.generation
                        await self._start()
                        self._started = True
                    await self._turn()
                    self._trouble = self._leaseless()
                else:
                    self._trouble = _LEASED, "another settler has the lease"
                    await self._observations.refresh()
            except (RailUnavailable, FlorinError, StoreError) as error:
                if isinstance(error, StoreError):
                    # what was written of the last turn, only the store knows
                    self._started = False
                fault, told = error, str(error) or type(error).__name__
                self._trouble = ConditionName.SETTLEMENT_FAILING, told
                _log.warning("settling on %s waits: %s", self._rail.chain_id, told)
            except StepFailed as error:
                fault = error
                self._started = False
                self._trouble = ConditionName.SETTLEMENT_FAILING, str(error)
            except Exception as error:  # noqa: BLE001  (no item stops a worker)
                fault = error
                self._started = False
                self._trouble = ConditionName.SETTLEMENT_FAILING, describe_error(error)
                _log.exception("settling on %s failed", self._rail.chain_id)
            else:
                fault = None
            self._note_fault(fault)
            self._turns += 1
            self._note_health()
            await self._rest()

    def _note_fault(self, fault: Exception | None) -> None:
        """Remember since when the chain cannot be asked; what one item fails with is not that."""
        if not isinstance(fault, RailUnavailable):
            self._state.failing_since_us = None
        elif self._state.failing_since_us is None:
            self._state.failing_since_us = self._app.clock.steady_us()

    @property
    def _state(self) -> ChainState:
        return self._app.chains[self._rail.chain_id]

    def _note_health(self) -> None:
        """Has what changed known by its time, to a block, also if nobody asks.

        Turns are as many as payments are accepted, and each look goes through all open ones.
        """
        seen = self._blocks.head, self._trouble, self._senders.paused
        if seen != self._noted:
            self._noted = seen
            self.health()

    def _leaseless(self) -> tuple[ConditionName, str]:
        keys = self._senders.leased_elsewhere
        told = f"another settler has the lease of {', '.join(keys)}" if keys else ""
        return _LEASED, told

    async def _rest(self) -> None:
        """Returns when there may be a new block, or there is something to do."""
        await first_of(self._rail.nodes.wait_for_block(), self._woken.wait())
        self._woken.clear()

    async def _lead(self) -> bool:
        """Takes or renews the leases; True if there is a key to work with."""
        if await self._senders.lead():
            # what the last owner left is picked up, what the next one does is not ours
            self._started = False
        return bool(self._senders.led())

    async def _start(self) -> None:
        """Picks up where the last owner of a lease stopped."""
        await self._observations.restore()
        await self._blocks.start()
        await self._load()
        steps = Steps(f"settle {self._rail.chain_id}")
        await steps.run("load missed blocks", self._missed.load())
        await steps.run("load the reorg watch", self._reorg_watch.load())
        await steps.run("undo", self._take_back())
        for sender in self._senders.led():
            await sender.start()
        await self._or_later(self._reconcile(steps, self._app.clock.now_us()))
        await steps.run("take up what was given back", self._take_up())
        steps.end()

    async def _take_up(self) -> None:
        """Has payments sent that were set aside and given back, and that no transaction paid.

        Their transaction may have ended meanwhile; what it paid was found just now.
        """
        given_back = await self._app.quarantine.retried(ItemKind.PAYMENT, self._rail.chain_id)
        unpaid = self._open.unseen(self._app.clock.now_us())
        ids = {one.payment.id for one in unpaid}.intersection(given_back)
        if ids:
            now_us = self._app.clock.now_us()
            await self._app.store.write(chain_txs.release(sorted(ids), now_us))

    async def _load(self) -> None:
        await self._open.load()
        await self._senders.load()

    async def _turn(self) -> None:
        news = await self._blocks.look(idle=self._is_idle)
        steps = Steps(f"settle {self._rail.chain_id}")
        stalled = await self._or_later(self._heed(steps)) if news else None
        # too expensive now, say; what is on its way is looked after all the same
        stalled = await fault_of(steps.run("submit", self._submitter.submit())) or stalled
        if (sender := self._senders.free()) is not None:
            await steps.run("open token accounts", self._token_accounts.turn(sender))
        for sender in self._senders.led():
            await steps.run("look after transactions", sender.tend(news=news))
        if self._app.clock.steady_us() >= self._reconcile_at_us:
            await self._reconcile(steps, self._reconciled_us)
        is_open = bool(self._open or self._senders.open_transactions)
        await steps.run("keep observations", self._observations.keep(is_open=is_open))
        if stalled is not None:
            raise stalled
        steps.end()

    @property
    def _is_idle(self) -> bool:
        """Whether no block can tell anything that is waited for, as far as is known here."""
        return self._rail.direct is not None and not (
            self._open
            or self._senders.open_transactions
            or self._unconfirmed.waiting
            or self._reorg_watch.is_watching
        )

    async def _heed(self, steps: Steps) -> None:
        if self._rail.blocks is None:
            await steps.run("ask for transactions", self._ask())
        await steps.run("undo", self._take_back())
        await steps.run("read events", self._unconfirmed.adopt(self._open.by_ref))
        await steps.run("conclude", self._concluder.conclude())
        await steps.run("forget", self._forget_old())

    async def _or_later(self, work: Awaitable[None]) -> RailUnavailable | None:
        """Why it must wait; where transactions lapse in half a minute they are sent meanwhile."""
        if (fault := await fault_of(work)) is not None and self._rail.blocks is not None:
            raise fault
        return fault

    async def _forget_old(self) -> None:
        """Tells which blocks pay, and drops evidence that lies deep and is not waited for."""
        self._app.chains[self._rail.chain_id].paid_in = self._open.paid_in()
        waiting = {event.ref for event in self._unconfirmed.waiting}
        self._blocks.forget_old(waiting | self._open.by_ref.keys())

    async def _take_back(self) -> None:
        """Begins again with what a reorganisation undid after it was final."""
        if await self._reorg_watch.check([sender.address for sender in self._senders.led()]):
            await self._load()
            # whoever else moved the money may have done so again by now
            await self._open.find_events(list(self._open.items))

    async def _ask(self) -> None:
        """What blocks would have told: which of our transactions are final, and what they paid."""
        landed = {i for tx in await self._senders.ask() for i in tx.item_ids}
        new = [item for item in self._open.items if item.payment.id in landed]
        await self._open.find_events([item for item in new if not self._open.seen(item)])

    async def _reconcile(self, steps: Steps, accepted_by_us: int) -> None:
        """Finds what no block told: work of others, lost transactions, lapsed authorizations.

        Payments that were accepted later than a time are left to the blocks for now: a busy
        service has many of them, and nearly all end before the next comparison.
        """
        self._reconcile_at_us = self._app.clock.steady_us() + _RECONCILE_S * 1_000_000
        self._reconciled_us = self._app.clock.now_us()
        if not self._rail.assets:
            # the chain did not answer, or had nothing to offer, when it was looked at last
            await self._rail.start()
        await steps.run("look at funds", self._look_at_funds())
        await steps.run("catch up", self._catch_up())
        await steps.run("read missed blocks", self._missed.catch_up(self._open.by_ref))
        await steps.run("read events", self._unconfirmed.adopt(self._open.by_ref))
        await steps.run("forget watched transactions", self._reorg_watch.forget())
        if (sender := self._senders.free()) is not None:
            await steps.run("keep durable nonces", self._durable_nonces.turn(sender))
        if not self._open and not self._senders.open_transactions:
            return
        await steps.run("find events", self._open.find_events(self._open.unseen(accepted_by_us)))
        await steps.run("ask for transactions", self._ask_all())
        await steps.run("conclude", self._concluder.conclude())
        await steps.run("end replaced transactions", self._end_replaced())
        await steps.run(
            "end unpayable payments", self._concluder.bury(self._open.unseen(accepted_by_us))
        )
        for sender in self._senders.led():
            await steps.run("broadcast again", sender.rebroadcast(at_once=True))

    async def _look_at_funds(self) -> None:
        found = await self._rail.relay.shortages()
        self._state.note_funds(found, len(self._rail.senders), self._app.clock.steady_us())

    async def _ask_all(self) -> None:
        await self._senders.ask()

    async def _end_replaced(self) -> None:
        await self._concluder.finish([], await self._senders.replaced())

    async def _catch_up(self) -> None:
        """Lets go of payments that others ended, and follows what is accepted during a pause."""
        if self._senders.all_paused:
            await self._load()
        else:
            await self._open.drop_ended()
