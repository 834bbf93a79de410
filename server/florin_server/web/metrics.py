"""Metrics of the installation for Prometheus: current values and counters.

Current values are read at each scrape into a new registry, so that nothing of an earlier scrape is
reported. Labels come from the settings, the protos and the code, never from a caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from grpc_rest_gateway.forwarded import find_address
from grpc_rest_gateway.plain import PlainHandler, PlainRequest, PlainResponse
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

import florin_server
from florin_server.base import meters
from florin_server.base.context import EventContext, MeterContext
from florin_server.base.meters import Meters, MetricFamily
from florin_server.db.context import StorageContext
from florin_server.domain.conditions import Condition, ConditionState
from florin_server.domain.payments.payment import PaymentStatus
from florin_server.features.monitoring.service import figures
from florin_server.features.monitoring.service.figures import (
    BacklogGroup,
    ChainReconciliation,
    InstallationSnapshot,
    LimitSyncStatus,
)
from florin_server.features.monitoring.service.process import ProcessSnapshot
from florin_server.features.monitoring.service.system import ChainStatus
from florin_server.limits.context import LimitContext
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.context import UsageContext
from florin_server.operations.context import OperationsContext, WorkerContext
from florin_server.operations.service.executors import ExecutorStatus
from florin_server.rails.chain_state import WalletBalance
from florin_server.rails.context import ChainContext
from florin_server.rails.types import NodeState
from florin_server.settings.context import SettingsContext
from florin_server.web import process_metrics
from florin_server.web.metric_labels import STORE_METRICS


class _Context(
    ArchiveContext,
    ChainContext,
    EventContext,
    LimitContext,
    MeterContext,
    OperationsContext,
    SettingsContext,
    StorageContext,
    UsageContext,
    WorkerContext,
    Protocol,
):
    """The parts of the application that this module uses."""


PATH = "/metrics"
# memory, processor time and open files, where the system reports them
_PROCESS_COLLECTOR = ProcessCollector(registry=None)
_MISDIRECTED = PlainResponse(421, b"", "text/plain")
_T = TypeVar("_T")
_SECOND_US = 1_000_000
_CONDITION_HELP = "0 ok, 1 notice, 2 warning: fix it soon, 3 critical: fix it now"
_SEVERITY = {state: float(place) for place, state in enumerate(ConditionState)}
# the state of payments that wait for the operator's verdict only
_HELD_STATE = "held"
_LabeledItem = tuple[tuple[str, ...], _T]


class _GaugeTable(NamedTuple, Generic[_T]):
    """Gauges about items of one kind; each item has a value of each gauge."""

    labels: tuple[str, ...]
    list_items: Callable[[InstallationSnapshot], Iterable[_LabeledItem[_T]]]
    gauges: tuple[tuple[str, str, Callable[[_T], float]], ...]


def _compute_age(now_us: int, since_us: int) -> float:
    return max(0, now_us - since_us) / _SECOND_US


def _list_status_counts(f: InstallationSnapshot) -> Iterator[_LabeledItem[int]]:
    yield (PaymentStatus.REQUIRES_ACTION,), f.backlog.unconfirmed_count
    yield (PaymentStatus.PROCESSING,), sum(group.count for group in f.backlog.payments)


def _compute_oldest_age(heaps: Iterable[BacklogGroup], now_us: int) -> float:
    return max((_compute_age(now_us, group.oldest_us) for group in heaps), default=0.0)


def _list_chain_conditions(f: InstallationSnapshot) -> Iterator[_LabeledItem[Condition]]:
    for chain in f.chains:
        for condition in chain.conditions:
            yield (chain.chain_id, condition.name), condition


def _list_nodes(f: InstallationSnapshot) -> Iterator[_LabeledItem[NodeState]]:
    # two nodes can have the same host: their position in the settings distinguishes them
    for chain in f.chains:
        for place, node in enumerate(chain.nodes, 1):
            yield (chain.chain_id, str(place), node.name), node


def _list_wallets(f: InstallationSnapshot) -> Iterator[_LabeledItem[WalletBalance]]:
    for books in f.reconciliations:
        for balance in books.balances:
            yield (balance.account, balance.asset), balance


_INSTALLATION = _GaugeTable[InstallationSnapshot](
    (),
    lambda f: [((), f)],
    (
        ("store_up", "1 while the process can read its store", lambda o: o.is_store_up),
        (
            "payments_blocked",
            "held payments of blocked payers without a verdict",
            lambda o: o.blocked_accounts,
        ),
        (
            "payment_oldest_unfinished_seconds",
            "age of the oldest confirmed payment that is not final, held payments excluded",
            lambda o: _compute_oldest_age(
                (p for p in o.backlog.payments if p.state != _HELD_STATE), o.now_us
            ),
        ),
        (
            "payout_oldest_owed_seconds",
            "age of the oldest payout that is not done",
            lambda o: _compute_oldest_age(o.backlog.payouts, o.now_us),
        ),
        (
            "payments_processing",
            "accepted payments that are not final",
            lambda o: sum(group.count for group in o.backlog.payments),
        ),
        ("payments_watched", "streams and long polls about payments", lambda o: o.watched_payments),
        ("payouts_watched", "streams about payouts", lambda o: o.watched_payouts),
        (
            "calls_keyed",
            "wallet calls that hold an idempotency key or wait for it",
            lambda o: o.keyed_calls,
        ),
        ("store_queue_operations", "writes that wait to become durable", lambda o: o.queued_writes),
        ("tasks", "tasks of the event loop; each stream and call has some", lambda o: o.tasks),
        (
            "webhooks_waiting",
            "payments with undelivered events for an endpoint",
            lambda o: o.webhooks.pending_count,
        ),
        (
            "webhook_oldest_undelivered_seconds",
            "age of the oldest undelivered event, paused endpoints excluded",
            lambda o: _compute_age(o.now_us, o.webhooks.oldest_us or o.now_us),
        ),
        (
            "webhook_endpoints_paused",
            "endpoints paused because they accepted no delivery",
            lambda o: o.webhooks.paused_endpoints,
        ),
        (
            "event_sink_waiting",
            "payments with events that are not published to the event sink",
            lambda o: o.event_sink.waiting_count,
        ),
        (
            "event_sink_oldest_unpublished_seconds",
            "age of the oldest event that is not published to the event sink",
            lambda o: _compute_age(o.now_us, o.event_sink.oldest_us or o.now_us),
        ),
        (
            "machine_clock_ahead_seconds",
            "how far the machine's clock is ahead of the database's; below 0 if it is behind",
            lambda o: o.clock_offset_us / 1_000_000,
        ),
        (
            "hints_listening",
            "1 while the process receives other processes' changes at once",
            lambda o: o.is_listening,
        ),
    ),
)
_STATUSES = _GaugeTable[int](
    ("status",),
    _list_status_counts,
    (("payments", "payments that are not final, by status", float),),
)
_CHAINS = _GaugeTable[ChainStatus](
    ("chain",),
    lambda f: [((chain.chain_id,), chain) for chain in f.chains],
    (
        ("chain_ok", "1 while the chain has no problem", lambda o: not o.problem),
        ("chain_head_block", "newest block seen", lambda o: o.head),
        (
            "chain_open_transactions",
            "transactions neither final nor replaced",
            lambda o: o.open_transactions,
        ),
        (
            "chain_settlement_turns",
            "rounds of the settler since the start; if they do not grow, settlement is stuck",
            lambda o: o.turn_count,
        ),
        ("chain_payments_open", "accepted payments in settlement", lambda o: o.open_payments),
        ("chain_events_remembered", "settlement events in memory", lambda o: o.cached_events),
        (
            "chain_hour_failed_gas",
            "gas that failed transactions used this hour",
            lambda o: o.gas.failed_gas,
        ),
        (
            "chain_hour_opened_gas",
            "gas that deployed wallets this hour",
            lambda o: o.gas.opening_gas,
        ),
        (
            "chain_payers_paused",
            "payers over their gas budget this hour",
            lambda o: o.gas.paused_payer_payments,
        ),
        (
            "chain_payments_paused",
            "accepted payments that wait for gas budget",
            lambda o: o.gas.paused_payments,
        ),
        (
            "chain_payments_given_up",
            "payments that are no longer sent",
            lambda o: o.gas.abandoned_payments,
        ),
    ),
)
_BLOCK_TIMES = _GaugeTable[float](
    ("chain",),
    lambda f: [((chain.chain_id,), chain.block_s) for chain in f.chains if chain.block_s],
    (("chain_block_seconds", "measured time between blocks, on Solana between slots", float),),
)
_SETTLE_TIMES = _GaugeTable[float](
    ("chain",),
    lambda f: [
        ((chain.chain_id,), chain.settle_s) for chain in f.chains if chain.settle_s is not None
    ],
    (("chain_settle_seconds", "time from confirm to final: median of the newest payments", float),),
)
_CHAIN_CONDITIONS = _GaugeTable[Condition](
    ("chain", "condition"),
    _list_chain_conditions,
    (("chain_condition", _CONDITION_HELP, lambda o: _SEVERITY[o.state]),),
)
_INSTALLATION_CONDITIONS = _GaugeTable[Condition](
    ("condition",),
    lambda f: [((condition.name,), condition) for condition in f.conditions],
    (("condition", _CONDITION_HELP, lambda o: _SEVERITY[o.state]),),
)
_NODES = _GaugeTable[NodeState](
    ("chain", "node", "host"),
    _list_nodes,
    (
        ("node_ok", "1 while the node is used", lambda o: not o.problem),
        ("node_head_block", "newest block that the node reported", lambda o: o.head),
        ("node_lag_blocks", "blocks behind the best node", lambda o: o.lag),
        (
            "node_latency_seconds",
            "time that the node takes to answer",
            lambda o: o.latency_ms / 1000,
        ),
        ("node_error_ratio", "share of recent calls without an answer", lambda o: o.error_rate),
    ),
)
_EXECUTORS = _GaugeTable[ExecutorStatus](
    ("executor",),
    lambda f: [((executor.id,), executor) for executor in f.executors],
    (
        (
            "executor_open_transactions",
            "transactions neither final nor replaced",
            lambda o: o.open_transactions,
        ),
        (
            "executor_paused",
            "1 while the executor sends nothing new",
            lambda o: o.paused_at_us is not None,
        ),
    ),
)
_RUNWAY_ITEMS = _GaugeTable[int](
    ("executor",),
    lambda f: [
        ((executor,), runway.items_left)
        for executor, runway in f.runways.items()
        if runway.items_left is not None
    ],
    (
        (
            "executor_runway_payments",
            "payments and payouts that the coin pays for, at the cost of the newest transactions",
            float,
        ),
    ),
)
_RUNWAY_TIMES = _GaugeTable[int](
    ("executor",),
    lambda f: [
        ((executor,), runway.seconds_left)
        for executor, runway in f.runways.items()
        if runway.seconds_left is not None
    ],
    (
        (
            "executor_runway_seconds",
            "time for which the coin lasts, at the pace of the newest transactions",
            float,
        ),
    ),
)
_OWED_PAYOUTS = _GaugeTable[int](
    ("chain", "status"),
    lambda f: [((group.chain_id, group.state), group.count) for group in f.backlog.payouts],
    (("payouts_owed", "payouts and refunds that are not done", float),),
)
_BOOKS = _GaugeTable[ChainReconciliation](
    ("chain",),
    lambda f: [
        ((reconciliation.chain_id,), reconciliation) for reconciliation in f.reconciliations
    ],
    (
        (
            "books_compared_timestamp_seconds",
            "when wallets were last compared with the ledger; 0 if never",
            lambda o: o.reconciled_at_us / _SECOND_US,
        ),
    ),
)
_WALLETS = _GaugeTable[WalletBalance](
    ("account", "asset"),
    _list_wallets,
    (
        (
            "wallet_balance_minor_units",
            "balance on the chain at the last comparison, in minor units",
            lambda o: o.chain_balance,
        ),
        (
            "wallet_booked_minor_units",
            "balance in the ledger, in minor units",
            lambda o: o.booked_balance,
        ),
    ),
)
_STREAM_SLOTS = _GaugeTable[int](
    ("holder",),
    lambda f: [((holder,), count) for holder, count in f.open_streams.items()],
    (("held_answers", "streams and long polls that count toward a limit", float),),
)
_SHARED_LIMITS = _GaugeTable[LimitSyncStatus](
    (),
    lambda f: [((), sync_status) for sync_status in f.limit_sync],
    (
        ("limit_processes", "processes that share limits", lambda o: o.process_count),
        ("limit_budgets_shared", "budgets of this process in the store", lambda o: o.budget_count),
        (
            "limit_exchange_age_seconds",
            "time since the last exchange with other processes; meanwhile it counts alone",
            lambda o: o.age_us / _SECOND_US,
        ),
    ),
)
_VERSION = _GaugeTable[str](
    ("version",),
    lambda _: [((florin_server.__version__,), "")],
    (("info", "running version; always 1", lambda _: 1),),
)
_TABLES: tuple[_GaugeTable[Any], ...] = (
    _VERSION,
    _INSTALLATION,
    _STATUSES,
    _STREAM_SLOTS,
    _SHARED_LIMITS,
    _INSTALLATION_CONDITIONS,
    _CHAINS,
    _BLOCK_TIMES,
    _SETTLE_TIMES,
    _CHAIN_CONDITIONS,
    _NODES,
    _EXECUTORS,
    _RUNWAY_ITEMS,
    _RUNWAY_TIMES,
    _OWED_PAYOUTS,
    _BOOKS,
    _WALLETS,
)


def list_families() -> list[MetricFamily]:
    """Return every metric except those of the operating system's process."""
    gauges = [
        MetricFamily(f"florin_{name}", "gauge", table.labels, reports)
        for table in _TABLES
        for name, reports, _ in table.gauges
    ]
    return [*gauges, *process_metrics.FAMILIES, *meters.METRIC_FAMILIES]


