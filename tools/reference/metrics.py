"""`metrics.md`: every metric with its labels, from the tables that are told and counted by."""

from __future__ import annotations

from florin_server.meters import Family
from florin_server.web.metrics import LABELS, families

from tools.reference.markdown import code, page, sentence, table

_ABOUT = """\
What Prometheus reads from `/metrics` of [`FLORIN_METRICS_PORT`](../monitoring.md#metrics). Gauges
are of the moment when they are read, the others are counted from the start of the process. A
process tells its own; what is of the whole installation (payments, payouts, conditions, wallets,
chains) is told alike by all of them: take the `max` of it, and the `sum` of what is counted."""
_HISTOGRAM = """\
Of a histogram, `_count` is how many there were, `_sum` their seconds together, and `_bucket` how
many took no longer than `le`."""
_PROCESS = """\
Beside these there are those of every process, where the system tells them:
`process_resident_memory_bytes`, `process_cpu_seconds_total`, `process_open_fds`,
`process_max_fds`, `process_start_time_seconds` and `process_virtual_memory_bytes`."""


def metrics() -> str:
    """The document."""
    found = families()
    used = [label for label in LABELS if any(label in one.labels for one in found)]
    if missing := {label for one in found for label in one.labels}.difference(used):
        raise LookupError(f"labels that nobody explained: {missing}")
    gauges = [one for one in found if one.kind == "gauge"]
    counts = [one for one in found if one.kind != "gauge"]
    return page(
        "Metrics",
        _ABOUT,
        "## Gauges",
        _table(gauges),
        "## Counters and histograms",
        _HISTOGRAM,
        _table(counts),
        "## Labels",
        "No value of a label is chosen by a caller.",
        table(("Label", "Value"), [(code(one), sentence(LABELS[one])) for one in used]),
        "## The process",
        _PROCESS,
    )


def _table(found: list[Family]) -> str:
    rows = [
        (code(one.name), one.kind, ", ".join(map(code, one.labels)), sentence(one.tells))
        for one in found
    ]
    return table(("Metric", "Kind", "Labels", "What it tells"), rows)
