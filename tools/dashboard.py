"""Writes the Grafana dashboard from its panels; with `--check` says whether it is current.

Queries take the `sum` of what processes count and the `max` of what all of them tell alike, so
that they are right for one process and for several.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).resolve().parents[1] / "deploy" / "monitoring" / "grafana-dashboard.json"
_WIDE, _HIGH, _COLUMNS = 8, 7, 3
_SOURCE = {"type": "prometheus", "uid": "${source}"}


class Panel(NamedTuple):
    """One picture: its title, Grafana's unit, and queries with what their lines are called."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    kind: str = "timeseries"


def _rate(name: str, by: str, match: str = "") -> str:
    return f"sum by ({by}) (rate({name}{match}[$__rate_interval]))"


def _quantile(share: float, name: str, by: str, match: str = "") -> str:
    labels = ", ".join(one for one in (by, "le") if one)
    return f"histogram_quantile({share}, {_rate(f'{name}_bucket', labels, match)})"


def _most(name: str, by: str = "", match: str = "") -> str:
    return f"max by ({by}) ({name}{match})" if by else f"max({name}{match})"


_CALLS = "florin_request_duration_seconds"
_SETTLED = "florin_settlement_duration_seconds"
_COMMIT = "florin_store_commit_duration_seconds"
_LAG = "florin_event_loop_lag_seconds"
_ON = '{chain=~"$chain"}'
_FAULTS = '{code=~"5..|INTERNAL|UNAVAILABLE|UNKNOWN|DEADLINE_EXCEEDED"}'
_SHORT = '{method!~".*[.]Watch.*|.*/events"}'

