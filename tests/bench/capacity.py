"""What an installation carries: a day of payments as a model, without a clock and without chance.

A payment passes four queues, first in first out: the service's processors, PostgreSQL's, nodes that
try it, and blocks of its chain, where relayers' keys and gas are short. Seconds are steps, payments
are whole. Nothing is turned away: who waits is counted, and whoever waited longer than a payment
lives is late. What a payment costs is measured; what a chain gives is assumed.

It leaves out: payments that are given up, watchers beyond a poll, retries, payouts, other traffic.
"""

from __future__ import annotations

import math
import random
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

DAY_S, HOUR_S, MINUTE_S = 86_400, 3_600, 60
# a payment ends after so long, unless its merchant says otherwise
EXPIRY_S = 900
SERVICE, DATABASE, NODE, KEY, GAS = "service core", "PostgreSQL core", "node", "key", "chain"


@dataclass(frozen=True, slots=True)
class Costs:
    """Of one payment, and what a unit gives; the figures that they come from are in `plan`."""

    service_us: float
    settle_us: float  # the part of it that the process with the key's lease does, at most
    database_us: float
    gas: float
    trials_per_s: float  # of one node

    # each payment is tried when it is confirmed and again before it is sent
    trials: int = 2


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain as it is assumed: what it has in a block, and the part that one caller may take."""

    block_s: int = 2
    block_gas: int = 60_000_000
    share: float = 0.1
    # of a key: transactions that wait to be mined, and payments in one
    key_payments: int = 16 * 50

    def gas_payments(self, costs: Costs) -> float:
        """Payments in a block for which there is gas."""
        return self.block_gas * self.share / costs.gas

    def signed_payments(self, costs: Costs) -> float:
        """Payments in a block that one key sends: it is one process's at a time."""
        return min(self.key_payments, self.block_s * 1e6 / costs.settle_us)


@dataclass(frozen=True, slots=True)
class Demand:
    """Payments that arrive: `rate` a second in the mean of a day, with evenings and bursts.

    A burst, as of a sale, multiplies what comes for ten minutes; where they fall follows from the
    seed. One chain is out for `outage_s` seconds from `outage_at_s`.
    """

    rate: float
    seed: int = 7
    seconds: int = DAY_S
    swing: float = 0.6
    bursts: int = 4
    burst: float = 3.0
    burst_s: int = 600
    outage_at_s: int = 20 * HOUR_S
    outage_s: int = HOUR_S // 2

    def expected(self) -> list[float]:
        """Payments that are expected in each second; their mean is the rate."""
        chance = random.Random(self.seed)
        starts = [chance.randrange(self.seconds) for _ in range(self.bursts)]
        shape = [
            # least at eight in the morning, most at eight in the evening
            1 - self.swing * math.cos(2 * math.pi * (second / DAY_S - 1 / 3))
            for second in range(self.seconds)
        ]
        for start in starts:
            for second in range(start, min(start + self.burst_s, self.seconds)):
                shape[second] *= self.burst
        scale = self.rate * self.seconds / sum(shape)
        return [one * scale for one in shape]

    def arrivals(self) -> Iterator[int]:
        """Whole payments of each second, the same for the same seed."""
        chance = random.Random(self.seed + 1)
        return (_poisson(chance, mean) for mean in self.expected())

    @property
    def peak(self) -> float:
        """Payments a second in the busiest minute, as expected."""
        expected, best = self.expected(), 0.0
        for start in range(0, self.seconds, MINUTE_S):
            part = expected[start : start + MINUTE_S]
            best = max(best, sum(part) / len(part))
        return best


@dataclass(frozen=True, slots=True)
class Installation:
    """How many there are of each; keys are for each chain."""

    service_cores: int = 1
    database_cores: int = 1
    nodes: int = 1
    keys: int = 1
    chains: int = 1
    chain: Chain = field(default_factory=Chain)

    def carries(self, costs: Costs) -> Mapping[str, float]:
        """Payments a second that each resource can do, all of it together."""
        chain = self.chain
        return {
            SERVICE: self.service_cores * 1e6 / costs.service_us,
            DATABASE: self.database_cores * 1e6 / costs.database_us,
            NODE: self.nodes * costs.trials_per_s / costs.trials,
            KEY: self.chains * self.keys * chain.signed_payments(costs) / chain.block_s,
            GAS: self.chains * chain.gas_payments(costs) / chain.block_s,
        }

    def loads(self, costs: Costs, rate: float) -> Mapping[str, float]:
        """The part of each resource that so many payments a second take; above 1 they wait."""
        return {name: rate / one for name, one in self.carries(costs).items()}


