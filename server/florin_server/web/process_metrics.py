"""Metrics of one process that need no store: connections, leases, calls to nodes, disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from florin_server.base.meters import MetricFamily
from florin_server.features.monitoring.service.process import DiskSpace, ProcessSnapshot

_LabeledValue = tuple[tuple[str, ...], float]


class _ProcessMetric(NamedTuple):
    family: MetricFamily
    read_samples: Callable[[ProcessSnapshot], Iterator[_LabeledValue]]


def _make_pool_reader(field: str) -> Callable[[ProcessSnapshot], Iterator[_LabeledValue]]:
    def read(snapshot: ProcessSnapshot) -> Iterator[_LabeledValue]:
        for kind, use in snapshot.pools.items():
            yield (kind,), float(getattr(use, field))

    return read


def _read_leases(process_metrics: ProcessSnapshot) -> Iterator[_LabeledValue]:
    for account, leads in process_metrics.leases.items():
        yield (f"relayer:{account}",), float(leads)


def _read_node_calls(process_metrics: ProcessSnapshot) -> Iterator[_LabeledValue]:
    for labels, count in process_metrics.node_calls.items():
        yield labels, float(count)


def _read_restarts(process_metrics: ProcessSnapshot) -> Iterator[_LabeledValue]:
    if process_metrics.facts.restarts is not None:
        yield (), float(process_metrics.facts.restarts)


def _read_certificate_expiry(process_metrics: ProcessSnapshot) -> Iterator[_LabeledValue]:
    if process_metrics.facts.certificate_until_s is not None:
        yield (), process_metrics.facts.certificate_until_s


def _make_disk_reader(
    get_bytes: Callable[[DiskSpace], int],
) -> Callable[[ProcessSnapshot], Iterator[_LabeledValue]]:
    def read(snapshot: ProcessSnapshot) -> Iterator[_LabeledValue]:
        if snapshot.disk is not None:
            yield (), float(get_bytes(snapshot.disk))

    return read


_METRICS = (
    _ProcessMetric(
        MetricFamily(
            "florin_store_connections_in_use",
            "gauge",
            ("pool",),
            "connections to PostgreSQL that are in use",
        ),
        _make_pool_reader("in_use"),
    ),
    _ProcessMetric(
        MetricFamily(
            "florin_store_connections_max",
            "gauge",
            ("pool",),
            "connections to PostgreSQL that can be in use at a time",
        ),
        _make_pool_reader("size"),
    ),
    _ProcessMetric(
        MetricFamily(
            "florin_store_connection_waiters",
            "gauge",
            ("pool",),
            "callers that wait for a connection to PostgreSQL",
        ),
        _make_pool_reader("waiting"),
    ),
    _ProcessMetric(
        MetricFamily(
            "florin_lease_held",
            "gauge",
            ("lease",),
            "1 if this process has the lease and signs with its key",
        ),
        _read_leases,
    ),
    _ProcessMetric(
        MetricFamily(
            "florin_node_calls_total",
            "counter",
            ("chain", "method"),
            "calls to nodes of a chain, as providers bill them",
        ),
        _read_node_calls,
    ),
    _ProcessMetric(
        MetricFamily(
            "florin_supervisor_restarts_total",
            "counter",
            (),
            "restarts of this process by the supervisor after it died",
        ),
        _read_restarts,
    ),
    _ProcessMetric(
        MetricFamily(
            "florin_certificate_expiry_timestamp_seconds",
            "gauge",
            (),
            "when the TLS certificate of this process expires",
        ),
        _read_certificate_expiry,
    ),
    _ProcessMetric(
        MetricFamily(
            "florin_home_free_bytes",
            "gauge",
            (),
            "free space of the file system of the state folder",
        ),
        _make_disk_reader(lambda disk: disk.free_bytes),
    ),
    _ProcessMetric(
        MetricFamily(
            "florin_home_size_bytes", "gauge", (), "size of the file system of the state folder"
        ),
        _make_disk_reader(lambda disk: disk.total_bytes),
    ),
)
FAMILIES = tuple(metric.family for metric in _METRICS)


class ProcessMetricsCollector(Collector):
    """Converts the numbers of one process to metrics."""

    def __init__(self, process_metrics: ProcessSnapshot) -> None:
        self._metrics = process_metrics

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with all its labels."""
        for family, samples in _METRICS:
            metric_class = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
            metric = metric_class(family.name, family.description, labels=family.labels)
            for labels, value in samples(self._metrics):
                metric.add_metric(labels, value)
            yield metric
