"""An embedded chain of any kind as the rest of the program sees it: bytes in, bytes out."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from florin_server.clock import Clock
from florin_server.devnet.errors import DevChainError
from florin_server.devnet.heads import Heads
from florin_server.devnet.worker import Worker

if TYPE_CHECKING:
    from aiohttp import web

    from florin_server.devnet.socket import Dialect


@dataclass(frozen=True, slots=True)
class Engine:
    """What lives in the worker's thread. `handle` tells how long to hold its answer back, too."""

    handle: Callable[[bytes], tuple[bytes, float]]
    head: Callable[[], Hashable]
    commit: Callable[[], None]
    close: Callable[[], None]


E = TypeVar("E", bound=Engine)


async def started(name: str, make: Callable[[], E]) -> tuple[Worker, E]:
    """A thread of that name, and the engine that was made in it and is on disk."""
    worker = Worker(name)
    try:
        engine = await worker.run(make)
        worker.commit = engine.commit
        await worker.run(lambda: None)
    except BaseException:
        await worker.close()
        raise
    return worker, engine


class DevChain(ABC, Generic[E]):
    """A running chain. An answer is given only after what it tells is on disk."""

    def __init__(self, worker: Worker, engine: E, clock: Clock) -> None:
        self._worker = worker
        self._engine = engine
        self._clock = clock
        self._heads = Heads()
        self._runner: web.AppRunner | None = None
        self._ticker: asyncio.Task[None] | None = None

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
            await self._clock.sleep(delay_s)
        return answer

    async def serve_http(self, listener: socket.socket | None = None) -> int:
        """Answer POST requests and WebSockets too; return the port.

        `listener` is a listening socket, closed with the chain; without one, any free port of
        127.0.0.1 is taken.
        """
        # aiohttp is slow to load, and needed only if asked for
        from florin_server.devnet.http import runner_of, serve  # noqa: PLC0415

        self._runner = runner_of(self.handle, self, self._dialect())
        return await serve(self._runner, listener or socket.create_server(("127.0.0.1", 0)))

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

    @abstractmethod
    def _dialect(self) -> Dialect:
        """How new heads are announced on a WebSocket."""
