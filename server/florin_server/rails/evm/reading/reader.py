"""Reads by the strategy that proved fastest on the node, and by another if that fails.

The working strategies differ by node: some nodes run no code without a contract, some limit
batches, and some chains have no Multicall3. Each strategy is therefore tried and measured, and
their answers are compared.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from florin_server.rails.evm.reading import reads
from florin_server.rails.evm.reading.node import EvmNode
from florin_server.rails.evm.reading.reads import ContractAnswer, ContractQuestion, ReadStrategy
from florin_server.rails.evm.settings import MULTICALL3
from florin_server.rails.types import RailUnavailable

AUTO, DEPLOYLESS, BATCH = "auto", "deployless", "batch"
# fewer calls first: nodes count calls, and charge for them
STRATEGY_NAMES: Final = (DEPLOYLESS, "multicall3", BATCH)

_PROBE_ATTEMPTS: Final = 3  # the first attempt may find a node with cold caches
# allowed slowdown of a strategy with fewer calls; on a distant node all are about as fast
_SLOWER_FACTOR: Final = 1.25
ATTEMPT_S: Final = 1.0  # leaves the other strategies a share of the time that a buyer waits
PROBE_PAUSE_S: Final = 30.0  # a node that fails often gets no more probes than this

_log = logging.getLogger(__name__)


def list_strategies(multicall: str = MULTICALL3) -> Mapping[str, ReadStrategy]:
    """Return the strategies to read a chain, given the address of its Multicall3."""
    return {
        DEPLOYLESS: reads.read_deployless,
        "multicall3": reads.create_multicall3_strategy(multicall),
        BATCH: reads.read_batch,
    }


class EvmReader:
    """Answer questions about one chain; `order` lists the strategies in use, the best first.

    `strategies` are the available strategies by name. `strategy` is the strategy to use, or
    `auto`, which starts with one payload of single calls. `timer` returns seconds.
    """

    def __init__(
        self,
        node: EvmNode,
        name: str,
        strategies: Mapping[str, ReadStrategy],
        *,
        strategy: str = AUTO,
        timer: Callable[[], float] = time.monotonic,
        pause_s: float = PROBE_PAUSE_S,
        attempt_s: float = ATTEMPT_S,
    ) -> None:
        self._node = node
        self._name = name
        self._strategies = strategies
        self.strategy_order: tuple[str, ...] = (BATCH,) if strategy == AUTO else (strategy,)
        self._is_fixed = strategy != AUTO
        self._timer = timer
        self._pause_s = pause_s
        self._attempt_s = attempt_s
        self._sample: Sequence[ContractQuestion] = ()
        self._probed_at: float | None = None
        self._check_task: asyncio.Task[None] | None = None
        self._probe_task: asyncio.Task[None] | None = None

    @property
    def is_probed(self) -> bool:
        """Return True if no probe is needed."""
        return self._is_fixed or self._probed_at is not None

    async def read(self, questions: Sequence[ContractQuestion]) -> list[ContractAnswer]:
        """Return an answer for each question; raise RailUnavailable if every strategy failed."""
        if not questions:
            return []
        order = self.strategy_order
        for name in order[:-1]:
            try:
                async with asyncio.timeout(self._attempt_s):
                    return await self._strategies[name](self._node, questions)
            except (RailUnavailable, TimeoutError) as fault:
                self._record_failure(name, fault, questions)
        try:
            return await self._strategies[order[-1]](self._node, questions)
        except RailUnavailable:
            self._schedule_probe()
            raise

    async def probe(self, sample: Sequence[ContractQuestion]) -> None:
        """Try every strategy on questions with stable answers, and order the working strategies."""
        self._sample = sample
        if not self._is_fixed:
            await self._probe()

    async def close(self) -> None:
        """Cancel a running check and a running probe."""
        for task in (self._check_task, self._probe_task):
            if task is not None:
                task.cancel()
                await asyncio.wait((task,))

    async def _probe(self) -> None:
        self._probed_at = self._timer()
        took: dict[str, float] = {}
        answers_by_strategy: dict[str, list[ContractAnswer]] = {}
        for name in reversed(STRATEGY_NAMES):
            try:
                took[name], answers_by_strategy[name] = await self._measure(name)
            except (RailUnavailable, TimeoutError) as fault:
                _log.info("%s cannot be read by %s: %s", self._name, name, fault)
        if not answers_by_strategy:
            return
        # the first that worked needs the least: calls that every node supports
        truth = next(iter(answers_by_strategy.values()))
        for name in [name for name, answers in answers_by_strategy.items() if answers != truth]:
            _log.warning("%s: reading by %s returns different answers", self._name, name)
            del took[name]
        fastest = min(took.values())
        best = next(
            name
            for name in STRATEGY_NAMES
            if took.get(name, fastest * 9) <= fastest * _SLOWER_FACTOR
        )
        other_strategies = sorted(
            (strategy for strategy in STRATEGY_NAMES if strategy in took and strategy != best),
            key=took.__getitem__,
        )
        self.strategy_order = (best, *other_strategies)
        _log.info("%s is read by %s", self._name, best)

    async def _measure(self, name: str) -> tuple[float, list[ContractAnswer]]:
        """Return a strategy's best time in seconds, and its answers."""
        times = []
        answers: list[ContractAnswer] = []
        async with asyncio.timeout(self._attempt_s * _PROBE_ATTEMPTS):
            for _ in range(_PROBE_ATTEMPTS):
                started = self._timer()
                answers = await self._strategies[name](self._node, self._sample)
                times.append(self._timer() - started)
        return min(times), answers

    def _record_failure(
        self, name: str, fault: Exception, questions: Sequence[ContractQuestion]
    ) -> None:
        """Handle the failure of a strategy.

        If the questions concerned accounts that anyone can name, such an account may be the cause.
        The strategy then loses its place only if it also fails on the sample, which no outsider
        chose.
        """
        if not self._sample or all(question.owner is None for question in questions):
            self._demote(name, fault)
        elif self._check_task is None or self._check_task.done():
            self._check_task = asyncio.create_task(self._check(name, fault))

    async def _check(self, name: str, fault: Exception) -> None:
        try:
            async with asyncio.timeout(self._attempt_s):
                await self._strategies[name](self._node, self._sample)
        except (RailUnavailable, TimeoutError):
            self._demote(name, fault)

    def _demote(self, name: str, fault: Exception) -> None:
        _log.warning("%s could not be read by %s: %s", self._name, name, fault)
        if self.strategy_order[0] == name:
            self.strategy_order = (*self.strategy_order[1:], name)
        self._schedule_probe()

    def _schedule_probe(self) -> None:
        """Schedule a new probe, with a minimum pause between probes."""
        if self._is_fixed or not self._sample:
            return
        if self._probe_task is None or self._probe_task.done():
            self._probe_task = asyncio.create_task(self._probe_again())

    async def _probe_again(self) -> None:
        since = self._timer() - (self._probed_at or 0.0)
        await asyncio.sleep(max(0.0, self._pause_s - since))
        await self._probe()
