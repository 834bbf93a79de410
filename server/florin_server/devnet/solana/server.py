"""The embedded Solana chain as the rest of the program sees it: bytes in, bytes out."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from florin_server.clock import Clock, SystemClock
from florin_server.devnet.errors import DevChainError
from florin_server.devnet.gifts import Gifts
from florin_server.devnet.heads import Heads
from florin_server.devnet.worker import Worker

if TYPE_CHECKING:
    from aiohttp import web


@dataclass(frozen=True, slots=True)
class SolanaDevSettings:
    """How a chain behaves. `slot_s` 0 gives each transaction a slot of its own, at once.

    A transaction is finalized with `finalized_slots` slots on top of its own; 32 on a real cluster.
    The faucet's budgets go by `real_ns`, which no caller can move on.
    """

    slot_s: float = 0.0
    confirmed_slots: int = 1
    finalized_slots: int = 32
    clock: Clock = field(default_factory=SystemClock)
    real_ns: Callable[[], int] = time.monotonic_ns


@dataclass(frozen=True, slots=True)
class _Engine:
    """What lives in the worker's thread."""

    handle: Callable[[bytes], tuple[bytes, float]]
    head: Callable[[], tuple[int, int]]
    left_s: Callable[[], float]
    commit: Callable[[], None]
    close: Callable[[], None]


class SolanaDevChain:
    """A running chain; `open` makes one.

    An answer is given only after what it tells is on disk. Transactions that wait for the end of a
    pause are kept in memory, and lost with the process.
    """

    def __init__(self, worker: Worker, engine: _Engine, settings: SolanaDevSettings) -> None:
        self._worker = worker
        self._engine = engine
        self._settings = settings
        self._heads = Heads()
        self._runner: web.AppRunner | None = None
        self._ticker: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, path: Path | None, settings: SolanaDevSettings | None = None) -> Self:
        """Opens or begins the chain in a file; in memory without one.

        Raises DevChainError if the file is in use or is none of this release.
        """
        chosen = settings if settings is not None else SolanaDevSettings()
        worker = Worker("solana-devnet")
        try:
            engine = await worker.run(lambda: _engine(path, chosen))
            worker.commit = engine.commit
            await worker.run(lambda: None)
        except BaseException:
            await worker.close()
            raise
        return cls(worker, engine, chosen)

    @property
    def busy(self) -> bool:
        """True while something is being done, or made to last."""
        return self._worker.busy

    async def handle(self, payload: bytes) -> bytes:
        """Answers a JSON-RPC call or batch; empty if there is nothing to answer."""
        (answer, delay_s), head = await self._worker.run(
            lambda: (self._engine.handle(payload), self._engine.head())
        )
        self._heads.at(head)
        if delay_s > 0:
            await self._settings.clock.sleep(delay_s)
        return answer

    async def serve_http(self, host: str, port: int) -> int:
        """Answers POST requests and WebSockets too; returns the port, which port 0 leaves open."""
        # aiohttp is slow to load, and needed only if asked for
        from florin_server.devnet.http import listen_at, runner_of  # noqa: PLC0415
        from florin_server.devnet.solana.newslots import SolanaDialect  # noqa: PLC0415

        async def look() -> tuple[int, int]:
            return await self._worker.run(self._engine.head)

        dialect = SolanaDialect(look)
        self._runner = runner_of(self.handle, self, dialect)
        return await listen_at(self._runner, host, port)

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls the listener at each new slot; gives back what ends that.

        Slots go by the clock, and nobody counts them while nobody listens.
        """
        if self._settings.slot_s > 0 and self._ticker is None:
            self._ticker = asyncio.create_task(self._tick())
        return self._heads.listen(listener)

    async def close(self) -> None:
        """Stops; everything that was answered is on disk."""
        if self._ticker is not None:
            self._ticker.cancel()
            with contextlib.suppress(asyncio.CancelledError, DevChainError):
                await self._ticker
        if self._runner is not None:
            await self._runner.cleanup()
        await self._worker.close()
        self._engine.close()

    async def _tick(self) -> None:
        while True:
            head, left_s = await self._worker.run(
                lambda: (self._engine.head(), self._engine.left_s())
            )
            if not self._heads.wanted:
                self._ticker = None
                return
            self._heads.at(head)
            await self._settings.clock.sleep(left_s)


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
    sending = Sending(history, slots, machine, Gifts(settings.real_ns))
    faults = Faults()

    def dropped(passed: list[Any]) -> str:
        config = params.fields(passed[1] if len(passed) > 1 else None, Sending.OPTIONS)
        encoding = params.encoding_of(config, ("base58", "base64"), "base58")
        return str(params.transaction(passed[0], encoding).signatures[0])

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

    return _Engine(handle, head, slots.left_s, history.commit, history.close)
