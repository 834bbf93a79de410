"""Keeps in the store what a settler observes of its chain, so that a restart forgets none of it."""

from __future__ import annotations

import logging
from typing import Final, Protocol

from florin_server.db.context import StorageContext
from florin_server.domain.payments.payment import Payment, PaymentStatus
from florin_server.domain.settlement.chain_txs import SettlementItem
from florin_server.domain.settlement.pace import ChainPace, follow_pace, format_pace
from florin_server.domain.settlement.settle_times import SettleTimes
from florin_server.money.settlement.worker.missed_blocks import count_read_blocks
from florin_server.operations.store import observed
from florin_server.rails.context import ChainContext
from florin_server.rails.protocol import Rail, is_relayed
from florin_server.rails.types import ObservedHead, RailUnavailable


class _Context(ChainContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

_PACE_CHECK_US: Final = 60_000_000  # between two checks of the pace
_PACE_US: Final = 600_000_000  # between two writes of a pace that did not change
_TIMES_US: Final = 10_000_000
_REFRESH_US: Final = 30_000_000  # between two reads of another process's observations
# between two writes of heads: a twelfth of the time that they span, within these bounds
_HEADS_US: Final = 3_000_000
_HEADS_MAX_US: Final = 15_000_000
_HEADS_STEPS: Final = 12
_BLOCKHASH_SLOTS: Final = 150  # the life of a buyer's signature on Solana


class ChainObservations:
    """The pace of one chain, the times of its payments, and when its heads were first seen."""

    def __init__(self, app: _Context, rail: Rail) -> None:
        self._app = app
        self._rail = rail
        self._state = app.chains[rail.chain_id]
        self._refresh_at_us = 0
        self._check_at_us = self._pace_at_us = self._times_at_us = self._heads_at_us = 0
        self._times: SettleTimes | None = None  # not written yet

    async def refresh(self) -> None:
        """Read now and then what the process keeps that settles."""
        if self._app.clock.steady_us() >= self._refresh_at_us:
            await self._load()

    async def restore(self) -> None:
        """Restore the stored observations; heads are valid that are still part of the chain."""
        await self._load()
        chain_id, store = self._rail.chain_id, self._app.store
        self._times = None
        if self._rail.blocks is None:
            return
        now_us = self._app.clock.now_us()
        heads = [
            # no block is read before its time: even a wrong clock makes nothing older than that
            ObservedHead(
                number, block_hash, time, min(now_us - at_us, now_us - time * 1_000_000) / 1e6
            )
            for number, block_hash, time, at_us in await store.read(
                observed.list_seen_heads(chain_id)
            )
        ]
        try:
            await self._rail.blocks.restore_observed_heads(heads)
        except RailUnavailable as error:
            # payments wait as long as they would without it
            _log.warning("%s: stored chain heads are not used: %s", chain_id, error)

    async def _load(self) -> None:
        self._refresh_at_us = self._app.clock.steady_us() + _REFRESH_US
        chain_id, store = self._rail.chain_id, self._app.store
        self._state.pace = pace = await store.read(observed.get_pace(chain_id))
        if pace is not None:
            self._rail.pace.restore(pace.measured_s)
        self._state.settle_times = await store.read(observed.get_times(chain_id))

    def record_settle_time(self, item: SettlementItem, payment: Payment, seconds: float) -> None:
        """Count how long a payment took, if it was Florin's to send and went at the first try."""
        if (
            payment.status is not PaymentStatus.SUCCEEDED
            or item.failures
            or item.payment.status.is_final
        ):
            return
        option = item.option
        # a payment that waits longer for its amount does not affect the promise for others
        is_usual = not self._rail.extra_wait_s(option.asset, option.value)
        if is_usual and is_relayed(self._rail, option):
            payer = option.payer
            self._times = self._state.settle_times.add(seconds, payer, payment.merchant_id)
            self._state.settle_times = self._times

    async def save(self, *, is_open: bool) -> None:
        """Write what is due, in one commit; heads only while something is open."""
        steady_us = self._app.clock.steady_us()
        pace = self._check_pace(steady_us)
        times = self._times if steady_us >= self._times_at_us else None
        heads = self._list_heads() if is_open and steady_us >= self._heads_at_us else []
        if pace is None and times is None and not heads:
            return
        await self._app.store.write(observed.save(self._rail.chain_id, pace, times, heads))
        if pace is not None:
            self._pace_at_us = steady_us + _PACE_US
        if times is not None:
            self._times_at_us = steady_us + _TIMES_US
            # a payment that ended meanwhile is written next time
            self._times = None if self._times is times else self._times
        if heads:
            span_us = self._app.clock.now_us() - heads[0][3]
            rest_us = min(max(span_us // _HEADS_STEPS, _HEADS_US), _HEADS_MAX_US)
            self._heads_at_us = steady_us + rest_us

    @property
    def problem(self) -> str:
        """Return what a change of the chain's pace has changed, in a sentence; empty if none."""
        pace = self._state.pace
        if pace is None or not pace.is_changed:
            return ""
        new, old = format_pace(pace.measured_s), format_pace(pace.usual_s)
        if self._rail.blocks is None:
            lasts_s = _BLOCKHASH_SLOTS * pace.measured_s
            kind, follows = "slots", f"a buyer's signature is valid for about {lasts_s:.0f} s"
        else:
            read_h = count_read_blocks(pace.measured_s) * pace.measured_s / 3600
            kind = "blocks"
            follows = (
                f"a payment is final after {self._rail.confirmations} blocks, and after an outage "
                f"Florin reads all blocks of the latest {read_h:.1f} h"
            )
        promised = self._state.get_promised_s(self._rail.eta_s, self._rail.eta_s)
        follows += f"; Florin promises buyers {promised:.0f} s"
        return f"the chain produces {kind} every {new} instead of every {old}: {follows}"

    def _check_pace(self, steady_us: int) -> ChainPace | None:
        """Compare the pace with the usual one now and then; return it if it is to be written."""
        measured_s = self._rail.pace.measured_s
        if measured_s is None or steady_us < self._check_at_us:
            return None
        self._check_at_us = steady_us + _PACE_CHECK_US
        before = self._state.pace
        self._state.pace = pace = follow_pace(before, measured_s, self._app.clock.now_us())
        is_news = before is None or (before.changed_us is None) is not (pace.changed_us is None)
        return pace if is_news or steady_us >= self._pace_at_us else None

    def _list_heads(self) -> list[observed.SeenHead]:
        if self._rail.blocks is None:
            return []
        now_us = self._app.clock.now_us()
        return [
            (head.number, head.hash, head.time, now_us - int(head.age_s * 1_000_000))
            for head in self._rail.blocks.list_observed_heads()
        ]
