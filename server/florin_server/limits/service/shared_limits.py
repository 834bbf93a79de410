"""Synchronizes limits with other processes on the same store, while each decides at once.

A process reports once it has used a quarter of its part of a budget, and learns the total usage
then. No call waits for that: between two exchanges each process uses what it knows. So over any
time all processes together admit what one process alone would, plus at most one burst for each
process beyond the first, before they learn of each other; that is owed, and paid by waiting. What
the store does not accept now is reported later.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from heapq import nlargest
from typing import NamedTuple

from florin_server.base.clock import Clock, wait_for_first
from florin_server.base.meters import Meters
from florin_server.db.engine.query import StoreError
from florin_server.db.engine.store import Store
from florin_server.domain.errors import ApiError
from florin_server.limits import store as sharing
from florin_server.limits.service.limit import BudgetReport, RateLimit
from florin_server.limits.service.limits import ServiceLimits
from florin_server.limits.service.stream_slots import StreamSlots
from florin_server.limits.store import SharedBudgetUse, SharedLimitState

_log = logging.getLogger(__name__)

# a process reports this often that it lives; one that uses up its part reports earlier
_HEARTBEAT_S = 1.0
# but exchanges have a minimum distance: callers cannot raise their number
_PAUSE_S = 0.02
# in one exchange, beginning with those that used most of their parts
BUDGETS_MAX = 500
# rows of one process in the store at a time: invented keys make no more rows
_ROWS_MAX = 10_000
# old rows are deleted this often, this many at a time
_DELETE_INTERVAL_S, _DELETE_MAX = 10.0, 1_000
_NAME_BYTES = 16


class _ReportedBudget(NamedTuple):
    """One budget of an exchange; `key` is its name in the store."""

    limit: RateLimit
    name: str
    key: str
    report: BudgetReport


class _SlotChanges(NamedTuple):
    """The changes to report of one kind of slots."""

    slots: StreamSlots
    changes: Mapping[str, int]


class LimitSync:
    """Synchronization of one process's limits with others, under a name of its own.

    `processes` is the number alive at the last exchange, `exchanged_us` its time (0: never),
    `row_count` the number of this process's budgets in the store.
    """

    def __init__(
        self,
        limits: ServiceLimits,
        store: Store,
        clock: Clock,
        meters: Meters,
        *,
        secret: bytes,
        process_id: str,
    ) -> None:
        self.process_id = process_id
        self.process_count = 1
        self.exchanged_at_us = 0
        self._limits = limits
        self._store = store
        self._clock = clock
        self._meters = meters
        self._secret = secret
        # how far the most advanced clock is ahead of this one
        self._ahead_us = 0
        # when budgets in the store are full again, by kind and name
        self._full_times: dict[tuple[str, str], int] = {}
        self._deleted_at_us = clock.steady_us()
        self._due_event = asyncio.Event()
        self._all_limits: tuple[RateLimit | StreamSlots, ...] = (
            *limits.rate_limits,
            *limits.streams.slots,
        )
        for shared_limit in self._all_limits:
            shared_limit.on_due = self._due_event.set

    @property
    def row_count(self) -> int:
        """Return how many budgets of this process are in the store."""
        return len(self._full_times)

    @asynccontextmanager
    async def run_in_background(self) -> AsyncIterator[None]:
        """Exchange while the context is open; other processes know this one from the beginning."""
        await self.exchange()
        task = asyncio.create_task(self._run(), name="limits")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
            # otherwise they count its open calls until they notice its absence
            with suppress(StoreError, ApiError):
                await self._store.write(sharing.leave(self.process_id))

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(_PAUSE_S)
            # changes to report, or a sign of life of this process
            await wait_for_first(self._due_event.wait(), self._clock.sleep(_HEARTBEAT_S))
            try:
                await self.exchange()
            except Exception:  # noqa: BLE001  (calls are answered without it)
                # each process uses what it knows, as in an outage of the store
                _log.exception("limits are not shared")

    async def exchange(self) -> None:
        """Report to the other processes and read their reports.

        A store that fails loses nothing.
        """
        self._due_event.clear()
        asked_us = self._clock.steady_us()
        budgets = self._select_budgets(asked_us)
        holds = [
            _SlotChanges(places, places.take_changes()) for places in self._limits.streams.slots
        ]
        op = sharing.exchange(
            self.process_id,
            asked_us + self._ahead_us,
            [SharedBudgetUse(budget.key, *budget.report[1:]) for budget in budgets],
            {
                self._hash_name(changes.slots.kind, key): n
                for changes in holds
                for key, n in changes.changes.items()
            },
            [
                self._hash_name(changes.slots.kind, key)
                for changes in holds
                for key in changes.slots.list_shared_keys()
            ],
        )
        try:
            limit_state = await self._store.write(op)
        except (StoreError, ApiError) as error:
            self._meters.record_limit_exchange("failed")
            _log.debug("limits are not shared at the moment: %s", error)
            return
        self._meters.record_limit_exchange("done")
        self._apply(limit_state, asked_us, budgets, holds)
        with suppress(StoreError, ApiError):
            await self._delete_old_rows(limit_state.now_us)

    def _select_budgets(self, now_us: int) -> list[_ReportedBudget]:
        """Return the budgets with the most to report.

        New ones only while there is room for rows.
        """
        if len(self._full_times) >= _ROWS_MAX:
            self._drop_full_budgets(now_us + self._ahead_us)
        rates, room = self._limits.rate_limits, len(self._full_times) < _ROWS_MAX
        most = nlargest(
            BUDGETS_MAX,
            (
                (much, place, name)
                for place, limit in enumerate(rates)
                for much, name in limit.list_unreported()
                if room or (limit.kind, name) in self._full_times
            ),
        )
        return [
            _ReportedBudget(
                limit, name, self._hash_name(limit.kind, name), limit.get_report(name, now_us)
            )
            for limit, name in ((rates[place], name) for _, place, name in most)
        ]

    def _apply(
        self,
        snapshot: SharedLimitState,
        asked_us: int,
        budgets: Sequence[_ReportedBudget],
        slot_changes: Sequence[_SlotChanges],
    ) -> None:
        self._ahead_us = snapshot.now_us - asked_us
        self.exchanged_at_us = self._clock.steady_us()
        for budget in budgets:
            ahead_us = snapshot.ahead_us[budget.key]
            budget.limit.record_reported(budget.name, budget.report.calls, asked_us + ahead_us)
            self._full_times[budget.limit.kind, budget.name] = snapshot.now_us + ahead_us
        for places, changes in slot_changes:
            places.record_reported(changes, was_known=snapshot.was_registered)
            names = ((key, self._hash_name(places.kind, key)) for key in places.list_shared_keys())
            places.set_remote_counts(
                {
                    key: snapshot.held_by_others[name]
                    for key, name in names
                    if name in snapshot.held_by_others
                }
            )
        self.process_count = snapshot.processes
        for each in self._all_limits:
            each.set_process_count(snapshot.processes)

    def _hash_name(self, kind: str, name: str) -> str:
        """Return the name of a budget in the store, which does not reveal the caller."""
        full_name = f"{kind} {name}".encode()
        return hmac.digest(self._secret, full_name, "sha256")[:_NAME_BYTES].hex()

    async def _delete_old_rows(self, now_us: int) -> None:
        """Delete old rows, so many that there are never many."""
        if now_us < self._deleted_at_us + _DELETE_INTERVAL_S * 1_000_000:
            return
        self._drop_full_budgets(now_us)
        if await self._store.write(sharing.forget_replenished(now_us, _DELETE_MAX)) < _DELETE_MAX:
            self._deleted_at_us = now_us

    def _drop_full_budgets(self, now_us: int) -> None:
        self._full_times = {
            budget: at_us for budget, at_us in self._full_times.items() if at_us > now_us
        }
