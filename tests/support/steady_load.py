"""Clients that call a service at a steady rate, and record each call that failed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import grpc

from tests.support.api import GrpcApi, RestApi
from tests.support.processes import ProcessInstallation
from tests.support.service_harness import ORDER

# of the clients whose connections are kept
KEPT = 10
# a call that takes longer has failed
_CALL_S = 20
_ALONE = (("grpc.use_local_subchannel_pool", 1),)


class SteadyLoad:
    """Four kinds of callers, each with a quarter of the calls a second."""

    def __init__(self, installation: ProcessInstallation, a_second: int, payment_id: str) -> None:
        self._at = installation
        self._pause_s = 4 / a_second
        self._payment_id = payment_id
        self._calls: set[asyncio.Task[None]] = set()
        self._turn = 0
        self.response_count: Counter[str] = Counter()
        self.failures: list[str] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Make calls while the block runs; return once all are answered."""
        async with aiohttp.ClientSession() as client_session:
            channels = [self._channel() for _ in range(KEPT)]
            apis = [GrpcApi(each_channel, self._at.accounts) for each_channel in channels]
            rest = self._at.rest(client_session)

            async def new_rest() -> None:
                connector = aiohttp.TCPConnector(force_close=True)
                async with aiohttp.ClientSession(connector=connector) as session:
                    await RestApi(session, rest.base, self._at.accounts).info(self._payment_id)

            async def new_channel() -> None:
                async with self._channel() as channel:
                    await GrpcApi(channel, self._at.accounts).info(self._payment_id)

            async def kept_channel() -> None:
                self._turn += 1
                await apis[self._turn % KEPT].create(ORDER)

            kinds: dict[str, Callable[[], Awaitable[Any]]] = {
                # no client repeats a POST automatically
                "REST kept": lambda: rest.create(ORDER),
                "REST new": new_rest,
                "gRPC kept": kept_channel,
                "gRPC new": new_channel,
            }
            runs = [asyncio.create_task(self._run(*item)) for item in kinds.items()]
            try:
                yield
            finally:
                for task in runs:
                    task.cancel()
                await asyncio.gather(*runs, return_exceptions=True)
                await asyncio.gather(*self._calls)
                for channel in channels:
                    await channel.close()

    def _channel(self) -> grpc.aio.Channel:
        # clients share no connection
        return grpc.aio.insecure_channel(self._at.grpc, options=_ALONE)

    async def _run(self, kind: str, call: Callable[[], Awaitable[Any]]) -> None:
        while True:
            task = asyncio.create_task(self._call(kind, call))
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)
            await asyncio.sleep(self._pause_s)

    async def _call(self, kind: str, call: Callable[[], Awaitable[Any]]) -> None:
        try:
            async with asyncio.timeout(_CALL_S):
                await call()
        except Exception as error:  # noqa: BLE001  (any error means an unanswered call)
            self.failures.append(f"{kind}: {error!r}"[:500])
        else:
            self.response_count[kind] += 1
