"""A day of payments in an installation, without a clock and without a random result.

A payment passes four queues, first in first out: the service's processors, PostgreSQL's, nodes that
simulate it, and blocks of its chain, where relayers' keys and gas are scarce. Steps are seconds,
and payments are whole. Nothing is refused: waiting payments are counted, and a payment that waited
longer than its lifetime is late.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from florin_server.domain.capacity.model import (
    DATABASE,
    GAS,
    NODE,
    SERVICE,
    Costs,
    Demand,
    Installation,
)

# a payment expires after that, unless its merchant sets another time
EXPIRY_S: Final = 900
# between two looks at the queues
BACKLOG_STEP_S: Final = 10


class Queue:
    """Payments that wait for one resource, by the second of their arrival."""

    def __init__(self, per_step: float) -> None:
        self.per_step = per_step
        self.waiting = 0
        self.longest = 0
        self.done = 0
        self.steps = 0
        self._cohorts: deque[tuple[int, int]] = deque()
        self._credit = 0.0

    def put(self, arrived_s: int, count: int) -> None:
        """Add payments of one arrival."""
        if count:
            self._cohorts.append((arrived_s, count))
            self.waiting += count

    def take(self, *, works: bool = True) -> list[tuple[int, int]]:
        """Take what one step handles, oldest first; the started part of a payment stays.

        A resource that is down does nothing, and saves up nothing.
        """
        self.steps += 1
        taken = []
        room = 0
        if works:
            self._credit += self.per_step
            room = min(int(self._credit), self.waiting)
            # unused capacity is lost: at most a part of one payment is carried over
            self._credit = min(self._credit - room, 1.0)
        self.waiting -= room
        self.done += room
        self.longest = max(self.longest, self.waiting)
        while room:
            arrived_s, count = self._cohorts[0]
            if count <= room:
                self._cohorts.popleft()
            else:
                self._cohorts[0] = arrived_s, count - room
            taken.append((arrived_s, min(count, room)))
            room -= taken[-1][1]
        return taken

    @property
    def busy(self) -> float:
        """Return the used share of the capacity."""
        return self.done / (self.steps * self.per_step) if self.steps else 0.0

    def list_waiting(self) -> list[tuple[int, int]]:
        """Return the payments that still wait."""
        return list(self._cohorts)


@dataclass(slots=True)
class SimulatedDay:
    """The results of a day of payments; `waits` counts payments by seconds of waiting.

    `backlog` has the payments that wait for each resource, every `BACKLOG_STEP_S` seconds.
    """

    arrived: int = 0
    waits: Counter[int] = field(default_factory=Counter)
    # payment-seconds of waiting, added step by step
    waited: int = 0
    left: int = 0
    left_waits: int = 0
    busy: dict[str, float] = field(default_factory=dict)
    longest: dict[str, int] = field(default_factory=dict)
    backlog: list[Mapping[str, int]] = field(default_factory=list)

    @property
    def settled(self) -> int:
        """Return the payments that are in a block."""
        return self.waits.total()

    @property
    def late(self) -> int:
        """Return the payments settled after their expiry."""
        return sum(count for wait, count in self.waits.items() if wait > EXPIRY_S)

    def quantile_s(self, percent: int) -> int:
        """Return the longest wait of this percentage of payments, in seconds."""
        expected, so_far = self.settled * percent / 100, 0
        for wait in sorted(self.waits):
            so_far += self.waits[wait]
            if so_far >= expected:
                return wait
        return 0

    def check(self) -> None:
        """Raise ValueError if payments were lost or invented, or a resource exceeded its capacity.

        Waiting is added twice: payment by payment and step by step.
        """
        if self.arrived != self.settled + self.left:
            raise ValueError(
                f"{self.arrived} arrived, {self.settled} settled and {self.left} waiting"
            )
        by_payment = sum(wait * count for wait, count in self.waits.items()) + self.left_waits
        if by_payment != self.waited:
            raise ValueError(f"payments waited {by_payment} s, queues {self.waited} s")
        for name, part in self.busy.items():
            if not 0 <= part <= 1 + 1e-9:
                raise ValueError(f"{name} was busy {part:.3f} of the time")


def simulate_day(costs: Costs, installation: Installation, demand: Demand) -> SimulatedDay:
    """Simulate a day; raise ValueError if the model loses count."""
    capacities = installation.carries(costs)
    service, database, node = stages = [
        Queue(capacities[name]) for name in (SERVICE, DATABASE, NODE)
    ]
    blocks = _build_blocks(costs, installation)
    result, turn = SimulatedDay(), 0
    for second, count in enumerate(demand.arrivals()):
        result.arrived += count
        service.put(second, count)
        in_failover = 0 <= second - demand.failover_at_s < demand.failover_s
        for stage, after in pairwise(stages):
            for arrived_s, items in stage.take(works=stage is not database or not in_failover):
                after.put(arrived_s, items)
        for arrived_s, items in node.take():
            turn = _spread(blocks, arrived_s, items, turn, installation.chains)
        is_out = 0 <= second - demand.outage_at_s < demand.outage_s
        if second % installation.chain.block_s == 0:
            # the last chain is the one that fails; the others share a queue
            for chain in blocks:
                for arrived_s, items in chain.take(works=not is_out or chain is not blocks[-1]):
                    result.waits[second - arrived_s] += items
        result.waited += sum(queue.waiting for queue in (*stages, *blocks))
        if second % BACKLOG_STEP_S == 0:
            result.backlog.append(_count_waiting(stages, blocks))
    _conclude(result, stages, blocks, demand.seconds)
    result.check()
    return result


def _build_blocks(costs: Costs, installation: Installation) -> list[Queue]:
    """Return a queue for the last chain's blocks, after one for all others if there are any."""
    chain = installation.chain
    each = min(chain.gas_payments(costs), installation.keys * chain.signed_payments(costs))
    queues = [Queue(each * (installation.chains - 1))] if installation.chains > 1 else []
    return [*queues, Queue(each)]


def _spread(blocks: Sequence[Queue], arrived_s: int, count: int, turn: int, chains: int) -> int:
    """Assign payments to chains in turn; return the next turn."""
    last = (turn + count) // chains - turn // chains
    if len(blocks) > 1:
        blocks[0].put(arrived_s, count - last)
        blocks[1].put(arrived_s, last)
    else:
        blocks[0].put(arrived_s, count)
    return (turn + count) % chains


def _count_waiting(stages: Sequence[Queue], blocks: Sequence[Queue]) -> Mapping[str, int]:
    names = (SERVICE, DATABASE, NODE)
    waiting = {name: stage.waiting for name, stage in zip(names, stages, strict=True)}
    return waiting | {GAS: sum(queue.waiting for queue in blocks)}


def _conclude(
    result: SimulatedDay, stages: Sequence[Queue], blocks: Sequence[Queue], seconds: int
) -> None:
    for name, stage in zip((SERVICE, DATABASE, NODE), stages, strict=True):
        result.busy[name], result.longest[name] = stage.busy, stage.longest
    result.longest[GAS] = max(queue.longest for queue in blocks)
    result.busy[GAS] = max(queue.busy for queue in blocks)
    left = [item for queue in (*stages, *blocks) for item in queue.list_waiting()]
    result.left = sum(count for _, count in left)
    result.left_waits = sum((seconds - arrived_s) * count for arrived_s, count in left)
