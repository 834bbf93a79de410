"""Several endpoints of one chain behave as one: the best is asked, the next when it fails.

All our reads may be repeated. An endpoint is used only after it said that it serves our chain, and
what it says is not believed when it is older than what was seen before: a load balancer may lead to
a node that lags behind. Transactions are handed to every endpoint.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

from florin_server.rails.connection.family import HEAD, Family, Seen, Stale
from florin_server.rails.connection.jsonrpc import (
    TIMEOUT_S,
    AnswerTooLarge,
    Call,
    JsonRpc,
    Rpc,
    RpcError,
)
from florin_server.rails.connection.pool import Endpoint, Pool
from florin_server.rails.types import NodeState, RailUnavailable

T = TypeVar("T")

# how often an endpoint is asked when it leads to nodes that lag; the next may be another one
_TURNS = 3
# of the time that is left, while others can be asked: who looks for options waits for 3 s
_SHARE = 4
# what an endpoint gets to confirm what others said; nothing else is settled meanwhile
_WITNESS_S = 3.0


@dataclass(slots=True)
class _Read:
    """A question on its way from endpoint to endpoint."""

    calls: Sequence[Call]
    single: bool
    deadline: float
    best: list[Any] | None = None  # answers of nodes that failed partly
    fault: RailUnavailable = field(default_factory=lambda: RailUnavailable("no endpoint to ask"))


class Endpoints:
    """Implements Rpc over endpoints in the order of preference.

    `agreement` is how many of them must say the same to end a payment. A `trusted` one is a node
    of this process, of which nothing is checked. `now` tells monotonic seconds.
    """

    def __init__(
        self,
        rpcs: Mapping[str, JsonRpc],
        family: Family,
        *,
        agreement: int = 1,
        trusted: bool = False,
        timeout_s: float = TIMEOUT_S,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = Pool(
            rpcs, family, agreement=agreement, trusted=trusted, timeout_s=timeout_s, now=now
        )
        self._family = family
        self._trusted = trusted
        self._timeout_s = timeout_s
        self._now = now
        self._seen = Seen()
        self.agreement = agreement

    @property
    def count(self) -> int:
        """How many endpoints there are."""
        return len(self._pool.all)

    @property
    def calls(self) -> int:
        """Methods called since the beginning."""
        return sum(one.rpc.calls for one in self._pool.all)

    @property
    def calls_by_method(self) -> Counter[str]:
        """Methods called since the beginning, of all endpoints, by name; at most 65 names each."""
        return sum((one.rpc.by_method for one in self._pool.all), Counter())

    @property
    def requests(self) -> int:
        """Payloads sent since the beginning."""
        return sum(one.rpc.requests for one in self._pool.all)

    @property
    def still_s(self) -> float:
        """For how many seconds fewer endpoints than have to agree have told a new block."""
        return self._pool.still_s()

    def states(self) -> tuple[NodeState, ...]:
        """How each endpoint looks, in the order of preference; none if it is trusted."""
        return () if self._trusted else self._pool.states()

    async def look(self) -> None:
        """Looks at the endpoints whose time has come, and waits a little for what they say."""
        self._pool.tend()
        await self._pool.looked(_WITNESS_S)

    async def call(self, method: str, *params: Any) -> Any:
        """Returns the result of one call; raises RpcError when the node refuses it."""
        if method in self._family.sends:
            return await self._send((method, params))
        (answer,) = await self._read([(method, params)], single=True)
        if isinstance(answer, RpcError):
            raise answer
        return answer

    async def batch(self, calls: Sequence[Call]) -> list[Any]:
        """Returns for each call its result or its RpcError, in the order asked."""
        return await self._read(calls, single=False) if calls else []

    async def several(self, ask: Callable[[Rpc], Awaitable[T]]) -> list[T]:
        """What as many endpoints answer as have to agree.

        RailUnavailable if fewer of them answer; those that are left out are not waited for.
        """
        self._pool.tend()
        waiting = [one for one in self._pool.order() if not one.health.left_out]
        answers: list[T] = []
        while len(answers) < self.agreement:
            missing = self.agreement - len(answers)
            asked, waiting = waiting[:missing], waiting[missing:]
            if not asked:
                raise RailUnavailable(
                    f"{len(answers)} endpoints answer, and {self.agreement} have to agree"
                )
            told = await asyncio.gather(*(self._witness(one, ask) for one in asked))
            answers += [answer for found in told for answer in found]
        return answers

    async def any_of(self, ask: Callable[[Rpc], Awaitable[T]]) -> T:
        """Return what the endpoints answer together, or else what one of them answers alone.

        An answer that cannot be used is no fault that a connection sees, so that the others would
        never be asked. RailUnavailable if no endpoint gives a useful answer.
        """
        try:
            return await ask(self)
        except AnswerTooLarge:
            raise
        except RailUnavailable as fault:
            first = fault
        others = self._pool.order() if len(self._pool.all) > 1 else []
        for one in others:
            try:
                async with asyncio.timeout(_WITNESS_S):
                    return await ask(_Only(self, one))
            except TimeoutError:
                one.health.failed(self._now(), "does not answer in time")
            except RailUnavailable:
                one.health.misled()
        raise first

    async def opinions(self, ask: Callable[[Rpc], Awaitable[T]]) -> list[T]:
        """Return what each endpoint answers by itself; those that do not answer are left out."""
        self._pool.tend()
        asked = self._pool.order()
        answers = await asyncio.gather(*(self._witness(one, ask) for one in asked))
        return [answer for found in answers for answer in found]

    async def close(self) -> None:
        """Ends what is under way, and connections."""
        await self._pool.close()

    # ---- asking

    async def _witness(self, one: Endpoint, ask: Callable[[Rpc], Awaitable[T]]) -> list[T]:
        """What one endpoint answers by itself; nothing if it does not answer."""
        try:
            async with asyncio.timeout(_WITNESS_S):
                return [await ask(_Only(self, one))]
        except TimeoutError:
            one.health.failed(self._now(), "does not answer in time")
        except RailUnavailable:
            pass
        return []

    async def _read(self, calls: Sequence[Call], *, single: bool) -> list[Any]:
        self._pool.tend()
        read = _Read(calls, single, asyncio.get_running_loop().time() + self._timeout_s)
        waiting = self._pool.order()
        if not waiting:
            raise RailUnavailable(self._pool.why_nobody())
        for _ in range(_TURNS):
            late = []
            for index, one in enumerate(waiting):
                answers = await self._try(one, read, others=len(waiting) - index - 1)
                if answers is not None:
                    return answers
                if isinstance(read.fault, Stale):
                    late.append(one)
            if not late:
                break
            waiting = late
        if read.best is not None:
            return read.best
        raise read.fault

    async def _try(self, one: Endpoint, read: _Read, others: int) -> list[Any] | None:
        """The answers of an endpoint; None if another one has to be asked, for the read's fault."""
        loop = asyncio.get_running_loop()
        left = read.deadline - loop.time()
        share = left / _SHARE if others else left
        try:
            async with asyncio.timeout(share):
                answers = await self.ask(
                    one, read.calls, single=read.single, floors=self._seen.heights()
                )
        except TimeoutError:
            one.health.failed(self._now(), "does not answer in time")
            read.fault = RailUnavailable(f"{one.health.name} did not answer in time")
            return None
        except AnswerTooLarge:
            raise
        except RailUnavailable as fault:
            read.fault = fault
            return None
        faults = self._faults(answers)
        if not faults or len(self._pool.all) == 1:
            return answers
        one.health.stumbled()
        if read.best is None or faults < self._faults(read.best):
            read.best = answers
        read.fault = RailUnavailable(f"{one.health.name} failed")
        return None

    def _faults(self, answers: Sequence[Any]) -> int:
        return sum(
            isinstance(answer, RpcError) and self._family.is_own_fault(answer) for answer in answers
        )

    async def ask(
        self,
        one: Endpoint,
        calls: Sequence[Call],
        *,
        single: bool,
        floors: Mapping[str, int] = MappingProxyType({}),
    ) -> list[Any]:
        """The answers of one endpoint, which must not be older than `floors`."""
        if self._trusted:
            return await _put(one.rpc, calls, single=single)
        if not one.health.proven:
            await self._pool.prove(one)
        guard = None if single or not floors else self._family.guard(calls)
        asked = [guard, *calls] if guard is not None else calls
        began = self._now()
        try:
            answers = await _put(one.rpc, asked, single=single)
        except asyncio.CancelledError:
            # who asked has given up, or the next endpoint is asked
            one.health.kept_waiting(self._now() - began)
            raise
        except AnswerTooLarge:
            raise
        except RailUnavailable as fault:
            self._pool.failed(one, fault)
            raise
        one.health.answered(self._now() - began)
        heights = self._family.heights(asked, answers)
        one.health.head = max(one.health.head, heights.get(HEAD, 0))
        if (behind := self._seen.behind(heights, floors, self._now())) > 0:
            raise Stale(f"{one.health.name} lags {behind} blocks behind what was seen")
        return answers[1:] if guard is not None else answers

    async def _send(self, call: Call) -> Any:
        """Hands a transaction to every endpoint; returns when the first one took it."""
        self._pool.tend()
        order = self._pool.order()
        if not order:
            raise RailUnavailable(self._pool.why_nobody())
        targets = [one for one in order if not one.health.left_out] or order
        waiting = {self._pool.started(self.ask(one, [call], single=True)) for one in targets}
        refusals: list[RpcError] = []
        fault = RailUnavailable("no endpoint took it")
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
        # one that has it already is as good as one that takes it
        raise next((one for one in refusals if self._family.has_it(one)), refusals[0])


class _Only:
    """One endpoint, asked by itself."""

    def __init__(self, endpoints: Endpoints, one: Endpoint) -> None:
        self._endpoints = endpoints
        self._one = one

    async def call(self, method: str, *params: Any) -> Any:
        """Returns the result of one call; raises RpcError when the node refuses it."""
        (answer,) = await self._endpoints.ask(self._one, [(method, params)], single=True)
        if isinstance(answer, RpcError):
            raise answer
        return answer

    async def batch(self, calls: Sequence[Call]) -> list[Any]:
        """Returns for each call its result or its RpcError, in the order asked."""
        return await self._endpoints.ask(self._one, calls, single=False) if calls else []


async def _put(rpc: JsonRpc, calls: Sequence[Call], *, single: bool) -> list[Any]:
    if not single:
        return await rpc.batch(calls)
    ((method, params),) = calls
    try:
        return [await rpc.call(method, *params)]
    except RpcError as refusal:
        return [refusal]
