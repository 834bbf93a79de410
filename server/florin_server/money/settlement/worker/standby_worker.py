"""Stands in for the settler or payout worker of a chain where other processes work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol, Self

from florin_server.base.clock import sleep_remaining, wait_for_first
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import StoreError
from florin_server.domain.conditions import ConditionName
from florin_server.domain.health import ChainHealth, ConditionTracker
from florin_server.money.settlement.store import chain_txs
from florin_server.money.settlement.worker.observations import ChainObservations
from florin_server.operations.store import leases
from florin_server.rails.context import ChainContext
from florin_server.rails.protocol import Rail
from florin_server.rails.roles import TreasuryPayouts
from florin_server.rails.types import RailUnavailable
from florin_server.rails.worker_failures import catch_unavailable, run_together


class _Context(ChainContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


# between two checks of the leases
_POLL_S: Final = 5.0
# a takeover needs no longer, and a dead process keeps its lease for nearly as long
_FREE_US: Final = 30_000_000


class _WorkConditions(NamedTuple):
    """The condition names of one kind of work."""

    starting: ConditionName
    leased: ConditionName
    failing: ConditionName


_SETTLING = _WorkConditions(
    ConditionName.SETTLEMENT_STARTING,
    ConditionName.SETTLEMENT_LEASED_ELSEWHERE,
    ConditionName.SETTLEMENT_FAILING,
)
_PAYING_OUT = _WorkConditions(
    ConditionName.PAYOUTS_STARTING,
    ConditionName.PAYOUTS_LEASED_ELSEWHERE,
    ConditionName.PAYOUTS_FAILING,
)


class RemoteSender:
    """A key with which another process sends; the operator's commands are in the store."""

    def __init__(self, account: str) -> None:
        self.account = account
        self.has_lease = False
        self.is_paused = False

    def pause(self) -> None:
        """Store the pause; the process that sends with the key reads it in the store."""
        self.is_paused = True

    def resume(self) -> None:
        """Store the resumption; the process that sends with the key reads it in the store."""
        self.is_paused = False


class StandbyWorker:
    """The known state of other processes' work: the head, and who has the leases."""

    def __init__(
        self, app: _Context, rail: Rail, senders: Sequence[str], condition_names: _WorkConditions
    ) -> None:
        self._app = app
        self._rail = rail
        self._condition_names = condition_names
        self._observations = ChainObservations(app, rail)
        self._keys = {sender: RemoteSender(f"{rail.chain_id}:{sender}") for sender in senders}
        self._conditions = ConditionTracker(condition_names, app.clock.now_us)
        self._problems: Mapping[ConditionName, str] = {condition_names.starting: "starting"}
        self._free_since_us: int | None = None
        self._turn_count = 0
        self.head = 0
        self.open_transactions = 0

    @classmethod
    def for_settlement(cls, app: _Context, rail: Rail) -> Self:
        """Return a stand-in for the settler of a chain."""
        return cls(app, rail, rail.senders, _SETTLING)

    @classmethod
    def for_payouts(cls, app: _Context, rail: Rail, treasury: TreasuryPayouts) -> Self:
        """Return a stand-in for the payout worker of a treasury."""
        return cls(app, rail, [treasury.sender], _PAYING_OUT)

    @property
    def seen_block(self) -> int:
        """Return the newest block that was seen; 0 if the chain does not answer."""
        return self.head

    @property
    def chain_id(self) -> str:
        """Return the CAIP-2 id of its chain."""
        return self._rail.chain_id

    @property
    def leases(self) -> Mapping[str, int]:
        """Return nothing: other processes have the leases."""
        return {}

    @property
    def executors(self) -> Sequence[RemoteSender]:
        """Return the keys with which others send."""
        return list(self._keys.values())

    def health(self) -> ChainHealth:
        """Return the latest known state of the work."""
        wrong = {name: [problem] for name, problem in self._problems.items()}
        return ChainHealth(
            self.head,
            self.open_transactions,
            self._conditions.update(wrong),
            turn_count=self._turn_count,
        )

    async def run(self) -> None:
        """Watch until canceled."""
        await run_together(self._follow_leases(), self._follow_head())

    async def _follow_leases(self) -> None:
        while True:
            looked_us = self._app.clock.now_us()
            try:
                await self._check_leases()
            except StoreError as error:
                self._problems = {self._condition_names.failing: str(error) or type(error).__name__}
            self._turn_count += 1
            await sleep_remaining(self._app.clock, _POLL_S, looked_us)

    async def _check_leases(self) -> None:
        await self._observations.refresh()
        now_us = self._app.clock.now_us()
        names = {leases.format_name(self._rail.chain_id, key): key for key in self._keys}
        held = {
            names[lease_name]
            for lease_name in await self._app.store.read(leases.filter_held(names, now_us))
        }
        open_count = 0
        for address in self._keys:
            txes = await self._app.store.read(chain_txs.list_open(self._rail.chain_id, address))
            open_count += len(txes)
        self.open_transactions = open_count
        if held:
            self._free_since_us = None
            message = f"another process has the lease of {', '.join(sorted(held))}"
            self._problems = {self._condition_names.leased: message}
        elif self._free_since_us is None:
            self._free_since_us = self._app.clock.steady_us()
        elif self._app.clock.steady_us() - self._free_since_us >= _FREE_US:
            keys = ", ".join(self._keys)
            message = f"no process has the lease of {keys}: start a process with `florin worker`"
            self._problems = {self._condition_names.failing: message}

    async def _follow_head(self) -> None:
        waiter = self._condition_names.leased
        while True:
            await catch_unavailable(self._read_head())
            await wait_for_first(self._rail.nodes.wait_for_block(waiter))

    async def _read_head(self) -> None:
        try:
            self.head = max(self.head, (await self._rail.observer.get_head()).number)
        except RailUnavailable:
            # callers ask for it themselves, and get the error
            self.head = 0
            raise
