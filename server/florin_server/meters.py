"""What one process counts while it works: requests, commits, changes of payments, refusals, gas.

Each service has meters of its own, so that several may run in one process, and several processes
each tell theirs: nothing is shared between them, and a process that died has counted from zero
when it is back, which rates of Prometheus allow for. Values of labels come from the protos, from
the settings and from the code, never from a caller.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from functools import partial
from typing import Literal, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from florin_server.domain.payments.payment import Status

# when a series began: as many series again, which nobody asks for
disable_created_metrics()  # type: ignore[no-untyped-call]


class Family(NamedTuple):
    """One metric: its name with what it begins and ends with, its labels, and what it tells."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    tells: str
    buckets: tuple[float, ...] = ()


REQUESTS = Family(
    "florin_request_duration_seconds",
    "histogram",
    ("protocol", "method", "code"),
    "requests and how long they took; a stream or a long poll counts when it ends",
    (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
IN_FLIGHT = Family(
    "florin_requests_in_flight",
    "gauge",
    ("protocol",),
    "requests that are being answered; REST behind a gateway of its own process counts in both",
)
LOOP_LAG = Family(
    "florin_event_loop_lag_seconds",
    "histogram",
    (),
    "how much later than due a timer of the process ran, measured twice a second",
    (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
RETRIES = Family(
    "florin_store_retries_total",
    "counter",
    (),
    "writes that were begun anew as another transaction or a lost connection was in their way",
)
CHANGES = Family(
    "florin_payment_changes_total",
    "counter",
    ("status",),
    "payments that came into a status, new ones included",
)
SETTLEMENTS = Family(
    "florin_settlement_duration_seconds",
    "histogram",
    ("chain", "status"),
    "time from the confirm of a payment to its end, which is final on the chain",
    (0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600),
)
TRANSACTIONS = Family(
    "florin_transactions_total",
    "counter",
    ("chain", "outcome"),
    "transactions of ours that ended",
)
GAS_COST = Family(
    "florin_gas_cost_minor_units_total",
    "counter",
    ("account",),
    "what final transactions cost the account that pays, in minor units of what gas is paid with",
)
PAYOUTS = Family(
    "florin_payout_attempts_total",
    "counter",
    ("chain", "outcome"),
    "payouts whose transaction ended",
)
REFUSALS = Family(
    "florin_limit_refusals_total",
    "counter",
    ("limit",),
    "calls that were refused as too many",
)
EXCHANGES = Family(
    "florin_limit_exchanges_total",
    "counter",
    ("outcome",),
    "exchanges of limits with the other processes on the store",
)
COMMITS = Family(
    "florin_store_commit_duration_seconds",
    "histogram",
    (),
    "groups of writes that were committed, and how long that took",
    (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
)
OPERATIONS = Family(
    "florin_store_operations_total",
    "counter",
    (),
    "writes that ran; several share a commit",
)
HINTS = Family(
    "florin_hints_total",
    "counter",
    ("hint",),
    "changes that processes on one store told each other",
)
WEBHOOKS = Family(
    "florin_webhook_attempts_total",
    "counter",
    ("outcome",),
    "attempts to tell an endpoint of an event",
)
FAMILIES = (
    REQUESTS,
    IN_FLIGHT,
    LOOP_LAG,
    RETRIES,
    CHANGES,
    SETTLEMENTS,
    TRANSACTIONS,
    GAS_COST,
    PAYOUTS,
    REFUSALS,
    EXCHANGES,
    COMMITS,
    OPERATIONS,
    HINTS,
    WEBHOOKS,
)
PROTOCOLS = ("rest", "grpc")
HINTED = ("sent", "heard", "dropped", "ignored")
TRANSACTION_OUTCOMES = ("succeeded", "reverted", "replaced")
WEBHOOK_OUTCOMES = ("delivered", "failed")
PAYOUT_OUTCOMES = ("done", "again", "unproven")


class Meters:
    """The meters of one service; `registry` tells them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = self._histogram(REQUESTS)
        self._loop_lag = self._histogram(LOOP_LAG)
        self._retries = self._counter(RETRIES)
        self._changes = self._counter(CHANGES)
        self._settlements = self._histogram(SETTLEMENTS)
        self._transactions = self._counter(TRANSACTIONS)
        self._gas_cost = self._counter(GAS_COST)
        self._payouts = self._counter(PAYOUTS)
        self._refusals = self._counter(REFUSALS)
        self._exchanges = self._counter(EXCHANGES)
        self._commits = self._histogram(COMMITS)
        self._operations = self._counter(OPERATIONS)
        self._hints = self._counter(HINTS)
        self._webhooks = self._counter(WEBHOOKS)
        # finding a series by its labels costs more than counting in it
        self._series: dict[tuple[str, str, str], Histogram] = {}
        self._in_flight = dict.fromkeys(PROTOCOLS, 0)
        in_flight = Gauge(IN_FLIGHT.name, IN_FLIGHT.tells, IN_FLIGHT.labels, registry=self.registry)
        for protocol in PROTOCOLS:
            in_flight.labels(protocol).set_function(partial(self._in_flight.__getitem__, protocol))
        for status in Status:
            self._changes.labels(status)
        for hint in HINTED:
            self._hints.labels(hint)
        for outcome in WEBHOOK_OUTCOMES:
            self._webhooks.labels(outcome)

    def _counter(self, one: Family) -> Counter:
        return Counter(one.name, one.tells, one.labels, registry=self.registry)

    def _histogram(self, one: Family) -> Histogram:
        return Histogram(
            one.name, one.tells, one.labels, registry=self.registry, buckets=one.buckets
        )

    def begin(self, protocol: str) -> None:
        """Count a request that is being answered, until `request` says that it is over."""
        self._in_flight[protocol] += 1

    def loop_lag(self, seconds: float) -> None:
        """Observe how much later than due a timer ran."""
        self._loop_lag.observe(seconds)

    def request(self, protocol: str, method: str, code: str, seconds: float) -> None:
        """Counts a request that is over, which `begin` has counted."""
        self._in_flight[protocol] -= 1
        key = protocol, method, code
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = self._requests.labels(*key)
        series.observe(seconds)

    def changed(self, status: str) -> None:
        """Counts a payment that came into a status."""
        self._changes.labels(status).inc()

    def settled(self, chain_id: str, status: str, seconds: float) -> None:
        """Counts a payment that ended on a chain, so long after its confirm."""
        self._settlements.labels(chain_id, status).observe(max(0.0, seconds))

    def transaction(self, chain_id: str, outcome: str) -> None:
        """Counts a transaction that ended."""
        self._transactions.labels(chain_id, outcome).inc()

    def gas(self, account: str, cost: int) -> None:
        """Counts what a transaction cost an account (CAIP-10), in minor units."""
        self._gas_cost.labels(account).inc(max(0, cost))

    def payout(self, chain_id: str, outcome: str) -> None:
        """Counts a payout whose transaction ended."""
        self._payouts.labels(chain_id, outcome).inc()

    def hints(self, hint: str, count: int = 1) -> None:
        """Counts hints that were sent, heard, dropped, or ignored because they were none."""
        self._hints.labels(hint).inc(count)

    def webhook(self, outcome: str) -> None:
        """Counts an attempt to tell an endpoint of an event."""
        self._webhooks.labels(outcome).inc()

    def refusal(self, limit: str) -> Callable[[], None]:
        """What counts a refusal by one limit; it is told as none until then."""
        return self._refusals.labels(limit).inc

    def exchange(self, outcome: str) -> None:
        """Counts an exchange of limits with other processes."""
        self._exchanges.labels(outcome).inc()

    def expect(self, chain_id: str, accounts: Iterable[str]) -> None:
        """Tells zero of a chain until something happens: what grows from nothing has no rate."""
        for status in (Status.SUCCEEDED, Status.FAILED):
            self._settlements.labels(chain_id, status)
        for outcome in TRANSACTION_OUTCOMES:
            self._transactions.labels(chain_id, outcome)
        for outcome in PAYOUT_OUTCOMES:
            self._payouts.labels(chain_id, outcome)
        for account in accounts:
            self._gas_cost.labels(account)

    def steps(self, fault: Callable[[str], None] | None = None) -> Callable[[str], None]:
        """What the store calls at each of its steps, to count them; `fault` is called first."""
        # commits may overlap where each has a thread or a task
        began = ContextVar("began", default=0.0)

        def step(name: str) -> None:
            if fault is not None:
                fault(name)
            if name == "op":
                self._operations.inc()
            elif name == "retry":
                self._retries.inc()
            elif name == "commit":
                began.set(time.perf_counter())
            else:
                self._commits.observe(time.perf_counter() - began.get())

        return step
