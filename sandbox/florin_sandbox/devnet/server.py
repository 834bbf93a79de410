"""An embedded chain's interface to the rest of the program: bytes in, bytes out."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from florin_server.base.clock import Clock

from florin_sandbox.devnet.errors import DevChainError
from florin_sandbox.devnet.heads import HeadListeners
from florin_sandbox.devnet.worker import ChainWorker

if TYPE_CHECKING:
    from aiohttp import web

    from florin_sandbox.devnet.socket import SubscriptionDialect


@dataclass(frozen=True, slots=True)
class ChainEngine:
    """The parts in the worker's thread; `handle` also returns an answer's delay in seconds."""

    handle: Callable[[bytes], tuple[bytes, float]]
    head: Callable[[], Hashable]
    commit: Callable[[], None]
    close: Callable[[], None]


E = TypeVar("E", bound=ChainEngine)


async def start_engine(name: str, create_engine: Callable[[], E]) -> tuple[ChainWorker, E]:
    """Return a thread of that name, and the engine that was made in it and is on disk."""
    worker = ChainWorker(name)
    try:
        engine = await worker.run_job(create_engine)
        worker.commit = engine.commit
        await worker.run_job(lambda: None)
    except BaseException:
        await worker.close()
        raise
    return worker, engine


class DevChain(ABC, Generic[E]):
    """A running chain. It sends an answer only after the answer's effects are on disk."""

    def __init__(self, worker: ChainWorker, engine: E, clock: Clock) -> None:
        self._worker = worker
        self._engine = engine
        self._clock = clock
        self._heads = HeadListeners()
        self._runner: web.AppRunner | None = None
        self._ticker: asyncio.Task[None] | None = None

    @property
    def is_busy(self) -> bool:
        """Return True while an operation runs, or is being made durable."""
        return self._worker.is_busy

    async def handle(self, payload: bytes) -> bytes:
        """Answer a JSON-RPC call or batch; empty if it needs no answer."""
        (answer, delay_s), head = await self._worker.run_job(
            lambda: (self._engine.handle(payload), self._engine.head())
        )
        self._heads.record_head(head)
        if delay_s > 0:
            await self._clock.sleep(delay_s)
        return answer

    async def serve_http(self, listener: socket.socket | None = None) -> int:
        """Answer POST requests and WebSockets too; return the port.

        `listener` is a listening socket, closed with the chain; without it, any free port of
        127.0.0.1 is used.
        """
        # aiohttp loads slowly, and is needed only on request
        from florin_sandbox.devnet.http import create_runner, serve_runner  # noqa: PLC0415

        self._runner = create_runner(self.handle, self, self._create_dialect())
        return await serve_runner(self._runner, listener or socket.create_server(("127.0.0.1", 0)))

    def add_listener(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call the listener at each new head; return the function that ends that."""
        return self._heads.add_listener(listener)

    async def close(self) -> None:
        """Stop; everything that was answered is on disk."""
        if self._ticker is not None:
            self._ticker.cancel()
            with contextlib.suppress(asyncio.CancelledError, DevChainError):
                await self._ticker
        if self._runner is not None:
            await self._runner.cleanup()
        await self._worker.close()
        self._engine.close()

    @abstractmethod
    def _create_dialect(self) -> SubscriptionDialect:
        """Return the format in which a WebSocket announces new heads."""
