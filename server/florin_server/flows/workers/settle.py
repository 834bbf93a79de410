"""Settles accepted payments on one chain: write down, broadcast, wait for evidence, conclude.

Only evidence ends a payment: its settlement event at final depth, or proof that its authorization
can never be used again. A transaction is committed to the journal before anybody else sees it, and
only those bytes are ever broadcast, so a crash at any point repeats at most a broadcast.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from florin_server.domain.errors import FlorinError
from florin_server.domain.ids import short_id
from florin_server.domain.journal import (
    Accepted,
    ChainTx,
    Finding,
    Posting,
    TxEnd,
    TxState,
)
from florin_server.domain.payment import FailureCode, Status
from florin_server.flows.app import App, Health
from florin_server.flows.workers.blocks import BlockFollower, HeadFollower
from florin_server.flows.workers.hold import Held
from florin_server.flows.workers.unconfirmed import WalletWatch
from florin_server.rails.base import Mined, Paid, Rail, RailUnavailable
from florin_server.store import journal, leases
from florin_server.store.query import StoreUnavailable

_log = logging.getLogger(__name__)

_LEASE_S = 30
_LEASE_RETRY_US = 1_000_000
# how often everything open is compared with the chain, whatever the blocks told
_RECONCILE_S = 10
# a payment that would not settle now (say, the balance is gone) is tried again after this
_RETRY_S = 5
# blocks after which a transaction that is in none is looked for and broadcast again
_STALE_BLOCKS = 3
_REFS_A_CALL = 50


class ChainSettler:
    """The one settler of a chain and sender; others wait for its lease.

    While it is paused it signs and broadcasts nothing, and follows what is on its way.
    """

    def __init__(self, app: App, rail: Rail, owner: str, *, paused: bool = False) -> None:
        self._app = app
        self._rail = rail
        self._owner = owner
        self._lease = f"relayer:{rail.chain_id}:{rail.sender}"
        self._epoch = 0
        self._may_steal = app.store.exclusive
        self._lease_at_us = 0  # when to look at the lease again
        self._reconcile_at_us = 0
        self._nonce = 0
        self._woken = asyncio.Event()
        self._blocks = BlockFollower(rail) if rail.by_block else HeadFollower(rail)
        self._open: dict[str, Accepted] = {}  # by reference
        self._txs: dict[str, ChainTx] = {}  # by hash, in nonce order
        self._wallets = WalletWatch(app, rail, self._blocks.evidence)
        self._held = Held(app)
        self._problem = "starting"
        self._paused = paused

    def wake(self) -> None:
        """Tells that a payment was accepted."""
        self._woken.set()

    def health(self) -> Health:
        """How the chain looks now."""
        paused = "paused by the operator" if self._paused else ""
        problems = (paused, self._problem, self._held.problem(self._open.values()))
        problem = "; ".join(text for text in problems if text)
        return Health(self._blocks.head, len(self._txs), problem)

    def pause(self) -> None:
        """Begins nothing new from now on; what was sent is followed to its end."""
        self._paused = True

    def resume(self) -> None:
        """Takes up again what was left."""
        self._paused = False
        # what was signed and not sent is found by comparing everything
        self._reconcile_at_us = min(self._reconcile_at_us, self._app.clock.now_us())
        self._woken.set()

    async def run(self) -> None:
        """Works until cancelled."""
        started = False
        while True:
            try:
                if await self._lead():
                    if not started:
                        await self._start()
                        started = True
                    await self._turn()
                    self._problem = ""
                else:
                    started = False
                    self._problem = "another settler has the lease"
            except (RailUnavailable, FlorinError, journal.LostLease, StoreUnavailable) as error:
                if isinstance(error, journal.LostLease):
                    started, self._epoch, self._lease_at_us = False, 0, 0
                if isinstance(error, StoreUnavailable):
                    # what was written of the last turn, only the store knows
                    started = False
                self._problem = str(error) or type(error).__name__
                _log.warning("settling on %s waits: %s", self._rail.chain_id, self._problem)
            await self._rest()

    async def _rest(self) -> None:
        # the chain's pace is the machine's, not the service's clock
        try:
            async with asyncio.timeout(self._rail.poll_s):
                await self._woken.wait()
        except TimeoutError:
            pass
        self._woken.clear()

    async def _lead(self) -> bool:
        """Takes or renews the lease.

        A process that owns its store takes over from its dead forerunner at once, but never from
        one that took the lease away while it ran.
        """
        now_us, ttl_us = self._app.clock.now_us(), _LEASE_S * 1_000_000
        store = self._app.store
        if now_us < self._lease_at_us:
            return self._epoch > 0
        if self._epoch:
            renewed = await store.write(
                leases.renew(self._lease, self._owner, self._epoch, now_us, ttl_us)
            )
            if not renewed:
                self._epoch = 0
        if not self._epoch:
            taken = await store.write(
                leases.acquire(self._lease, self._owner, now_us, ttl_us, steal=self._may_steal)
            )
            self._epoch, self._may_steal = taken or 0, False
        self._lease_at_us = now_us + (ttl_us // 3 if self._epoch else _LEASE_RETRY_US)
        return self._epoch > 0

    async def _start(self) -> None:
        """Picks up where the last owner of the lease stopped."""
        await self._blocks.start()
        await self._load()
        await self._wallets.look_back(self._open)
        self._nonce = await self._next_nonce()
        for tx in self._txs.values():
            await self._broadcast(tx)
        await self._reconcile(self._app.clock.now_us())

    async def _next_nonce(self) -> int:
        """After the newest transaction of ours that the chain has or will get.

        What was written down counts only if the chain agrees: a chain that was begun anew starts
        from zero, and a gap would never close.
        """
        open_ones = [tx.nonce + 1 for tx in self._txs.values()]
        nonce = max([await self._rail.next_nonce(), *open_ones])
        stored = await self._app.store.read(
            journal.next_nonce(self._rail.chain_id, self._rail.sender)
        )
        if stored is not None and stored > nonce and await self._rail.nonce_used(stored - 1):
            return stored
        return nonce

    async def _load(self) -> None:
        store, chain = self._app.store, self._rail.chain_id
        unsettled = await store.read(journal.unsettled(chain))
        self._open = {self._rail.reference(item.option): item for item in unsettled}
        self._txs = {tx.hash: tx for tx in await store.read(journal.open_txs(chain))}

    async def _turn(self) -> None:
        news = await self._blocks.look()
        if news:
            if not self._rail.by_block:
                await self._ask()
            await self._wallets.adopt(self._open)
            await self._conclude()
        await self._submit()
        if news:
            await self._rebroadcast()
        if self._app.clock.now_us() >= self._reconcile_at_us:
            await self._reconcile(self._reconcile_at_us - _RECONCILE_S * 1_000_000)

    # -- submitting

    async def _submit(self) -> None:
        batch = self._app.settings.settle_batch
        while not self._paused:
            now_us = self._app.clock.now_us()
            found = await self._app.store.read(journal.waiting(self._rail.chain_id, batch, now_us))
            if not found:
                return
            if not (waiting := await self._ours(found)):
                continue
            free, held = await self._held.sort(waiting)
            good = await self._settleable(free)
            for item in waiting:
                self._open[self._rail.reference(item.option)] = item
            ready = [item for item, ok in zip(free, good, strict=True) if ok]
            for part in self._rail.batches(ready):
                await self._send(part)
            if stuck := [item for item, ok in zip(free, good, strict=True) if not ok] + held:
                await self._set_aside(stuck)

    async def _ours(self, items: Sequence[Accepted]) -> list[Accepted]:
        """Leaves the payments to themselves that a wallet sends; gives back the others.

        Their effect may be in a block that was read long before they were confirmed.
        """
        theirs = [item for item in items if not self._rail.submits(item.option)]
        if theirs:
            await self._find_events(theirs)
            for item in theirs:
                self._open[self._rail.reference(item.option)] = item
            await self._app.store.write(journal.leave([item.payment.id for item in theirs]))
            await self._conclude()
        return [item for item in items if item not in theirs]

    async def _settleable(self, items: Sequence[Accepted]) -> list[bool]:
        """Which items would settle now.

        A payment that was verified alone just now needs no second look. One that is tried again,
        or whose payer has another payment under way, may have lost its funds to that; one with
        more than a signature may wait for what its buyer sent.
        """
        payers = Counter(item.option.payer for item in items)
        payers.update(item.option.payer for item in self._open.values())
        tried = {item.payment.id for item in self._open.values()}
        if all(
            payers[i.option.payer] == 1
            and i.payment.id not in tried
            and len(i.confirmation.outputs) == 1
            for i in items
        ):
            return [True] * len(items)
        return await self._rail.simulate(items)

    async def _send(self, items: Sequence[Accepted]) -> None:
        signed = await self._rail.sign(self._nonce, items)
        tx = ChainTx(
            id=short_id("tx_", self._app.randbytes),
            chain_id=self._rail.chain_id,
            sender=self._rail.sender,
            nonce=self._nonce,
            raw=signed.raw,
            hash=signed.hash,
            payment_ids=tuple(item.payment.id for item in items),
            state=TxState.SIGNED,
            created_at_us=self._app.clock.now_us(),
        )
        await self._app.store.write(journal.append(tx, self._epoch, self._lease))
        self._nonce += 1
        self._txs[tx.hash] = tx
        await self._broadcast(tx)

    async def _broadcast(self, tx: ChainTx) -> None:
        if self._paused:
            return
        try:
            await self._rail.broadcast(tx.raw)
        except RailUnavailable as error:
            # the outcome is unknown: the transaction stays open and is looked for later
            _log.warning("broadcast of %s: %s", tx.hash, error)
            return
        head = self._blocks.head
        await self._app.store.write(journal.sent(tx.id, head))
        self._txs[tx.hash] = replace(tx, state=TxState.SENT, sent_block=head)
        # a chain that seals at once already has it
        self._woken.set()

    async def _rebroadcast(self) -> None:
        for tx in list(self._txs.values()):
            known = self._blocks.evidence.mined.get(tx.hash)
            if known is None and await self._is_stale(tx):
                await self._broadcast(tx)

    async def _is_stale(self, tx: ChainTx) -> bool:
        if tx.sent_block is not None and self._blocks.head - tx.sent_block < _STALE_BLOCKS:
            return False
        return not await self._rail.knows(tx.hash)

    async def _set_aside(self, items: Sequence[Accepted]) -> None:
        """Keeps payments that would not settle now for later; ends those that never can."""
        findings = [f for item in items if (f := await self._dead(item)) is not None]
        await self._finish(findings, [])
        dead = {finding.payment_id for finding in findings}
        if later := [i.payment.id for i in items if i.payment.id not in dead]:
            retry_at_us = self._app.clock.now_us() + _RETRY_S * 1_000_000
            await self._app.store.write(journal.release(later, retry_at_us))

    # -- concluding

    async def _ask(self) -> None:
        """What blocks would have told: which of our transactions are final, and what they paid."""
        found = await self._rail.mined(list(self._txs))
        self._blocks.evidence.mined.update(found)
        landed = {i for one in found for i in self._txs[one].payment_ids}
        new = [item for item in self._open.values() if item.payment.id in landed]
        await self._find_events([item for item in new if not self._seen(item)])

    async def _conclude(self) -> None:
        findings, ends = [], []
        for ref, item in list(self._open.items()):
            if (event := await self._proof(ref, item)) is not None:
                findings.append(self._success(item, event))
        for tx in list(self._txs.values()):
            mined = self._blocks.evidence.mined.get(tx.hash)
            if mined is not None and await self._is_settled(mined.block_number, mined.block_hash):
                ends.append(self._end(tx, mined))
        await self._finish(findings, ends)

    async def _proof(self, ref: str, item: Accepted) -> Paid | None:
        for event in self._blocks.evidence.paid.get(ref, ()):
            if self._rail.proves(item.option, event) and await self._is_settled(
                event.block_number, event.block_hash
            ):
                return event
        return None

    async def _is_settled(self, number: int, block_hash: str) -> bool:
        return self._blocks.is_final(number) and await self._blocks.is_canonical(number, block_hash)

    def _success(self, item: Accepted, event: Paid) -> Finding:
        option, split = item.option, self._rail.split(item.option)
        payer, treasury = option.payer, f"wallet:{self._rail.treasury}"
        receiver = f"external:{split.dest}" if split.settled else treasury
        source = f"external:{payer}" if split.settled else f"merchant:{item.payment.merchant_id}"
        legs = [
            Posting(receiver, source, option.asset, option.value - split.fee),
            Posting(treasury, "income:fee", option.asset, split.fee),
        ]
        return Finding(
            payment_id=item.payment.id,
            status=Status.SUCCEEDED,
            tx_id=event.tx_hash,
            option_unit=f"caip19/{option.asset}",
            option_value=option.value,
            settled_value=option.value - split.fee if split.settled else None,
            postings=tuple(leg for leg in legs if leg.amount > 0),
        )

    def _end(self, tx: ChainTx, mined: Mined) -> TxEnd:
        wallet = f"wallet:{self._rail.chain_id}:{self._rail.sender}"
        gas = Posting("expense:gas", wallet, self._rail.native_asset, mined.gas_cost)
        return TxEnd(
            tx.id,
            TxState.FINAL,
            mined.block_number,
            mined.block_hash,
            gas if mined.gas_cost else None,
        )

    async def _finish(self, findings: Sequence[Finding], ends: Sequence[TxEnd]) -> None:
        """Commits what is proven, tells watchers, and frees payments whose transaction failed."""
        if not findings and not ends:
            return
        now_us = self._app.clock.now_us()
        changed = await self._app.store.write(journal.conclude(findings, ends, now_us))
        for payment in changed:
            await self._app.changed(payment)
        done = {finding.payment_id for finding in findings}
        over = {ref for ref, item in self._open.items() if item.payment.id in done}
        self._wallets.over(over)
        self._held.forget(done)
        for ref in over:
            del self._open[ref]
            self._blocks.evidence.paid.pop(ref, None)
        ended = {end.tx_id for end in ends}
        for tx in [tx for tx in self._txs.values() if tx.id in ended]:
            del self._txs[tx.hash]
            self._blocks.evidence.mined.pop(tx.hash, None)
            await self._free(tx)

    async def _free(self, tx: ChainTx) -> None:
        """A final transaction without a payment's event: the payment needs another one, later."""
        still_open = {item.payment.id: item for item in self._open.values()}
        left = [still_open[i] for i in tx.payment_ids if i in still_open]
        unproven = [i for i in left if not self._seen(i)]
        if unproven:
            await self._set_aside(unproven)

    def _seen(self, item: Accepted) -> bool:
        events = self._blocks.evidence.paid.get(self._rail.reference(item.option), ())
        return any(self._rail.proves(item.option, event) for event in events)

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
        await self._catch_up()
        if not self._open and not self._txs:
            return
        await self._find_events(self._unseen(accepted_by_us))
        for mined in (await self._rail.mined(list(self._txs))).values():
            self._blocks.evidence.mined[mined.tx_hash] = mined
        await self._conclude()
        await self._drop_replaced()
        dead = [await self._dead(item) for item in self._unseen(accepted_by_us)]
        await self._finish([finding for finding in dead if finding is not None], [])
        await self._rebroadcast()

    async def _catch_up(self) -> None:
        """Lets go of payments that others ended, and follows what is accepted during a pause."""
        if self._paused:
            await self._load()
            return
        left = await self._app.store.read(journal.unsettled_ids(self._rail.chain_id))
        self._open = {ref: item for ref, item in self._open.items() if item.payment.id in left}

    def _unseen(self, accepted_by_us: int) -> list[Accepted]:
        """Open payments of which no block has told anything yet."""
        return [
            item
            for item in self._open.values()
            if item.confirmation.at_us <= accepted_by_us and not self._seen(item)
        ]

    async def _find_events(self, items: Sequence[Accepted]) -> None:
        for start in range(0, len(items), _REFS_A_CALL):
            for event in await self._rail.find(items[start : start + _REFS_A_CALL]):
                self._blocks.evidence.add_paid(event)

    async def _drop_replaced(self) -> None:
        """Gives up a transaction of ours only when no block can hold it any more."""
        ends = []
        for tx in list(self._txs.values()):
            if tx.hash in self._blocks.evidence.mined:
                continue
            issued = await self._app.store.read(journal.issued(tx.payment_ids))
            if await self._rail.gone(tx, issued) and not await self._rail.mined([tx.hash]):
                ends.append(TxEnd(tx.id, TxState.REPLACED))
        await self._finish([], ends)
        if ends:
            self._nonce = max(self._nonce, await self._rail.next_nonce())

    async def _dead(self, item: Accepted) -> Finding | None:
        """The proof that a payment's authorization can never be used again, if there is one."""
        issued = await self._app.store.read(journal.issued([item.payment.id]))
        reason = await self._rail.dead(item, issued)
        if reason is None:
            return None
        await self._find_events([item])
        if self._seen(item):
            return None
        _log.warning("payment %s failed: %s", item.payment.id, reason)
        code = FailureCode.DECLINED_USER if await self._was_held(item) else None
        return Finding(item.payment.id, Status.FAILED, failure_code=code, failure_detail=reason)

    async def _was_held(self, item: Accepted) -> bool:
        """True if it was ours to send a payment, and it was not sent because of its payer."""
        ours = self._rail.submits(item.option)
        sent = any(item.payment.id in tx.payment_ids for tx in self._txs.values())
        return ours and not sent and await self._held.blocks(item)
