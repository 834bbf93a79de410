"""The embedded chain as the rest of the program sees it: bytes in, bytes out."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from florin_server.clock import Clock, SystemClock
from florin_server.devnet.errors import DevChainError
from florin_server.devnet.genesis import DEVNET
from florin_server.devnet.gifts import Gifts
from florin_server.devnet.heads import Heads
from florin_server.devnet.worker import Worker

if TYPE_CHECKING:
    from aiohttp import web

    from florin_server.devnet.evm.rpc import RpcServer

_FRAMES_MAX = 10_240


@dataclass(frozen=True, slots=True)
class EvmDevSettings:
    """How a chain behaves. `block_interval_s` 0 seals a block at once for each transaction.

    `chain_id`, `seed` and `code` are fixed when a file is created; chains with another seed have
    other block hashes. `code` is what stands at addresses from the first block on, beside Florin's
    own contracts. The faucet's budgets go by `real_ns`, which no caller can move on.
    """

    chain_id: int = DEVNET.chain_id
    block_interval_s: float = 0.0
    clock: Clock = field(default_factory=SystemClock)
    seed: int = 0
    code: Mapping[str, bytes] = field(default_factory=dict)
    real_ns: Callable[[], int] = time.monotonic_ns


@dataclass(frozen=True, slots=True)
class _Engine:
    """What lives in the worker's thread."""

    handle: Callable[[bytes], tuple[bytes, float]]
    header: Callable[[int | None], Mapping[str, Any]]
    head: Callable[[], bytes]
    tick: Callable[[], None]
    commit: Callable[[], None]
    close: Callable[[], None]


class EvmDevChain:
    """A running chain; `open` makes one.

    An answer is given only after what it tells is on disk. Transactions that wait for a block are
    kept in memory, as in any node, and lost with the process.
    """

    def __init__(self, worker: Worker, engine: _Engine, settings: EvmDevSettings) -> None:
        self._worker = worker
        self._engine = engine
        self._settings = settings
        self._heads = Heads()
        self._runner: web.AppRunner | None = None
        self._ticker: asyncio.Task[None] | None = None
        if settings.block_interval_s > 0:
            self._ticker = asyncio.create_task(self._tick())

    @classmethod
    async def open(cls, path: Path | None, settings: EvmDevSettings | None = None) -> Self:
        """Opens or begins the chain in a file; in memory without one.

        Raises DevChainError if the file is in use, or began with other settings.
        """
        chosen = settings if settings is not None else EvmDevSettings()
        worker = Worker("evm-devnet")
        try:
            engine = await worker.run(lambda: _engine(path, chosen))
            worker.commit = engine.commit
            await worker.run(lambda: None)
        except BaseException:
            await worker.close()
            raise
        return cls(worker, engine, chosen)

    def contracts(self) -> dict[str, str]:
        """Addresses of what the first block holds, lower-case."""
        return {
            "settler": DEVNET.settler,
            "token": DEVNET.token.address,
            "euro": DEVNET.euro.address,
            "permit2": DEVNET.permit2,
            "faucet": DEVNET.faucet,
        }

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
        from florin_server.devnet.evm.newheads import EvmDialect  # noqa: PLC0415
        from florin_server.devnet.http import listen_at, runner_of  # noqa: PLC0415

        dialect = EvmDialect(self._worker.run, self._engine.header)
        self._runner = runner_of(self.handle, self, dialect)
        return await listen_at(self._runner, host, port)

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls the listener at each new head; gives back what ends that."""
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
            await self._settings.clock.sleep(self._settings.block_interval_s)
            self._heads.at(await self._worker.run(self._ticked))

    def _ticked(self) -> bytes:
        self._engine.tick()
        return self._engine.head()


def _engine(path: Path | None, settings: EvmDevSettings) -> _Engine:
    # py-evm takes half a second to import, which a program without this chain need not wait for
    from florin_server.devnet.evm.chain import Chain  # noqa: PLC0415
    from florin_server.devnet.evm.history import History  # noqa: PLC0415
    from florin_server.devnet.evm.mining import Mining  # noqa: PLC0415
    from florin_server.devnet.evm.rpc import RpcServer  # noqa: PLC0415
    from florin_server.devnet.evm.views import header_view  # noqa: PLC0415

    # a dependency of py-evm raises the limit so far that deep recursion would overflow the stack
    # and end the process; calls nest 1024 deep, each some eight frames
    sys.setrecursionlimit(min(sys.getrecursionlimit(), _FRAMES_MAX))
    history = History(path)
    try:
        chain = Chain(
            history,
            settings.chain_id,
            settings.seed,
            lambda: settings.clock.now_us() // 1_000_000,
            settings.code,
        )
    except BaseException:
        history.close()
        raise
    mining = Mining(chain, at_once=settings.block_interval_s == 0)
    server: RpcServer = RpcServer(chain, mining, Gifts(settings.real_ns))

    def handle(payload: bytes) -> tuple[bytes, float]:
        answer = server.handle(payload)
        return answer.payload, answer.delay_s

    def header(number: int | None) -> Mapping[str, Any]:
        return header_view(chain.head if number is None else chain.block(number))

    def head() -> bytes:
        return chain.head.hash

    return _Engine(handle, header, head, mining.tick, history.commit, history.close)