class Queue:
    """Payments that wait for one resource, by the second in which they arrived."""

    def __init__(self, per_step: float) -> None:
        self.per_step = per_step
        self.waiting = 0
        self.most = 0
        self.done = 0
        self.steps = 0
        self._cohorts: deque[tuple[int, int]] = deque()
        self._credit = 0.0

    def put(self, arrived: int, count: int) -> None:
        if count:
            self._cohorts.append((arrived, count))
            self.waiting += count

    def take(self, *, works: bool = True) -> list[tuple[int, int]]:
        """What one step does, the oldest first; what is left of a payment's work is kept.

        A resource that does not work does nothing, and saves nothing up.
        """
        self.steps += 1
        taken = []
        room = 0
        if works:
            self._credit += self.per_step
            room = min(int(self._credit), self.waiting)
            # unused work is lost: only a part of a payment is carried over
            self._credit = min(self._credit - room, 1.0)
        self.waiting -= room
        self.done += room
        self.most = max(self.most, self.waiting)
        while room:
            arrived, count = self._cohorts[0]
            if count <= room:
                self._cohorts.popleft()
            else:
                self._cohorts[0] = arrived, count - room
            taken.append((arrived, min(count, room)))
            room -= taken[-1][1]
        return taken

    @property
    def busy(self) -> float:
        """The part of all it could have done."""
        return self.done / (self.steps * self.per_step) if self.steps else 0.0

    def left(self) -> list[tuple[int, int]]:
        """Who still waits."""
        return list(self._cohorts)


@dataclass(slots=True)
class Day:
    """What became of a day's payments."""

    arrived: int = 0
    waits: Counter[int] = field(default_factory=Counter)
    # payment-seconds of waiting, summed up step by step
    waited: int = 0
    left: int = 0
    left_waits: int = 0
    busy: dict[str, float] = field(default_factory=dict)
    longest: dict[str, int] = field(default_factory=dict)

    @property
    def settled(self) -> int:
        return sum(self.waits.values())

    @property
    def late(self) -> int:
        """Payments that were settled after they would have expired."""
        return sum(count for wait, count in self.waits.items() if wait > EXPIRY_S)

    def quantile_s(self, percent: int) -> int:
        """Seconds that so many of a hundred payments waited at most."""
        wanted, so_far = self.settled * percent / 100, 0
        for wait in sorted(self.waits):
            so_far += self.waits[wait]
            if so_far >= wanted:
                return wait
        return 0

    def check(self) -> None:
        """ValueError if payments were lost or made up, or a resource did more than it can.

        Waiting is summed up twice, payment by payment and step by step.
        """
        if self.arrived != self.settled + self.left:
            raise ValueError(
                f"{self.arrived} arrived, {self.settled} settled and {self.left} waiting"
            )
        told = sum(wait * count for wait, count in self.waits.items()) + self.left_waits
        if told != self.waited:
            raise ValueError(f"payments waited {told} s, queues {self.waited} s")
        for name, part in self.busy.items():
            if not 0 <= part <= 1 + 1e-9:
                raise ValueError(f"{name} was busy {part:.3f} of the time")


def day(costs: Costs, given: Installation, demand: Demand) -> Day:
    """Lets a day go by; ValueError if the model loses count."""
    carried = given.carries(costs)
    stages = [Queue(carried[name]) for name in (SERVICE, DATABASE, NODE)]
    blocks = _blocks(costs, given)
    told, turn = Day(), 0
    for second, count in enumerate(demand.arrivals()):
        told.arrived += count
        stages[0].put(second, count)
        for stage, after in pairwise(stages):
            for arrived, some in stage.take():
                after.put(arrived, some)
        for arrived, some in stages[-1].take():
            turn = _spread(blocks, arrived, some, turn, given.chains)
        out = demand.outage_at_s <= second < demand.outage_at_s + demand.outage_s
        if second % given.chain.block_s == 0:
            # the last one is the one that fails; the others are taken together
            for chain in blocks:
                fails = chain is blocks[-1]
                for arrived, some in chain.take(works=not (out and fails)):
                    told.waits[second - arrived] += some
        told.waited += sum(one.waiting for one in (*stages, *blocks))
    _ended(told, stages, blocks, demand.seconds)
    told.check()
    return told


def _blocks(costs: Costs, given: Installation) -> list[Queue]:
    """Queues for blocks: of all chains but one together, if there are more, and of that one."""
    chain = given.chain
    each = min(chain.gas_payments(costs), given.keys * chain.signed_payments(costs))
    others = [Queue(each * (given.chains - 1))] if given.chains > 1 else []
    return [*others, Queue(each)]


def _spread(blocks: Sequence[Queue], arrived: int, count: int, turn: int, chains: int) -> int:
    """Every chain in its turn gets a payment; returns whose turn is next."""
    last = (turn + count) // chains - turn // chains
    if len(blocks) > 1:
        blocks[0].put(arrived, count - last)
        blocks[1].put(arrived, last)
    else:
        blocks[0].put(arrived, count)
    return (turn + count) % chains


def _ended(told: Day, stages: Sequence[Queue], blocks: Sequence[Queue], seconds: int) -> None:
    names = (SERVICE, DATABASE, NODE)
    for name, stage in zip(names, stages, strict=True):
        told.busy[name], told.longest[name] = stage.busy, stage.most
    told.longest[GAS] = max(one.most for one in blocks)
    told.busy[GAS] = max(one.busy for one in blocks)
    left = [one for queue in (*stages, *blocks) for one in queue.left()]
    told.left = sum(count for _, count in left)
    told.left_waits = sum((seconds - arrived) * count for arrived, count in left)


def _poisson(chance: random.Random, mean: float) -> int:
    if mean > 50:
        return max(0, round(chance.gauss(mean, math.sqrt(mean))))
    count, product, limit = 0, chance.random(), math.exp(-mean)
    while product > limit:
        count += 1
        product *= chance.random()
    return count
