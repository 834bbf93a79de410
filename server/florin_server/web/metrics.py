"""How the installation is doing, as Prometheus reads it: the status of the system in numbers.

Facts are read when they are asked for, and a registry is made of them each time: nothing is
counted twice, and nothing of an earlier question is told. Labels are chains, nodes and keys of the
settings, never anything that a caller chose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from florin_gateway.plain import PlainAnswer, PlainHandler, PlainRequest
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

import florin_server
from florin_server.domain.conditions import Condition, State
from florin_server.flows.app import App
from florin_server.flows.operator import executors, health, system
from florin_server.flows.operator.executors import Executor
from florin_server.rails.types import NodeState

PATH = "/metrics"
# memory, processor time and open files, where the system tells them
_PROCESS = ProcessCollector(registry=None)
_Samples = Iterable[tuple[tuple[str, ...], float]]
_T = TypeVar("_T")
# name without what it begins with, help, and the value
_Table = tuple[tuple[str, str, Callable[[_T], float]], ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known at one moment; counts are of this process's installation."""

    chains: Sequence[system.Chain]
    executors: Sequence[Executor]
    processing: int
    blocked: int
    watched_payments: int
    watched_payouts: int
    keyed_calls: int
    conditions: Sequence[Condition]  # of no chain in particular


_VERSION = [((florin_server.__version__,), 1.0)]
_OF_ALL: _Table[Facts] = (
    ("payments_processing", "Payments accepted and not final", lambda o: o.processing),
    ("payments_blocked", "Payments of blocked payers without a verdict", lambda o: o.blocked),
    ("payments_watched", "Streams and long polls about payments", lambda o: o.watched_payments),
    ("payouts_watched", "Streams about payouts", lambda o: o.watched_payouts),
    ("calls_keyed", "Wallet calls that hold their key, or wait for it", lambda o: o.keyed_calls),
)
_OF_CHAINS: _Table[system.Chain] = (
    ("ok", "1 while nothing is wrong with it", lambda o: not o.problem),
    ("head_block", "The newest block seen", lambda o: o.head),
    ("open_transactions", "Neither final nor replaced", lambda o: o.open_transactions),
    ("settlement_turns", "Turns of its settler since the start", lambda o: o.turns),
    ("payments_open", "Accepted payments followed to their end", lambda o: o.open_payments),
    ("events_remembered", "Settlement events kept in memory", lambda o: o.remembered_events),
    ("hour_failed_gas", "Gas of this hour that paid nothing", lambda o: o.gas.failed),
    ("hour_opened_gas", "Gas of this hour that deployed wallets", lambda o: o.gas.opened),
    ("payers_paused", "Payers without gas for this hour", lambda o: o.gas.paused_payers),
    ("payments_paused", "Accepted payments that wait for gas", lambda o: o.gas.paused),
    ("payments_given_up", "Accepted payments not sent any more", lambda o: o.gas.given_up),
)
_OF_NODES: _Table[NodeState] = (
    ("ok", "1 while it is used", lambda o: not o.problem),
    ("head_block", "The newest block that it told", lambda o: o.head),
    ("lag_blocks", "Blocks behind the best node", lambda o: o.lag),
    ("latency_seconds", "How long it takes to answer", lambda o: o.latency_ms / 1000),
    ("error_ratio", "Share of recent questions left unanswered", lambda o: o.error_rate),
)
_OF_EXECUTORS: _Table[Executor] = (
    ("open_transactions", "Neither final nor replaced", lambda o: o.open_transactions),
    ("paused", "1 while it sends nothing new", lambda o: o.paused_at_us is not None),
)
_CONDITION = "0 as it should be, 1 worth knowing, 2 should be mended, 3 has to be mended now"
_SEVERITY = {state: float(place) for place, state in enumerate(State)}


def routes(app: App, keyed_calls: Callable[[], int]) -> Mapping[str, PlainHandler]:
    """The handler by its path; `keyed_calls` counts those that are under a key."""

    async def tell(request: PlainRequest) -> PlainAnswer:
        accept = next((value for name, value in request.headers if name == b"accept"), b"")
        encode, content_type = choose_encoder(accept.decode("latin-1"))
        registry = CollectorRegistry()
        registry.register(_PROCESS)
        registry.register(Known(await _facts(app, keyed_calls())))
        return PlainAnswer(200, encode(registry), content_type)

    return {PATH: tell}


async def _facts(app: App, keyed_calls: int) -> Facts:
    return Facts(
        chains=await system.chains(app),
        executors=await executors.listed(app),
        processing=await system.processing(app),
        blocked=await system.held_payments(app),
        watched_payments=app.hub.watchers,
        watched_payouts=app.payouts.followers,
        keyed_calls=keyed_calls,
        conditions=await health.of_installation(app),
    )


class Known(Collector):
    """Facts as metrics."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def collect(self) -> Iterator[Metric]:
        """Every metric, with all its labels."""
        facts = self._facts
        yield _gauge("florin_info", "The version that runs; always 1", _VERSION, "version")
        for name, told, of in _OF_ALL:
            yield _gauge(f"florin_{name}", told, [((), of(facts))])
        for name, told, of_chain in _OF_CHAINS:
            chains = [((one.chain_id,), of_chain(one)) for one in facts.chains]
            yield _gauge(f"florin_chain_{name}", told, chains, "chain")
        stand = [((one.name,), _SEVERITY[one.state]) for one in facts.conditions]
        yield _gauge("florin_condition", _CONDITION, stand, "condition")
        stands = [
            ((chain.chain_id, one.name), _SEVERITY[one.state])
            for chain in facts.chains
            for one in chain.conditions
        ]
        yield _gauge("florin_chain_condition", _CONDITION, stands, "chain", "condition")
        for name, told, of_node in _OF_NODES:
            # two nodes may have one host: their places in the settings tell them apart
            nodes = [
                ((chain.chain_id, str(place), node.name), of_node(node))
                for chain in facts.chains
                for place, node in enumerate(chain.nodes, 1)
            ]
            yield _gauge(f"florin_node_{name}", told, nodes, "chain", "node", "host")
        for name, told, of_key in _OF_EXECUTORS:
            keys = [((one.id,), of_key(one)) for one in facts.executors]
            yield _gauge(f"florin_executor_{name}", told, keys, "executor")


def _gauge(name: str, told: str, samples: _Samples, *labels: str) -> Metric:
    family = GaugeMetricFamily(name, told, labels=labels)
    for values, value in samples:
        family.add_metric(values, float(value))
    return family
