"""One signing key on one chain: what it sends is written down first, followed, and ended once.

A lane knows nothing of payments or payouts. Whoever works with it hands over the items of a
transaction, how to sign it, and what claims the items in the store; and commits, together with
what it concludes itself, how the lane's transactions ended.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from florin_server.domain.ids import short_id
from florin_server.domain.journal import ChainTx, Posting, TxEnd, TxState
from florin_server.flows.app import App
from florin_server.flows.workers.blocks import Follower
from florin_server.rails.base import Mined, Rail, RailUnavailable, Signed
from florin_server.store import journal, leases
from florin_server.store.query import Op

_log = logging.getLogger(__name__)

_LEASE_S = 30
_LEASE_RETRY_US = 1_000_000
# blocks after which a transaction that is in none is looked for and broadcast again
_STALE_BLOCKS = 3


@dataclass(frozen=True, slots=True)
class Ended:
    """A transaction that is over; `end` is what the store is told.

    `success` is None if another transaction took its nonce.
    """

    tx: ChainTx
    end: TxEnd
    success: bool | None


class Lane:
    """The one user of a key; others wait for its lease.

    `gone` tells that no block can hold a transaction any more, judged at final depth; `wake` lets
    its owner take a turn at once. While it is paused it signs and broadcasts nothing, and follows
    what is on its way.
    """

    def __init__(
        self,
        app: App,
        rail: Rail,
        sender: str,
        owner: str,
        blocks: Follower,
        *,
        gone: Callable[[ChainTx], Awaitable[bool]],
        wake: Callable[[], None],
        paused: bool = False,
    ) -> None:
        self._app = app
        self._rail = rail
        self._owner = owner
        self._blocks = blocks
        self._gone = gone
        self._wake = wake
        self._lease = f"relayer:{rail.chain_id}:{sender}"
        self._epoch = 0
        self._may_steal = app.store.exclusive
        self._lease_at_us = 0  # when to look at the lease again
        self._nonce = 0
        self._txs: dict[str, ChainTx] = {}  # by id, in nonce order
        self._resumed = False
        self.sender = sender
        self.paused = paused

    @property
    def account(self) -> str:
        """The CAIP-10 account that sends."""
        return f"{self._rail.chain_id}:{self.sender}"

    @property
    def leads(self) -> bool:
        """True while the lease is ours."""
        return self._epoch > 0

    @property
    def open_transactions(self) -> int:
        """How many transactions are neither final nor replaced."""
        return len(self._txs)

    def holds(self, item_id: str) -> bool:
        """True if an item is in an open transaction."""
        return any(item_id in tx.item_ids for tx in self._txs.values())

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
        return self.leads

    async def load(self) -> None:
        """Reads again which transactions are open."""
        found = await self._app.store.read(journal.open_txs(self._rail.chain_id, self.sender))
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
        nonce = max([await self._rail.next_nonce(self.sender), *open_ones])
        stored = await self._app.store.read(journal.next_nonce(self._rail.chain_id, self.sender))
        if stored is None or stored <= nonce:
            return nonce
        return stored if await self._rail.nonce_used(self.sender, stored - 1) else nonce

    # -- sending

    async def send(
        self,
        item_ids: Sequence[str],
        sign: Callable[[int], Awaitable[Signed]],
        claim: Callable[[], Op[None]],
    ) -> None:
        """Signs for the next nonce, commits that together with the claim, and broadcasts.

        LostLease, of which NotWaiting (raised by the claim) is one, leaves nothing written or
        sent; the lease is then taken anew.
        """
        nonce = self._nonce
        signed = await sign(nonce)
        tx = ChainTx(
            id=short_id("tx_", self._app.randbytes),
            chain_id=self._rail.chain_id,
            sender=self.sender,
            nonce=nonce,
            raw=signed.raw,
            hash=signed.hash,
            item_ids=tuple(item_ids),
            state=TxState.SIGNED,
            created_at_us=self._app.clock.now_us(),
        )
        try:
            await self._app.store.write(journal.append(tx, self._epoch, self._lease, claim()))
        except journal.LostLease:
            self._epoch = self._lease_at_us = 0
            raise
        self._nonce += 1
        self._txs[tx.id] = tx
        await self._broadcast(tx)

    async def _broadcast(self, tx: ChainTx) -> None:
        if self.paused:
            return
        try:
            await self._rail.broadcast(tx.raw)
        except RailUnavailable as error:
            # the outcome is unknown: the transaction stays open and is looked for later
            _log.warning("broadcast of %s: %s", tx.hash, error)
            return
        head = self._blocks.head
        await self._app.store.write(journal.sent(tx.id, head))
        self._txs[tx.id] = replace(tx, state=TxState.SENT, sent_block=head)
        # a chain that seals at once already has it
        self._wake()

    async def tend(self, *, news: bool) -> None:
        """Broadcasts again what the chain has lost; without `news` only after a pause."""
        if news or self._resumed:
            self._resumed = False
            await self.rebroadcast()

    async def rebroadcast(self) -> None:
        """Broadcasts again what is in no block for long and unknown to the chain."""
        for tx in list(self._txs.values()):
            if self._mined(tx) is None and await self._is_stale(tx):
                await self._broadcast(tx)

    async def _is_stale(self, tx: ChainTx) -> bool:
        if tx.sent_block is not None and self._blocks.head - tx.sent_block < _STALE_BLOCKS:
            return False
        return not await self._rail.knows(tx.hash)

    # -- ending

    async def ask(self) -> list[ChainTx]:
        """Looks for all open transactions, whatever the blocks told; those that were found."""
        found = await self._rail.mined([tx.hash for tx in self._txs.values()])
        self._blocks.evidence.mined.update(found)
        return [tx for tx in self._txs.values() if tx.hash in found]

    async def final(self) -> list[Ended]:
        """The transactions that are final, as far as the evidence goes."""
        ended = []
        for tx in self._txs.values():
            mined = self._mined(tx)
            if mined is not None and await self._blocks.is_settled(
                mined.block_number, mined.block_hash
            ):
                ended.append(self._end(tx, mined))
        return ended

    async def replaced(self) -> list[Ended]:
        """The transactions that no block can hold any more."""
        ended = []
        for tx in list(self._txs.values()):
            if self._mined(tx) is not None:
                continue
            if await self._gone(tx) and not await self._rail.mined([tx.hash]):
                ended.append(Ended(tx, TxEnd(tx.id, TxState.REPLACED), None))
        if ended:
            self._nonce = max(self._nonce, await self._rail.next_nonce(self.sender))
        return ended

    def over(self, ended: Iterable[Ended]) -> None:
        """Forgets transactions whose end is committed."""
        for one in ended:
            self._txs.pop(one.tx.id, None)
            self._blocks.evidence.mined.pop(one.tx.hash, None)

    def _mined(self, tx: ChainTx) -> Mined | None:
        return self._blocks.evidence.mined.get(tx.hash)

    def _end(self, tx: ChainTx, mined: Mined) -> Ended:
        cost, wallet = mined.gas_cost, f"wallet:{self.account}"
        gas = Posting("expense:gas", wallet, self._rail.native_asset, cost) if cost else None
        end = TxEnd(tx.id, TxState.FINAL, mined.block_number, mined.block_hash, gas)
        return Ended(tx, end, mined.success)
