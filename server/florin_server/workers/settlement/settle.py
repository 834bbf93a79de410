"""Settles accepted payments on one chain: write down, broadcast, wait for evidence, conclude.

Only evidence ends a payment: its settlement event at final depth, or proof that its authorization
can never be used again. Its senders commit a transaction to the journal before others see it,
and broadcast nothing else, so a crash at any point repeats at most a broadcast.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Collection, Container, Sequence
from functools import partial

from florin_server.domain.errors import FlorinError
from florin_server.domain.payments.payment import FailureCode, Status
from florin_server.domain.settlement.chain_txs import (
    Accepted,
    ChainTx,
    Finding,
    Share,
    Watched,
    Watcher,
)
from florin_server.flows.app import Core, Health
from florin_server.flows.ledger import postings
from florin_server.rails.protocol import Rail, submits
from florin_server.rails.types import Paid, RailUnavailable, Signed
from florin_server.store.engine.query import StoreError
from florin_server.store.settlement import chain_txs
from florin_server.workers.provisioning.durable_nonces import NonceKeeper
from florin_server.workers.provisioning.token_accounts import TokenAccountKeeper
from florin_server.workers.settlement import held_money, trying
from florin_server.workers.settlement.blocked_payers import BlockedPayers
from florin_server.workers.settlement.blocks import follow
from florin_server.workers.settlement.direct_payments import DirectPayments, is_left_to_others
from florin_server.workers.settlement.gas_spending import Spending, conclude, given_up
from florin_server.workers.settlement.missed_blocks import MissedBlocks
from florin_server.workers.settlement.reorg_watch import ReorgWatch, ended_in
from florin_server.workers.settlement.tx_sender import Ended, TxSender
from florin_server.workers.settlement.unproven import Unproven
from florin_server.workers.wait import fault_of, first_of

_log = logging.getLogger(__name__)

# how often everything open is compared with the chain, whatever the blocks told
_RECONCILE_S = 10
# a payment that would not settle now (say, the balance is gone) is tried again after this
_RETRY_S = 5
_REFS_A_CALL = 50
# blocks that must be left for a transaction until what it brings lapses
_LAST_BLOCKS = 2


class ChainSettler:
    """Settles on one chain, with every relayer key of which it has the lease."""

    def __init__(self, app: Core, rail: Rail, owner: str, pauses: Container[str] = ()) -> None:
        self._app = app
        self._rail = rail
        self._terms = rail.terms
        self._reconcile_at_us = 0
        self._started = False
        self._woken = asyncio.Event()
        self._blocks = follow(rail)
        self._open: dict[str, Accepted] = {}  # by reference
        self._unconfirmed = DirectPayments(app, rail, self._blocks)
        self._missed = MissedBlocks(app, rail, self._blocks, self._unconfirmed)
        self._unproven = Unproven(rail.direct, self._find_events, self._seen)
        self._held = BlockedPayers(app)
        self._spending = Spending(app, rail)
        self._durable_nonces = NonceKeeper(app, rail)
        self._token_accounts = TokenAccountKeeper(app, rail)
        self._reorg_watch = ReorgWatch(app, rail, self._blocks, Watcher.SETTLER)
        self._shortages: tuple[str, ...] = ()
        self._problem = "starting"
        self.executors = [
            TxSender(
                app,
                rail,
                sender,
                owner,
                self._blocks,
                cannot_be_mined=self._cannot_be_mined,
                in_time=self._may_send,
                wake=self.wake,
                paused=f"{rail.chain_id}:{sender}" in pauses,
            )
            for sender in rail.senders
        ]
        self.chain_id = rail.chain_id

    def wake(self) -> None:
        """Tells that a payment was accepted."""
        self._woken.set()

    @property
    def head(self) -> int:
        """The newest block that was seen; 0 if none was."""
        return self._blocks.head

    def health(self) -> Health:
        """How the chain looks now."""
        unsettled = self._open.values()
        problems = (
            self._pauses(),
            self._problem,
            self._missed.problem,
            *(sender.problem for sender in self.executors),
            *self._shortages,
            self._held.problem(unsettled),
            self._unproven.problem(unsettled),
            self._spending.problem(unsettled),
            self._undone(),
        )
        return Health(
            self._blocks.head,
            sum(sender.open_transactions for sender in self.executors),
            "; ".join(text for text in problems if text),
            paused=self._spending.paused(unsettled),
            given_up=given_up(unsettled),
        )

    def _pauses(self) -> str:
        paused = [sender.address for sender in self.executors if sender.paused]
        if len(paused) == len(self.executors):
            return "paused by the operator"
        return f"paused by the operator: {', '.join(paused)}" if paused else ""

    def _leaseless(self) -> str:
        keys = [sender.address for sender in self.executors if not sender.leads]
        return f"another settler has the lease of {', '.join(keys)}" if keys else ""

    def _undone(self) -> str:
        """What a reorganisation took back, until it is final again."""
        statuses = [item.payment.status for item in self._open.values()]
        count = statuses.count(Status.SUCCEEDED)
        text = "a reorganisation undid payments that had succeeded; they are settled again"
        return f"{text}: {count}" if count else ""

    @property
    def _paused(self) -> bool:
        return all(sender.paused for sender in self.executors)

    async def run(self) -> None:
        """Works until cancelled."""
        while True:
            try:
                if await self._lead():
                    if not self._started:
                        await self._start()
                        self._started = True
                    await self._turn()
                    self._problem = self._leaseless()
                else:
                    self._problem = "another settler has the lease"
            except (RailUnavailable, FlorinError, StoreError) as error:
                if isinstance(error, StoreError):
                    # what was written of the last turn, only the store knows
                    self._started = False
                self._problem = str(error) or type(error).__name__
                _log.warning("settling on %s waits: %s", self._rail.chain_id, self._problem)
            await self._rest()

    async def _rest(self) -> None:
        """Returns when there may be a new block, or there is something to do."""
        await first_of(self._rail.nodes.wait_for_block(), self._woken.wait())
        self._woken.clear()

    async def _lead(self) -> bool:
        """Takes or renews the leases; True if there is a key to work with."""
        for sender in self.executors:
            before = sender.epoch
            await sender.lead()
            if sender.epoch != before:
                # what the last owner left is picked up, what the next one does is not ours
                self._started = False
        return any(sender.leads for sender in self.executors)

    def _led(self) -> list[TxSender]:
        return [sender for sender in self.executors if sender.leads]

    async def _start(self) -> None:
        """Picks up where the last owner of a lease stopped."""
        await self._blocks.start()
        await self._load()
        await self._missed.load()
        await self._reorg_watch.load()
        await self._take_back()
        for sender in self._led():
            await sender.start()
        await self._or_later(self._reconcile(self._app.clock.now_us()))

    async def _load(self) -> None:
        unsettled = await self._app.store.read(chain_txs.unsettled(self._rail.chain_id))
        self._open = {self._terms.reference(item.option): item for item in unsettled}
        for sender in self._led():
            await sender.load()

    async def _turn(self) -> None:
        news = await self._blocks.look()
        stalled = await self._or_later(self._heed()) if news else None
        # too expensive now, say; what is on its way is looked after all the same
        stalled = await fault_of(self._submit()) or stalled
        if (sender := self._free_sender()) is not None:
            await self._token_accounts.turn(sender)
        for sender in self._led():
            await sender.tend(news=news)
        if self._app.clock.now_us() >= self._reconcile_at_us:
            await self._reconcile(self._reconcile_at_us - _RECONCILE_S * 1_000_000)
        if stalled is not None:
            raise stalled

    async def _heed(self) -> None:
        if self._rail.blocks is None:
            await self._ask()
        await self._take_back()
        await self._unconfirmed.adopt(self._open)
        await self._conclude()
        self._forget_old()

    async def _or_later(self, work: Awaitable[None]) -> RailUnavailable | None:
        """Why it must wait; where buyers' signatures lapse in a minute they are sent meanwhile."""
        if (fault := await fault_of(work)) is not None and self._rail.blocks is not None:
            raise fault
        return fault

    def _forget_old(self) -> None:
        """Drops evidence that lies deep and is not waited for."""
        waiting = {event.ref for event in self._unconfirmed.waiting}
        self._blocks.forget_old(waiting | self._open.keys())

    async def _take_back(self) -> None:
        """Begins again with what a reorganisation undid after it was final."""
        if await self._reorg_watch.check([sender.address for sender in self._led()]):
            await self._load()
            # whoever else moved the money may have done so again by now
            await self._find_events(list(self._open.values()))

    # -- submitting

    async def _submit(self) -> None:
        batch, chain_id = self._app.settings.settle_batch, self._rail.chain_id
        while self._free_sender() is not None and self._app.chains[chain_id].books_begun:
            now_us = self._app.clock.now_us()
            found = await self._app.store.read(chain_txs.waiting(chain_id, batch, now_us))
            if not found:
                return
            if not (waiting := await self._ours(found)):
                continue
            free, held = await self._held.sort(waiting)
            late = [item for item in free if not self._in_time(item)]
            # an account may have got code since its payment was confirmed
            free = await trying.looked_at(self._rail.gas, [one for one in free if one not in late])
            free = await self._spending.sort(free, self._on_way())
            good = await trying.settleable(self._rail.relay, free, self._open.values())
            for item in waiting:
                self._open[self._terms.reference(item.option)] = item
            ready = [item for item, ok in zip(free, good, strict=True) if ok]
            stuck = [item for item, ok in zip(free, good, strict=True) if not ok] + held + late
            for part in trying.parts(self._rail.gas, ready):
                sender = self._free_sender()
                if sender is None:
                    return
                sent = await trying.tried(self._rail.relay, sender.address, part)
                stuck += [item for item in part if item not in sent]
                if sent:
                    await self._send(sender, sent)
            if stuck:
                await self._set_aside(stuck)

    def _on_way(self) -> list[tuple[Accepted, Share]]:
        known = {item.payment.id: item for item in self._open.values()}
        shares = [one for sender in self.executors for one in sender.shares()]
        return [(known[one], share) for one, share in shares if one in known]

    async def _ours(self, items: Sequence[Accepted]) -> list[Accepted]:
        """Leaves payments to themselves that a wallet sends, or others sent; gives back the rest.

        Their effect may be in a block that was read long before they were confirmed.
        """
        theirs = [item for item in items if is_left_to_others(self._rail, item)]
        if theirs:
            await self._find_events(theirs)
            for item in theirs:
                self._open[self._terms.reference(item.option)] = item
            await self._app.store.write(chain_txs.leave([item.payment.id for item in theirs]))
            await self._conclude()
        return [item for item in items if item not in theirs]

    def _in_time(self, item: Accepted) -> bool:
        """True if a transaction that is sent now can still be mined before the item lapses."""
        last = self._terms.last_second(item.option)
        now = max(self._blocks.time, self._app.clock.now_us() // 1_000_000)
        return last is None or last - now >= _LAST_BLOCKS * self._blocks.interval

    def _may_send(self, tx: ChainTx) -> bool:
        """False for what would pay at a price that is over, and does not lapse by itself.

        Where a chain looks at the time, or transactions wait for each other, all are sent.
        """
        items = [item for item in self._open.values() if item.payment.id in tx.item_ids]
        return self._rail.blocks is not None or all(map(self._in_time, items))

    def _free_sender(self) -> TxSender | None:
        """The sender with the fewest open transactions among those with room."""
        free = [sender for sender in self.executors if sender.has_room]
        return min(free, key=lambda sender: sender.open_transactions, default=None)

    async def _send(self, sender: TxSender, items: Sequence[Accepted]) -> None:
        ids = [item.payment.id for item in items]

        async def sign(nonce: int) -> Signed:
            return await self._rail.relay.sign(sender.address, nonce, items)

        await sender.send(ids, sign, lambda: chain_txs.claim(ids))

    async def _set_aside(self, items: Sequence[Accepted]) -> None:
        """Keeps payments that would not settle now for later; ends those that never can."""
        now_us = self._app.clock.now_us()
        ids = [item.payment.id for item in items]
        await self._app.store.write(chain_txs.release(ids, now_us + _RETRY_S * 1_000_000))
        await self._bury(items)

    async def _bury(self, items: Sequence[Accepted]) -> None:
        """Ends payments that never can be settled; the chain may not answer."""
        findings = [f for item in items if (f := await self._dead(item)) is not None]
        await self._finish(findings, [])

    # -- concluding

    async def _ask(self) -> None:
        """What blocks would have told: which of our transactions are final, and what they paid."""
        landed = {i for sender in self._led() for tx in await sender.ask() for i in tx.item_ids}
        new = [item for item in self._open.values() if item.payment.id in landed]
        await self._find_events([item for item in new if not self._seen(item)])

    async def _conclude(self) -> None:
        findings = []
        for ref, item in list(self._open.items()):
            if (event := await self._proof(ref, item)) is not None:
                success = self._success(item, event)
                findings.append(
                    await held_money.screened(self._app, self._rail, item, event, success)
                )
        ends = [end for sender in self._led() for end in await sender.final()]
        await self._finish(findings, ends)

    async def _proof(self, ref: str, item: Accepted) -> Paid | None:
        for event in self._blocks.evidence.paid.get(ref, ()):
            if self._terms.proves(item.option, event) and await self._blocks.is_settled(event):
                return event
        return None

    def _success(self, item: Accepted, event: Paid) -> Finding:
        option, split = item.option, self._terms.split(item.option)
        return Finding(
            payment_id=item.payment.id,
            status=Status.SUCCEEDED,
            tx_id=event.tx_hash,
            option_unit=f"caip19/{option.asset}",
            option_value=option.value,
            settled_value=option.value - split.fee if split.settled else None,
            postings=postings.settled(self._rail, item.payment.merchant_id, option),
            at=Watched(event.tx_hash, event.block_number, event.block_hash),
        )

    async def _finish(self, findings: Sequence[Finding], ends: Sequence[Ended]) -> None:
        """Commits what is proven, tells watchers, and frees payments whose transaction failed."""
        if not findings and not ends:
            return
        now_us = self._app.clock.now_us()
        watched = self._reorg_watch.new(ended_in(findings, ends))
        commit = self._reorg_watch.commit(watched)
        done = {finding.payment_id for finding in findings}
        if left := self._freed(ends, done):
            # what they paid may have become final after it was looked for
            await self._find_events(left)
        known = {item.payment.id: item for item in self._open.values()}
        ends = await self._spending.count(ends, known, self._paid_by)
        retries = self._spending.retries(ends, self._freed(ends, done), now_us)
        changed = await self._app.store.write(conclude(findings, ends, retries, now_us, commit))
        self._reorg_watch.committed(watched)
        for one in retries:
            self._open[self._terms.reference(one.item.option)] = one.item
        await self._spending.committed(ends, retries)
        held_money.tell(findings, changed)
        for payment in changed:
            await self._app.changed(payment)
        over = {ref for ref, item in self._open.items() if item.payment.id in done}
        self._held.forget(done)
        self._unproven.forget(done)
        for ref in over:
            proves = partial(self._terms.proves, self._open.pop(ref).option)
            self._blocks.evidence.spend(ref, proves)
        for sender in self.executors:
            sender.over(ends)
        await self._bury([one.item for one in retries])

    def _freed(self, ends: Sequence[Ended], done: Collection[str]) -> list[Accepted]:
        """Payments of transactions that ended without their event: they need another one."""
        left = {i for one in ends for i in one.tx.item_ids}.difference(done)
        return [i for i in self._open.values() if i.payment.id in left and not self._seen(i)]

    def _seen(self, item: Accepted) -> bool:
        return bool(self._proofs(item))

    def _paid_by(self, item: Accepted, tx: ChainTx) -> bool:
        return any(event.tx_hash in tx.hashes for event in self._proofs(item))

    def _proofs(self, item: Accepted) -> list[Paid]:
        events = self._blocks.evidence.paid.get(self._terms.reference(item.option), ())
        return [event for event in events if self._terms.proves(item.option, event)]

    # -- comparing everything with the chain

    async def _reconcile(self, accepted_by_us: int) -> None:
        """Finds what no block told: work of others, lost transactions, lapsed authorizations.

        Payments that were accepted later than a time are left to the blocks for now: a busy
        service has many of them, and nearly all end before the next comparison.
        """
        self._reconcile_at_us = self._app.clock.now_us() + _RECONCILE_S * 1_000_000
        if not self._rail.assets:
            # the chain did not answer, or had nothing to offer, when it was looked at last
            await self._rail.start()
        gas = self._rail.gas
        self._shortages = () if gas is None else await gas.shortages()
        await self._catch_up()
        await self._missed.catch_up(self._open)
        await self._unconfirmed.adopt(self._open)
        await self._reorg_watch.forget()
        if (sender := self._free_sender()) is not None:
            await self._durable_nonces.turn(sender)
        if not self._open and not any(sender.open_transactions for sender in self.executors):
            return
        await self._find_events(self._unseen(accepted_by_us))
        for sender in self._led():
            await sender.ask()
        await self._conclude()
        await self._finish([], [end for sender in self._led() for end in await sender.replaced()])
        dead = [await self._dead(item) for item in self._unseen(accepted_by_us)]
        await self._finish([finding for finding in dead if finding is not None], [])
        for sender in self._led():
            await sender.rebroadcast(at_once=True)

    async def _catch_up(self) -> None:
        """Lets go of payments that others ended, and follows what is accepted during a pause."""
        if self._paused:
            await self._load()
            return
        left = await self._app.store.read(chain_txs.unsettled_ids(self._rail.chain_id))
        self._open = {ref: item for ref, item in self._open.items() if item.payment.id in left}

    def _unseen(self, accepted_by_us: int) -> list[Accepted]:
        """Open payments of which no block has told anything yet."""
        return [
            item
            for item in self._open.values()
            if item.confirmation.at_us <= accepted_by_us and not self._seen(item)
        ]

    async def _find_events(self, items: Sequence[Accepted]) -> None:
        options = {self._terms.reference(item.option): item.option for item in items}
        for start in range(0, len(items), _REFS_A_CALL):
            for event in await self._rail.observer.find(items[start : start + _REFS_A_CALL]):
                if self._terms.proves(options[event.ref], event):
                    self._blocks.evidence.add_paid(event)

    async def _cannot_be_mined(self, tx: ChainTx) -> bool:
        issued = await self._app.store.read(chain_txs.issued(tx.item_ids))
        return await self._rail.observer.cannot_be_mined(tx, issued)

    async def _dead(self, item: Accepted) -> Finding | None:
        """The proof that a payment's authorization can never be used again, if there is one."""
        item = item.since_offered(self._rail.confirmations)
        if await self._unproven.holds(item):
            return None
        issued = await self._app.store.read(chain_txs.issued([item.payment.id]))
        reason = await self._rail.observer.unpayable_reason(item, issued)
        if reason is None:
            return None
        await self._find_events([item])
        if self._seen(item):
            return None
        if item.payment.status is Status.SUCCEEDED:
            text = "payment %s, which a reorganisation undid, can never be paid again: %s"
            _log.error(text, item.payment.id, reason)
        else:
            _log.warning("payment %s failed: %s", item.payment.id, reason)
        code = FailureCode.DECLINED_USER if await self._was_held(item) else None
        return Finding(item.payment.id, Status.FAILED, failure_code=code, failure_detail=reason)

    async def _was_held(self, item: Accepted) -> bool:
        """True if it was ours to send a payment, and it was not sent because of its payer."""
        ours = submits(self._rail, item.option)
        sent = any(sender.holds(item.payment.id) for sender in self.executors)
        return ours and not sent and await self._held.blocks(item)
