"""Metrics of one process that need no store: connections, leases, calls to nodes, disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from florin_server.flows.operator.process import Disk, ProcessFigures
from florin_server.meters import Family

_Sample = tuple[tuple[str, ...], float]


class _Metric(NamedTuple):
    family: Family
    samples: Callable[[ProcessFigures], Iterator[_Sample]]


def _pools(field: str) -> Callable[[ProcessFigures], Iterator[_Sample]]:
    def read(known: ProcessFigures) -> Iterator[_Sample]:
        for kind, use in known.pools.items():
            yield (kind,), float(getattr(use, field))

    return read


def _leases(known: ProcessFigures) -> Iterator[_Sample]:
    for account, leads in known.leases.items():
        yield (f"relayer:{account}",), float(leads)


def _node_calls(known: ProcessFigures) -> Iterator[_Sample]:
    for labels, count in known.node_calls.items():
        yield labels, float(count)


def _restarts(known: ProcessFigures) -> Iterator[_Sample]:
    if known.facts.restarts is not None:
        yield (), float(known.facts.restarts)


def _certificate(known: ProcessFigures) -> Iterator[_Sample]:
    if known.facts.certificate_until_s is not None:
        yield (), known.facts.certificate_until_s


def _disk(value: Callable[[Disk], int]) -> Callable[[ProcessFigures], Iterator[_Sample]]:
    def read(known: ProcessFigures) -> Iterator[_Sample]:
        if known.disk is not None:
            yield (), float(value(known.disk))

    return read


_METRICS = (
    _Metric(
        Family(
            "florin_store_connections_in_use",
            "gauge",
            ("pool",),
            "connections to PostgreSQL that are in use",
        ),
        _pools("in_use"),
    ),
    _Metric(
        Family(
            "florin_store_connections_max",
            "gauge",
            ("pool",),
            "connections to PostgreSQL that may be in use at a time",
        ),
        _pools("size"),
    ),
    _Metric(
        Family(
            "florin_store_connection_waiters",
            "gauge",
            ("pool",),
            "callers that wait for a connection to PostgreSQL",
        ),
        _pools("waiting"),
    ),
    _Metric(
        Family(
            "florin_lease_held",
            "gauge",
            ("lease",),
            "1 if this process has the lease, and so signs with its key",
        ),
        _leases,
    ),
    _Metric(
        Family(
            "florin_node_calls_total",
            "counter",
            ("chain", "method"),
            "calls to nodes of a chain, as providers bill them",
        ),
        _node_calls,
    ),
    _Metric(
        Family(
            "florin_supervisor_restarts_total",
            "counter",
            (),
            "how often the supervisor has started this process again after it died",
        ),
        _restarts,
    ),
    _Metric(
        Family(
            "florin_certificate_expiry_timestamp_seconds",
            "gauge",
            (),
            "when the certificate that this process shows expires",
        ),
        _certificate,
    ),
    _Metric(
        Family(
            "florin_home_free_bytes",
            "gauge",
            (),
            "free space of the file system of the state folder",
        ),
        _disk(lambda disk: disk.free),
    ),
    _Metric(
        Family(
            "florin_home_size_bytes", "gauge", (), "size of the file system of the state folder"
        ),
        _disk(lambda disk: disk.size),
    ),
)
FAMILIES = tuple(one.family for one in _METRICS)


class ProcessMetrics(Collector):
    """Numbers of one process as metrics."""

    def __init__(self, known: ProcessFigures) -> None:
        self._known = known

    def collect(self) -> Iterator[Metric]:
        """Every metric, with all its labels."""
        for family, samples in _METRICS:
            told = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
            metric = told(family.name, family.tells, labels=family.labels)
            for labels, value in samples(self._known):
                metric.add_metric(labels, value)
            yield metric
