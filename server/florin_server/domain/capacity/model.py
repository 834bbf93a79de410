"""The capacity of an installation: what a payment costs, what arrives, and what one resource does.

The costs of a payment are measured; what a chain and a disk can do is assumed. Failed payments,
watchers beyond a poll, retries, payouts and other traffic are left out.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

DAY_S: Final = 86_400
HOUR_S: Final = 3_600
MINUTE_S: Final = 60
# of a process, and of one that starts while it replaces another
CONNECTIONS: Final = 13
# resources
SERVICE: Final = "service core"
DATABASE: Final = "PostgreSQL core"
DISK: Final = "disk"
NODE: Final = "node"
KEY: Final = "key"
GAS: Final = "chain"


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of one payment, and the rate of one node."""

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

    @property
    def written_bytes(self) -> float:
        """Return what the disk writes for a payment: the log, and pages later."""
        return self.log_bytes + self.stored_bytes


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
class Disk:
    """An assumed disk of one PostgreSQL server."""

    size_bytes: float = 4e12
    bytes_per_s: float = 500e6


@dataclass(frozen=True, slots=True)
class Demand:
    """Arriving payments: `rate` a second on average over a day, with evenings and bursts.

    A burst, like a sale, multiplies the arrivals of ten minutes; the seed places the bursts. One
    chain is down for `outage_s` seconds from `outage_at_s`, and the database takes nothing for
    `failover_s` seconds from `failover_at_s`.
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
    failover_at_s: int = 19 * HOUR_S
    failover_s: int = 0

    def expected(self) -> list[float]:
        """Return the expected payments of each second; their mean is the rate."""
        chance = random.Random(self.seed)  # noqa: S311  (a model)
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
        chance = random.Random(self.seed + 1)  # noqa: S311  (a model)
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
    databases: int = 1  # PostgreSQL servers; several are separate installations
    chain: Chain = field(default_factory=Chain)
    disk: Disk = field(default_factory=Disk)

    def carries(self, costs: Costs) -> Mapping[str, float]:
        """Return the payments a second that each resource handles in total."""
        chain = self.chain
        return {
            SERVICE: self.service_cores * 1e6 / costs.service_us,
            DATABASE: self.database_cores * 1e6 / costs.database_us,
            DISK: self.databases * self.disk.bytes_per_s / costs.written_bytes,
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
        """Return what the disks write in the busiest minute."""
        return self.costs.written_bytes * self.peak

    @property
    def dead_rows_per_s(self) -> float:
        """Return the row versions that vacuum has to remove on average."""
        return self.costs.dead_rows * self.rate

    def days_until_full(self, disk_bytes: float) -> float:
        """Return after how many days the database fills a disk."""
        return disk_bytes / self.stored_bytes_a_day


def _poisson(chance: random.Random, mean: float) -> int:
    if mean > 50:
        return max(0, round(chance.gauss(mean, math.sqrt(mean))))
    count, product, limit = 0, chance.random(), math.exp(-mean)
    while product > limit:
        count += 1
        product *= chance.random()
    return count
