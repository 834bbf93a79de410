"""The hot read: payments by id, however many callers ask at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Protocol

from florin_server.domain.payments.payment import Payment
from florin_server.store.engine.query import Operation, T
from florin_server.store.payments import payments

_Wanted = dict[str, list[asyncio.Future[Payment | None]]]


class Read(Protocol):
    """What runs operations that only read."""

    def __call__(self, op: Operation[T], /) -> Awaitable[T]:
        """Runs one."""


class PaymentReader:
    """One SELECT for everybody who asks in the same turn of the event loop.

    Where a read is over `at_once`, so many of a turn have one of their own: to wait for others
    costs more than their part of the SELECT, until there are some.
    """

    def __init__(self, read: Read, *, at_once: int = 0) -> None:
        self._read = read
        self._at_once = at_once
        self._alone = 0
        self._wanted: _Wanted = {}
        self._fetching: asyncio.Task[None] | None = None

    async def payment(self, payment_id: str) -> Payment | None:
        """The payment as it was committed last; None if there is none."""
        loop = asyncio.get_running_loop()
        if self._alone < self._at_once:
            if not self._alone:
                loop.call_soon(self._next_turn)
            self._alone += 1
            return await self._read(payments.one(payment_id))
        future: asyncio.Future[Payment | None] = loop.create_future()
        self._wanted.setdefault(payment_id, []).append(future)
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetch())
        return await future

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
