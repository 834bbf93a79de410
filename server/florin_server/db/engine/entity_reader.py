"""The hot read path: entities by id, batched over concurrent callers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Generic, Protocol

from florin_server.db.engine.entity_cache import E, EntityCache
from florin_server.db.engine.query import Operation, T


class OperationReader(Protocol):
    """A runner of read-only operations."""

    def __call__(self, op: Operation[T], /) -> Awaitable[T]:
        """Run one operation."""


@dataclass(frozen=True, slots=True)
class EntityQueries(Generic[E]):
    """Queries for entities of a table by id: one, and those of many ids that exist."""

    table: str
    find: Callable[[str], Operation[E | None]]
    find_many: Callable[[Collection[str]], Operation[dict[str, E]]]


class EntityReader(Generic[E]):
    """One SELECT for all callers of one turn of the event loop.

    Where a read is finished at once, the first `immediate_reads` callers of a turn read alone:
    waiting for others would cost more than their share of the SELECT. A cached entity is not read
    at all.
    """

    def __init__(
        self,
        read: OperationReader,
        queries: EntityQueries[E],
        *,
        immediate_reads: int = 0,
        cache: EntityCache[E] | None = None,
    ) -> None:
        self._read = read
        self._queries = queries
        self._at_once = immediate_reads
        self._cache = cache
        self._alone = 0
        self._pending: dict[str, list[asyncio.Future[E | None]]] = {}
        self._fetching: asyncio.Task[None] | None = None

    async def find(self, entity_id: str, may_see: Callable[[E], bool] | None = None) -> E | None:
        """Return the entity as last committed; None if it does not exist.

        A caller that must not see it gets an uncached read, so that the duration does not reveal
        whether the entity exists. The caller decides on the response.
        """
        entity = self._cache.find(entity_id) if self._cache is not None else None
        if entity is not None and (may_see is None or may_see(entity)):
            return entity
        loop = asyncio.get_running_loop()
        if self._alone < self._at_once:
            if not self._alone:
                loop.call_soon(self._next_turn)
            self._alone += 1
            return await self._read_entity(entity_id)
        future: asyncio.Future[E | None] = loop.create_future()
        self._pending.setdefault(entity_id, []).append(future)
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetch())
        return await future

    async def _read_entity(self, entity_id: str) -> E | None:
        changes = self._cache.changes if self._cache is not None else 0
        entity = await self._read(self._queries.find(entity_id))
        if self._cache is not None and entity is not None:
            self._cache.put(entity, changes)
        return entity

    def _next_turn(self) -> None:
        self._alone = 0

    async def _fetch(self) -> None:
        try:
            while self._pending:
                futures, self._pending = self._pending, {}
                await self._resolve(futures)
        finally:
            self._fetching = None

    async def _resolve(self, pending: dict[str, list[asyncio.Future[E | None]]]) -> None:
        entities: dict[str, E] = {}
        error: Exception | None = None
        try:
            entities = await self._read(self._queries.find_many(pending))
        except Exception as failed:  # noqa: BLE001  (every caller receives it)
            error = failed
        for entity_id, futures in pending.items():
            for future in futures:
                if future.done():  # its caller was cancelled
                    continue
                if error is None:
                    future.set_result(entities.get(entity_id))
                else:
                    future.set_exception(error)
