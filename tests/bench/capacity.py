"""Model a day of payments in an installation, without a clock and without randomness.

A payment passes four queues, first in first out: the service's processors, PostgreSQL's, nodes that
simulate it, and blocks of its chain, where relayers' keys and gas are scarce. Steps are seconds,
and payments are whole. Nothing is rejected: waiting payments are counted, and a payment that waited
longer than its lifetime is late. The costs of a payment are measured; the chain's capacity is
assumed.

The model omits failed payments, watchers beyond a poll, retries, payouts and other traffic.
"""

from __future__ import annotations

import math
import random
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

DAY_S, HOUR_S, MINUTE_S = 86_400, 3_600, 60
# a payment expires after that, unless its merchant sets another time
EXPIRY_S = 900
# of a process, and of one that starts while it replaces another
CONNECTIONS = 13
SERVICE, DATABASE, NODE, KEY, GAS = "service core", "PostgreSQL core", "node", "key", "chain"


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of one payment, and the rate of one node; `plan` has the figures they come from."""

    service_us: float
    settle_us: float  # the part of it in the process with the key's lease, at most
    database_us: float
    gas: float
    trials_per_s: float  # of one node
    stored_bytes: float = 7_700  # that stay in the database, with indexes
    log_bytes: float = 12_000  # of the write-ahead log
    dead_rows: float = 5  # versions of rows that vacuum removes

    # each payment is simulated at its confirm and again before it is sent
    trials: int = 2


@dataclass(frozen=True, slots=True)
class Chain:
    """An assumed chain: the size of its blocks, and the share that one caller can use."""

    block_s: int = 2
    block_gas: int = 60_000_000
    share: float = 0.1
    # per key: pending transactions times payments in each
    key_payments: int = 16 * 50

    def gas_payments(self, costs: Costs) -> float:
        """Return the payments for which a block has gas."""
        return self.block_gas * self.share / costs.gas

    def signed_payments(self, costs: Costs) -> float:
        """Return the payments in a block that one key sends: one process at a time uses it."""
        return min(self.key_payments, self.block_s * 1e6 / costs.settle_us)


@dataclass(frozen=True, slots=True)
class Demand:
    """Arriving payments: `rate` a second on average over a day, with evenings and bursts.

    A burst, like a sale, multiplies the arrivals of ten minutes; the seed places the bursts. One
    chain is down for `outage_s` seconds from `outage_at_s`.
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
        """Return the expected payments of each second; their mean is the rate."""
        chance = random.Random(self.seed)
        starts = [chance.randrange(self.seconds) for _ in range(self.bursts)]
        shape = [
            # fewest at eight in the morning, most at eight in the evening
            1 - self.swing * math.cos(2 * math.pi * (second / DAY_S - 1 / 3))
            for second in range(self.seconds)
        ]
        for start in starts:
            for second in range(start, min(start + self.burst_s, self.seconds)):
                shape[second] *= self.burst
        scale = self.rate * self.seconds / sum(shape)
        return [item * scale for item in shape]

    def arrivals(self) -> Iterator[int]:
        """Yield the whole payments of each second, equal for equal seeds."""
        chance = random.Random(self.seed + 1)
        return (_poisson(chance, mean) for mean in self.expected())

    @property
    def peak(self) -> float:
        """Return the expected payments a second in the busiest minute."""
        expected, best = self.expected(), 0.0
        for start in range(0, self.seconds, MINUTE_S):
            part = expected[start : start + MINUTE_S]
            best = max(best, sum(part) / len(part))
        return best


@dataclass(frozen=True, slots=True)
class Installation:
    """The number of each resource; keys are per chain."""

    service_cores: int = 1
    database_cores: int = 1
    nodes: int = 1
    keys: int = 1
    chains: int = 1
    chain: Chain = field(default_factory=Chain)

    def carries(self, costs: Costs) -> Mapping[str, float]:
        """Return the payments a second that each resource handles in total."""
        chain = self.chain
        return {
            SERVICE: self.service_cores * 1e6 / costs.service_us,
            DATABASE: self.database_cores * 1e6 / costs.database_us,
            NODE: self.nodes * costs.trials_per_s / costs.trials,
            KEY: self.chains * self.keys * chain.signed_payments(costs) / chain.block_s,
            GAS: self.chains * chain.gas_payments(costs) / chain.block_s,
        }

    def connections(self) -> int:
        """Return the most connections to the database: one process uses each service core."""
        return CONNECTIONS * (self.service_cores + 1)

    def loads(self, costs: Costs, rate: float) -> Mapping[str, float]:
        """Return the load of each resource at a rate of payments a second; above 1 they wait."""
        return {name: rate / item for name, item in self.carries(costs).items()}