def build_routes(
    app: _Context, keyed_calls: Callable[[], int], read_process: Callable[[], ProcessSnapshot]
) -> Mapping[str, PlainHandler]:
    """Return the handler by its path; `keyed_calls` counts calls under an idempotency key.

    `read_process` returns the numbers of this process.
    """

    async def tell(request: PlainRequest) -> PlainResponse:
        if not is_allowed_host(request):
            return _MISDIRECTED
        collector = InstallationMetricsCollector(await figures.read_snapshot(app, keyed_calls()))
        return _encode_metrics(
            request, collector, app.meters, process_metrics.ProcessMetricsCollector(read_process())
        )

    return {PATH: tell}


def build_meter_routes(process_meters: Meters) -> Mapping[str, PlainHandler]:
    """Return the handler of a process that has meters only."""

    async def tell(request: PlainRequest) -> PlainResponse:
        return (
            _encode_metrics(request, None, process_meters)
            if is_allowed_host(request)
            else _MISDIRECTED
        )

    return {PATH: tell}


def _encode_metrics(
    request: PlainRequest,
    installation_collector: InstallationMetricsCollector | None,
    process_meters: Meters,
    *more: Collector,
) -> PlainResponse:
    encode, content_type = choose_encoder(request.get_header(b"accept"))
    registry = CollectorRegistry()
    registry.register(_PROCESS_COLLECTOR)
    registry.register(process_meters.registry)
    for each_collector in more:
        registry.register(each_collector)
    if installation_collector is not None:
        registry.register(installation_collector)
    return PlainResponse(200, encode(registry), content_type)


def is_allowed_host(request: PlainRequest) -> bool:
    """Return False for a host name that a web page can point at this machine (rebinding)."""
    host = request.get_header(b"host").lower()
    return host.partition(":")[0] in {"", "localhost"} or find_address(host) is not None


class InstallationMetricsCollector(Collector):
    """Converts a snapshot of the installation to metrics."""

    def __init__(self, installation_metrics: InstallationSnapshot) -> None:
        self._metrics = installation_metrics

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with all its labels."""
        for table in _TABLES:
            things = list(table.list_items(self._metrics))
            for name, reports, value in table.gauges:
                if name in STORE_METRICS and not self._metrics.is_store_up:
                    continue
                family = GaugeMetricFamily(f"florin_{name}", reports, labels=table.labels)
                for labels, thing in things:
                    family.add_metric(labels, float(value(thing)))
                yield family
