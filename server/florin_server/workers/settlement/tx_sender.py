"""One signing key on one chain: what it sends is written down first, followed, and ended once.

A sender knows nothing of payments or payouts. Whoever works with it hands over the items of a
transaction, how to sign it, and what claims the items in the store; and commits, together with
what it concludes itself, how the sender's transactions ended.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from operator import attrgetter

from florin_server.domain.ids import short_id
from florin_server.domain.quarantine import ItemKind, describe_error
from florin_server.domain.settlement.chain_txs import (
    ChainTx,
    Share,
    TxEnd,
    TxState,
    Variant,
)
from florin_server.domain.settlement.lease import LEASE_S
from florin_server.domain.settlement.state import TRANSACTION, TxEvent
from florin_server.flows.app import Core
from florin_server.flows.quarantine.quarantine import is_unexpected
from florin_server.rails.protocol import Rail
from florin_server.rails.types import Mined, RailUnavailable, SentTransfer, Signed
from florin_server.store.engine.query import Op, Operation, operation
from florin_server.store.settlement import chain_txs, leases
from florin_server.workers.settlement.blocks import Follower
from florin_server.workers.settlement.costs import costs_of, count_ended
from florin_server.workers.settlement.key_nonces import next_nonce, recover

_log = logging.getLogger(__name__)

_LEASE_RETRY_US = 1_000_000
_ID = attrgetter("id")


def lease_of(rail: Rail, sender: str) -> str:
    """The name of the lease that belongs to a key on a chain."""
    return leases.name_of(rail.chain_id, sender)


@dataclass(frozen=True, slots=True)
class Ended:
    """A transaction that is over; `end` is what the store is told.

    `mined` is None if another transaction took its nonce.
    """

    tx: ChainTx
    end: TxEnd
    mined: Mined | None


class TxSender:
    """The one user of a key; others wait for its lease.

    `cannot_be_mined` tells that no block can hold a transaction any more, judged at final depth;
    `wake` lets its owner take a turn at once; `again` tells whether a transaction that was over may
    be sent once more if a reorganisation undid it, which all may if there is none; `adopt` is given
    transactions that the store lost, by nonce, to write down those that are known; `in_time` tells
    whether one may still be handed over, as all may if there is none; `payer` is the address that
    pays for gas if it is not the sender. While it is paused it signs and broadcasts nothing, and
    follows what is on its way.
    """

    def __init__(
        self,
        app: Core,
        rail: Rail,
        sender: str,
        owner: str,
        blocks: Follower,
        *,
        cannot_be_mined: Callable[[ChainTx], Awaitable[bool]],
        wake: Callable[[], None],
        again: Callable[[ChainTx], Awaitable[bool]] | None = None,
        adopt: Callable[[Mapping[int, SentTransfer | None]], Awaitable[None]] | None = None,
        in_time: Callable[[ChainTx], bool] | None = None,
        payer: str = "",
        pays_out: bool = False,
        paused: bool = False,
    ) -> None:
        self._app = app
        self._rail = rail
        self._owner = owner
        self._blocks = blocks
        self._cannot_be_mined = cannot_be_mined
        self._wake = wake
        self._again = again
        self._adopt = adopt
        self._in_time = in_time
        self._lease = lease_of(rail, sender)
        self.epoch = 0  # of the lease; another number each time that somebody else had it
        self._may_steal = app.store.exclusive
        self._lease_at_us = 0  # when to look at the lease again
        self._nonce = 0
        self._txs: dict[str, ChainTx] = {}  # by id, in nonce order
        self._dead: set[str] = set()  # set aside, and another transaction used their nonce
        self._unnoted: set[str] = set()  # handed over, and the head since is not known yet
        self._resumed = False
        self._stuck = ""  # the transaction that `problem` is about
        self.address = sender
        self._payer = f"{rail.chain_id}:{payer or sender}"
        self._pays_out = pays_out
        self.paused = paused
        self.problem = ""  # what keeps the oldest transaction from being mined

    @property
    def account(self) -> str:
        """The CAIP-10 account that sends."""
        return f"{self._rail.chain_id}:{self.address}"

    @property
    def leads(self) -> bool:
        """True while the lease is ours."""
        return self.epoch > 0

    @property
    def next_nonce(self) -> int:
        """The number of what is sent next."""
        return self._nonce

    @property
    def open_transactions(self) -> int:
        """How many transactions are neither final nor replaced."""
        return len(self._txs)

    @property
    def has_room(self) -> bool:
        """True if the key may sign something new now."""
        waiting = sum(self._mined(tx) is None for tx in self._live())
        return self.leads and not self.paused and waiting < self._rail.open_max

    @property
    def prepares(self) -> bool:
        """True while a transaction without items is open and not set aside."""
        return any(not tx.item_ids for tx in self._followed())

    def holds(self, item_id: str) -> bool:
        """True if an item is in an open transaction."""
        return any(item_id in tx.item_ids for tx in self._txs.values())

    def shares(self) -> Iterator[tuple[str, Share]]:
        """What the items of open transactions may use, by item."""
        for tx in self._txs.values():
            # without shares there is nothing that an item could use more or less of
            yield from zip(tx.item_ids, tx.shares, strict=False)

    def pause(self) -> None:
        """Begins nothing new from now on; what was sent is followed to its end."""
        self.paused = True

    def resume(self) -> None:
        """Takes up again what was left."""
        self.paused = False
        self._resumed = True
        self._wake()

    # -- beginning

    async def lead(self) -> bool:
        """Takes or renews the lease; call `load` and `start` when it was taken anew.

        A process that owns its store takes over from its dead forerunner at once, but never from
        one that took the lease away while it ran.
        """
        now_us, ttl_us = self._app.clock.now_us(), LEASE_S * 1_000_000
        store, steady_us = self._app.store, self._app.clock.steady_us()
        if steady_us < self._lease_at_us:
            return self.leads
        if self.epoch:
            renewed = await store.write(
                leases.renew(self._lease, self._owner, self.epoch, now_us, ttl_us)
            )
            if not renewed:
                self.epoch = 0
                self._txs.clear()
                self._unnoted.clear()
        if not self.epoch:
            taken = await store.write(
                leases.acquire(self._lease, self._owner, now_us, ttl_us, steal=self._may_steal)
            )
            self.epoch, self._may_steal = taken or 0, False
        self._lease_at_us = steady_us + (ttl_us // 3 if self.epoch else _LEASE_RETRY_US)
        return self.leads

    async def give_back(self) -> None:
        """Lets another process have the lease at once; this one signs nothing any more."""
        epoch, self.epoch = self.epoch, 0
        if epoch:
            await self._app.store.write(leases.release(self._lease, self._owner, epoch))

    async def load(self) -> None:
        """Reads again which transactions are open."""
        found = await self._app.store.read(chain_txs.open_txs(self._rail.chain_id, self.address))
        self._txs = {tx.id: tx for tx in found}

    async def start(self) -> None:
        """Picks up where the last owner of the lease stopped, as it was loaded."""
        await recover(self._app, self._rail, self.address, self._txs.values(), self._adopt)
        self._nonce = await next_nonce(self._app, self._rail, self.address, self._txs.values())
        for tx in list(self._txs.values()):
            await self._broadcast(tx)

    async def adopt(self, item_id: str, nonce: int, sent: Signed, claim: Operation[None]) -> None:
        """Write down a transaction of this key that a block has, for an item; follow it from now.

        LostLease as `send`.
        """
        await self._append(nonce, [item_id], sent, claim)

    # -- sending

    async def send(
        self,
        item_ids: Sequence[str],
        sign: Callable[[int], Awaitable[Signed]],
        claim: Callable[[], Operation[None]],
    ) -> None:
        """Signs for the next nonce, commits that together with the claim, and broadcasts.

        LostLease, of which NotWaiting (raised by the claim) is one, leaves nothing written or
        sent; the lease is then taken anew.
        """
        signed = await sign(self._nonce)
        await self._broadcast(await self._append(self._nonce, item_ids, signed, claim()))

    async def _append(
        self, nonce: int, item_ids: Sequence[str], signed: Signed, claim: Operation[None]
    ) -> ChainTx:
        tx = ChainTx(
            id=short_id("tx_", self._app.randbytes),
            chain_id=self._rail.chain_id,
            sender=self.address,
            nonce=nonce,
            raw=signed.raw,
            hash=signed.hash,
            payment_ids=() if self._pays_out else tuple(item_ids),
            payout_ids=tuple(item_ids) if self._pays_out else (),
            state=TxState.SIGNED,
            created_at_us=self._app.clock.now_us(),
            since_block=signed.since_block,
            shares=signed.shares,
        )
        await self._commit(chain_txs.append(tx, self.epoch, self._lease, claim))
        self._nonce = max(self._nonce, nonce + 1)
        self._txs[tx.id] = tx
        return tx

    async def _commit(self, op: Operation[None]) -> None:
        try:
            await self._app.store.write(op)
        except chain_txs.LostLease:
            self.epoch = self._lease_at_us = 0
            raise

    async def _broadcast(self, tx: ChainTx) -> None:
        """Hands the newest variant to the chain, or an older one if it does not take that."""
        if self._in_time is not None and not self._in_time(tx):
            return
        began_us = self._app.clock.now_us()
        if not self.paused and await self._hand_over(tx):
            if tx.state is TxState.SIGNED:
                # once: what is stuck is handed over again with every block
                self._trace(tx, began_us)
            self._note_sent(tx)
            # a chain that seals at once already has it
            self._wake()

    async def _hand_over(self, tx: ChainTx) -> bool:
        for one in reversed(tx.variants):
            try:
                await self._rail.relay.broadcast(one.raw)
            except RailUnavailable as error:
                # the outcome is unknown: the transaction stays open and is looked for later
                _log.warning("broadcast of %s: %s", one.hash, error)
            except Exception:  # noqa: BLE001  (no item stops a worker)
                # likewise: what is written down is never given up because of that
                _log.exception("broadcast of %s failed", one.hash)
            else:
                return True
        return False

    def _note_sent(self, tx: ChainTx) -> None:
        self._unnoted.add(tx.id)
        self._txs[tx.id] = replace(tx, state=TRANSACTION.after(tx.state, TxEvent.SENT))

    async def note(self) -> None:
        """Writes down what was handed over since; who never learns of it broadcasts it again.

        The chain is asked for its head: blocks that were there before have not passed it over, and
        the follower may be far behind, if nothing was on its way for long or there is much to read.
        """
        sent = [one for one in self._txs if one in self._unnoted]
        if not sent:
            return
        head = max(self._blocks.head, (await self._rail.observer.head()).number)
        notes = dict.fromkeys(sent, head)
        await self._app.store.write(chain_txs.sent(notes))
        self._unnoted.clear()
        for one in notes:
            self._txs[one] = replace(self._txs[one], sent_block=head)

    async def tend(self, *, news: bool) -> None:
        """Broadcasts again what the chain has lost; without `news` only after a pause.

        What was handed over since the last time is written down.
        """
        if news or self._resumed:
            self._resumed = False
            await self.rebroadcast()
        await self.note()

    async def rebroadcast(self, *, at_once: bool = False) -> None:
        """Broadcasts again what the chain has lost; offers more for what it does not take.

        Both only after some blocks have passed it over, but with `at_once` what is lost goes again
        without that: a chain that waits for transactions makes no blocks. What waits behind the
        first of its kind is not raised: it could not be mined before it, whatever it offers.
        """
        await self._find_dead()
        waiting = [tx for tx in self._live() if self._mined(tx) is None]
        waiting.sort(key=lambda tx: tx.nonce)
        if not waiting or waiting[0].id != self._stuck:
            self.problem = ""
        if self.paused:
            return
        for n, tx in enumerate(waiting):
            if tx.id in self._unnoted:
                continue
            sent = tx.sent_block
            passed = sent is None or self._blocks.head - sent >= self._rail.stale_blocks
            if not (passed or at_once):
                continue
            try:
                await self._look_after(tx, is_first=n == 0, passed=passed)
            except Exception as error:
                if not is_unexpected(error):
                    raise
                # it stays open and is looked after again with the next block
                _log.exception("%s cannot be looked after", tx.hash)
                self.problem, self._stuck = f"{tx.hash}: {describe_error(error)}", tx.id

    async def _find_dead(self) -> None:
        """Find which of those that are set aside no other waits for: their nonces are used."""
        if (nonces := self._rail.account_nonces) is None:
            return
        self._dead -= (followed := {tx.id for tx in self._followed()})
        for tx in [one for one in self._live() if one.id not in followed]:
            try:
                if await nonces.nonce_used(self.address, tx.nonce):
                    self._dead.add(tx.id)
            except Exception as error:
                if not is_unexpected(error):
                    raise
                _log.exception("%s: whether nonce %d is used", self.account, tx.nonce)

    def _live(self) -> list[ChainTx]:
        """Return the open transactions but for those that are dead."""
        return [tx for tx in self._txs.values() if tx.id not in self._dead]

    async def _look_after(self, tx: ChainTx, *, is_first: bool, passed: bool) -> None:
        gap = is_first and await self._close_gap(tx)
        if not await self._rail.relay.knows(tx.variants[-1].hash):
            await self._broadcast(tx)
        elif tx.sent_block is None:
            self._note_sent(tx)
        elif passed and is_first and not gap:
            await self._raise(tx)

    async def _raise(self, tx: ChainTx) -> None:
        """Signs a transaction that waits again for a higher fee; all variants may be mined."""
        if self._rail.account_nonces is None:
            return  # what lasts is what the buyer signed, and what lapses is signed anew
        try:
            signed = await self._rail.account_nonces.bump(tx)
        except RailUnavailable as error:
            self.problem, self._stuck = f"{tx.hash} waits: {error}", tx.id
            await self._broadcast(tx)
            return
        variant = Variant(signed.raw, signed.hash)
        now_us = self._app.clock.now_us()
        await self._commit(chain_txs.bump(tx, variant, self.epoch, self._lease, now_us))
        _log.warning("%s waits in block %d: it offers more", tx.hash, self._blocks.head)
        raised = replace(tx, bumps=(*tx.bumps, variant))
        self._txs[tx.id] = raised
        await self._broadcast(raised)

    async def _close_gap(self, first: ChainTx) -> bool:
        """Uses the nonces that the chain waits for before the first of ours; True if any.

        What was final may be gone with its block, and others may have used the key.
        """
        nonces = self._rail.account_nonces
        if nonces is None:
            return False
        nonce = await nonces.next_nonce(self.address)
        for missing in range(nonce, min(first.nonce, nonce + self._rail.open_max)):
            if await nonces.nonce_used(self.address, missing):
                continue
            found = await self._app.store.read(
                chain_txs.at_nonce(self._rail.chain_id, self.address, missing)
            )
            if found and (self._again is None or await self._again(found[0])):
                await self._hand_over(found[0])
            else:
                _log.warning("%s: nonce %d is filled", self.account, missing)
                signed = await nonces.fill(self.address, missing)
                await self._broadcast(await self._append(missing, (), signed, _nothing()))
        return nonce < first.nonce

    # -- ending

    async def ask(self) -> list[ChainTx]:
        """Looks for all open transactions, whatever the blocks told; those that were found."""
        if txs := self._followed():
            await self._app.quarantine.each(
                ItemKind.TRANSACTION, self._rail.chain_id, txs, _ID, "look for", self._find
            )
        return [tx for tx in self._txs.values() if self._mined(tx) is not None]

    async def _find(self, txs: Sequence[ChainTx]) -> None:
        found = await self._rail.observer.mined([one for tx in txs for one in tx.hashes])
        self._blocks.evidence.mined.update(found)

    def _followed(self) -> list[ChainTx]:
        """Return the open transactions that are not set aside."""
        left_in, chain_id = self._app.quarantine.left_in, self._rail.chain_id
        return left_in(ItemKind.TRANSACTION, chain_id, self._txs.values(), _ID)

    async def final(self) -> list[Ended]:
        """The transactions that are final, as far as the evidence goes."""
        ended: list[Ended] = []
        for tx in self._followed():
            async with self._isolating(tx, "end"):
                mined = self._mined(tx)
                if mined is not None and await self._blocks.is_settled(mined):
                    ended.append(self._end(tx, mined))
        return ended

    def _isolating(self, tx: ChainTx, step: str) -> AbstractAsyncContextManager[None]:
        chain_id = self._rail.chain_id
        return self._app.quarantine.isolating(ItemKind.TRANSACTION, chain_id, tx.id, step)

    async def replaced(self) -> list[Ended]:
        """The transactions that no block can hold any more."""
        ended: list[Ended] = []
        for tx in self._followed():
            if self._mined(tx) is not None:
                continue
            async with self._isolating(tx, "end as replaced"):
                over = await self._cannot_be_mined(tx)
                if over and not await self._rail.observer.mined(tx.hashes):
                    ended.append(Ended(tx, TxEnd(tx.id, TxState.REPLACED), mined=None))
        nonces = self._rail.account_nonces
        if ended and nonces is not None:
            self._nonce = max(self._nonce, await nonces.next_nonce(self.address))
        return ended

    def over(self, ended: Iterable[Ended]) -> None:
        """Forgets transactions whose end is committed."""
        for one in ended:
            self._txs.pop(one.tx.id, None)
            count_ended(self._app.meters, self._rail.chain_id, self._payer, one.mined)
            for known in one.tx.hashes:
                self._blocks.evidence.mined.pop(known, None)

    def _trace(self, tx: ChainTx, began_us: int) -> None:
        ended_us, told = self._app.clock.now_us(), {"chain": tx.chain_id, "tx": tx.hash}
        for one in tx.item_ids if self._app.traces.on else ():
            self._app.traces.step(one, "broadcast", began_us, ended_us, **told)

    def _mined(self, tx: ChainTx) -> Mined | None:
        mined = self._blocks.evidence.mined
        return next((mined[one] for one in tx.hashes if one in mined), None)

    def _end(self, tx: ChainTx, mined: Mined) -> Ended:
        costs = costs_of(mined, self._payer, self._rail.native_asset)
        other = mined.tx_hash if mined.tx_hash != tx.hash else None
        end = TxEnd(tx.id, TxState.FINAL, mined.block_number, mined.block_hash, costs, other)
        return Ended(tx, end, mined)


@operation
def _nothing() -> Op[None]:
    """Claims nothing: a transaction without items."""
    yield from ()
