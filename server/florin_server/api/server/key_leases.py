"""Leases of idempotency keys, if other processes use the same store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from florin_server.base.clock import Clock
from florin_server.db.engine.query import StoreError
from florin_server.db.engine.store import Store
from florin_server.domain.errors import ApiError, ErrorCode, GrpcStatus
from florin_server.idempotency.store import key_leases
from florin_server.idempotency.store.responses import IdempotencyClaim

# interval of polls while another process has the lease; the first polls come sooner
_POLL_S, _POLL_MAX_S = 0.02, 0.5
_RETRY_S = 1.0


class KeyLeases:
    """The key leases of one process in the store; it takes each key once at a time."""

    def __init__(self, store: Store, clock: Clock, process: str) -> None:
        self._store = store
        self._clock = clock
        self._process = process
        self._releases: set[asyncio.Task[None]] = set()

    async def acquire(self, claim: IdempotencyClaim, until: float) -> bytes | None:
        """Wait until no other process has the lease, and take it; `until` is the loop's time.

        Return the fingerprint that the key is bound to; None if the key is free. Raise
        ApiError(idempotency_conflict) if the time is over. A caller that is refused, or stops
        waiting, must `give_back` what may have been taken.
        """
        loop, wait_s = asyncio.get_running_loop(), _POLL_S
        while True:
            taken, bound_fingerprint = await self._try_acquire(claim)
            if taken:
                return bound_fingerprint
            if loop.time() >= until:
                raise make_in_flight_error()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await self._clock.sleep(wait_s)
            wait_s = min(2 * wait_s, _POLL_MAX_S)

    async def bind(self, claim: IdempotencyClaim) -> None:
        """Bind the key to its request, and release the lease; errors as in `key_leases.bind`."""
        await self._store.write(key_leases.bind(claim, self._process))

    def release(self, scope: str, key: str, on_released: Callable[[], None]) -> None:
        """Release a lease in the background, retried while the store is unavailable."""
        task = asyncio.create_task(self._release(scope, key))
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)
        task.add_done_callback(lambda _: on_released())

    async def _try_acquire(self, claim: IdempotencyClaim) -> tuple[bool, bytes | None]:
        task = asyncio.ensure_future(self._store.write(key_leases.acquire(claim, self._process)))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # a release during the take would leave the lease taken
            await _wait_done(task)
            raise

    async def _release(self, scope: str, key: str) -> None:
        while True:
            try:
                await self._store.write(key_leases.release(scope, key, self._process))
            except (StoreError, ApiError):
                await self._clock.sleep(_RETRY_S)
            else:
                return


def make_in_flight_error() -> ApiError:
    """Return the error of a call that can no longer wait for the call before it."""
    return ApiError(
        ErrorCode.IDEMPOTENCY_CONFLICT,
        "A request under this key is still running",
        details={"reason": "in_flight"},
        retry_after_s=1,
        grpc=GrpcStatus.ABORTED,
    )


async def _wait_done(future: asyncio.Future[Any]) -> None:
    """Wait until it has ended, with or without an error."""
    await asyncio.wait([future])
    if not future.cancelled():
        future.exception()
