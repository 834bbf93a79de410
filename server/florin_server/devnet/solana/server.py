"""The embedded Solana chain as the rest of the program sees it: bytes in, bytes out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from florin_server.clock import Clock, SystemClock
from florin_server.devnet.gifts import Gifts
from florin_server.devnet.server import DevChain, Engine, started
from florin_server.devnet.worker import Worker

if TYPE_CHECKING:
    from florin_server.devnet.socket import Dialect


@dataclass(frozen=True, slots=True)
class SolanaDevSettings:
    """How a chain behaves. `slot_s` 0 gives each transaction a slot of its own, at once.

    A transaction is finalized with `finalized_slots` slots on top of its own: 32 before Alpenglow,
    one since then. The commitment `confirmed` is refused if `confirmed_slots` is None.
    The faucet's budgets go by `real_ns`, which no caller can move on.
    """

    slot_s: float = 0.0
    confirmed_slots: int | None = 1
    finalized_slots: int = 32
    clock: Clock = field(default_factory=SystemClock)
    real_ns: Callable[[], int] = time.monotonic_ns


@dataclass(frozen=True, slots=True)
class _Engine(Engine):
    """What else lives there; `head` is the newest slot and the newest final one."""

    head: Callable[[], tuple[int, int]]
    left_s: Callable[[], float]


class SolanaDevChain(DevChain[_Engine]):
    """A running chain; `open` makes one.

    Transactions that wait for the end of a pause are kept in memory, and lost with the process.
    """

    def __init__(self, worker: Worker, engine: _Engine, settings: SolanaDevSettings) -> None:
        super().__init__(worker, engine, settings.clock)
        self._slot_s = settings.slot_s

    @classmethod
    async def open(cls, path: Path | None, settings: SolanaDevSettings | None = None) -> Self:
        """Opens or begins the chain in a file; in memory without one.

        Raises DevChainError if the file is in use or is none of this release.
        """
        chosen = settings if settings is not None else SolanaDevSettings()
        worker, engine = await started("solana-devnet", lambda: _engine(path, chosen))
        return cls(worker, engine, chosen)

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls the listener at each new slot; gives back what ends that.

        Slots go by the clock, and nobody counts them while nobody listens.
        """
        if self._slot_s > 0 and self._ticker is None:
            self._ticker = asyncio.create_task(self._tick())
        return super().listen(listener)

    def _dialect(self) -> Dialect:
        # what sockets need is slow to load
        from florin_server.devnet.solana.newslots import SolanaDialect  # noqa: PLC0415

        async def look() -> tuple[int, int]:
            return await self._worker.run(self._engine.head)

        return SolanaDialect(look)

    async def _tick(self) -> None:
        while True:
            head, left_s = await self._worker.run(
                lambda: (self._engine.head(), self._engine.left_s())
            )
            if not self._heads.wanted:
                self._ticker = None
                return
            self._heads.at(head)
            await self._clock.sleep(left_s)


def _engine(path: Path | None, settings: SolanaDevSettings) -> _Engine:
    # a program without this chain need not load its machine
    from florin_server.devnet.dispatch import Dispatcher  # noqa: PLC0415
    from florin_server.devnet.faults import Faults  # noqa: PLC0415
    from florin_server.devnet.solana import params  # noqa: PLC0415
    from florin_server.devnet.solana.control import ControlMethods  # noqa: PLC0415
    from florin_server.devnet.solana.history import History  # noqa: PLC0415
    from florin_server.devnet.solana.machine import Machine  # noqa: PLC0415
    from florin_server.devnet.solana.methods import SolanaMethods  # noqa: PLC0415
    from florin_server.devnet.solana.sending import Sending  # noqa: PLC0415
    from florin_server.devnet.solana.slots import Commitment, Depths, Slots  # noqa: PLC0415

    history = History(path)
    try:
        depths = Depths(settings.confirmed_slots, settings.finalized_slots)
        slots = Slots(history, settings.clock, settings.slot_s, depths)
        machine = Machine(history, slots)
    except BaseException:
        history.close()
        raise
    gifts = Gifts(settings.real_ns)
    sending = Sending(history, slots, machine, gifts)
    faults = Faults()

    def dropped(passed: list[Any]) -> str:
        options = params.fields(passed[1] if len(passed) > 1 else None, Sending.OPTIONS)
        return str(sending.parse(passed[0], options).signatures[0])

    table = {
        **SolanaMethods(history, slots, machine, sending).table,
        **ControlMethods(history, slots, machine, sending, faults).table,
    }
    dispatcher = Dispatcher(table, faults, dropped)

    def handle(payload: bytes) -> tuple[bytes, float]:
        answer = dispatcher.handle(payload)
        return answer.payload, answer.delay_s

    def head() -> tuple[int, int]:
        return slots.slot, slots.at(Commitment.FINALIZED)

    return _Engine(handle, head, history.commit, history.close, slots.left_s)
