"""The hot read: payments by id, however many callers ask at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from florin_server.domain.payments.payment import Payment
from florin_server.store.engine.query import Operation
from florin_server.store.payments import payments

_Read = Callable[[Operation[dict[str, Payment]]], Awaitable[dict[str, Payment]]]
_Wanted = dict[str, list[asyncio.Future[Payment | None]]]


class PaymentReader:
    """One SELECT for everybody who asks in the same turn of the event loop.

    Where reads are done `at_once` the first of a turn has one of its own: mostly it stays alone.
    """

    def __init__(self, read: _Read, *, at_once: bool = False) -> None:
        self._read = read
        self._at_once = at_once
        self._alone = True
        self._wanted: _Wanted = {}
        self._fetching: asyncio.Task[None] | None = None

    async def payment(self, payment_id: str) -> Payment | None:
        """The payment as it was committed last; None if there is none."""
        loop = asyncio.get_running_loop()
        if self._at_once and self._alone:
            self._alone = False
            loop.call_soon(self._next_turn)
            return (await self._read(payments.get((payment_id,)))).get(payment_id)
        future: asyncio.Future[Payment | None] = loop.create_future()
        self._wanted.setdefault(payment_id, []).append(future)
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetch())
        return await future

    def _next_turn(self) -> None:
        self._alone = True

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
