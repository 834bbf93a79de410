"""The capacity of an installation: what a payment costs, what arrives, and what one resource does.

The costs of a payment are measured; what a chain and a disk can do is assumed, and vacuum has
PostgreSQL's defaults. Failed payments, watchers beyond a poll, retries, payouts and other traffic
are left out.
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
# of payments, in the 7,900 bytes of one notification between processes
CHANGES_MAX: Final = 200
# transaction ids after which PostgreSQL vacuums a table in any case (autovacuum_freeze_max_age)
FREEZE_AGE: Final = 200_000_000
# resources
SERVICE: Final = "service core"
DATABASE: Final = "PostgreSQL core"
DISK: Final = "disk"
NOTICES: Final = "notification queue"
VACUUM: Final = "vacuum"
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
    dead_rows: float = 4.2  # versions of rows that vacuum removes
    vacuum_cost: float = 27.4  # of that vacuum, in PostgreSQL's unit: 20 to change a page
    transaction_ids: float = 1.1  # of transactions that write
    changes: float = 2.2  # of which other processes are notified
    # of one notification: PostgreSQL's time, and for each process that listens; and a process's
    notify_us: float = 31
    listener_us: float = 17
    receive_us: float = 10

    # each payment is simulated at its confirm and again before it is sent
    trials: int = 2

    @property
    def written_bytes(self) -> float:
        """Return what the disk writes for a payment: the log, and pages later."""
        return self.log_bytes + self.stored_bytes

    def count_listeners(self, delay_s: float) -> int:
        """Return how many processes a database can notify in turn within a delay."""
        half = self.notify_us / (2 * self.listener_us)
        return int(math.sqrt(half**2 + delay_s * 1e6 / self.listener_us) - half)


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
class Vacuum:
    """The pace of all autovacuum workers together; PostgreSQL's defaults.

    They are `vacuum_cost_limit` and `autovacuum_vacuum_cost_delay`.
    """

    cost_limit: int = 200
    delay_s: float = 0.002

    @property
    def cost_per_s(self) -> float:
        """Return the cost that vacuums can have in a second."""
        return self.cost_limit / self.delay_s


@dataclass(frozen=True, slots=True)
class Notifications:
    """The notifications in one database, at a rate of payments a second.

    A process sends one at a time, with all changes since the last one. So PostgreSQL's queue never
    overflows: once it is busy all the time, notifications report more changes, and arrive later.
    """

    costs: Costs
    rate: float
    listeners: int

    @property
    def message_us(self) -> float:
        """Return PostgreSQL's time for one; they are sent one after another."""
        return self.costs.notify_us + self.costs.listener_us * self.listeners

    @property
    def per_s(self) -> float:
        """Return how many are sent a second."""
        return min(self.rate * self.costs.changes, 1e6 / self.message_us)

    @property
    def changes_each(self) -> float:
        """Return the changes that one reports on average."""
        return self.rate * self.costs.changes / self.per_s

    @property
    def delay_s(self) -> float:
        """Return how late a process learns of another's change; each process waits for its turn."""
        turns = self.listeners if self.changes_each > 1 else 1
        return turns * self.message_us / 1e6

    @property
    def database_cores(self) -> float:
        """Return PostgreSQL's cores that wake further processes: the first is in its cost."""
        return self.per_s * self.costs.listener_us * (self.listeners - 1) / 1e6

    @property
    def service_share(self) -> float:
        """Return the share of each service core that receives those of other processes."""
        return self.per_s * self.costs.receive_us * (1 - 1 / self.listeners) / 1e6


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
    vacuum_limits: int = 1  # times the cost limit of vacuum
    chain: Chain = field(default_factory=Chain)
    disk: Disk = field(default_factory=Disk)
    vacuum: Vacuum = field(default_factory=Vacuum)

    def carries(self, costs: Costs) -> Mapping[str, float]:
        """Return the payments a second that each resource handles in total."""
        chain = self.chain
        message_us = self.notifications(costs, 0).message_us
        return {
            SERVICE: self.service_cores * 1e6 / costs.service_us,
            DATABASE: self.database_cores * 1e6 / costs.database_us,
            DISK: self.databases * self.disk.bytes_per_s / costs.written_bytes,
            NOTICES: self.databases * CHANGES_MAX * 1e6 / (costs.changes * message_us),
            VACUUM: self.databases
            * self.vacuum_limits
            * self.vacuum.cost_per_s
            / costs.vacuum_cost,
            NODE: self.nodes * costs.trials_per_s / costs.trials,
            KEY: self.chains * self.keys * chain.signed_payments(costs) / chain.block_s,
            GAS: self.chains * chain.gas_payments(costs) / chain.block_s,
        }

    def connections(self) -> int:
        """Return the most connections to the database: one process uses each service core."""
        return CONNECTIONS * (self.service_cores + 1)

    def loads(self, costs: Costs, rate: float) -> Mapping[str, float]:
        """Return the load of each resource at a rate of payments a second; above 1 they wait."""
        loads = {name: rate / item for name, item in self.carries(costs).items()}
        notifications = self.notifications(costs, rate)
        loads[SERVICE] += notifications.service_share
        loads[DATABASE] += notifications.database_cores * self.databases / self.database_cores
        return loads

    def notifications(self, costs: Costs, rate: float) -> Notifications:
        """Return the notifications of each database: one process uses each service core."""
        listeners = math.ceil(self.service_cores / self.databases)
        return Notifications(costs, rate / self.databases, listeners)


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

    def hours_until_freeze(self, databases: int) -> float:
        """Return after how many hours tables are vacuumed again because of their age."""
        return FREEZE_AGE * databases / (self.costs.transaction_ids * self.rate * HOUR_S)

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
