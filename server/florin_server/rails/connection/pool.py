"""The endpoints of one chain: which of them are good, and who is asked first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from florin_server.rails.connection.family import Family, Foreign
from florin_server.rails.connection.health import EndpointHealth
from florin_server.rails.connection.jsonrpc import JsonRpc, RateLimited
from florin_server.rails.types import NodeState, RailUnavailable

_LEAST_HEADS = 3  # from here on a single endpoint cannot make all others look late


@dataclass(slots=True)
class Endpoint:
    """One address, and how it does."""

    rpc: JsonRpc
    health: EndpointHealth
    probing: asyncio.Task[None] | None = None


class Pool:
    """Looks after endpoints in the order of preference.

    `agreement` of them must be good for anything to end. `now` tells monotonic seconds.
    """

    def __init__(
        self,
        rpcs: Mapping[str, JsonRpc],
        family: Family,
        *,
        agreement: int,
        trusted: bool,
        timeout_s: float,
        now: Callable[[], float],
    ) -> None:
        self.all = tuple(Endpoint(rpc, EndpointHealth(name)) for name, rpc in rpcs.items())
        self._family = family
        self._agreement = agreement
        self._trusted = trusted
        self._timeout_s = timeout_s
        self._now = now
        self._tasks: set[asyncio.Task[Any]] = set()

    def states(self) -> tuple[NodeState, ...]:
        """How each endpoint looks."""
        return tuple(one.health.state() for one in self.all)

    async def close(self) -> None:
        """Ends what is under way, and connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for one in self.all:
            await one.rpc.close()

    def order(self) -> list[Endpoint]:
        """Who may be asked, the best first."""
        now = self._now()
        usable = [one for one in self.all if one.health.usable(now)]
        fastest_s = min((one.health.latency_s for one in usable), default=0.0)
        return sorted(usable, key=lambda one: (one.health.left_out, one.health.poor(fastest_s)))

    def why_nobody(self) -> str:
        """Why nobody may be asked."""
        return "; ".join(f"{one.health.name} {one.health.problem}" for one in self.all)

    def _best_head(self) -> int:
        """How far the chain is; of many endpoints, one alone does not tell."""
        heads = sorted(one.health.head for one in self.all if not one.health.foreign)
        return heads[-2] if len(heads) >= _LEAST_HEADS else max(heads, default=0)

    def still_s(self) -> float:
        """For how long fewer than have to agree have told a new block; 0 if none is used.

        What one of them alone tells ends nothing, whether blocks come or not.
        """
        used = sorted(one.health.still_s for one in self.all if not one.health.left_out)
        return used[min(self._agreement, len(used)) - 1] if used else 0.0

    def tend(self) -> None:
        """Begins to look at the endpoints whose time has come."""
        if self._trusted:
            return
        now = self._now()
        short = sum(not one.health.left_out for one in self.all) < self._agreement
        for one in self.all:
            if one.probing is None and one.health.due(now, short=short):
                one.probing = self.started(self._probe(one))

    async def looked(self, seconds: float) -> None:
        """Returns when the looks under way are over, or after a time."""
        if looks := {one.probing for one in self.all if one.probing is not None}:
            await asyncio.wait(looks, timeout=seconds)

    async def prove(self, one: Endpoint) -> None:
        """Returns once an endpoint has said that it serves our chain."""
        if one.probing is None:
            one.probing = self.started(self._probe(one))
        # others may wait for the same
        await asyncio.shield(one.probing)
        if not one.health.proven:
            raise RailUnavailable(f"{one.health.name} {one.health.problem}")

    async def _probe(self, one: Endpoint) -> None:
        began = self._now()
        try:
            async with asyncio.timeout(self._timeout_s):
                answers = await one.rpc.batch(self._family.probe)
            head = self._family.inspected(answers)
        except Foreign as fault:
            one.health.is_foreign(self._now(), str(fault))
        except (RailUnavailable, TimeoutError) as fault:
            self.failed(one, fault)
        else:
            one.health.answered(self._now() - began)
            one.health.belongs(self._now())
            one.health.head = head
            one.health.at(self._now(), head, self._best_head(), self._family.allowed_lag())
        finally:
            one.probing = None

    def failed(self, one: Endpoint, fault: Exception) -> None:
        """An endpoint left a question unanswered."""
        text = str(fault).removeprefix(one.health.name).lstrip(": ") or "does not answer in time"
        retry_s = fault.retry_s if isinstance(fault, RateLimited) else None
        one.health.failed(self._now(), text, retry_s)

    def started(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Begins something that ends with the pool."""
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # nobody may have waited for it
