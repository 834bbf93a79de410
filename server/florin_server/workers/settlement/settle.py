"""Settles accepted payments on one chain: write down, broadcast, wait for evidence, conclude.

Only evidence ends a payment: its settlement event at final depth, or proof that its authorization
can never be used again. Its senders commit a transaction to the journal before others see it,
and broadcast nothing else, so a crash at any point repeats at most a broadcast.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Container, Sequence

from florin_server.clock import first_of
from florin_server.domain.conditions import ConditionName
from florin_server.domain.errors import FlorinError
from florin_server.domain.health import Health
from florin_server.domain.settlement.chain_txs import Watcher
from florin_server.flows.app import Core
from florin_server.rails.protocol import Rail
from florin_server.rails.types import RailUnavailable
from florin_server.store.engine.query import StoreError
from florin_server.workers.provisioning.durable_nonces import NonceKeeper
from florin_server.workers.provisioning.token_accounts import TokenAccountKeeper
from florin_server.workers.settlement.blocked_payers import BlockedPayers
from florin_server.workers.settlement.blocks import follow
from florin_server.workers.settlement.conclude import Concluder
from florin_server.workers.settlement.direct_payments import DirectPayments
from florin_server.workers.settlement.gas_spending import Spending
from florin_server.workers.settlement.missed_blocks import MissedBlocks
from florin_server.workers.settlement.open_payments import OpenPayments
from florin_server.workers.settlement.reorg_watch import ReorgWatch
from florin_server.workers.settlement.senders import Senders
from florin_server.workers.settlement.submit import Submitter
from florin_server.workers.settlement.symptoms import Symptoms
from florin_server.workers.settlement.tx_sender import TxSender
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
        self._reconcile_at_us = 0
        self._started = False
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
        self._concluder = Concluder(app, rail, *parts, self._reorg_watch)
        self._submitter = Submitter(app, rail, *parts, self._concluder)
        self._symptoms = Symptoms(app, *parts, self._missed, self._concluder, self._blocks)
        self._shortages: tuple[str, ...] = ()
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
    def head(self) -> int:
        """The newest block that was seen; 0 if none was."""
        return self._blocks.head

    def health(self) -> Health:
        """How the chain looks now; every payment that is not settled is looked at."""
        name, why = self._trouble
        return self._symptoms.health(
            {name: [why], ConditionName.RELAYER_FUNDS_LOW: self._shortages}, self._turns
        )

    async def run(self) -> None:
        """Works until cancelled."""
        while True:
            try:
                if await self._lead():
                    if not self._started:
                        await self._start()
                        self._started = True
                    await self._turn()
                    self._trouble = self._leaseless()
                else:
                    self._trouble = _LEASED, "another settler has the lease"
            except (RailUnavailable, FlorinError, StoreError) as error:
                if isinstance(error, StoreError):
                    # what was written of the last turn, only the store knows
                    self._started = False
                told = str(error) or type(error).__name__
                self._trouble = ConditionName.SETTLEMENT_FAILING, told
                _log.warning("settling on %s waits: %s", self._rail.chain_id, told)
            self._turns += 1
            self._note_health()
            await self._rest()

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
        await self._blocks.start()
        await self._load()
        await self._missed.load()
        await self._reorg_watch.load()
        await self._take_back()
        for sender in self._senders.led():
            await sender.start()
        await self._or_later(self._reconcile(self._app.clock.now_us()))

    async def _load(self) -> None:
        await self._open.load()
        await self._senders.load()

    async def _turn(self) -> None:
        news = await self._blocks.look()
        stalled = await self._or_later(self._heed()) if news else None
        # too expensive now, say; what is on its way is looked after all the same
        stalled = await fault_of(self._submitter.submit()) or stalled
        if (sender := self._senders.free()) is not None:
            await self._token_accounts.turn(sender)
        for sender in self._senders.led():
            await sender.tend(news=news)
        if self._app.clock.now_us() >= self._reconcile_at_us:
            await self._reconcile(self._reconcile_at_us - _RECONCILE_S * 1_000_000)
        if stalled is not None:
            raise stalled

    async def _heed(self) -> None:
        if self._rail.blocks is None:
            await self._ask()
        await self._take_back()
        await self._unconfirmed.adopt(self._open.by_ref)
        await self._concluder.conclude()
        self._app.chains[self._rail.chain_id].paid_in = self._open.paid_in()
        self._forget_old()

    async def _or_later(self, work: Awaitable[None]) -> RailUnavailable | None:
        """Why it must wait; where buyers' signatures lapse in a minute they are sent meanwhile."""
        if (fault := await fault_of(work)) is not None and self._rail.blocks is not None:
            raise fault
        return fault

    def _forget_old(self) -> None:
        """Drops evidence that lies deep and is not waited for."""
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

    async def _reconcile(self, accepted_by_us: int) -> None:
        """Finds what no block told: work of others, lost transactions, lapsed authorizations.

        Payments that were accepted later than a time are left to the blocks for now: a busy
        service has many of them, and nearly all end before the next comparison.
        """
        self._reconcile_at_us = self._app.clock.now_us() + _RECONCILE_S * 1_000_000
        if not self._rail.assets:
            # the chain did not answer, or had nothing to offer, when it was looked at last
            await self._rail.start()
        self._shortages = await self._rail.relay.shortages()
        await self._catch_up()
        await self._missed.catch_up(self._open.by_ref)
        await self._unconfirmed.adopt(self._open.by_ref)
        await self._reorg_watch.forget()
        if (sender := self._senders.free()) is not None:
            await self._durable_nonces.turn(sender)
        if not self._open and not self._senders.open_transactions:
            return
        await self._open.find_events(self._open.unseen(accepted_by_us))
        await self._senders.ask()
        await self._concluder.conclude()
        await self._concluder.finish([], await self._senders.replaced())
        await self._concluder.bury(self._open.unseen(accepted_by_us))
        for sender in self._senders.led():
            await sender.rebroadcast(at_once=True)

    async def _catch_up(self) -> None:
        """Lets go of payments that others ended, and follows what is accepted during a pause."""
        if self._senders.all_paused:
            await self._load()
        else:
            await self._open.drop_ended()