ROWS: dict[str, tuple[Panel, ...]] = {
    "How it is": (
        Panel(
            "Conditions (2: mend it, 3: mend it now)",
            "none",
            (
                (
                    f"{_most('florin_chain_condition', 'chain, condition', _ON)} > 0",
                    "{{chain}} {{condition}}",
                ),
                (f"{_most('florin_condition', 'condition')} > 0", "{{condition}}"),
            ),
        ),
        Panel(
            "Chains are well", "none", ((f"min by (chain) (florin_chain_ok{_ON})", "{{chain}}"),)
        ),
        Panel(
            "Processes that reach the store",
            "none",
            (("sum(florin_store_up)", "reach it"), ("min(florin_store_up)", "all of them")),
        ),
        Panel("Version", "none", ((_most("florin_info", "version"), "{{version}}"),), "stat"),
    ),
    "Payments": (
        Panel(
            "Payments by what became of them",
            "ops",
            ((_rate("florin_payment_changes_total", "status"), "{{status}}"),),
        ),
        Panel(
            "Open payments",
            "short",
            (
                (_most("florin_payments", "status"), "{{status}}"),
                (_most("florin_payments_processing"), "processing"),
                (_most("florin_payments_blocked"), "of blocked payers"),
            ),
        ),
        Panel(
            "Oldest unfinished",
            "s",
            (
                (_most("florin_payment_oldest_unfinished_seconds"), "payment"),
                (_most("florin_payout_oldest_owed_seconds"), "payout"),
            ),
        ),
        Panel(
            "Confirm to final",
            "s",
            (
                (_quantile(0.5, _SETTLED, "chain", _ON), "{{chain}} half"),
                (_quantile(0.9, _SETTLED, "chain", _ON), "{{chain}} nine of ten"),
            ),
        ),
        Panel(
            "Payouts",
            "short",
            (
                (_most("florin_payouts_owed", "chain, status", _ON), "{{chain}} {{status}}"),
                (
                    f"sum by (chain, outcome) (increase(florin_payout_attempts_total{_ON}[1h]))",
                    "{{chain}} {{outcome}} in an hour",
                ),
            ),
        ),
        Panel(
            "Payments that wait for gas",
            "short",
            (
                (_most("florin_chain_payments_paused", "chain", _ON), "{{chain}} paused"),
                (_most("florin_chain_payments_given_up", "chain", _ON), "{{chain}} given up"),
                (_most("florin_chain_payers_paused", "chain", _ON), "{{chain}} payers"),
            ),
        ),
    ),
    "Calls": (
        Panel(
            "Calls by protocol and code",
            "reqps",
            ((_rate(f"{_CALLS}_count", "protocol, code"), "{{protocol}} {{code}}"),),
        ),
        Panel(
            "Calls by method",
            "reqps",
            ((f"topk(10, {_rate(f'{_CALLS}_count', 'method')})", "{{method}}"),),
        ),
        Panel(
            "How long they take",
            "s",
            (
                (_quantile(0.5, _CALLS, "protocol", _SHORT), "{{protocol}} half"),
                (_quantile(0.99, _CALLS, "protocol", _SHORT), "{{protocol}} 99 of 100"),
            ),
        ),
        Panel(
            "Calls that fail by our fault",
            "reqps",
            ((_rate(f"{_CALLS}_count", "method, code", _FAULTS), "{{method}} {{code}}"),),
        ),
        Panel(
            "Requests being answered",
            "short",
            (("sum by (protocol) (florin_requests_in_flight)", "{{protocol}}"),),
        ),
        Panel(
            "Refused as too many",
            "reqps",
            ((_rate("florin_limit_refusals_total", "limit"), "{{limit}}"),),
        ),
        Panel(
            "Held answers and watchers",
            "short",
            (
                ("sum by (holder) (florin_held_answers)", "{{holder}}"),
                ("sum(florin_payments_watched)", "watch payments"),
                ("sum(florin_payouts_watched)", "watch payouts"),
                ("sum(florin_calls_keyed)", "calls under a key"),
            ),
        ),
    ),
    "Store and process": (
        Panel(
            "Limits kept with other processes",
            "short",
            (
                (_most("florin_limit_processes"), "processes"),
                (_most("florin_limit_budgets_shared"), "budgets"),
                (_most("florin_limit_exchange_age_seconds"), "seconds since they heard"),
                (_rate("florin_limit_exchanges_total", "outcome"), "{{outcome}} a second"),
            ),
        ),
        Panel(
            "Time of a commit",
            "s",
            ((_quantile(0.5, _COMMIT, ""), "half"), (_quantile(0.99, _COMMIT, ""), "99 of 100")),
        ),
        Panel(
            "Writes",
            "ops",
            (
                ("sum(rate(florin_store_operations_total[$__rate_interval]))", "writes"),
                (f"sum(rate({_COMMIT}_count[$__rate_interval]))", "commits"),
            ),
        ),
        Panel(
            "Changes that processes told each other",
            "ops",
            (
                (_rate("florin_hints_total", "hint"), "{{hint}}"),
                ("sum(florin_hints_listening)", "processes that listen"),
            ),
        ),
        Panel(
            "Webhooks",
            "short",
            (
                (_rate("florin_webhook_attempts_total", "outcome"), "{{outcome}} a second"),
                (_most("florin_webhooks_waiting"), "payments that wait"),
                (_most("florin_webhook_endpoints_paused"), "endpoints paused"),
                (_most("florin_webhook_oldest_undelivered_seconds"), "s of the oldest"),
            ),
        ),
        Panel("Writes that wait", "short", (("sum(florin_store_queue_operations)", "writes"),)),
        Panel(
            "Processor",
            "percentunit",
            ((_rate("process_cpu_seconds_total", "instance", '{job="florin"}'), "{{instance}}"),),
        ),
        Panel(
            "Memory",
            "bytes",
            (
                (
                    _most("process_resident_memory_bytes", "instance", '{job="florin"}'),
                    "{{instance}}",
                ),
            ),
        ),
        Panel(
            "Open files",
            "short",
            ((_most("process_open_fds", "instance", '{job="florin"}'), "{{instance}}"),),
        ),
        Panel("Tasks", "short", (("sum(florin_tasks)", "tasks"),)),
        Panel(
            "Event loop: how late timers run",
            "s",
            (
                (_quantile(0.5, _LAG, ""), "half"),
                (_quantile(0.99, _LAG, ""), "99 of 100"),
            ),
        ),
        Panel(
            "Connections to PostgreSQL",
            "short",
            (
                ("sum by (pool) (florin_store_connections_in_use)", "{{pool}} in use"),
                ("sum by (pool) (florin_store_connections_max)", "{{pool}} at most"),
                ("sum by (pool) (florin_store_connection_waiters)", "{{pool}} waiting"),
                ("sum(rate(florin_store_retries_total[$__rate_interval]))", "retries a second"),
            ),
        ),
        Panel(
            "Processes started again in an hour",
            "short",
            (("sum(increase(florin_supervisor_restarts_total[1h]))", "restarts"),),
        ),
        Panel(
            "Free space of the state folder",
            "percentunit",
            (("min(florin_home_free_bytes / florin_home_size_bytes)", "least"),),
        ),
        Panel(
            "Certificate ends in",
            "s",
            (("min(florin_certificate_expiry_timestamp_seconds) - time()", "soonest"),),
        ),
        Panel(
            "Machine's clock before the database's",
            "s",
            ((_most("florin_machine_clock_ahead_seconds"), "farthest ahead"),),
        ),
    ),
    "Chains": (
        Panel(
            "Newest block", "none", ((_most("florin_chain_head_block", "chain", _ON), "{{chain}}"),)
        ),
        Panel(
            "Time between blocks and to be final",
            "s",
            (
                (_most("florin_chain_block_seconds", "chain", _ON), "{{chain}} block"),
                (_most("florin_chain_settle_seconds", "chain", _ON), "{{chain}} final"),
            ),
        ),
        Panel(
            "Nodes behind",
            "short",
            ((_most("florin_node_lag_blocks", "chain, node, host", _ON), "{{chain}} {{host}}"),),
        ),
        Panel(
            "Nodes: time to answer",
            "s",
            (
                (
                    _most("florin_node_latency_seconds", "chain, node, host", _ON),
                    "{{chain}} {{host}}",
                ),
            ),
        ),
        Panel(
            "Nodes: calls",
            "ops",
            (
                (
                    f"topk(10, {_rate('florin_node_calls_total', 'chain, method', _ON)})",
                    "{{chain}} {{method}}",
                ),
            ),
        ),
        Panel(
            "Nodes: unanswered",
            "percentunit",
            ((_most("florin_node_error_ratio", "chain, node, host", _ON), "{{chain}} {{host}}"),),
        ),
        Panel(
            "Nodes in use",
            "none",
            (
                (_most("florin_node_ok", "chain, node, host", _ON), "{{chain}} {{host}}"),
                (
                    f"max by (chain, host) (delta(florin_node_head_block{_ON}[5m]))",
                    "{{host}} blocks in 5 min",
                ),
            ),
        ),
        Panel(
            "Settlers",
            "short",
            (
                (_most("florin_chain_open_transactions", "chain", _ON), "{{chain}} transactions"),
                (_most("florin_chain_payments_open", "chain", _ON), "{{chain}} payments"),
                (_most("florin_chain_events_remembered", "chain", _ON), "{{chain}} events"),
                (
                    f"max by (chain) (delta(florin_chain_settlement_turns{_ON}[5m]))",
                    "{{chain}} turns",
                ),
            ),
        ),
    ),
    "Money": (
        Panel(
            "Gas that was paid",
            "short",
            ((_rate("florin_gas_cost_minor_units_total", "account"), "{{account}}"),),
        ),
        Panel(
            "Wallets",
            "short",
            (
                (
                    _most("florin_wallet_balance_minor_units", "account, asset"),
                    "{{account}} {{asset}}",
                ),
            ),
        ),
        Panel(
            "Wallets beside their books",
            "short",
            (
                (
                    (
                        f"{_most('florin_wallet_balance_minor_units', 'account, asset')}"
                        f" - {_most('florin_wallet_booked_minor_units', 'account, asset')}"
                    ),
                    "{{account}} {{asset}}",
                ),
            ),
        ),
        Panel(
            "Transactions that ended",
            "short",
            (
                (
                    f"sum by (chain, outcome) (increase(florin_transactions_total{_ON}[1h]))",
                    "{{chain}} {{outcome}} in an hour",
                ),
            ),
        ),
        Panel(
            "Gas of this hour that budgets count",
            "short",
            (
                (_most("florin_chain_hour_failed_gas", "chain", _ON), "{{chain}} failed"),
                (_most("florin_chain_hour_opened_gas", "chain", _ON), "{{chain}} opened"),
            ),
        ),
        Panel(
            "Processes that have a lease",
            "none",
            (("sum by (lease) (florin_lease_held)", "{{lease}}"),),
        ),
        Panel(
            "Keys",
            "short",
            (
                (_most("florin_executor_open_transactions", "executor"), "{{executor}} open"),
                (f"{_most('florin_executor_paused', 'executor')} > 0", "{{executor}} paused"),
                (
                    f"time() - max by (chain) (florin_books_compared_timestamp_seconds{_ON})",
                    "{{chain}} s since the books were compared",
                ),
            ),
        ),
    ),
}


