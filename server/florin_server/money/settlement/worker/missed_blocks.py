"""Reads the settlement events of blocks that the chain produced while Florin did not follow it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from math import ceil
from typing import Protocol

from florin_server.db import installation
from florin_server.db.context import StorageContext
from florin_server.domain.quarantine import QuarantinedItemKind, format_error
from florin_server.domain.settlement.chain_txs import SettlementItem
from florin_server.money.payments.store import offered_options
from florin_server.money.settlement.worker.blocks import ChainFollower
from florin_server.money.settlement.worker.direct_payments import DirectPayments
from florin_server.money.settlement.worker.late_payments import parse_event_subject
from florin_server.operations.context import QuarantineContext
from florin_server.operations.service.quarantine import is_unexpected
from florin_server.rails.protocol import Rail
from florin_server.rails.roles import DirectSettlementReader
from florin_server.rails.types import RailUnavailable
from florin_server.settings.context import SettingsContext


class _Context(QuarantineContext, SettingsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

# how often the progress of reading a chain is stored; reading a block twice does no harm
_WRITE_INTERVAL_US = 60_000_000
# After an outage Florin reads all blocks of a day, this many at a time: for any pace of the chain
# at least 10,000 of them, and at most what a hundred calls can read.
_READ_BACK_S = 86_400
_BLOCKS_MIN, _BLOCKS_MAX = 10_000, 100_000
_BLOCKS_PER_CALL = 1_000
# of earlier blocks Florin requests only offered options: this many of open payments and of payments
# that ended meanwhile; and this many of them at a time
_QUERIED_MAX = 50_000
_REFS_PER_TURN = 1_000
# no contract accepts a signature or transaction much later than its payment's end
_LATE_S = 3600


def count_read_blocks(block_s: float | None) -> int:
    """Return how many blocks are read whole after an outage, at so many seconds a block."""
    block_count = _BLOCKS_MIN if block_s is None else ceil(_READ_BACK_S / block_s)
    return min(max(block_count, _BLOCKS_MIN), _BLOCKS_MAX)


class MissedBlocks:
    """Up to where one chain is read, and what is left to be read."""

    def __init__(
        self, app: _Context, rail: Rail, follower: ChainFollower, direct_payments: DirectPayments
    ) -> None:
        self._app = app
        self._rail = rail
        self._direct = rail.direct_settlement
        self._follower = follower
        self._direct_payments = direct_payments
        self._unread_ranges = range(0)
        self._queried: list[tuple[str, int]] = []  # references, and the first block for each
        self._written_block = 0
        self._write_at_us = 0
        self.problem = ""  # what keeps blocks from being read

    async def load(self) -> None:
        """Find out which blocks no worker followed; the newest is the head."""
        if self._direct is None:
            return
        chain, head = self._rail.chain_id, self._follower.head
        stopped = await self._app.store.read(installation.find_followed_block(chain))
        self._written_block, self._write_at_us = stopped[0] if stopped else 0, 0
        self._queried = []
        first = max(0, stopped[0] + 1 - self._rail.reorg_depth) if stopped else head
        most = count_read_blocks(self._rail.pace.block_s)
        if stopped and head + 1 - first > most:
            text = (
                "%s: of blocks %d to %d Florin reads only transfers of offered assets, not all "
                "transfers"
            )
            _log.warning(text, chain, first, head - most)
            self._queried = await self._list_offered(first, stopped[1])
            first = head + 1 - most
        self._unread_ranges = range(first, head + 1)
        await self.query_retried()

    async def query_retried(self) -> None:
        """Request again the quarantined events that the operator returned."""
        if self._direct is None:
            return
        depth = self._rail.reorg_depth
        for name in await self._app.quarantine.list_retried(
            QuarantinedItemKind.EVENT, self._rail.chain_id
        ):
            ref, number = parse_event_subject(name)
            self._queried.append((ref, max(0, number - depth)))

    async def _list_offered(self, first: int, stopped_s: int) -> list[tuple[str, int]]:
        """Return what may have been paid since a block and a time, as (reference, first block)."""
        chain, store = self._rail.chain_id, self._app.store
        now_s = self._app.clock.now_us() // 1_000_000
        ended_s = stopped_s - _LATE_S
        created_s = ended_s - self._app.settings.payment_ttl_max_s
        references = await store.scan(
            offered_options.list_payable_references(chain, now_s, _QUERIED_MAX)
        )
        references += await store.scan(
            offered_options.list_ended_references(chain, created_s, ended_s, _QUERIED_MAX)
        )
        since = {
            reference: first if head is None else max(first, head - self._rail.reorg_depth)
            for reference, head in references
        }
        return sorted(since.items(), key=lambda item: item[1])

    async def catch_up(self, items: Mapping[str, SettlementItem]) -> None:
        """Read some of the missed blocks, and store how far all are read."""
        if self._direct is None:
            return
        lost = self._direct_payments.take_lost_events()
        depth = self._rail.reorg_depth
        self._queried += [(event.ref, max(0, event.block_number - depth)) for event in lost]
        try:
            await self._query_offered(self._direct, items)
            await self._read_blocks(self._direct, items)
            await self._read_doubtful(self._direct, items)
        except RailUnavailable as error:
            self.problem = f"blocks of an outage are not read yet: {error}"
            return
        except Exception as error:
            if not is_unexpected(error):
                raise
            _log.exception("%s: reading the blocks of an outage failed", self._rail.chain_id)
            what = format_error(error)
            self.problem = f"blocks of an outage cannot be read: {what}"
            return
        self.problem = ""
        await self._record_progress()

    async def _query_offered(
        self, direct: DirectSettlementReader, items: Mapping[str, SettlementItem]
    ) -> None:
        if part := self._queried[:_REFS_PER_TURN]:
            first = min(number for _, number in part)
            events = await direct.list_settlement_events([ref for ref, _ in part], first)
            await self._direct_payments.take_events(events, items)
            del self._queried[: len(part)]

    async def _read_blocks(
        self, direct: DirectSettlementReader, items: Mapping[str, SettlementItem]
    ) -> None:
        if part := self._unread_ranges[:_BLOCKS_PER_CALL]:
            await self._take_events(direct, part, items)
            self._unread_ranges = self._unread_ranges[len(part) :]

    async def _take_events(
        self, direct: DirectSettlementReader, blocks: range, items: Mapping[str, SettlementItem]
    ) -> None:
        events = await direct.list_settlement_events_between(blocks[0], blocks[-1])
        await self._direct_payments.take_events(events, items)

    async def _read_doubtful(
        self, direct: DirectSettlementReader, items: Mapping[str, SettlementItem]
    ) -> None:
        """Read the events of final blocks again about which a node contradicted itself."""
        doubtful, final = (
            self._follower.doubtful_blocks,
            self._follower.head - self._rail.confirmations + 1,
        )
        final = min(final, self._follower.newest_final)
        if part := range(doubtful.start, min(doubtful.stop, final + 1))[:_BLOCKS_PER_CALL]:
            await self._take_events(direct, part, items)
            self._follower.doubtful_blocks = range(part.stop, self._follower.doubtful_blocks.stop)

    async def _record_progress(self) -> None:
        """Store, now and then, up to where everything is done."""
        if self._queried:
            return
        read = self._unread_ranges[0] - 1 if self._unread_ranges else self._follower.head
        # events that wait to be final must be found again by the next process
        doubtful = (
            [self._follower.doubtful_blocks.start - 1] if self._follower.doubtful_blocks else []
        )
        waiting = [event.block_number - 1 for event in self._direct_payments.waiting_events]
        read = min([read, *doubtful, *waiting])
        steady_us = self._app.clock.steady_us()
        if read != self._written_block and steady_us >= self._write_at_us:
            now = self._app.clock.now_us() // 1_000_000
            await self._app.store.write(
                installation.record_followed_block(self._rail.chain_id, read, now)
            )
            self._written_block, self._write_at_us = read, steady_us + _WRITE_INTERVAL_US
