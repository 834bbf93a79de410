"""The hot read path: payments by id, batched over concurrent callers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from florin_server.db.engine.query import Operation, T
from florin_server.domain.payments.payment import Payment
from florin_server.money.payments.store import payments
from florin_server.money.payments.store.cache import PaymentCache

_PendingReads = dict[str, list[asyncio.Future[Payment | None]]]


class OperationReader(Protocol):
    """A runner of read-only operations."""

    def __call__(self, op: Operation[T], /) -> Awaitable[T]:
        """Run one operation."""


class PaymentReader:
    """One SELECT for all callers of one turn of the event loop.

    Where a read is finished at once, the first `immediate_reads` callers of a turn read alone:
    waiting for others would cost more than their share of the SELECT. A cached payment is not read
    at all.
    """

    def __init__(
        self, read: OperationReader, *, immediate_reads: int = 0, cache: PaymentCache | None = None
    ) -> None:
        self._read = read
        self._at_once = immediate_reads
        self._cache = cache
        self._alone = 0
        self._wanted: _PendingReads = {}
        self._fetching: asyncio.Task[None] | None = None

    async def find_payment(
        self, payment_id: str, may_see: Callable[[Payment], bool] | None = None
    ) -> Payment | None:
        """Return the payment as last committed; None if it does not exist.

        A caller that must not see it gets an uncached read, so that the duration does not reveal
        whether the payment exists. The caller decides on the response.
        """
        payment = self._cache.find(payment_id) if self._cache is not None else None
        if payment is not None and (may_see is None or may_see(payment)):
            return payment
        loop = asyncio.get_running_loop()
        if self._alone < self._at_once:
            if not self._alone:
                loop.call_soon(self._next_turn)
            self._alone += 1
            return await self._read_payment(payment_id)
        future: asyncio.Future[Payment | None] = loop.create_future()
        self._wanted.setdefault(payment_id, []).append(future)
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetch())
        return await future

    async def _read_payment(self, payment_id: str) -> Payment | None:
        changes = self._cache.changes if self._cache is not None else 0
        payment = await self._read(payments.find(payment_id))
        if self._cache is not None and payment is not None:
            self._cache.put(payment, changes)
        return payment

    def _next_turn(self) -> None:
        self._alone = 0

    async def _fetch(self) -> None:
        try:
            while self._wanted:
                futures, self._wanted = self._wanted, {}
                await self._resolve(futures)
        finally:
            self._fetching = None

    async def _resolve(self, expected_futures: _PendingReads) -> None:
        found_payments: dict[str, Payment] = {}
        error: Exception | None = None
        try:
            found_payments = await self._read(payments.find_many(expected_futures))
        except Exception as failed:  # noqa: BLE001  (every caller receives it)
            error = failed
        for payment_id, futures in expected_futures.items():
            for future in futures:
                if future.done():  # its caller was cancelled
                    continue
                if error is None:
                    future.set_result(found_payments.get(payment_id))
                else:
                    future.set_exception(error)
