"""Watches final transactions for longer: a reorganization can be deeper than expected."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import Protocol

from florin_server.base.context import EventContext
from florin_server.base.topics import Topic
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Operation
from florin_server.domain.quarantine import QuarantinedItemKind
from florin_server.domain.settlement.chain_txs import (
    PaymentOutcome,
    ReorgWatcher,
    WatchedTransaction,
)
from florin_server.money.settlement.store import reorg
from florin_server.money.settlement.worker.blocks import ChainFollower
from florin_server.money.settlement.worker.ended_transactions import EndedTransaction
from florin_server.operations.context import QuarantineContext
from florin_server.rails.protocol import Rail
from florin_server.rails.roles import BlockReader


class _Context(EventContext, QuarantineContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

# a final transaction is watched for twice as many further blocks as its confirmation depth
_DEPTH_FACTOR = 2
_UNDO_OPERATIONS = {
    ReorgWatcher.SETTLER: reorg.undo_settlements,
    ReorgWatcher.PAYOUTS: reorg.undo_payouts,
}
_SUBJECT_NAMES = {ReorgWatcher.SETTLER: "payments", ReorgWatcher.PAYOUTS: "payouts"}


class ReorgWatch:
    """The final transactions of one chain that a reorganization could still remove."""

    def __init__(
        self, app: _Context, rail: Rail, follower: ChainFollower, watcher: ReorgWatcher
    ) -> None:
        self._app = app
        self._watcher = watcher
        self._rail = rail
        self._follower = follower
        self._watched_txs: dict[str, WatchedTransaction] = {}  # by transaction
        self._seen_rewinds: int | None = None  # the number of rewinds at the latest complete check

    @property
    def is_watching(self) -> bool:
        """Return True if there is anything that might be undone."""
        return bool(self._watched_txs)

    async def load(self) -> None:
        """Load the stored transactions; all are checked at once."""
        watched_txs = await self._app.store.read(
            reorg.list_watched(self._rail.chain_id, self._watcher)
        )
        self._watched_txs = {watched_tx.tx_hash: watched_tx for watched_tx in watched_txs}
        self._seen_rewinds = None

    def list_new(self, watched_txs: Iterable[WatchedTransaction]) -> list[WatchedTransaction]:
        """Return what to watch from now on; it is committed with the end of what it ended."""
        if self._rail.blocks is None:
            return []  # final is final there
        return list({watched_tx.tx_hash: watched_tx for watched_tx in watched_txs}.values())

    def record_watched(self, watched_txs: Sequence[WatchedTransaction]) -> Operation[None]:
        """Store what is watched, as part of an operation."""
        return reorg.watch(self._rail.chain_id, self._watcher, watched_txs)

    def add(self, watched_txs: Iterable[WatchedTransaction]) -> None:
        """Watch it from now on."""
        self._watched_txs.update((watched_tx.tx_hash, watched_tx) for watched_tx in watched_txs)

    async def check(self, senders: Sequence[str]) -> bool:
        """Revert what is gone, after blocks were replaced; return True if anything was."""
        rewinds, blocks = self._follower.rewind_count, self._rail.blocks
        if rewinds == self._seen_rewinds or not self._watched_txs or blocks is None:
            self._seen_rewinds = rewinds
            return False
        gone_hashes: list[str] = []
        sure = True
        filter_active, chain_id = self._app.quarantine.filter_active, self._rail.chain_id
        watched_txs = filter_active(
            QuarantinedItemKind.WATCHED, chain_id, self._watched_txs.values(), attrgetter("tx_hash")
        )
        for number, block_hash in {
            (watched_tx.block_number, watched_tx.block_hash) for watched_tx in watched_txs
        }:
            block_tx_hashes = [
                watched_tx.tx_hash
                for watched_tx in watched_txs
                if watched_tx.block_hash == block_hash
            ]
            for is_gone in await self._app.quarantine.run_each(
                QuarantinedItemKind.WATCHED,
                chain_id,
                block_tx_hashes,
                str,
                "find its block",
                partial(self._is_gone, blocks, number, block_hash),
            ):
                if is_gone is None:
                    # a node without such a block (yet), or one node alone, proves nothing
                    sure = False
                elif is_gone:
                    gone_hashes += [
                        tx_hash for tx_hash in block_tx_hashes if tx_hash not in gone_hashes
                    ]
        undone_hashes = filter_active(QuarantinedItemKind.WATCHED, chain_id, gone_hashes, str)
        if undone_hashes:
            await self._app.quarantine.run_each(
                QuarantinedItemKind.WATCHED,
                chain_id,
                undone_hashes,
                str,
                "revert what it ended",
                lambda part: self._undo(part, senders),
            )
        if sure:
            self._seen_rewinds = rewinds
        return bool(undone_hashes)

    async def _is_gone(
        self, blocks: BlockReader, number: int, block_hash: str, _: Sequence[str]
    ) -> bool | None:
        return await is_block_gone(self._follower, blocks, number, block_hash)

    def _is_quarantined(self, tx_hash: str) -> bool:
        return self._app.quarantine.contains(
            QuarantinedItemKind.WATCHED, self._rail.chain_id, tx_hash
        )

    async def _undo(self, tx_hashes: Sequence[str], senders: Sequence[str]) -> None:
        store, chain_id = self._app.store, self._rail.chain_id
        affected_items = await store.scan(reorg.find_affected(chain_id, tx_hashes, senders))
        now_us = self._app.clock.now_us()
        undo = _UNDO_OPERATIONS[self._watcher]
        undone = await store.write(undo(chain_id, tx_hashes, affected_items, now_us))
        if self._watcher is ReorgWatcher.PAYOUTS:
            for payout_id in undone:
                self._app.notifier.publish(Topic.PAYOUT, payout_id)
        for tx_hash in tx_hashes:
            self._watched_txs.pop(tx_hash, None)
        _log.error(
            "a reorganization of %s removed final transactions: %s; %s: %s",
            chain_id,
            ", ".join(tx_hashes),
            _SUBJECT_NAMES[self._watcher],
            ", ".join(undone) or "none",
        )

    async def drop_deep(self) -> None:
        """Drop what is so deep by now that it stays."""
        below = get_first_watched_block(self._follower, self._rail)
        if any(watched_tx.block_number < below for watched_tx in self._watched_txs.values()):
            await self._app.store.write(reorg.forget(self._rail.chain_id, self._watcher, below))
            # a quarantined transaction is checked again, at any depth
            self._watched_txs = {
                h: w
                for h, w in self._watched_txs.items()
                if w.block_number >= below or self._is_quarantined(h)
            }


def get_first_watched_block(follower: ChainFollower, rail: Rail) -> int:
    """Return the oldest block that a reorganization could still remove, as far as is expected."""
    return follower.head + 1 - (1 + _DEPTH_FACTOR) * rail.reorg_depth


async def is_block_gone(
    follower: ChainFollower, blocks: BlockReader, number: int, block_hash: str
) -> bool | None:
    """Return True if a block was replaced, None if that is not certain."""
    current_hash = await follower.find_block_hash(number)
    if current_hash is None:
        return None
    if current_hash == block_hash:
        return False
    return True if await blocks.is_replaced(number, block_hash) else None


def list_watched(
    outcomes: Sequence[PaymentOutcome], ended_txs: Sequence[EndedTransaction]
) -> list[WatchedTransaction]:
    """Return the places of concluded transactions."""
    watched_txs = [
        outcome.watched_transaction
        for outcome in outcomes
        if outcome.watched_transaction is not None
    ]
    for ended_tx in ended_txs:
        outcome = ended_tx.outcome
        if outcome.block_number is not None and outcome.block_hash:
            watched_txs.append(
                WatchedTransaction(
                    outcome.final_hash or ended_tx.tx.hash, outcome.block_number, outcome.block_hash
                )
            )
    return watched_txs
