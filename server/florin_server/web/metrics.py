"""How the installation is doing, as Prometheus reads it: figures of now, and what was counted.

Figures are read when they are asked for, and a registry is made of them each time: nothing of an
earlier question is told. Labels are of the settings, the protos and the code, never what a caller
chose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from florin_gateway.forwarded import address_of
from florin_gateway.plain import PlainAnswer, PlainHandler, PlainRequest
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

import florin_server
from florin_server import meters
from florin_server.domain.conditions import Condition, State
from florin_server.domain.payments.payment import Status
from florin_server.flows.app import App, Wallet
from florin_server.flows.operator import figures
from florin_server.flows.operator.executors import Executor
from florin_server.flows.operator.figures import Books, Figures, Heap, Shared
from florin_server.flows.operator.process import ProcessFigures
from florin_server.flows.operator.system import Chain
from florin_server.meters import Family, Meters
from florin_server.rails.types import NodeState
from florin_server.web import process_metrics

PATH = "/metrics"
# memory, processor time and open files, where the system tells them
_PROCESS = ProcessCollector(registry=None)
_ELSEWHERE = PlainAnswer(421, b"", "text/plain")
_T = TypeVar("_T")
_SECOND_US = 1_000_000
_CONDITION = "0 as it should be, 1 worth knowing, 2 should be mended, 3 has to be mended now"
_SEVERITY = {state: float(place) for place, state in enumerate(State)}
# what waits for the operator's verdict and for nothing else
_HELD_BACK = "held"
_Item = tuple[tuple[str, ...], _T]
# gauges that are read from the store: left out while it is away, as nobody knows them then
FROM_STORE = frozenset(
    {
        "payments",
        "payments_blocked",
        "payments_processing",
        "payment_oldest_unfinished_seconds",
        "payout_oldest_owed_seconds",
        "payouts_owed",
        "executor_open_transactions",
        "executor_paused",
        "chain_hour_failed_gas",
        "chain_hour_opened_gas",
        "chain_payers_paused",
        "chain_payments_paused",
        "chain_payments_given_up",
        "webhooks_waiting",
        "webhook_oldest_undelivered_seconds",
        "webhook_endpoints_paused",
    }
)

# what each label says, and what bounds it
LABELS: Mapping[str, str] = {
    "version": "of Florin",
    "protocol": "`rest` or `grpc`",
    "method": "the RPC as `Service.Method`, or the path of a page with its variables unresolved; "
    "empty for paths that there are not",
    "code": "HTTP status of REST (499: the client left first), name of the status of gRPC",
    "status": "where a payment or a payout stands, as in [states](states.md)",
    "chain": "CAIP-2 id of a chain of the settings",
    "node": "place among the nodes of a chain, from 1",
    "host": "host of a node, nothing else of its address",
    "account": "CAIP-10 account of the installation",
    "executor": "CAIP-10 account that sends",
    "asset": "CAIP-19 id of an asset that is booked",
    "condition": "one of the [conditions](conditions.md)",
    "limit": "what was refused, as `[limits]` of the [settings](settings.md#limits) begins, or why "
    "a budget of gas refused it",
    "outcome": "of a transaction: `succeeded`, `reverted`, `replaced`; of a payout's: `done`, "
    "`again` (it is sent once more), `unproven` (the operator has to look); of an exchange of "
    "limits: `done`, `failed`; of an attempt to tell an endpoint: `delivered`, `failed`",
    "hint": "`sent`, `heard`, `dropped` (the store was away, or too many waited), `ignored` (of "
    "another version, or none at all)",
    "lease": "`relayer:` and the account that sends",
    "pool": "what connections are for: `read`, `survey` (many rows) or `write`",
    "holder": "whose answer is held: `merchant`, `key`, `app`, `page`, `nobody` (health)",
}


class _Table(NamedTuple, Generic[_T]):
    """Gauges about things of one kind; each thing has a value of each."""

    labels: tuple[str, ...]
    things: Callable[[Figures], Iterable[_Item[_T]]]
    gauges: tuple[tuple[str, str, Callable[[_T], float]], ...]


def _age(now_us: int, since_us: int) -> float:
    return max(0, now_us - since_us) / _SECOND_US


def _by_status(f: Figures) -> Iterator[_Item[int]]:
    yield (Status.REQUIRES_ACTION,), f.backlog.unconfirmed
    yield (Status.PROCESSING,), sum(one.count for one in f.backlog.payments)


def _oldest(heaps: Iterable[Heap], now_us: int) -> float:
    return max((_age(now_us, one.oldest_us) for one in heaps), default=0.0)


def _conditions(f: Figures) -> Iterator[_Item[Condition]]:
    for chain in f.chains:
        for one in chain.conditions:
            yield (chain.chain_id, one.name), one


def _nodes(f: Figures) -> Iterator[_Item[NodeState]]:
    # two nodes may have one host: their places in the settings tell them apart
    for chain in f.chains:
        for place, node in enumerate(chain.nodes, 1):
            yield (chain.chain_id, str(place), node.name), node


def _wallets(f: Figures) -> Iterator[_Item[Wallet]]:
    for books in f.books:
        for one in books.wallets:
            yield (one.account, one.asset), one


_ALL = _Table[Figures](
    (),
    lambda f: [((), f)],
    (
        ("store_up", "1 while the process reads its store", lambda o: o.store_up),
        ("payments_blocked", "payments of blocked payers without a verdict", lambda o: o.blocked),
        (
            "payment_oldest_unfinished_seconds",
            "time since the oldest payment was confirmed that is not final, held ones left out",
            lambda o: _oldest((p for p in o.backlog.payments if p.state != _HELD_BACK), o.now_us),
        ),
        (
            "payout_oldest_owed_seconds",
            "time since the oldest payout that is not done was asked for",
            lambda o: _oldest(o.backlog.payouts, o.now_us),
        ),
        (
            "payments_processing",
            "payments accepted and not final",
            lambda o: sum(one.count for one in o.backlog.payments),
        ),
        ("payments_watched", "streams and long polls about payments", lambda o: o.watched_payments),
        ("payouts_watched", "streams about payouts", lambda o: o.watched_payouts),
        ("calls_keyed", "wallet calls under a key, or waiting for it", lambda o: o.keyed_calls),
        ("store_queue_operations", "writes that wait to be durable", lambda o: o.writes_queued),
        ("tasks", "tasks of the event loop; streams and calls have some each", lambda o: o.tasks),
        (
            "webhooks_waiting",
            "payments of which an endpoint has not been told everything",
            lambda o: o.webhooks.waiting,
        ),
        (
            "webhook_oldest_undelivered_seconds",
            "time since the oldest event that is not delivered, paused endpoints left out",
            lambda o: _age(o.now_us, o.webhooks.oldest_us or o.now_us),
        ),
        (
            "webhook_endpoints_paused",
            "endpoints that are told nothing as they took nothing",
            lambda o: o.webhooks.paused,
        ),
        (
            "machine_clock_ahead_seconds",
            "how far the machine's clock is before the database's; below 0 where it is behind",
            lambda o: o.machine_ahead_us / 1_000_000,
        ),
        (
            "hints_listening",
            "1 while it hears at once what other processes on its database change",
            lambda o: o.listening,
        ),
    ),
)
_STATUSES = _Table[int](
    ("status",), _by_status, (("payments", "payments that are not over, by status", float),)
)
_CHAINS = _Table[Chain](
    ("chain",),
    lambda f: [((one.chain_id,), one) for one in f.chains],
    (
        ("chain_ok", "1 while nothing is wrong with it", lambda o: not o.problem),
        ("chain_head_block", "the newest block seen", lambda o: o.head),
        ("chain_open_transactions", "neither final nor replaced", lambda o: o.open_transactions),
        (
            "chain_settlement_turns",
            "turns of its settler since the start: it stands still if they do not grow",
            lambda o: o.turns,
        ),
        ("chain_payments_open", "accepted payments it follows", lambda o: o.open_payments),
        ("chain_events_remembered", "settlement events in memory", lambda o: o.remembered_events),
        ("chain_hour_failed_gas", "gas of this hour that paid nothing", lambda o: o.gas.failed),
        ("chain_hour_opened_gas", "gas of this hour that deployed wallets", lambda o: o.gas.opened),
        ("chain_payers_paused", "payers without gas this hour", lambda o: o.gas.paused_payers),
        ("chain_payments_paused", "accepted payments that wait for gas", lambda o: o.gas.paused),
        ("chain_payments_given_up", "payments not sent any more", lambda o: o.gas.given_up),
    ),
)
_PACES = _Table[float](
    ("chain",),
    lambda f: [((one.chain_id,), one.block_s) for one in f.chains if one.block_s],
    (("chain_block_seconds", "between blocks, on Solana between slots, as measured", float),),
)
_PROMISES = _Table[float](
    ("chain",),
    lambda f: [((one.chain_id,), one.settle_s) for one in f.chains if one.settle_s is not None],
    (("chain_settle_seconds", "from confirm to final: median of its newest payments", float),),
)
_OF_CHAINS = _Table[Condition](
    ("chain", "condition"),
    _conditions,
    (("chain_condition", _CONDITION, lambda o: _SEVERITY[o.state]),),
)
_OF_NONE = _Table[Condition](
    ("condition",),
    lambda f: [((one.name,), one) for one in f.conditions],
    (("condition", _CONDITION, lambda o: _SEVERITY[o.state]),),
)
_NODES = _Table[NodeState](
    ("chain", "node", "host"),
    _nodes,
    (
        ("node_ok", "1 while it is used", lambda o: not o.problem),
        ("node_head_block", "the newest block that it told", lambda o: o.head),
        ("node_lag_blocks", "blocks behind the best node", lambda o: o.lag),
        ("node_latency_seconds", "how long it takes to answer", lambda o: o.latency_ms / 1000),
        ("node_error_ratio", "share of recent questions left unanswered", lambda o: o.error_rate),
    ),
)
_EXECUTORS = _Table[Executor](
    ("executor",),
    lambda f: [((one.id,), one) for one in f.executors],
    (
        ("executor_open_transactions", "neither final nor replaced", lambda o: o.open_transactions),
        ("executor_paused", "1 while it sends nothing new", lambda o: o.paused_at_us is not None),
    ),
)
_OWED = _Table[int](
    ("chain", "status"),
    lambda f: [((one.chain_id, one.state), one.count) for one in f.backlog.payouts],
    (("payouts_owed", "payouts and refunds that are not done", float),),
)
_BOOKS = _Table[Books](
    ("chain",),
    lambda f: [((one.chain_id,), one) for one in f.books],
    (
        (
            "books_compared_timestamp_seconds",
            "when wallets were compared with the books last; 0 if they never were",
            lambda o: o.compared_at_us / _SECOND_US,
        ),
    ),
)
_WALLETS = _Table[Wallet](
    ("account", "asset"),
    _wallets,
    (
        ("wallet_balance_minor_units", "what it held then, in minor units", lambda o: o.held),
        ("wallet_booked_minor_units", "what is booked, in minor units", lambda o: o.booked),
    ),
)
_HELD = _Table[int](
    ("holder",),
    lambda f: [((one,), count) for one, count in f.held.items()],
    (("held_answers", "streams and long polls that count in a limit", float),),
)
_SHARED = _Table[Shared](
    (),
    lambda f: [((), one) for one in f.shared],
    (
        ("limit_processes", "processes that keep limits together", lambda o: o.processes),
        ("limit_budgets_shared", "budgets of this process in the store", lambda o: o.budgets),
        (
            "limit_exchange_age_seconds",
            "time since it heard of the others: meanwhile it counts for itself",
            lambda o: o.age_us / _SECOND_US,
        ),
    ),
)
_VERSION = _Table[str](
    ("version",),
    lambda _: [((florin_server.__version__,), "")],
    (("info", "the version that runs; always 1", lambda _: 1),),
)
_TABLES: tuple[_Table[Any], ...] = (
    _VERSION,
    _ALL,
    _STATUSES,
    _HELD,
    _SHARED,
    _OF_NONE,
    _CHAINS,
    _PACES,
    _PROMISES,
    _OF_CHAINS,
    _NODES,
    _EXECUTORS,
    _OWED,
    _BOOKS,
    _WALLETS,
)


def families() -> list[Family]:
    """Every metric, those of the process as such left out."""
    gauges = [
        Family(f"florin_{name}", "gauge", table.labels, tells)
        for table in _TABLES
        for name, tells, _ in table.gauges
    ]
    return [*gauges, *process_metrics.FAMILIES, *meters.FAMILIES]


def routes(
    app: App, keyed_calls: Callable[[], int], process: Callable[[], ProcessFigures]
) -> Mapping[str, PlainHandler]:
    """The handler by its path; `keyed_calls` counts those that are under a key.

    `process` reads the numbers of this process.
    """

    async def tell(request: PlainRequest) -> PlainAnswer:
        if not is_near(request):
            return _ELSEWHERE
        known = Known(await figures.read(app, keyed_calls()))
        return _told(request, known, app.meters, process_metrics.ProcessMetrics(process()))

    return {PATH: tell}


def counted(known: Meters) -> Mapping[str, PlainHandler]:
    """The same of a process that has meters and nothing else."""

    async def tell(request: PlainRequest) -> PlainAnswer:
        return _told(request, None, known) if is_near(request) else _ELSEWHERE

    return {PATH: tell}


def _told(
    request: PlainRequest, known: Known | None, counts: Meters, *more: Collector
) -> PlainAnswer:
    encode, content_type = choose_encoder(request.header(b"accept"))
    registry = CollectorRegistry()
    registry.register(_PROCESS)
    registry.register(counts.registry)
    for one in more:
        registry.register(one)
    if known is not None:
        registry.register(known)
    return PlainAnswer(200, encode(registry), content_type)


def is_near(request: PlainRequest) -> bool:
    """False for a name that a page in a browser on this machine may have had lead here."""
    host = request.header(b"host").lower()
    return host.partition(":")[0] in {"", "localhost"} or address_of(host) is not None


class Known(Collector):
    """Figures as metrics."""

    def __init__(self, known: Figures) -> None:
        self._known = known

    def collect(self) -> Iterator[Metric]:
        """Every metric, with all its labels."""
        for table in _TABLES:
            things = list(table.things(self._known))
            for name, tells, value in table.gauges:
                if name in FROM_STORE and not self._known.store_up:
                    continue
                family = GaugeMetricFamily(f"florin_{name}", tells, labels=table.labels)
                for labels, thing in things:
                    family.add_metric(labels, float(value(thing)))
                yield family
