"""The meters of one process: requests, commits, changes of payments, refusals, gas.

Each service has meters of its own, so that several can run in one process, and several processes
report their own: nothing is shared between them, and a restarted process counts from zero, which
rates of Prometheus allow for. Values of labels come from the protos, from the settings and from the
code, never from a caller.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from functools import partial
from typing import Literal, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from florin_server.domain.payments.payment import PaymentStatus

# the start of a series: as many series again, which are not needed
disable_created_metrics()  # type: ignore[no-untyped-call]


class MetricFamily(NamedTuple):
    """One metric: its full name, its labels, and its help text."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    description: str
    buckets: tuple[float, ...] = ()


REQUESTS = MetricFamily(
    "florin_request_duration_seconds",
    "histogram",
    ("protocol", "method", "code"),
    "duration of requests; a stream or a long poll counts when it ends",
    (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
IN_FLIGHT = MetricFamily(
    "florin_requests_in_flight",
    "gauge",
    ("protocol",),
    "requests in progress; REST behind a separate gateway process counts in both processes",
)
LOOP_LAG = MetricFamily(
    "florin_event_loop_lag_seconds",
    "histogram",
    (),
    "delay of a timer of the process, measured twice a second",
    (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
RETRIES = MetricFamily(
    "florin_store_retries_total",
    "counter",
    (),
    "writes that were retried after a conflict with another transaction or a lost connection",
)
CHANGES = MetricFamily(
    "florin_payment_changes_total",
    "counter",
    ("status",),
    "payments that entered a status, including new payments",
)
SETTLEMENTS = MetricFamily(
    "florin_settlement_duration_seconds",
    "histogram",
    ("chain", "status"),
    "time from the confirm of a payment to its final status",
    (0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600),
)
TRANSACTIONS = MetricFamily(
    "florin_transactions_total",
    "counter",
    ("chain", "outcome"),
    "transactions sent by Florin that ended",
)
GAS_COST = MetricFamily(
    "florin_gas_cost_minor_units_total",
    "counter",
    ("account",),
    "cost of final transactions for the paying account, in minor units of the native coin",
)
PAYOUTS = MetricFamily(
    "florin_payout_attempts_total",
    "counter",
    ("chain", "outcome"),
    "payout attempts whose transaction ended",
)
REFUSALS = MetricFamily(
    "florin_limit_refusals_total",
    "counter",
    ("limit",),
    "calls refused by a rate limit or another limit",
)
EXCHANGES = MetricFamily(
    "florin_limit_exchanges_total",
    "counter",
    ("outcome",),
    "exchanges of limit usage with the other processes on the store",
)
COMMITS = MetricFamily(
    "florin_store_commit_duration_seconds",
    "histogram",
    (),
    "duration of commits; each commits a group of writes",
    (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
)
OPERATIONS = MetricFamily(
    "florin_store_operations_total",
    "counter",
    (),
    "writes that were executed; several share a commit",
)
HINTS = MetricFamily(
    "florin_hints_total",
    "counter",
    ("hint",),
    "change notifications between the processes on one store",
)
WEBHOOKS = MetricFamily(
    "florin_webhook_attempts_total",
    "counter",
    ("outcome",),
    "attempts to deliver an event to a webhook endpoint",
)
SINK_EVENTS = MetricFamily(
    "florin_event_sink_events_total",
    "counter",
    ("outcome",),
    "events published to the event sink, and events that it did not store",
)
METRIC_FAMILIES = (
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
    SINK_EVENTS,
)
PROTOCOLS = ("rest", "grpc")
HINT_OUTCOMES = ("sent", "heard", "dropped", "ignored")
TRANSACTION_OUTCOMES = ("succeeded", "reverted", "replaced")
WEBHOOK_OUTCOMES = ("delivered", "failed")
SINK_OUTCOMES = ("published", "failed")
PAYOUT_OUTCOMES = ("done", "again", "unproven")


class Meters:
    """The meters of one service; `registry` reports them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = self._create_histogram(REQUESTS)
        self._loop_lag = self._create_histogram(LOOP_LAG)
        self._retries = self._create_counter(RETRIES)
        self._changes = self._create_counter(CHANGES)
        self._settlements = self._create_histogram(SETTLEMENTS)
        self._transactions = self._create_counter(TRANSACTIONS)
        self._gas_cost = self._create_counter(GAS_COST)
        self._payouts = self._create_counter(PAYOUTS)
        self._refusals = self._create_counter(REFUSALS)
        self._exchanges = self._create_counter(EXCHANGES)
        self._commits = self._create_histogram(COMMITS)
        self._operations = self._create_counter(OPERATIONS)
        self._hints = self._create_counter(HINTS)
        self._webhooks = self._create_counter(WEBHOOKS)
        self._sink_events = self._create_counter(SINK_EVENTS)
        # finding a series by its labels costs more than counting in it: some are kept
        self._series: dict[tuple[str, str, str], Histogram] = {}
        self._in_flight = dict.fromkeys(PROTOCOLS, 0)
        in_flight = Gauge(
            IN_FLIGHT.name, IN_FLIGHT.description, IN_FLIGHT.labels, registry=self.registry
        )
        for protocol in PROTOCOLS:
            in_flight.labels(protocol).set_function(partial(self._in_flight.__getitem__, protocol))
        self._changes_by_status: dict[str, Counter] = {
            status: self._changes.labels(status) for status in PaymentStatus
        }
        for hint in HINT_OUTCOMES:
            self._hints.labels(hint)
        for outcome in WEBHOOK_OUTCOMES:
            self._webhooks.labels(outcome)
        for outcome in SINK_OUTCOMES:
            self._sink_events.labels(outcome)

    def _create_counter(self, family: MetricFamily) -> Counter:
        return Counter(family.name, family.description, family.labels, registry=self.registry)

    def _create_histogram(self, family: MetricFamily) -> Histogram:
        return Histogram(
            family.name,
            family.description,
            family.labels,
            registry=self.registry,
            buckets=family.buckets,
        )

    def begin_request(self, protocol: str) -> None:
        """Count a request that is being answered, until `request` says that it is over."""
        self._in_flight[protocol] += 1

    def record_loop_lag(self, seconds: float) -> None:
        """Observe how much later than due a timer ran."""
        self._loop_lag.observe(seconds)

    def record_request(self, protocol: str, method: str, code: str, seconds: float) -> None:
        """Count a request that is over, which `begin` has counted."""
        self._in_flight[protocol] -= 1
        key = protocol, method, code
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = self._requests.labels(*key)
        series.observe(seconds)

    def record_payment_change(self, status: str) -> None:
        """Count a payment that came into a status."""
        self._changes_by_status[status].inc()

    def record_settlement(self, chain_id: str, status: str, seconds: float) -> None:
        """Count a payment that ended on a chain, so long after its confirm."""
        self._settlements.labels(chain_id, status).observe(max(0.0, seconds))

    def record_transaction(self, chain_id: str, outcome: str) -> None:
        """Count a transaction that ended."""
        self._transactions.labels(chain_id, outcome).inc()

    def record_gas_cost(self, account: str, cost: int) -> None:
        """Count what a transaction cost an account (CAIP-10), in minor units."""
        self._gas_cost.labels(account).inc(max(0, cost))

    def record_payout(self, chain_id: str, outcome: str) -> None:
        """Count a payout whose transaction ended."""
        self._payouts.labels(chain_id, outcome).inc()

    def record_hints(self, hint: str, count: int = 1) -> None:
        """Count hints that were sent, received, dropped, or ignored as invalid."""
        self._hints.labels(hint).inc(count)

    def record_webhook_attempt(self, outcome: str) -> None:
        """Count an attempt to deliver an event to an endpoint."""
        self._webhooks.labels(outcome).inc()

    def record_sink_events(self, outcome: str, count: int) -> None:
        """Count events that the sink stored, or did not store."""
        self._sink_events.labels(outcome).inc(count)

    def create_refusal_counter(self, limit: str) -> Callable[[], None]:
        """Return the counter of refusals by one limit; it reports none until the first."""
        return self._refusals.labels(limit).inc

    def record_limit_exchange(self, outcome: str) -> None:
        """Count an exchange of limits with other processes."""
        self._exchanges.labels(outcome).inc()

    def initialize_chain(self, chain_id: str, accounts: Iterable[str]) -> None:
        """Report zero for a chain until something happens.

        A series that begins later has no rate.
        """
        for status in (PaymentStatus.SUCCEEDED, PaymentStatus.FAILED):
            self._settlements.labels(chain_id, status)
        for outcome in TRANSACTION_OUTCOMES:
            self._transactions.labels(chain_id, outcome)
        for outcome in PAYOUT_OUTCOMES:
            self._payouts.labels(chain_id, outcome)
        for account in accounts:
            self._gas_cost.labels(account)

    def create_store_step_counter(
        self, fault: Callable[[str], None] | None = None
    ) -> Callable[[str], None]:
        """Return the store's callbacks at each of its steps, which count them.

        `fault` is called first.
        """
        # commits can overlap where each has a thread or a task
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
