"""Reads the settlement events of blocks that came while nobody followed the chain."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from math import ceil

from florin_server.domain.quarantine import ItemKind, describe_error
from florin_server.domain.settlement.chain_txs import Accepted
from florin_server.flows.app import Core
from florin_server.flows.quarantine.quarantine import is_unexpected
from florin_server.rails.protocol import Rail
from florin_server.rails.roles import DirectSettlement
from florin_server.rails.types import RailUnavailable
from florin_server.store.operator import installation
from florin_server.store.payments import offered
from florin_server.workers.settlement.blocks import Follower
from florin_server.workers.settlement.direct_payments import DirectPayments
from florin_server.workers.settlement.late_payments import place_of

_log = logging.getLogger(__name__)

# how often it is written down up to where a chain is read; what is read twice does no harm
_WRITTEN_US = 60_000_000
# After Florin was down the blocks of a day are read whole, so many of them at a time. Whatever the
# pace of the chain it is at least 10,000 of them, and at most what a hundred calls can read.
_READ_S = 86_400
_BLOCKS_MIN, _BLOCKS_MAX = 10_000, 100_000
_BLOCKS_A_CALL = 1_000
# of the blocks before those only what was offered is asked for: so many options of payments that
# are open, and of such as ended meanwhile; and so many of them at a time
_ASKED_MAX = 50_000
_REFS_A_LOOK = 1_000
# no contract takes what a wallet signed or sends much later than its payment ends
_LATE_S = 3600


def count_read_blocks(block_s: float | None) -> int:
    """Return how many blocks are read whole after an outage, at so many seconds a block."""
    wanted = _BLOCKS_MIN if block_s is None else ceil(_READ_S / block_s)
    return min(max(wanted, _BLOCKS_MIN), _BLOCKS_MAX)


class MissedBlocks:
    """Up to where one chain is read, and what is left to be read."""

    def __init__(
        self, app: Core, rail: Rail, blocks: Follower, unconfirmed: DirectPayments
    ) -> None:
        self._app = app
        self._rail = rail
        self._direct = rail.direct
        self._blocks = blocks
        self._unconfirmed = unconfirmed
        self._unread = range(0)
        self._asked: list[tuple[str, int]] = []  # references, and the first block for each
        self._written = 0
        self._write_at_us = 0
        self.problem = ""  # what keeps blocks from being read

    async def load(self) -> None:
        """Finds out which blocks came while nobody followed them; the newest is the head."""
        if self._direct is None:
            return
        chain, head = self._rail.chain_id, self._blocks.head
        stopped = await self._app.store.read(installation.followed(chain))
        self._written, self._write_at_us = stopped[0] if stopped else 0, 0
        self._asked = []
        first = max(0, stopped[0] + 1 - self._rail.reorg_depth) if stopped else head
        most = count_read_blocks(self._rail.pace.block_s)
        if stopped and head + 1 - first > most:
            text = "%s: of blocks %d to %d only what was offered is asked for, not all that is paid"
            _log.warning(text, chain, first, head - most)
            self._asked = await self._offered(first, stopped[1])
            first = head + 1 - most
        self._unread = range(first, head + 1)
        await self.ask_retried()

    async def ask_retried(self) -> None:
        """Ask again for the events that were set aside and that the operator gave back."""
        if self._direct is None:
            return
        depth = self._rail.reorg_depth
        for name in await self._app.quarantine.retried(ItemKind.EVENT, self._rail.chain_id):
            ref, number = place_of(name)
            self._asked.append((ref, max(0, number - depth)))

    async def _offered(self, first: int, stopped_s: int) -> list[tuple[str, int]]:
        """What may have been paid since a block and a time, as (reference, first block)."""
        chain, store = self._rail.chain_id, self._app.store
        now_s = self._app.clock.now_us() // 1_000_000
        ended_s = stopped_s - _LATE_S
        made_s = ended_s - self._app.settings.payment_ttl_max_s
        found = await store.survey(offered.payable(chain, now_s, _ASKED_MAX))
        found += await store.survey(offered.ended(chain, made_s, ended_s, _ASKED_MAX))
        since = {
            reference: first if head is None else max(first, head - self._rail.reorg_depth)
            for reference, head in found
        }
        return sorted(since.items(), key=lambda one: one[1])

    async def catch_up(self, accepted: Mapping[str, Accepted]) -> None:
        """Reads some of the blocks that nobody followed, and writes down how far all are read."""
        if self._direct is None:
            return
        lost = self._unconfirmed.take_lost()
        depth = self._rail.reorg_depth
        self._asked += [(one.ref, max(0, one.block_number - depth)) for one in lost]
        try:
            await self._ask(self._direct, accepted)
            await self._read(self._direct, accepted)
            await self._read_doubtful(self._direct, accepted)
        except RailUnavailable as error:
            self.problem = f"blocks that came during a break are not read yet: {error}"
            return
        except Exception as error:
            if not is_unexpected(error):
                raise
            _log.exception("%s: blocks that came during a break", self._rail.chain_id)
            what = describe_error(error)
            self.problem = f"blocks that came during a break cannot be read: {what}"
            return
        self.problem = ""
        await self._write_down()

    async def _ask(self, direct: DirectSettlement, accepted: Mapping[str, Accepted]) -> None:
        if part := self._asked[:_REFS_A_LOOK]:
            first = min(number for _, number in part)
            events = await direct.paid([ref for ref, _ in part], first)
            await self._unconfirmed.take(events, accepted)
            del self._asked[: len(part)]

    async def _read(self, direct: DirectSettlement, accepted: Mapping[str, Accepted]) -> None:
        if part := self._unread[:_BLOCKS_A_CALL]:
            await self._take_events(direct, part, accepted)
            self._unread = self._unread[len(part) :]

    async def _take_events(
        self, direct: DirectSettlement, blocks: range, accepted: Mapping[str, Accepted]
    ) -> None:
        events = await direct.paid_between(blocks[0], blocks[-1])
        await self._unconfirmed.take(events, accepted)

    async def _read_doubtful(
        self, direct: DirectSettlement, accepted: Mapping[str, Accepted]
    ) -> None:
        """Read the events of final blocks again about which a node contradicted itself."""
        doubtful, final = self._blocks.doubtful, self._blocks.head - self._rail.confirmations + 1
        final = min(final, self._blocks.newest_final)
        if part := range(doubtful.start, min(doubtful.stop, final + 1))[:_BLOCKS_A_CALL]:
            await self._take_events(direct, part, accepted)
            self._blocks.doubtful = range(part.stop, self._blocks.doubtful.stop)

    async def _write_down(self) -> None:
        """Notes up to where nothing is left to do, now and then."""
        if self._asked:
            return
        read = self._unread[0] - 1 if self._unread else self._blocks.head
        # what waits to be final must be found again by whoever comes next
        doubtful = [self._blocks.doubtful.start - 1] if self._blocks.doubtful else []
        waiting = [event.block_number - 1 for event in self._unconfirmed.waiting]
        read = min([read, *doubtful, *waiting])
        steady_us = self._app.clock.steady_us()
        if read != self._written and steady_us >= self._write_at_us:
            now = self._app.clock.now_us() // 1_000_000
            await self._app.store.write(installation.follow(self._rail.chain_id, read, now))
            self._written, self._write_at_us = read, steady_us + _WRITTEN_US
