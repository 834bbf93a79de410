"""Turns under idempotency keys, where other processes have the same store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from florin_server.clock import Clock
from florin_server.domain.errors import Code, FlorinError
from florin_server.store.engine.query import StoreError
from florin_server.store.engine.store import Store
from florin_server.store.payments import key_turns
from florin_server.store.payments.idempotency import Claim

# who waits for another process looks so often, the first times sooner
_LOOK_S, _LOOK_MAX_S = 0.02, 0.5
_RETRY_S = 1.0


class Turns:
    """The turns that one process has in the store; it takes one of each key at a time."""

    def __init__(self, store: Store, clock: Clock, process: str) -> None:
        self._store = store
        self._clock = clock
        self._process = process
        self._ending: set[asyncio.Task[None]] = set()

    async def take(self, claim: Claim, until: float) -> bytes | None:
        """Waits until no other process has the turn, and takes it; `until` is the loop's time.

        Answers the fingerprint that the key stands for; None if it may be used. FlorinError
        (idempotency_conflict) if it is too late. Whoever is refused, or does not wait to the end,
        has to `give_back` what may have been taken.
        """
        loop, wait_s = asyncio.get_running_loop(), _LOOK_S
        while True:
            taken, known = await self._take(claim)
            if taken:
                return known
            if loop.time() >= until:
                raise in_flight()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await self._clock.sleep(wait_s)
            wait_s = min(2 * wait_s, _LOOK_MAX_S)

    async def bind(self, claim: Claim) -> None:
        """Binds the key to its request, and gives the turn back; errors as `key_turns.bind`."""
        await self._store.write(key_turns.bind(claim, self._process))

    def give_back(self, scope: str, key: str, then: Callable[[], None]) -> None:
        """Gives a turn back in the background, however long the store does not work."""
        task = asyncio.create_task(self._give_back(scope, key))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        task.add_done_callback(lambda _: then())

    async def _take(self, claim: Claim) -> tuple[bool, bytes | None]:
        asked = asyncio.ensure_future(self._store.write(key_turns.take(claim, self._process)))
        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            # what is given back while it is still being taken stays taken
            await _over(asked)
            raise

    async def _give_back(self, scope: str, key: str) -> None:
        while True:
            try:
                await self._store.write(key_turns.give_back(scope, key, self._process))
            except (StoreError, FlorinError):
                await self._clock.sleep(_RETRY_S)
            else:
                return


def in_flight() -> FlorinError:
    """The refusal of a call that cannot wait any longer for the one before it."""
    return FlorinError(
        Code.IDEMPOTENCY_CONFLICT,
        "A request under this key is still running",
        details={"reason": "in_flight"},
        retry_after_s=1,
        like=Code.VERSION_CONFLICT,
    )


async def _over(asked: asyncio.Future[Any]) -> None:
    """Returns when it has ended, in whatever way."""
    await asyncio.wait([asked])
    if not asked.cancelled():
        asked.exception()
