"""Several endpoints of one chain that behave as one: the best is asked, and the next if it fails.

All our reads can be repeated. An endpoint is used only after it confirmed that it serves our chain.
An answer older than what was already seen is rejected, because a load balancer may lead to a node
that lags behind. Transactions are sent to every endpoint.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

from florin_server.domain.node_hours import NodeActivity
from florin_server.rails.connection.jsonrpc import (
    TIMEOUT_S,
    AnswerTooLarge,
    ChainRpc,
    JsonRpcClient,
    RpcCall,
    RpcError,
)
from florin_server.rails.connection.node_dialect import (
    HEAD,
    HeightTracker,
    NodeDialect,
    StaleNode,
)
from florin_server.rails.connection.pool import EndpointPool, NodeEndpoint
from florin_server.rails.types import NodeState, RailUnavailable

T = TypeVar("T")

# attempts at an endpoint that leads to lagging nodes; the next attempt may reach another node
_ATTEMPTS_MAX = 3
# share of the remaining time while other endpoints can be asked: buyers wait 3 s for options
_SHARE = 4
# time an endpoint gets to confirm the others' answers; no other settlement proceeds meanwhile
_QUORUM_TIMEOUT_S = 3.0


@dataclass(slots=True)
class _PendingRead:
    """A read on its way from endpoint to endpoint."""

    calls: Sequence[RpcCall]
    is_single: bool
    deadline: float
    best_answers: list[Any] | None = None  # answers of nodes that failed in part
    fault: RailUnavailable = field(default_factory=lambda: RailUnavailable("no endpoint to ask"))


class FailoverRpc:
    """Implement the ChainRpc protocol over endpoints in the order of preference.

    `agreement` is the number of endpoints that must return the same to end a payment. A `trusted`
    endpoint is a node of this process, which is not checked. `now` returns monotonic seconds.
    """

    def __init__(
        self,
        rpcs: Mapping[str, JsonRpcClient],
        dialect: NodeDialect,
        *,
        agreement: int = 1,
        trusted: bool = False,
        timeout_s: float = TIMEOUT_S,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = EndpointPool(
            rpcs, dialect, agreement=agreement, trusted=trusted, timeout_s=timeout_s, now=now
        )
        self._dialect = dialect
        self._trusted = trusted
        self._timeout_s = timeout_s
        self._now = now
        self._heights = HeightTracker()
        self.agreement = agreement

    @property
    def endpoint_count(self) -> int:
        """Return the number of endpoints."""
        return len(self._pool.endpoints)

    @property
    def call_count(self) -> int:
        """Return the number of methods called since the start."""
        return sum(endpoint.rpc.call_count for endpoint in self._pool.endpoints)

    @property
    def calls_by_method(self) -> Counter[str]:
        """Return the calls since the start by method name, over all endpoints.

        At most 65 names each.
        """
        return sum((endpoint.rpc.calls_by_method for endpoint in self._pool.endpoints), Counter())

    @property
    def request_count(self) -> int:
        """Return the number of payloads sent since the start."""
        return sum(endpoint.rpc.request_count for endpoint in self._pool.endpoints)

    @property
    def stall_s(self) -> float:
        """Return for how many seconds fewer endpoints than the quorum reported a new block."""
        return self._pool.get_stall_s()

    def list_states(self) -> tuple[NodeState, ...]:
        """Return the state of each endpoint, in the order of preference; none if it is trusted."""
        return () if self._trusted else self._pool.list_states()

    def record_checks(self) -> None:
        """Count whether each endpoint is in use now; nothing if it is trusted."""
        if not self._trusted:
            self._pool.record_checks()

    def take_activities(self) -> dict[str, NodeActivity]:
        """Return by endpoint what was observed since the last time; nothing if it is trusted."""
        return {} if self._trusted else self._pool.take_activities()

    async def probe_due(self) -> None:
        """Probe the endpoints that are due, and wait briefly for their answers."""
        self._pool.start_probes()
        await self._pool.wait_for_probes(_QUORUM_TIMEOUT_S)

    async def call(self, method: str, *params: Any) -> Any:
        """Return the result of one call; raise RpcError if the node refuses it."""
        if method in self._dialect.broadcast_methods:
            return await self._send((method, params))
        (answer,) = await self._read([(method, params)], single=True)
        if isinstance(answer, RpcError):
            raise answer
        return answer

    async def batch(self, calls: Sequence[RpcCall]) -> list[Any]:
        """Return the result or the RpcError of each call, in the order of the calls."""
        return await self._read(calls, single=False) if calls else []

    async def ask_quorum(self, ask: Callable[[ChainRpc], Awaitable[T]]) -> list[T]:
        """Return the answers of as many endpoints as must agree.

        Raise RailUnavailable if fewer endpoints answer. Endpoints that are left out are not asked.
        """
        self._pool.start_probes()
        waiting = [
            endpoint for endpoint in self._pool.list_usable() if not endpoint.health.is_excluded
        ]
        answers: list[T] = []
        while len(answers) < self.agreement:
            missing = self.agreement - len(answers)
            endpoints, waiting = waiting[:missing], waiting[missing:]
            if not endpoints:
                raise RailUnavailable(
                    f"{len(answers)} endpoints answer, but {self.agreement} must agree"
                )
            answer_lists = await asyncio.gather(
                *(self._ask_alone(endpoint, ask) for endpoint in endpoints)
            )
            answers += [answer for endpoint_answers in answer_lists for answer in endpoint_answers]
        return answers

    async def ask_together_or_each(self, ask: Callable[[ChainRpc], Awaitable[T]]) -> T:
        """Return the answer of the endpoints together, or else that of a single endpoint.

        A connection does not detect an unusable answer, so it would never ask the other endpoints.
        Raise RailUnavailable if no endpoint returns a usable answer.
        """
        try:
            return await ask(self)
        except AnswerTooLarge:
            raise
        except RailUnavailable as fault:
            first = fault
        endpoints = self._pool.list_usable() if len(self._pool.endpoints) > 1 else []
        for endpoint in endpoints:
            try:
                async with asyncio.timeout(_QUORUM_TIMEOUT_S):
                    return await ask(_SingleEndpointRpc(self, endpoint))
            except TimeoutError:
                endpoint.health.record_timeout(self._now())
            except RailUnavailable:
                endpoint.health.record_unusable_answer()
        raise first

    async def ask_each(self, ask: Callable[[ChainRpc], Awaitable[T]]) -> list[T]:
        """Return the answer of each endpoint asked separately, without those that do not answer."""
        self._pool.start_probes()
        endpoints = self._pool.list_usable()
        answers = await asyncio.gather(*(self._ask_alone(endpoint, ask) for endpoint in endpoints))
        return [answer for endpoint_answers in answers for answer in endpoint_answers]

    async def close(self) -> None:
        """Cancel pending work and close the connections."""
        await self._pool.close()

    # ---- reads

    async def _ask_alone(
        self, endpoint: NodeEndpoint, ask: Callable[[ChainRpc], Awaitable[T]]
    ) -> list[T]:
        """Return the answer of a single endpoint in a list; an empty list if it does not answer."""
        try:
            async with asyncio.timeout(_QUORUM_TIMEOUT_S):
                return [await ask(_SingleEndpointRpc(self, endpoint))]
        except TimeoutError:
            endpoint.health.record_timeout(self._now())
        except RailUnavailable:
            pass
        return []

    async def _read(self, calls: Sequence[RpcCall], *, single: bool) -> list[Any]:
        self._pool.start_probes()
        read = _PendingRead(calls, single, asyncio.get_running_loop().time() + self._timeout_s)
        waiting = self._pool.list_usable()
        if not waiting:
            raise RailUnavailable(self._pool.get_problem())
        for _ in range(_ATTEMPTS_MAX):
            late = []
            for index, endpoint in enumerate(waiting):
                answers = await self._try(endpoint, read, other_count=len(waiting) - index - 1)
                if answers is not None:
                    return answers
                if isinstance(read.fault, StaleNode):
                    late.append(endpoint)
            if not late:
                break
            waiting = late
        if read.best_answers is not None:
            return read.best_answers
        raise read.fault

    async def _try(
        self, endpoint: NodeEndpoint, read: _PendingRead, other_count: int
    ) -> list[Any] | None:
        """Return an endpoint's answers.

        None if the next must be asked, with the reason in `read.fault`.
        """
        loop = asyncio.get_running_loop()
        left = read.deadline - loop.time()
        share = left / _SHARE if other_count else left
        try:
            async with asyncio.timeout(share):
                answers = await self.ask_endpoint(
                    endpoint, read.calls, single=read.is_single, floors=self._heights.list_floors()
                )
        except TimeoutError:
            endpoint.health.record_timeout(self._now())
            read.fault = RailUnavailable(f"{endpoint.health.name} did not answer in time")
            return None
        except AnswerTooLarge:
            raise
        except RailUnavailable as fault:
            read.fault = fault
            return None
        faults = self._count_faults(answers)
        if not faults or len(self._pool.endpoints) == 1:
            return answers
        endpoint.health.record_error()
        if read.best_answers is None or faults < self._count_faults(read.best_answers):
            read.best_answers = answers
        read.fault = RailUnavailable(f"{endpoint.health.name} failed")
        return None

    def _count_faults(self, answers: Sequence[Any]) -> int:
        return sum(
            isinstance(answer, RpcError) and self._dialect.is_node_fault(answer)
            for answer in answers
        )

    async def ask_endpoint(
        self,
        endpoint: NodeEndpoint,
        calls: Sequence[RpcCall],
        *,
        single: bool,
        floors: Mapping[str, int] = MappingProxyType({}),
    ) -> list[Any]:
        """Return the answers of one endpoint; raise StaleNode if they are older than `floors`."""
        if self._trusted:
            return await _send_calls(endpoint.rpc, calls, single=single)
        if not endpoint.health.is_proven:
            await self._pool.require_proven(endpoint)
        guard = None if single or not floors else self._dialect.find_height_call(calls)
        guarded_calls = [guard, *calls] if guard is not None else calls
        began = self._now()
        try:
            answers = await _send_calls(endpoint.rpc, guarded_calls, single=single)
        except asyncio.CancelledError:
            # the caller gave up, or the next endpoint is asked
            endpoint.health.record_abandoned(self._now() - began)
            raise
        except AnswerTooLarge:
            raise
        except RailUnavailable as fault:
            self._pool.record_failure(endpoint, fault)
            raise
        endpoint.health.record_answer(self._now() - began)
        heights = self._dialect.parse_heights(guarded_calls, answers)
        endpoint.health.head = max(endpoint.health.head, heights.get(HEAD, 0))
        if (behind := self._heights.record_heights(heights, floors, self._now())) > 0:
            endpoint.health.record_stale_answer()
            raise StaleNode(f"{endpoint.health.name} lags {behind} blocks behind what was seen")
        return answers[1:] if guard is not None else answers

    async def _send(self, call: RpcCall) -> Any:
        """Send a transaction to every endpoint; return when the first accepts it."""
        self._pool.start_probes()
        order = self._pool.list_usable()
        if not order:
            raise RailUnavailable(self._pool.get_problem())
        targets = [endpoint for endpoint in order if not endpoint.health.is_excluded] or order
        waiting = {
            self._pool.start_task(self.ask_endpoint(endpoint, [call], single=True))
            for endpoint in targets
        }
        refusals: list[RpcError] = []
        fault = RailUnavailable("no endpoint accepted it")
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                try:
                    (answer,) = task.result()
                except RailUnavailable as lost:
                    fault = lost
                    continue
                if not isinstance(answer, RpcError):
                    return answer
                refusals.append(answer)
        if not refusals:
            raise fault
        # a node that already has the transaction is as good as a node that accepts it
        raise next(
            (error for error in refusals if self._dialect.is_already_known(error)), refusals[0]
        )


class _SingleEndpointRpc:
    """A single endpoint, asked separately."""

    def __init__(self, endpoints: FailoverRpc, endpoint: NodeEndpoint) -> None:
        self._endpoints = endpoints
        self._endpoint = endpoint

    async def call(self, method: str, *params: Any) -> Any:
        """Return the result of one call; raise RpcError if the node refuses it."""
        (answer,) = await self._endpoints.ask_endpoint(
            self._endpoint, [(method, params)], single=True
        )
        if isinstance(answer, RpcError):
            raise answer
        return answer

    async def batch(self, calls: Sequence[RpcCall]) -> list[Any]:
        """Return the result or the RpcError of each call, in the order of the calls."""
        return (
            await self._endpoints.ask_endpoint(self._endpoint, calls, single=False) if calls else []
        )


async def _send_calls(rpc: JsonRpcClient, calls: Sequence[RpcCall], *, single: bool) -> list[Any]:
    if not single:
        return await rpc.batch(calls)
    ((method, params),) = calls
    try:
        return [await rpc.call(method, *params)]
    except RpcError as refusal:
        return [refusal]
