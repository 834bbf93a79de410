"""The embedded Solana chain's interface to the rest of the program: bytes in, bytes out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from florin_server.base.clock import Clock, SystemClock

from florin_sandbox.devnet.faucet_limits import GiftBudgets
from florin_sandbox.devnet.server import ChainEngine, DevChain, start_engine
from florin_sandbox.devnet.worker import ChainWorker

if TYPE_CHECKING:
    from florin_sandbox.devnet.socket import SubscriptionDialect


@dataclass(frozen=True, slots=True)
class SolanaDevSettings:
    """The settings of a chain; `slot_s` 0 gives each transaction its own slot, at once.

    A transaction is finalized with `finalized_slots` slots on top of its own: 32 before Alpenglow,
    one since then. The commitment `confirmed` is refused if `confirmed_slots` is None. The faucet's
    budgets use `real_ns`, which no caller can advance.
    """

    slot_s: float = 0.0
    confirmed_slots: int | None = 1
    finalized_slots: int = 32
    clock: Clock = field(default_factory=SystemClock)
    real_ns: Callable[[], int] = time.monotonic_ns


@dataclass(frozen=True, slots=True)
class _SolanaEngine(ChainEngine):
    """The engine with the Solana chain's parts.

    `head` returns the newest and the newest final slot.
    """

    head: Callable[[], tuple[int, int]]
    get_left_s: Callable[[], float]


class SolanaDevChain(DevChain[_SolanaEngine]):
    """A running chain; `open` makes it.

    Transactions queued during a pause are kept in memory, and lost with the process.
    """

    def __init__(
        self, worker: ChainWorker, engine: _SolanaEngine, settings: SolanaDevSettings
    ) -> None:
        super().__init__(worker, engine, settings.clock)
        self._slot_s = settings.slot_s

    @classmethod
    async def open(cls, path: Path | None, settings: SolanaDevSettings | None = None) -> Self:
        """Open or create the chain in a file, or in memory without a path.

        Raise DevChainError if the file is in use or is not of this release.
        """
        chosen = settings if settings is not None else SolanaDevSettings()
        worker, engine = await start_engine("solana-devnet", lambda: _create_engine(path, chosen))
        return cls(worker, engine, chosen)

    def add_listener(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call the listener at each new slot; return the function that ends that.

        Slots follow the clock, and are not counted without a listener.
        """
        if self._slot_s > 0 and self._ticker is None:
            self._ticker = asyncio.create_task(self._tick())
        return super().add_listener(listener)

    def _create_dialect(self) -> SubscriptionDialect:
        # the modules for sockets load slowly
        from florin_sandbox.devnet.solana.newslots import SolanaSubscriptionDialect  # noqa: PLC0415

        async def look() -> tuple[int, int]:
            return await self._worker.run_job(self._engine.head)

        return SolanaSubscriptionDialect(look)

    async def _tick(self) -> None:
        while True:
            head, left_s = await self._worker.run_job(
                lambda: (self._engine.head(), self._engine.get_left_s())
            )
            if not self._heads.has_listeners:
                self._ticker = None
                return
            self._heads.record_head(head)
            await self._clock.sleep(left_s)


def _create_engine(path: Path | None, settings: SolanaDevSettings) -> _SolanaEngine:
    # a program without this chain need not load its machine
    from florin_sandbox.devnet.dispatch import RpcDispatcher  # noqa: PLC0415
    from florin_sandbox.devnet.faults import FaultPlan  # noqa: PLC0415
    from florin_sandbox.devnet.solana import params  # noqa: PLC0415
    from florin_sandbox.devnet.solana.control import SolanaControlMethods  # noqa: PLC0415
    from florin_sandbox.devnet.solana.history import SolanaHistory  # noqa: PLC0415
    from florin_sandbox.devnet.solana.machine import SolanaMachine  # noqa: PLC0415
    from florin_sandbox.devnet.solana.methods import SolanaMethods  # noqa: PLC0415
    from florin_sandbox.devnet.solana.sending import TransactionIntake  # noqa: PLC0415
    from florin_sandbox.devnet.solana.slots import CommitmentDepths, CommitmentLevel, SlotClock  # noqa: PLC0415

    history = SolanaHistory(path)
    try:
        depths = CommitmentDepths(settings.confirmed_slots, settings.finalized_slots)
        slots = SlotClock(history, settings.clock, settings.slot_s, depths)
        machine = SolanaMachine(history, slots)
    except BaseException:
        history.close()
        raise
    gifts = GiftBudgets(settings.real_ns)
    sending = TransactionIntake(history, slots, machine, gifts)
    faults = FaultPlan()

    def dropped(passed: list[Any]) -> str:
        options = params.parse_fields(
            passed[1] if len(passed) > 1 else None, TransactionIntake.OPTIONS
        )
        return str(sending.parse_transaction(passed[0], options).signatures[0])

    table = {
        **SolanaMethods(history, slots, machine, sending).methods,
        **SolanaControlMethods(history, slots, machine, sending, faults).methods,
    }
    dispatcher = RpcDispatcher(table, faults, dropped)

    def handle(payload: bytes) -> tuple[bytes, float]:
        answer = dispatcher.handle(payload)
        return answer.payload, answer.delay_s

    def head() -> tuple[int, int]:
        return slots.slot, slots.get_slot_at(CommitmentLevel.FINALIZED)

    return _SolanaEngine(handle, head, history.commit, history.close, slots.get_left_s)