@dataclass(frozen=True, slots=True)
class Growth:
    """The bytes that a rate of payments, in payments a second, writes to PostgreSQL's disks."""

    costs: Costs
    rate: float
    peak: float  # in the busiest minute

    @property
    def stored_bytes_a_day(self) -> float:
        """Return by how much the database grows in a day; Florin deletes no payment."""
        return self.costs.stored_bytes * self.rate * DAY_S

    @property
    def log_bytes_a_day(self) -> float:
        """Return the write-ahead log of a day, which standbys and archives receive too."""
        return self.costs.log_bytes * self.rate * DAY_S

    @property
    def written_bytes_per_s(self) -> float:
        """Return what the disks write in the busiest minute: the log, and pages later."""
        return (self.costs.log_bytes + self.costs.stored_bytes) * self.peak

    @property
    def dead_rows_per_s(self) -> float:
        """Return the row versions that vacuum has to remove on average."""
        return self.costs.dead_rows * self.rate

    def days_until_full(self, disk_bytes: float) -> float:
        """Return after how many days the database fills a disk."""
        return disk_bytes / self.stored_bytes_a_day


class Queue:
    """Payments that wait for one resource, by the second of their arrival."""

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
        """Take what one step handles, oldest first; keep the started part of a payment.

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
        """Return the used share of the capacity."""
        return self.done / (self.steps * self.per_step) if self.steps else 0.0

    def left(self) -> list[tuple[int, int]]:
        """Return the payments that still wait."""
        return list(self._cohorts)


@dataclass(slots=True)
class Day:
    """The results of a day of payments."""

    arrived: int = 0
    waits: Counter[int] = field(default_factory=Counter)
    # payment-seconds of waiting, added step by step
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
        result = sum(wait * count for wait, count in self.waits.items()) + self.left_waits
        if result != self.waited:
            raise ValueError(f"payments waited {result} s, queues {self.waited} s")
        for name, part in self.busy.items():
            if not 0 <= part <= 1 + 1e-9:
                raise ValueError(f"{name} was busy {part:.3f} of the time")


def day(costs: Costs, installation: Installation, demand: Demand) -> Day:
    """Simulate a day; raise ValueError if the model loses count."""
    carried = installation.carries(costs)
    stages = [Queue(carried[name]) for name in (SERVICE, DATABASE, NODE)]
    blocks = _blocks(costs, installation)
    reported_day, turn = Day(), 0
    for second, count in enumerate(demand.arrivals()):
        reported_day.arrived += count
        stages[0].put(second, count)
        for stage, after in pairwise(stages):
            for arrived, items in stage.take():
                after.put(arrived, items)
        for arrived, items in stages[-1].take():
            turn = _spread(blocks, arrived, items, turn, installation.chains)
        out = demand.outage_at_s <= second < demand.outage_at_s + demand.outage_s
        if second % installation.chain.block_s == 0:
            # the last chain is the one that fails; the others share a queue
            for chain in blocks:
                fails = chain is blocks[-1]
                for arrived, items in chain.take(works=not (out and fails)):
                    reported_day.waits[second - arrived] += items
        reported_day.waited += sum(queue.waiting for queue in (*stages, *blocks))
    _ended(reported_day, stages, blocks, demand.seconds)
    reported_day.check()
    return reported_day


def _blocks(costs: Costs, installation: Installation) -> list[Queue]:
    """Return a queue for the last chain's blocks, after one for all others if there are any."""
    chain = installation.chain
    each = min(chain.gas_payments(costs), installation.keys * chain.signed_payments(costs))
    queues = [Queue(each * (installation.chains - 1))] if installation.chains > 1 else []
    return [*queues, Queue(each)]


def _spread(blocks: Sequence[Queue], arrived: int, count: int, turn: int, chains: int) -> int:
    """Assign payments to chains in turn; return the next turn."""
    last = (turn + count) // chains - turn // chains
    if len(blocks) > 1:
        blocks[0].put(arrived, count - last)
        blocks[1].put(arrived, last)
    else:
        blocks[0].put(arrived, count)
    return (turn + count) % chains


def _ended(
    reported_day: Day, stages: Sequence[Queue], blocks: Sequence[Queue], seconds: int
) -> None:
    names = (SERVICE, DATABASE, NODE)
    for name, stage in zip(names, stages, strict=True):
        reported_day.busy[name], reported_day.longest[name] = stage.busy, stage.most
    reported_day.longest[GAS] = max(queue.most for queue in blocks)
    reported_day.busy[GAS] = max(queue.busy for queue in blocks)
    left = [item for queue in (*stages, *blocks) for item in queue.left()]
    reported_day.left = sum(count for _, count in left)
    reported_day.left_waits = sum((seconds - arrived) * count for arrived, count in left)


def _poisson(chance: random.Random, mean: float) -> int:
    if mean > 50:
        return max(0, round(chance.gauss(mean, math.sqrt(mean))))
    count, product, limit = 0, chance.random(), math.exp(-mean)
    while product > limit:
        count += 1
        product *= chance.random()
    return count
