"""Reads in the way that proved fastest on the node, and in another one when that fails.

Which ways work differs by node: some run no code without a contract, some limit batches, some
chains have no Multicall3. So each is tried and measured, and their answers are compared.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from florin_server.rails.evm.reading import reads
from florin_server.rails.evm.reading.node import Node
from florin_server.rails.evm.reading.reads import Answer, Question, Way
from florin_server.rails.evm.settings import MULTICALL3
from florin_server.rails.types import RailUnavailable

AUTO, DEPLOYLESS, BATCH = "auto", "deployless", "batch"
# fewer calls first: what nodes count, and charge for
WAYS: Final = (DEPLOYLESS, "multicall3", BATCH)

_TRIES: Final = 3  # the first one may find a node with cold caches
# a way with fewer calls may be so much slower; on a far node all take about the same time
_SLOWER: Final = 1.25
ATTEMPT_S: Final = 1.0  # leaves the other ways their share of what a buyer waits
PROBE_PAUSE_S: Final = 30.0  # a node that fails often is not to be asked still more

_log = logging.getLogger(__name__)


def ways(multicall: str = MULTICALL3) -> Mapping[str, Way]:
    """The ways to read a chain, with the address of its Multicall3."""
    return {
        DEPLOYLESS: reads.deployless,
        "multicall3": reads.multicall3(multicall),
        BATCH: reads.batch,
    }


class Reader:
    """Answers questions about one chain. `order` are the ways that it uses, the best first.

    `ways` are those that there are, by name. `way` is the one to use, or `auto`: then one payload
    of single calls is what it begins with. `timer` tells seconds.
    """

    def __init__(
        self,
        node: Node,
        name: str,
        ways: Mapping[str, Way],
        *,
        way: str = AUTO,
        timer: Callable[[], float] = time.monotonic,
        pause_s: float = PROBE_PAUSE_S,
        attempt_s: float = ATTEMPT_S,
    ) -> None:
        self._node = node
        self._name = name
        self._ways = ways
        self.order: tuple[str, ...] = (BATCH,) if way == AUTO else (way,)
        self._fixed = way != AUTO
        self._timer = timer
        self._pause_s = pause_s
        self._attempt_s = attempt_s
        self._sample: Sequence[Question] = ()
        self._probed_at: float | None = None
        self._checking: asyncio.Task[None] | None = None
        self._probing: asyncio.Task[None] | None = None

    @property
    def probed(self) -> bool:
        """True if there is nothing to find out."""
        return self._fixed or self._probed_at is not None

    async def read(self, questions: Sequence[Question]) -> list[Answer]:
        """An answer for each question; RailUnavailable if no way led to them."""
        if not questions:
            return []
        order = self.order
        for name in order[:-1]:
            try:
                async with asyncio.timeout(self._attempt_s):
                    return await self._ways[name](self._node, questions)
            except (RailUnavailable, TimeoutError) as fault:
                self._failed(name, fault, questions)
        try:
            return await self._ways[order[-1]](self._node, questions)
        except RailUnavailable:
            self._probe_later()
            raise

    async def probe(self, sample: Sequence[Question]) -> None:
        """Tries every way on questions whose answers hardly change, and orders those that work."""
        self._sample = sample
        if not self._fixed:
            await self._probe()

    async def close(self) -> None:
        """Ends a check and a probe under way."""
        for task in (self._checking, self._probing):
            if task is not None:
                task.cancel()
                await asyncio.wait((task,))

    async def _probe(self) -> None:
        self._probed_at = self._timer()
        took: dict[str, float] = {}
        told: dict[str, list[Answer]] = {}
        for name in reversed(WAYS):
            try:
                took[name], told[name] = await self._try(name)
            except (RailUnavailable, TimeoutError) as fault:
                _log.info("%s cannot be read by %s: %s", self._name, name, fault)
        if not told:
            return
        # the first that worked needs the least: calls that every node knows
        truth = next(iter(told.values()))
        for name in [name for name, answers in told.items() if answers != truth]:
            _log.warning("%s: reading by %s gives other answers", self._name, name)
            del took[name]
        fastest = min(took.values())
        best = next(name for name in WAYS if took.get(name, fastest * 9) <= fastest * _SLOWER)
        others = sorted((one for one in WAYS if one in took and one != best), key=took.__getitem__)
        self.order = (best, *others)
        _log.info("%s is read by %s", self._name, best)

    async def _try(self, name: str) -> tuple[float, list[Answer]]:
        """The least of some times that a way took, and its answers."""
        times = []
        answers: list[Answer] = []
        async with asyncio.timeout(self._attempt_s * _TRIES):
            for _ in range(_TRIES):
                started = self._timer()
                answers = await self._ways[name](self._node, self._sample)
                times.append(self._timer() - started)
        return min(times), answers

    def _failed(self, name: str, fault: Exception, questions: Sequence[Question]) -> None:
        """A way did not lead to answers.

        Where accounts were asked that anybody may have named, one of them may be to blame: the way
        loses its place only if it fails on the sample too, which nobody chose.
        """
        if not self._sample or all(one.of is None for one in questions):
            self._demote(name, fault)
        elif self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._check(name, fault))

    async def _check(self, name: str, fault: Exception) -> None:
        try:
            async with asyncio.timeout(self._attempt_s):
                await self._ways[name](self._node, self._sample)
        except (RailUnavailable, TimeoutError):
            self._demote(name, fault)

    def _demote(self, name: str, fault: Exception) -> None:
        _log.warning("%s could not be read by %s: %s", self._name, name, fault)
        if self.order[0] == name:
            self.order = (*self.order[1:], name)
        self._probe_later()

    def _probe_later(self) -> None:
        """Finds out again what works, not too often."""
        if self._fixed or not self._sample:
            return
        if self._probing is None or self._probing.done():
            self._probing = asyncio.create_task(self._probe_again())

    async def _probe_again(self) -> None:
        since = self._timer() - (self._probed_at or 0.0)
        await asyncio.sleep(max(0.0, self._pause_s - since))
        await self._probe()