def dashboard() -> str:
    """The file."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS.items():
        panels.append(
            _placed({"type": "row", "title": title, "collapsed": False}, panels, (0, y), (24, 1))
        )
        y += 1
        for place, panel in enumerate(row):
            x, down = place % _COLUMNS * _WIDE, place // _COLUMNS * _HIGH
            panels.append(_placed(_drawn(panel), panels, (x, y + down), (_WIDE, _HIGH)))
        y += -(-len(row) // _COLUMNS) * _HIGH
    told = {
        "title": "Florin",
        "uid": "florin",
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "tags": ["florin"],
        "templating": {"list": _VARIABLES},
        "panels": panels,
    }
    return json.dumps(told, indent=2) + "\n"


_VARIABLES = [
    {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
    {
        "name": "chain",
        "label": "Chain",
        "type": "query",
        "datasource": _SOURCE,
        "query": "label_values(florin_chain_ok, chain)",
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    },
]


def _placed(
    panel: dict[str, Any],
    others: list[dict[str, Any]],
    at: tuple[int, int],
    size: tuple[int, int],
) -> dict[str, Any]:
    place = dict(zip("xywh", (*at, *size), strict=True))
    return {"id": len(others) + 1, **panel, "gridPos": place}


def _drawn(panel: Panel) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + n), "datasource": _SOURCE, "expr": query, "legendFormat": legend}
        for n, (query, legend) in enumerate(panel.queries)
    ]
    return {
        "type": panel.kind,
        "title": panel.title,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": targets,
    }


def main() -> None:
    """Writes or compares."""
    if sys.argv[1:] != ["--check"]:
        FILE.write_text(dashboard())
    elif not FILE.exists() or FILE.read_text() != dashboard():
        raise SystemExit("the dashboard is stale, run `make gen`")


if __name__ == "__main__":
    main()
