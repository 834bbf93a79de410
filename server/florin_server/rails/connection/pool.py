"""The endpoints of one chain, and the order in which they are asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from florin_server.domain.node_hours import NodeActivity, NodeErrorKind
from florin_server.rails.connection.health import EndpointHealth
from florin_server.rails.connection.jsonrpc import JsonRpcClient, NodeTimeout, RateLimited
from florin_server.rails.connection.node_dialect import NodeDialect, WrongChain
from florin_server.rails.types import NodeState, RailUnavailable

_HEADS_MIN = 3  # from this count on, a single endpoint cannot make all others appear late


@dataclass(slots=True)
class NodeEndpoint:
    """A single URL and its health."""

    rpc: JsonRpcClient
    health: EndpointHealth
    probe_task: asyncio.Task[None] | None = None


class EndpointPool:
    """Watch endpoints in the order of preference.

    `agreement` is the number of good endpoints that is needed to end a payment. `now` returns
    monotonic seconds.
    """

    def __init__(
        self,
        rpcs: Mapping[str, JsonRpcClient],
        dialect: NodeDialect,
        *,
        agreement: int,
        trusted: bool,
        timeout_s: float,
        now: Callable[[], float],
    ) -> None:
        self.endpoints = tuple(
            NodeEndpoint(rpc, EndpointHealth(name)) for name, rpc in rpcs.items()
        )
        self._dialect = dialect
        self._agreement = agreement
        self._trusted = trusted
        self._timeout_s = timeout_s
        self._now = now
        self._tasks: set[asyncio.Task[Any]] = set()

    def list_states(self) -> tuple[NodeState, ...]:
        """Return the state of each endpoint."""
        return tuple(endpoint.health.to_state() for endpoint in self.endpoints)

    def record_checks(self) -> None:
        """Count whether each endpoint is in use now."""
        for endpoint in self.endpoints:
            endpoint.health.record_check()

    def take_activities(self) -> dict[str, NodeActivity]:
        """Return by endpoint what was observed since the last time."""
        return {
            endpoint.health.name: endpoint.health.take_activity() for endpoint in self.endpoints
        }

    async def close(self) -> None:
        """Cancel pending work and close the connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for endpoint in self.endpoints:
            await endpoint.rpc.close()

    def list_usable(self) -> list[NodeEndpoint]:
        """Return the endpoints that can be asked, the best first."""
        now = self._now()
        usable = [endpoint for endpoint in self.endpoints if endpoint.health.is_usable(now)]
        fastest_s = min((endpoint.health.latency_s for endpoint in usable), default=0.0)
        return sorted(
            usable,
            key=lambda endpoint: (
                endpoint.health.is_excluded,
                endpoint.health.is_deprioritized(fastest_s),
            ),
        )

    def get_problem(self) -> str:
        """Return why no endpoint can be asked."""
        return "; ".join(
            f"{endpoint.health.name} {endpoint.health.problem}" for endpoint in self.endpoints
        )

    def _get_best_head(self) -> int:
        """Return the chain's head; among many endpoints, a single one is not believed."""
        heads = sorted(
            endpoint.health.head
            for endpoint in self.endpoints
            if not endpoint.health.is_wrong_chain
        )
        return heads[-2] if len(heads) >= _HEADS_MIN else max(heads, default=0)

    def get_stall_s(self) -> float:
        """Return for how many seconds fewer endpoints than the quorum saw a new block.

        0 if none is used.

        A single endpoint cannot end a payment, whether it reports blocks or not.
        """
        used = sorted(
            endpoint.health.stall_s
            for endpoint in self.endpoints
            if not endpoint.health.is_excluded
        )
        return used[min(self._agreement, len(used)) - 1] if used else 0.0

    def start_probes(self) -> None:
        """Start probes of the endpoints that are due."""
        if self._trusted:
            return
        now = self._now()
        short = (
            sum(not each_endpoint.health.is_excluded for each_endpoint in self.endpoints)
            < self._agreement
        )
        for endpoint in self.endpoints:
            if endpoint.probe_task is None and endpoint.health.is_due(now, is_short=short):
                endpoint.probe_task = self.start_task(self._probe(endpoint))

    async def wait_for_probes(self, seconds: float) -> None:
        """Return when the running probes are done, or after a timeout in seconds."""
        if looks := {
            endpoint.probe_task for endpoint in self.endpoints if endpoint.probe_task is not None
        }:
            await asyncio.wait(looks, timeout=seconds)

    async def require_proven(self, endpoint: NodeEndpoint) -> None:
        """Return once an endpoint confirmed that it serves our chain, or raise RailUnavailable."""
        if endpoint.probe_task is None:
            endpoint.probe_task = self.start_task(self._probe(endpoint))
        # other callers may wait for the same probe
        await asyncio.shield(endpoint.probe_task)
        if not endpoint.health.is_proven:
            raise RailUnavailable(f"{endpoint.health.name} {endpoint.health.problem}")

    async def _probe(self, endpoint: NodeEndpoint) -> None:
        began = self._now()
        try:
            async with asyncio.timeout(self._timeout_s):
                answers = await endpoint.rpc.batch(self._dialect.probe_calls)
            head = self._dialect.parse_probe(answers)
        except WrongChain as fault:
            endpoint.health.record_wrong_chain(self._now(), str(fault))
        except (RailUnavailable, TimeoutError) as fault:
            self.record_failure(endpoint, fault)
        else:
            endpoint.health.record_answer(self._now() - began)
            endpoint.health.record_chain_match(self._now())
            endpoint.health.head = head
            endpoint.health.record_head(
                self._now(), head, self._get_best_head(), self._dialect.get_allowed_lag()
            )
        finally:
            endpoint.probe_task = None

    def record_failure(self, endpoint: NodeEndpoint, fault: Exception) -> None:
        """Record that an endpoint did not answer a request."""
        text = (
            str(fault).removeprefix(endpoint.health.name).lstrip(": ") or "does not answer in time"
        )
        retry_s = fault.retry_s if isinstance(fault, RateLimited) else None
        endpoint.health.record_failure(self._now(), text, _get_error_kind(fault), retry_s)

    def start_task(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task that ends with the pool."""
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._finish_task)
        return task

    def _finish_task(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # retrieve the exception, as no caller may have waited for it


def _get_error_kind(fault: Exception) -> NodeErrorKind:
    if isinstance(fault, RateLimited):
        return NodeErrorKind.RATE_LIMITED
    if isinstance(fault, TimeoutError | NodeTimeout):
        return NodeErrorKind.TIMEOUTS
    return NodeErrorKind.UNREACHABLE
