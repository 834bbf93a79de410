"""The transactions of one signing key: stored before they are sent, followed, and ended once.

A queue knows nothing about payments or payouts. Its owner provides the items of a transaction, how
to sign it, and what claims the items in the store; and commits, together with its own conclusions,
how the transactions of the queue ended.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Protocol

from florin_server.base.context import EventContext, MeterContext
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, Operation, operation
from florin_server.domain.ids import generate_short_id
from florin_server.domain.quarantine import QuarantinedItemKind, format_error
from florin_server.domain.settlement.chain_txs import (
    ChainTx,
    GasShare,
    TransactionOutcome,
    TransactionVariant,
    TxState,
)
from florin_server.domain.settlement.state import TRANSACTION_TRANSITIONS, TxEvent
from florin_server.money.settlement.store import chain_txs
from florin_server.money.settlement.worker.blocks import ChainFollower
from florin_server.money.settlement.worker.ended_transactions import (
    EndedTransaction,
    build_cost_postings,
    count_transaction,
)
from florin_server.money.settlement.worker.key_nonces import recover
from florin_server.money.settlement.worker.signing_key import SigningKey
from florin_server.operations.context import QuarantineContext
from florin_server.operations.service.quarantine import is_unexpected
from florin_server.rails.context import ChainContext
from florin_server.rails.protocol import Rail
from florin_server.rails.types import (
    MinedTransaction,
    RailUnavailable,
    SignedTransaction,
    TreasuryTransaction,
)
from florin_server.rails.worker_failures import catch_unavailable


class _Context(
    ChainContext, EventContext, MeterContext, QuarantineContext, StorageContext, Protocol
):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

_GET_ID = attrgetter("id")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRules:
    """The decisions of a queue's owner.

    `cannot_be_mined` says whether no block can include a transaction any more, judged at final
    depth. `may_rebroadcast` says whether an ended transaction can be sent once more after a
    reorganization removed it; without it all can. `adopt` receives transactions that the store
    lost, by nonce, to store the known ones. `is_in_time` says whether a transaction can still be
    broadcast; without it all can. `payer` is the address that pays for gas if it is not the key's.
    The items are payouts if `pays_out`, otherwise payments.
    """

    cannot_be_mined: Callable[[ChainTx], Awaitable[bool]]
    may_rebroadcast: Callable[[ChainTx], Awaitable[bool]] | None = None
    adopt: Callable[[Mapping[int, TreasuryTransaction | None]], Awaitable[None]] | None = None
    is_in_time: Callable[[ChainTx], bool] | None = None
    payer: str = ""
    pays_out: bool = False


class TransactionQueue:
    """The open transactions of a key; it works only while this process has the key's lease."""

    def __init__(
        self,
        app: _Context,
        rail: Rail,
        key: SigningKey,
        follower: ChainFollower,
        rules: QueueRules,
    ) -> None:
        self._app = app
        self._rail = rail
        self._follower = follower
        self._rules = rules
        self._txs: dict[str, ChainTx] = {}  # by id, in nonce order
        self._dead_ids: set[str] = set()  # quarantined, and another transaction used their nonce
        self._unrecorded_ids: set[str] = set()  # broadcast, and the head since is not known yet
        self._stuck_txs = ""  # the transaction of `problem`
        self._payer = f"{rail.chain_id}:{rules.payer or key.address}"
        self.key = key
        self.problem = ""  # what keeps the oldest transaction from being mined

    @property
    def open_transactions(self) -> int:
        """Return how many transactions are neither final nor replaced."""
        return len(self._txs)

    @property
    def has_room(self) -> bool:
        """Return True if the key may sign something new now."""
        waiting_count = sum(self._find_mined(tx) is None for tx in self._list_live())
        return self.key.has_lease and not self.key.is_paused and waiting_count < self._rail.open_max

    def list_without_items(self) -> list[ChainTx]:
        """Return the open transactions without items that are not quarantined.

        They prepare payments, clean up after them, or move the money of others.
        """
        return [tx for tx in self._list_followed() if not tx.item_ids]

    def has_item(self, item_id: str) -> bool:
        """Return True if an item is in an open transaction."""
        return any(item_id in tx.item_ids for tx in self._txs.values())

    def list_shares(self) -> Iterator[tuple[str, GasShare]]:
        """Return what the items of open transactions can use, by item."""
        for tx in self._txs.values():
            # without shares there is nothing that an item could use more or less of
            yield from zip(tx.item_ids, tx.gas_shares, strict=False)

    # -- start

    async def acquire_lease(self) -> bool:
        """Acquire or renew the key's lease; call `load` and `start` when it was newly acquired.

        The transactions of a lost lease are those of its next owner.
        """
        if not await self.key.renew_lease():
            self._txs.clear()
            self._unrecorded_ids.clear()
        await self.key.acquire_lease()
        return self.key.has_lease

    async def load(self) -> None:
        """Read again which transactions are open."""
        txs = await self._app.store.read(chain_txs.list_open(self._rail.chain_id, self.key.address))
        self._txs = {tx.id: tx for tx in txs}

    async def start(self) -> None:
        """Continue where the last owner of the lease stopped, as it was loaded."""
        await recover(
            self._app, self._rail, self.key.address, self._txs.values(), self._rules.adopt
        )
        await self.key.load_nonce(self._txs.values())
        for tx in list(self._txs.values()):
            await self._broadcast(tx)

    async def adopt(
        self, item_id: str, nonce: int, signed: SignedTransaction, claim: Operation[None]
    ) -> None:
        """Store a transaction of this key that a block has, for an item, and follow it from now.

        LostLease as `send`.
        """
        await self._append(nonce, [item_id], signed, claim)

    # -- sending

    async def send(
        self,
        item_ids: Sequence[str],
        sign: Callable[[int], Awaitable[SignedTransaction]],
        claim: Callable[[], Operation[None]],
    ) -> None:
        """Sign for the next nonce, commit that together with the claim, and broadcast.

        LostLease, of which NotWaiting (raised by the claim) is one, leaves nothing written or sent;
        the lease is then newly acquired.
        """
        nonce = self.key.next_nonce
        signed = await sign(nonce)
        await self._broadcast(await self._append(nonce, item_ids, signed, claim()))

    async def _append(
        self, nonce: int, item_ids: Sequence[str], signed: SignedTransaction, claim: Operation[None]
    ) -> ChainTx:
        tx = ChainTx(
            id=generate_short_id("tx_", self._app.randbytes),
            chain_id=self._rail.chain_id,
            sender=self.key.address,
            nonce=nonce,
            raw=signed.raw,
            hash=signed.hash,
            payment_ids=() if self._rules.pays_out else tuple(item_ids),
            payout_ids=tuple(item_ids) if self._rules.pays_out else (),
            state=TxState.SIGNED,
            created_at_us=self._app.clock.now_us(),
            since_block=signed.since_block,
            gas_shares=signed.shares,
        )
        await self.key.commit(chain_txs.append(tx, self.key.epoch, self.key.lease_name, claim))
        self.key.use_nonce(nonce)
        self._txs[tx.id] = tx
        return tx

    async def _broadcast(self, tx: ChainTx) -> None:
        """Hand the newest variant to the chain, or an older one if it does not take that."""
        is_in_time = self._rules.is_in_time
        if is_in_time is not None and not is_in_time(tx):
            return
        began_us = self._app.clock.now_us()
        if not self.key.is_paused and await self._hand_over(tx):
            if tx.state is TxState.SIGNED:
                # once: a stuck transaction is broadcast again with every block
                self._trace(tx, began_us)
            self._mark_sent(tx)
            # a chain that seals at once already has it
            self.key.wake()

    async def _hand_over(self, tx: ChainTx) -> bool:
        for variant in reversed(tx.variants):
            try:
                await self._rail.relay.broadcast(variant.raw)
            except RailUnavailable as error:
                # the outcome is unknown: the transaction stays open and is searched for later
                _log.warning("broadcast of %s: %s", variant.hash, error)
            except Exception:  # noqa: BLE001  (no item stops a worker)
                # likewise: a stored transaction is never given up because of that
                _log.exception("broadcast of %s failed", variant.hash)
            else:
                return True
        return False

    def _mark_sent(self, tx: ChainTx) -> None:
        self._unrecorded_ids.add(tx.id)
        self._txs[tx.id] = replace(
            tx, state=TRANSACTION_TRANSITIONS.get_next_state(tx.state, TxEvent.SENT)
        )

    async def record_broadcasts(self) -> None:
        """Store what was broadcast since; a process that never learns of it broadcasts again.

        The chain is asked for its head: earlier blocks have not passed the transaction over, and
        the follower can be far behind, after a long idle time or with much to read.
        """
        tx_ids = [tx_id for tx_id in self._txs if tx_id in self._unrecorded_ids]
        if not tx_ids:
            return
        head = max(self._follower.head, (await self._rail.observer.get_head()).number)
        heads_by_tx_id = dict.fromkeys(tx_ids, head)
        await self._app.store.write(chain_txs.record_broadcasts(heads_by_tx_id))
        self._unrecorded_ids.clear()
        for tx_id in heads_by_tx_id:
            self._txs[tx_id] = replace(self._txs[tx_id], sent_block=head)

    async def maintain(self, *, has_news: bool) -> None:
        """Broadcast again what the chain has lost; without `has_news` only after a pause.

        Broadcasts since the last time are stored.
        """
        if has_news or self.key.is_resumed:
            self.key.is_resumed = False
            await self.rebroadcast()
        await self.record_broadcasts()

    async def rebroadcast(self, *, immediately: bool = False) -> None:
        """Broadcast again what the chain lost; raise the fee of what it does not include.

        Both only after some blocks have passed it over, but with `immediately` what is lost is
        broadcast without that: a chain that waits for transactions makes no blocks. A transaction
        behind the first of its kind is not raised: it could not be mined before it, at any fee.
        """
        await self._find_dead()
        waiting_txs = [tx for tx in self._list_live() if self._find_mined(tx) is None]
        waiting_txs.sort(key=lambda tx: tx.nonce)
        if not waiting_txs or waiting_txs[0].id != self._stuck_txs:
            self.problem = ""
        if self.key.is_paused:
            return
        for n, tx in enumerate(waiting_txs):
            if tx.id in self._unrecorded_ids:
                continue
            sent_block = tx.sent_block
            passed = (
                sent_block is None or self._follower.head - sent_block >= self._rail.stale_blocks
            )
            if not (passed or immediately):
                continue
            try:
                await self._maintain_transaction(tx, is_first=n == 0, has_passed=passed)
            except Exception as error:
                if not is_unexpected(error):
                    raise
                # it stays open and is checked again with the next block
                _log.exception("checking transaction %s failed", tx.hash)
                self.problem, self._stuck_txs = f"{tx.hash}: {format_error(error)}", tx.id

    async def _find_dead(self) -> None:
        """Find the quarantined transactions on which no other depends: their nonces are used."""
        if (nonces := self._rail.account_nonces) is None:
            return
        self._dead_ids -= (followed := {tx.id for tx in self._list_followed()})
        for tx in [each_tx for each_tx in self._list_live() if each_tx.id not in followed]:
            try:
                if await nonces.is_nonce_used(self.key.address, tx.nonce):
                    self._dead_ids.add(tx.id)
            except Exception as error:
                if not is_unexpected(error):
                    raise
                _log.exception(
                    "%s: checking whether nonce %d is used failed", self.key.account, tx.nonce
                )

    def _list_live(self) -> list[ChainTx]:
        """Return the open transactions but for those that are dead."""
        return [tx for tx in self._txs.values() if tx.id not in self._dead_ids]

    async def _maintain_transaction(self, tx: ChainTx, *, is_first: bool, has_passed: bool) -> None:
        gap = is_first and await self._fill_nonce_gap(tx)
        if not await self._rail.relay.has_transaction(tx.variants[-1].hash):
            await self._broadcast(tx)
        elif tx.sent_block is None:
            self._mark_sent(tx)
        elif has_passed and is_first and not gap:
            await self._bump_fee(tx)

    async def _bump_fee(self, tx: ChainTx) -> None:
        """Sign a waiting transaction again for a higher fee; all variants can be mined."""
        if self._rail.account_nonces is None:
            return  # the buyer's signature stays, and what lapses is signed again
        try:
            signed = await self._rail.account_nonces.bump_fee(tx)
        except RailUnavailable as error:
            self.problem, self._stuck_txs = f"{tx.hash} waits: {error}", tx.id
            await self._broadcast(tx)
            return
        variant = TransactionVariant(signed.raw, signed.hash)
        now_us = self._app.clock.now_us()
        await self.key.commit(
            chain_txs.bump(tx, variant, self.key.epoch, self.key.lease_name, now_us)
        )
        _log.warning(
            "%s still waits at block %d; Florin raises its fee", tx.hash, self._follower.head
        )
        bumped_tx = replace(tx, bumps=(*tx.bumps, variant))
        self._txs[tx.id] = bumped_tx
        await self._broadcast(bumped_tx)

    async def _fill_nonce_gap(self, first_tx: ChainTx) -> bool:
        """Use the nonces that the chain expects before Florin's first; return True if any.

        A final transaction may be gone with its block, and others may have used the key.
        """
        nonces = self._rail.account_nonces
        if nonces is None:
            return False
        nonce = await nonces.get_next_nonce(self.key.address)
        for missing in range(nonce, min(first_tx.nonce, nonce + self._rail.open_max)):
            if await nonces.is_nonce_used(self.key.address, missing):
                continue
            txs = await self._app.store.read(
                chain_txs.list_at_nonce(self._rail.chain_id, self.key.address, missing)
            )
            may_rebroadcast = self._rules.may_rebroadcast
            if txs and (may_rebroadcast is None or await may_rebroadcast(txs[0])):
                await self._hand_over(txs[0])
            else:
                _log.warning(
                    "%s: nonce %d is filled with an empty transaction", self.key.account, missing
                )
                signed = await nonces.sign_noop(self.key.address, missing)
                await self._broadcast(await self._append(missing, (), signed, _claim_nothing()))
        return nonce < first_tx.nonce

    # -- end

    async def find_transactions(self) -> list[ChainTx]:
        """Request all open transactions from the chain; return those that were found."""
        if txs := self._list_followed():
            await self._app.quarantine.run_each(
                QuarantinedItemKind.TRANSACTION,
                self._rail.chain_id,
                txs,
                _GET_ID,
                "find transactions",
                self._find_mined_transactions,
            )
        return [tx for tx in self._txs.values() if self._find_mined(tx) is not None]

    async def _find_mined_transactions(self, txs: Sequence[ChainTx]) -> None:
        mined_transactions = await self._rail.observer.find_mined(
            [tx_hash for tx in txs for tx_hash in tx.hashes]
        )
        self._follower.evidence.mined_transactions.update(mined_transactions)

    def _list_followed(self) -> list[ChainTx]:
        """Return the open transactions that are not quarantined."""
        filter_active, chain_id = self._app.quarantine.filter_active, self._rail.chain_id
        return filter_active(QuarantinedItemKind.TRANSACTION, chain_id, self._txs.values(), _GET_ID)

    async def list_final(self) -> list[EndedTransaction]:
        """Return the transactions that are final, as far as the evidence goes."""
        ended_txs: list[EndedTransaction] = []
        for tx in self._list_followed():
            async with self._isolate(tx, "end"):
                mined = self._find_mined(tx)
                if mined is not None and await self._follower.is_settled(mined):
                    ended_txs.append(self._build_ended(tx, mined))
        return ended_txs

    def _isolate(self, tx: ChainTx, step: str) -> AbstractAsyncContextManager[None]:
        chain_id = self._rail.chain_id
        return self._app.quarantine.isolate(QuarantinedItemKind.TRANSACTION, chain_id, tx.id, step)

    async def list_replaced(self) -> list[EndedTransaction]:
        """Return the transactions that no block can hold any more.

        Raise RailUnavailable if none is and nodes could not answer about some.
        """
        ended_txs: list[EndedTransaction] = []
        unanswered: RailUnavailable | None = None
        for tx in self._list_followed():
            if self._find_mined(tx) is not None:
                continue
            async with self._isolate(tx, "end as replaced"):
                fault = await catch_unavailable(self._add_replaced(tx, ended_txs))
                unanswered = unanswered or fault
        if ended_txs:
            await self.key.follow_chain_nonce()
        elif unanswered is not None:
            raise unanswered
        return ended_txs

    async def _add_replaced(self, tx: ChainTx, ended_txs: list[EndedTransaction]) -> None:
        if await self._rules.cannot_be_mined(tx) and not await self._rail.observer.find_mined(
            tx.hashes
        ):
            outcome = TransactionOutcome(tx.id, TxState.REPLACED)
            ended_txs.append(EndedTransaction(tx, outcome, mined=None))

    def remove(self, ended_txs: Iterable[EndedTransaction]) -> None:
        """Forget transactions whose end is committed, and count those of this key."""
        for ended_tx in ended_txs:
            if ended_tx.tx.sender != self.key.address:
                continue
            self._txs.pop(ended_tx.tx.id, None)
            count_transaction(self._app.meters, self._rail.chain_id, self._payer, ended_tx.mined)
            for tx_hash in ended_tx.tx.hashes:
                self._follower.evidence.mined_transactions.pop(tx_hash, None)

    def _trace(self, tx: ChainTx, began_us: int) -> None:
        ended_us, report = self._app.clock.now_us(), {"chain": tx.chain_id, "tx": tx.hash}
        for item_id in tx.item_ids if self._app.traces.is_enabled else ():
            self._app.traces.record_step(item_id, "broadcast", began_us, ended_us, **report)

    def _find_mined(self, tx: ChainTx) -> MinedTransaction | None:
        mined = self._follower.evidence.mined_transactions
        return next((mined[tx_hash] for tx_hash in tx.hashes if tx_hash in mined), None)

    def _build_ended(self, tx: ChainTx, mined: MinedTransaction) -> EndedTransaction:
        cost_postings = build_cost_postings(mined, self._payer, self._rail.native_asset)
        final_hash = mined.tx_hash if mined.tx_hash != tx.hash else None
        outcome = TransactionOutcome(
            tx.id, TxState.FINAL, mined.block_number, mined.block_hash, cost_postings, final_hash
        )
        return EndedTransaction(tx, outcome, mined)


@operation
def _claim_nothing() -> Op[None]:
    """Claim nothing: a transaction without items."""
    yield from ()
