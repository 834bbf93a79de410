"""Stands in for who settles or pays out on a chain where other processes do it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Self

from florin_server.clock import first_of, rest
from florin_server.domain.conditions import ConditionName
from florin_server.domain.health import Board, Health
from florin_server.flows.app import Core
from florin_server.rails.protocol import Rail
from florin_server.rails.roles import Payouts
from florin_server.rails.types import RailUnavailable
from florin_server.store.engine.query import StoreError
from florin_server.store.settlement import chain_txs, leases
from florin_server.workers.settlement.observations import Observations
from florin_server.workers.settlement.tx_sender import lease_of
from florin_server.workers.wait import fault_of, run_together

# between two looks at the leases
_LOOK_S: Final = 5.0
# who takes a lease over needs no longer, and one that died keeps it for nearly as long
_FREE_US: Final = 30_000_000


class _Names(NamedTuple):
    """What the conditions of one kind of work are called."""

    starting: ConditionName
    leased: ConditionName
    failing: ConditionName


_SETTLING = _Names(
    ConditionName.SETTLEMENT_STARTING,
    ConditionName.SETTLEMENT_LEASED_ELSEWHERE,
    ConditionName.SETTLEMENT_FAILING,
)
_PAYING = _Names(
    ConditionName.PAYOUTS_STARTING,
    ConditionName.PAYOUTS_LEASED_ELSEWHERE,
    ConditionName.PAYOUTS_FAILING,
)


class Elsewhere:
    """A key with which another process sends; what the operator tells it is in the store."""

    def __init__(self, account: str) -> None:
        self.account = account
        self.open_transactions = 0
        self.leads = False
        self.paused = False

    def pause(self) -> None:
        """Notes it; who sends with the key reads it in the store."""
        self.paused = True

    def resume(self) -> None:
        """Notes it, likewise."""
        self.paused = False


class Onlooker:
    """What can be known of the work of others: the head, and who has the leases."""

    def __init__(self, app: Core, rail: Rail, senders: Sequence[str], names: _Names) -> None:
        self._app = app
        self._rail = rail
        self._names = names
        self._observations = Observations(app, rail)
        self._keys = {one: Elsewhere(f"{rail.chain_id}:{one}") for one in senders}
        self._board = Board(names, app.clock.now_us)
        self._wrong: Mapping[ConditionName, str] = {names.starting: "starting"}
        self._free_since_us: int | None = None
        self._turns = 0
        self.head = 0

    @classmethod
    def of_settlers(cls, app: Core, rail: Rail) -> Self:
        """In place of who settles on a chain."""
        return cls(app, rail, rail.senders, _SETTLING)

    @classmethod
    def of_payouts(cls, app: Core, rail: Rail, treasury: Payouts) -> Self:
        """In place of who pays out of a treasury."""
        return cls(app, rail, [treasury.sender], _PAYING)

    @property
    def chain_id(self) -> str:
        """CAIP-2 of the chain that it looks at."""
        return self._rail.chain_id

    @property
    def leases(self) -> Mapping[str, int]:
        """None: others hold them."""
        return {}

    @property
    def executors(self) -> Sequence[Elsewhere]:
        """The keys with which others send."""
        return list(self._keys.values())

    def wake(self) -> None:
        """Nothing: there is nobody here to do it."""

    def health(self) -> Health:
        """How the work of others looked last."""
        count = sum(one.open_transactions for one in self._keys.values())
        wrong = {name: [told] for name, told in self._wrong.items()}
        return Health(self.head, count, self._board.look(wrong), turns=self._turns)

    async def run(self) -> None:
        """Looks on until cancelled."""
        await run_together(self._follow_leases(), self._follow_head())

    async def _follow_leases(self) -> None:
        while True:
            looked_us = self._app.clock.now_us()
            try:
                await self._look()
            except StoreError as error:
                self._wrong = {self._names.failing: str(error) or type(error).__name__}
            self._turns += 1
            await rest(self._app.clock, _LOOK_S, looked_us)

    async def _look(self) -> None:
        await self._observations.refresh()
        now_us = self._app.clock.now_us()
        names = {lease_of(self._rail, one): one for one in self._keys}
        held = {names[one] for one in await self._app.store.read(leases.leased(names, now_us))}
        for address, one in self._keys.items():
            found = await self._app.store.read(chain_txs.open_txs(self._rail.chain_id, address))
            one.open_transactions = len(found)
        if held:
            self._free_since_us = None
            told = f"another process has the lease of {', '.join(sorted(held))}"
            self._wrong = {self._names.leased: told}
        elif self._free_since_us is None:
            self._free_since_us = self._app.clock.steady_us()
        elif self._app.clock.steady_us() - self._free_since_us >= _FREE_US:
            keys = ", ".join(self._keys)
            told = f"no process has the lease of {keys}: start one with `florin worker`"
            self._wrong = {self._names.failing: told}

    async def _follow_head(self) -> None:
        waiter = self._names.leased
        while True:
            await fault_of(self._see())
            await first_of(self._rail.nodes.wait_for_block(waiter))

    async def _see(self) -> None:
        try:
            self.head = max(self.head, (await self._rail.observer.head()).number)
        except RailUnavailable:
            # callers ask for it themselves, and are told
            self.head = 0
            raise
