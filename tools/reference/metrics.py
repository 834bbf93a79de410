"""`metrics.md`: every metric with its labels, from the tables that define them."""

from __future__ import annotations

from florin_server.base.meters import MetricFamily
from florin_server.web.metric_labels import LABELS
from florin_server.web.metrics import list_families

from tools.reference.markdown import format_code, format_sentence, render_page, render_table

_ABOUT = """\
The metrics that Prometheus reads from `/metrics` of
[`FLORIN_METRICS_PORT`](../monitoring.md#metrics). Gauges have the value at the time of reading;
other metrics count from the start of the process. A process reports its own values. All processes
report equal values for the whole installation (payments, payouts, conditions, wallets, chains): use
`max` for those, and `sum` for counts."""
_HISTOGRAM = """\
In a histogram, `_count` is the number of observations, `_sum` their total in seconds, and `_bucket`
the number of those that took no longer than `le`."""
_PROCESS = """\
Every process adds these metrics if its system provides them:
`process_resident_memory_bytes`, `process_cpu_seconds_total`, `process_open_fds`,
`process_max_fds`, `process_start_time_seconds` and `process_virtual_memory_bytes`."""


def render_metrics() -> str:
    """Return the document."""
    families = list_families()
    used = [label for label in LABELS if any(label in family.labels for family in families)]
    if missing := {label for family in families for label in family.labels}.difference(used):
        raise LookupError(f"labels without an explanation: {missing}")
    gauges = [family for family in families if family.kind == "gauge"]
    counts = [family for family in families if family.kind != "gauge"]
    return render_page(
        "Metrics",
        _ABOUT,
        "## Gauges",
        _render_metric_table(gauges),
        "## Counters and histograms",
        _HISTOGRAM,
        _render_metric_table(counts),
        "## Labels",
        "Callers cannot choose the value of a label.",
        render_table(
            ("Label", "Value"),
            [(format_code(label), format_sentence(LABELS[label])) for label in used],
        ),
        "## The process",
        _PROCESS,
    )


def _render_metric_table(families: list[MetricFamily]) -> str:
    rows = [
        (
            format_code(family.name),
            family.kind,
            ", ".join(map(format_code, family.labels)),
            format_sentence(family.description),
        )
        for family in families
    ]
    return render_table(("Metric", "Kind", "Labels", "Meaning"), rows)
