"""One signing key on one chain: what it sends is written down first, followed, and ended once.

A sender knows nothing of payments or payouts. Whoever works with it hands over the items of a
transaction, how to sign it, and what claims the items in the store; and commits, together with
what it concludes itself, how the sender's transactions ended.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from florin_server.domain.ids import short_id
from florin_server.domain.ledger import postings
from florin_server.domain.settlement.chain_txs import (
    ChainTx,
    Posting,
    Share,
    TxEnd,
    TxState,
    Variant,
)
from florin_server.domain.settlement.state import TRANSACTION, TxEvent
from florin_server.flows.app import Core
from florin_server.rails.protocol import Rail
from florin_server.rails.types import Mined, RailUnavailable, Signed
from florin_server.store.engine.query import Op, Operation, operation
from florin_server.store.settlement import chain_txs, leases
from florin_server.workers.settlement.blocks import Follower

_log = logging.getLogger(__name__)

_LEASE_S = 25
_LEASE_RETRY_US = 1_000_000
# blocks after which a transaction that is in none is looked for, and broadcast again or raised
_STALE_BLOCKS = 3


def lease_of(rail: Rail, sender: str) -> str:
    """The name of the lease that belongs to a key on a chain."""
    return f"relayer:{rail.chain_id}:{sender}"


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
    be sent once more if a reorganisation undid it, which all may if there is none; `in_time` tells
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
        self._in_time = in_time
        self._lease = lease_of(rail, sender)
        self.epoch = 0  # of the lease; another number each time that somebody else had it
        self._may_steal = app.store.exclusive
        self._lease_at_us = 0  # when to look at the lease again
        self._nonce = 0
        self._txs: dict[str, ChainTx] = {}  # by id, in nonce order
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
    def open_transactions(self) -> int:
        """How many transactions are neither final nor replaced."""
        return len(self._txs)

    @property
    def has_room(self) -> bool:
        """True if the key may sign something new now."""
        waiting = sum(self._mined(tx) is None for tx in self._txs.values())
        return self.leads and not self.paused and waiting < self._rail.open_max

    @property
    def prepares(self) -> bool:
        """True while a transaction without items is open."""
        return any(not tx.item_ids for tx in self._txs.values())

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
        now_us, ttl_us = self._app.clock.now_us(), _LEASE_S * 1_000_000
        store = self._app.store
        if now_us < self._lease_at_us:
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
        self._lease_at_us = now_us + (ttl_us // 3 if self.epoch else _LEASE_RETRY_US)
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
        self._nonce = await self._next_nonce()
        for tx in list(self._txs.values()):
            await self._broadcast(tx)

    async def _next_nonce(self) -> int:
        """After the newest transaction of ours that the chain has or will get.

        What was written down counts only if the chain agrees: a chain that was begun anew starts
        from zero, and a gap would never close.
        """
        open_ones = [tx.nonce + 1 for tx in self._txs.values()]
        stored = await self._app.store.read(chain_txs.next_nonce(self._rail.chain_id, self.address))
        nonces = self._rail.account_nonces
        if nonces is None:
            # the numbers only tell our own transactions apart
            return max([stored or 0, *open_ones])
        nonce = max([await nonces.next_nonce(self.address), *open_ones])
        if stored is None or stored <= nonce:
            return nonce
        return stored if await nonces.nonce_used(self.address, stored - 1) else nonce

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
        await self._append(self._nonce, item_ids, sign, claim())

    async def _append(
        self,
        nonce: int,
        item_ids: Sequence[str],
        sign: Callable[[int], Awaitable[Signed]],
        claim: Operation[None],
    ) -> None:
        signed = await sign(nonce)
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
        await self._broadcast(tx)

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
        await self._app.store.write(_sent(notes))
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
        waiting = [tx for tx in self._txs.values() if self._mined(tx) is None]
        waiting.sort(key=lambda tx: tx.nonce)
        if not waiting or waiting[0].id != self._stuck:
            self.problem = ""
        if self.paused:
            return
        for n, tx in enumerate(waiting):
            if tx.id in self._unnoted:
                continue
            sent = tx.sent_block
            passed = sent is None or self._blocks.head - sent >= _STALE_BLOCKS
            if not (passed or at_once):
                continue
            gap = n == 0 and await self._close_gap(tx)
            if not await self._rail.relay.knows(tx.variants[-1].hash):
                await self._broadcast(tx)
            elif tx.sent_block is None:
                self._note_sent(tx)
            elif passed and n == 0 and not gap:
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
                await self._append(missing, (), partial(nonces.fill, self.address), _nothing())
        return nonce < first.nonce

    # -- ending

    async def ask(self) -> list[ChainTx]:
        """Looks for all open transactions, whatever the blocks told; those that were found."""
        hashes = [one for tx in self._txs.values() for one in tx.hashes]
        found = await self._rail.observer.mined(hashes)
        self._blocks.evidence.mined.update(found)
        return [tx for tx in self._txs.values() if self._mined(tx) is not None]

    async def final(self) -> list[Ended]:
        """The transactions that are final, as far as the evidence goes."""
        ended = []
        for tx in self._txs.values():
            mined = self._mined(tx)
            if mined is not None and await self._blocks.is_settled(mined):
                ended.append(self._end(tx, mined))
        return ended

    async def replaced(self) -> list[Ended]:
        """The transactions that no block can hold any more."""
        ended = []
        for tx in list(self._txs.values()):
            if self._mined(tx) is not None:
                continue
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
            self._measure(one.mined)
            for known in one.tx.hashes:
                self._blocks.evidence.mined.pop(known, None)

    def _trace(self, tx: ChainTx, began_us: int) -> None:
        ended_us, told = self._app.clock.now_us(), {"chain": tx.chain_id, "tx": tx.hash}
        for one in tx.item_ids if self._app.traces.on else ():
            self._app.traces.step(one, "broadcast", began_us, ended_us, **told)

    def _measure(self, mined: Mined | None) -> None:
        meters, chain_id = self._app.meters, self._rail.chain_id
        if mined is None:
            meters.transaction(chain_id, "replaced")
            return
        meters.transaction(chain_id, "succeeded" if mined.success else "reverted")
        meters.gas(self._payer, mined.gas_cost)

    def _mined(self, tx: ChainTx) -> Mined | None:
        mined = self._blocks.evidence.mined
        return next((mined[one] for one in tx.hashes if one in mined), None)

    def _end(self, tx: ChainTx, mined: Mined) -> Ended:
        costs = costs_of(mined, self._payer, self._rail.native_asset)
        other = mined.tx_hash if mined.tx_hash != tx.hash else None
        end = TxEnd(tx.id, TxState.FINAL, mined.block_number, mined.block_hash, costs, other)
        return Ended(tx, end, mined)


def costs_of(mined: Mined, account: str, coin: str) -> tuple[Posting, ...]:
    """What a transaction cost the account (CAIP-10) that paid for it."""
    return postings.spent(account, coin, mined.gas_cost, mined.rent)


@operation
def _sent(notes: Mapping[str, int]) -> Op[None]:
    for tx_id, head in notes.items():
        yield from chain_txs.sent(tx_id, head)


@operation
def _nothing() -> Op[None]:
    """Claims nothing: a transaction without items."""
    yield from ()
