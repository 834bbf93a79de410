"""Watches what is final for longer: a reorganisation may be deeper than was reckoned with."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import partial
from operator import attrgetter

from florin_server.domain.quarantine import ItemKind
from florin_server.domain.settlement.chain_txs import Finding, Watched, Watcher
from florin_server.flows.app import Core
from florin_server.rails.protocol import Rail
from florin_server.rails.roles import Blocks
from florin_server.store.engine.query import Operation
from florin_server.store.settlement import reorg
from florin_server.workers.settlement.blocks import Follower
from florin_server.workers.settlement.tx_sender import Ended

_log = logging.getLogger(__name__)

# what is final is watched for twice as many blocks again as made it final
_LONGER = 2
_UNDO = {Watcher.SETTLER: reorg.undo_settled, Watcher.PAYOUTS: reorg.undo_paid_out}
_WHAT = {Watcher.SETTLER: "payments", Watcher.PAYOUTS: "payouts"}


class ReorgWatch:
    """The final transactions of one chain that a reorganisation might still undo."""

    def __init__(self, app: Core, rail: Rail, blocks: Follower, watcher: Watcher) -> None:
        self._app = app
        self._watcher = watcher
        self._rail = rail
        self._blocks = blocks
        self._watched: dict[str, Watched] = {}  # by transaction
        self._seen: int | None = None  # of the rewinds, after which all is well

    @property
    def is_watching(self) -> bool:
        """True if there is anything that might be undone."""
        return bool(self._watched)

    async def load(self) -> None:
        """Begins with what is written down; all of it is looked at once."""
        found = await self._app.store.read(reorg.watched(self._rail.chain_id, self._watcher))
        self._watched = {one.tx_hash: one for one in found}
        self._seen = None

    def new(self, events: Iterable[Watched]) -> list[Watched]:
        """What is to be watched from now on; it is committed with the end of what it ended."""
        if self._rail.blocks is None:
            return []  # final is final there
        return list({one.tx_hash: one for one in events}.values())

    def commit(self, watched: Sequence[Watched]) -> Operation[None]:
        """Part of an operation: writes down what is watched."""
        return reorg.watch(self._rail.chain_id, self._watcher, watched)

    def committed(self, watched: Iterable[Watched]) -> None:
        """Watches it from now on."""
        self._watched.update((one.tx_hash, one) for one in watched)

    async def check(self, senders: Sequence[str]) -> bool:
        """Takes back what is gone, after blocks were replaced; True if anything was."""
        rewinds, blocks = self._blocks.rewinds, self._rail.blocks
        if rewinds == self._seen or not self._watched or blocks is None:
            self._seen = rewinds
            return False
        gone: list[str] = []
        sure = True
        left_in, chain_id = self._app.quarantine.left_in, self._rail.chain_id
        watched = left_in(ItemKind.WATCHED, chain_id, self._watched.values(), attrgetter("tx_hash"))
        for number, block_hash in {(one.block_number, one.block_hash) for one in watched}:
            here = [one.tx_hash for one in watched if one.block_hash == block_hash]
            for is_gone in await self._app.quarantine.each(
                ItemKind.WATCHED,
                chain_id,
                here,
                str,
                "look for its block",
                partial(self._is_gone, blocks, number, block_hash),
            ):
                if is_gone is None:
                    # a node that has no such block (yet), or one alone, proves nothing
                    sure = False
                elif is_gone:
                    gone += [one for one in here if one not in gone]
        undone = left_in(ItemKind.WATCHED, chain_id, gone, str)
        if undone:
            await self._app.quarantine.each(
                ItemKind.WATCHED,
                chain_id,
                undone,
                str,
                "undo",
                lambda part: self._undo(part, senders),
            )
        if sure:
            self._seen = rewinds
        return bool(undone)

    async def _is_gone(
        self, blocks: Blocks, number: int, block_hash: str, _: Sequence[str]
    ) -> bool | None:
        """Return True if a block was replaced, None if that is not certain."""
        known = await self._blocks.hash_of(number)
        if known is None:
            return None
        if known == block_hash:
            return False
        return True if await blocks.replaced(number, block_hash) else None

    def _is_set_aside(self, tx_hash: str) -> bool:
        return self._app.quarantine.holds(ItemKind.WATCHED, self._rail.chain_id, tx_hash)

    async def _undo(self, gone: Sequence[str], senders: Sequence[str]) -> None:
        store, chain_id = self._app.store, self._rail.chain_id
        ended = await store.survey(reorg.ended_by(chain_id, gone, senders))
        now_us = self._app.clock.now_us()
        take_back = _UNDO[self._watcher]
        undone = await store.write(take_back(chain_id, gone, ended, now_us))
        if self._watcher is Watcher.PAYOUTS:
            self._app.ring(*undone)
        for one in gone:
            self._watched.pop(one, None)
        _log.error(
            "a reorganisation of %s undid final transactions: %s; %s: %s",
            chain_id,
            ", ".join(gone),
            _WHAT[self._watcher],
            ", ".join(undone) or "none",
        )

    async def forget(self) -> None:
        """Lets go of what is so deep by now that it stays."""
        below = self._blocks.head + 1 - (1 + _LONGER) * self._rail.reorg_depth
        if any(one.block_number < below for one in self._watched.values()):
            await self._app.store.write(reorg.forget(self._rail.chain_id, self._watcher, below))
            # what is set aside is looked at again, however deep it is by then
            self._watched = {
                h: w
                for h, w in self._watched.items()
                if w.block_number >= below or self._is_set_aside(h)
            }


def ended_in(findings: Sequence[Finding], ends: Sequence[Ended]) -> list[Watched]:
    """Where what is concluded happened."""
    found = [one.at for one in findings if one.at is not None]
    for one in ends:
        end = one.end
        if end.block_number is not None and end.block_hash:
            found.append(Watched(end.final_hash or one.tx.hash, end.block_number, end.block_hash))
    return found
