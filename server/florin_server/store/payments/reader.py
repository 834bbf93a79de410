"""The hot read: payments by id, however many callers ask at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from florin_server.domain.payments.payment import Payment
from florin_server.store.engine.query import Operation, T
from florin_server.store.payments import payments
from florin_server.store.payments.cache import PaymentCache

_Wanted = dict[str, list[asyncio.Future[Payment | None]]]


class Read(Protocol):
    """What runs operations that only read."""

    def __call__(self, op: Operation[T], /) -> Awaitable[T]:
        """Runs one."""


class PaymentReader:
    """One SELECT for everybody who asks in the same turn of the event loop.

    Where a read is over `at_once`, so many of a turn have one of their own: to wait for others
    costs more than their part of the SELECT, until there are some. What is in the `cache` is not
    read at all.
    """

    def __init__(self, read: Read, *, at_once: int = 0, cache: PaymentCache | None = None) -> None:
        self._read = read
        self._at_once = at_once
        self._cache = cache
        self._alone = 0
        self._wanted: _Wanted = {}
        self._fetching: asyncio.Task[None] | None = None

    async def payment(
        self, payment_id: str, may_see: Callable[[Payment], bool] | None = None
    ) -> Payment | None:
        """The payment as it was committed last; None if there is none.

        Whoever may not see it has it read as if nobody had read it before: that it takes as long
        as one that never was tells them nothing. What they are told is for the caller to decide.
        """
        known = self._cache.get(payment_id) if self._cache is not None else None
        if known is not None and (may_see is None or may_see(known)):
            return known
        loop = asyncio.get_running_loop()
        if self._alone < self._at_once:
            if not self._alone:
                loop.call_soon(self._next_turn)
            self._alone += 1
            return await self._one(payment_id)
        future: asyncio.Future[Payment | None] = loop.create_future()
        self._wanted.setdefault(payment_id, []).append(future)
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetch())
        return await future

    async def _one(self, payment_id: str) -> Payment | None:
        changes = self._cache.changes if self._cache is not None else 0
        found = await self._read(payments.one(payment_id))
        if self._cache is not None and found is not None:
            self._cache.keep(found, changes)
        return found

    def _next_turn(self) -> None:
        self._alone = 0

    async def _fetch(self) -> None:
        try:
            while self._wanted:
                wanted, self._wanted = self._wanted, {}
                await self._answer(wanted)
        finally:
            self._fetching = None

    async def _answer(self, wanted: _Wanted) -> None:
        found: dict[str, Payment] = {}
        error: Exception | None = None
        try:
            found = await self._read(payments.get(wanted))
        except Exception as failed:  # noqa: BLE001  (belongs to those who asked)
            error = failed
        for payment_id, futures in wanted.items():
            for future in futures:
                if future.done():  # its caller was cancelled
                    continue
                if error is None:
                    future.set_result(found.get(payment_id))
                else:
                    future.set_exception(error)
