"""The panels of the Grafana dashboard.

Queries use the `sum` of values that processes count separately and the `max` of values that all
processes report alike, so that they are right for one process and for several.
"""

from __future__ import annotations

from typing import NamedTuple


class DashboardPanel(NamedTuple):
    """One panel: its title, Grafana's unit, and queries with their legends."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    kind: str = "timeseries"


def _format_rate(name: str, by: str, match: str = "") -> str:
    return f"sum by ({by}) (rate({name}{match}[$__rate_interval]))"


def _format_quantile(share: float, name: str, by: str, match: str = "") -> str:
    labels = ", ".join(label for label in (by, "le") if label)
    return f"histogram_quantile({share}, {_format_rate(f'{name}_bucket', labels, match)})"


def _format_max(name: str, by: str = "", match: str = "") -> str:
    return f"max by ({by}) ({name}{match})" if by else f"max({name}{match})"


_CALLS = "florin_request_duration_seconds"
_SETTLED = "florin_settlement_duration_seconds"
_COMMIT = "florin_store_commit_duration_seconds"
_LAG = "florin_event_loop_lag_seconds"
_FILTER = '{chain=~"$chain"}'
_FAULT_FILTER = '{code=~"5..|INTERNAL|UNAVAILABLE|UNKNOWN|DEADLINE_EXCEEDED"}'
_SHORT_CALL_FILTER = '{method!~".*[.]Watch.*|.*/events"}'

ROWS: dict[str, tuple[DashboardPanel, ...]] = {
    "Overview": (
        DashboardPanel(
            "Conditions (2: warning, 3: critical)",
            "none",
            (
                (
                    f"{_format_max('florin_chain_condition', 'chain, condition', _FILTER)} > 0",
                    "{{chain}} {{condition}}",
                ),
                (f"{_format_max('florin_condition', 'condition')} > 0", "{{condition}}"),
            ),
        ),
        DashboardPanel(
            "Healthy chains",
            "none",
            ((f"min by (chain) (florin_chain_ok{_FILTER})", "{{chain}}"),),
        ),
        DashboardPanel(
            "Processes that reach the store",
            "none",
            (("sum(florin_store_up)", "connected"), ("min(florin_store_up)", "all connected")),
        ),
        DashboardPanel(
            "Version", "none", ((_format_max("florin_info", "version"), "{{version}}"),), "stat"
        ),
    ),
    "Payments": (
        DashboardPanel(
            "Payments by status",
            "ops",
            ((_format_rate("florin_payment_changes_total", "status"), "{{status}}"),),
        ),
        DashboardPanel(
            "Open payments",
            "short",
            (
                (_format_max("florin_payments", "status"), "{{status}}"),
                (_format_max("florin_payments_processing"), "processing"),
                (_format_max("florin_payments_blocked"), "held"),
            ),
        ),
        DashboardPanel(
            "Oldest unfinished item",
            "s",
            (
                (_format_max("florin_payment_oldest_unfinished_seconds"), "payment"),
                (_format_max("florin_payout_oldest_owed_seconds"), "payout"),
            ),
        ),
        DashboardPanel(
            "Confirm to final",
            "s",
            (
                (_format_quantile(0.5, _SETTLED, "chain", _FILTER), "{{chain}} median"),
                (_format_quantile(0.9, _SETTLED, "chain", _FILTER), "{{chain}} 90th percentile"),
            ),
        ),
        DashboardPanel(
            "Payouts",
            "short",
            (
                (
                    _format_max("florin_payouts_owed", "chain, status", _FILTER),
                    "{{chain}} {{status}}",
                ),
                (
                    (
                        f"sum by (chain, outcome) "
                        f"(increase(florin_payout_attempts_total{_FILTER}[1h]))"
                    ),
                    "{{chain}} {{outcome}} per hour",
                ),
            ),
        ),
        DashboardPanel(
            "Payments that wait for gas",
            "short",
            (
                (_format_max("florin_chain_payments_paused", "chain", _FILTER), "{{chain}} paused"),
                (
                    _format_max("florin_chain_payments_given_up", "chain", _FILTER),
                    "{{chain}} given up",
                ),
                (_format_max("florin_chain_payers_paused", "chain", _FILTER), "{{chain}} payers"),
            ),
        ),
    ),
    "Calls": (
        DashboardPanel(
            "Calls by protocol and code",
            "reqps",
            ((_format_rate(f"{_CALLS}_count", "protocol, code"), "{{protocol}} {{code}}"),),
        ),
        DashboardPanel(
            "Calls by method",
            "reqps",
            ((f"topk(10, {_format_rate(f'{_CALLS}_count', 'method')})", "{{method}}"),),
        ),
        DashboardPanel(
            "Duration of calls",
            "s",
            (
                (
                    _format_quantile(0.5, _CALLS, "protocol", _SHORT_CALL_FILTER),
                    "{{protocol}} median",
                ),
                (
                    _format_quantile(0.99, _CALLS, "protocol", _SHORT_CALL_FILTER),
                    "{{protocol}} 99th percentile",
                ),
            ),
        ),
        DashboardPanel(
            "Calls that fail on the server side",
            "reqps",
            (
                (
                    _format_rate(f"{_CALLS}_count", "method, code", _FAULT_FILTER),
                    "{{method}} {{code}}",
                ),
            ),
        ),
        DashboardPanel(
            "Requests in progress",
            "short",
            (("sum by (protocol) (florin_requests_in_flight)", "{{protocol}}"),),
        ),
        DashboardPanel(
            "Rate-limited calls",
            "reqps",
            ((_format_rate("florin_limit_refusals_total", "limit"), "{{limit}}"),),
        ),
        DashboardPanel(
            "Open streams and watchers",
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
        DashboardPanel(
            "Limits shared between processes",
            "short",
            (
                (_format_max("florin_limit_processes"), "processes"),
                (_format_max("florin_limit_budgets_shared"), "budgets"),
                (_format_max("florin_limit_exchange_age_seconds"), "s since the last exchange"),
                (_format_rate("florin_limit_exchanges_total", "outcome"), "{{outcome}} per s"),
            ),
        ),
        DashboardPanel(
            "Commit duration",
            "s",
            (
                (_format_quantile(0.5, _COMMIT, ""), "half"),
                (_format_quantile(0.99, _COMMIT, ""), "99th percentile"),
            ),
        ),
        DashboardPanel(
            "Writes",
            "ops",
            (
                ("sum(rate(florin_store_operations_total[$__rate_interval]))", "writes"),
                (f"sum(rate({_COMMIT}_count[$__rate_interval]))", "commits"),
            ),
        ),
        DashboardPanel(
            "Changes sent between processes",
            "ops",
            (
                (_format_rate("florin_hints_total", "hint"), "{{hint}}"),
                ("sum(florin_hints_listening)", "processes listening"),
            ),
        ),
        DashboardPanel(
            "Webhooks",
            "short",
            (
                (_format_rate("florin_webhook_attempts_total", "outcome"), "{{outcome}} per s"),
                (_format_max("florin_webhooks_waiting"), "payments queued"),
                (_format_max("florin_webhook_endpoints_paused"), "endpoints paused"),
                (_format_max("florin_webhook_oldest_undelivered_seconds"), "s: oldest delivery"),
            ),
        ),
        DashboardPanel(
            "Event sink",
            "short",
            (
                (_format_rate("florin_event_sink_events_total", "outcome"), "{{outcome}} per s"),
                (_format_max("florin_event_sink_waiting"), "payments queued"),
                (_format_max("florin_event_sink_oldest_unpublished_seconds"), "s: oldest event"),
            ),
        ),
        DashboardPanel(
            "Queued writes", "short", (("sum(florin_store_queue_operations)", "writes"),)
        ),
        DashboardPanel(
            "Processor",
            "percentunit",
            (
                (
                    _format_rate("process_cpu_seconds_total", "instance", '{job="florin"}'),
                    "{{instance}}",
                ),
            ),
        ),
        DashboardPanel(
            "Memory",
            "bytes",
            (
                (
                    _format_max("process_resident_memory_bytes", "instance", '{job="florin"}'),
                    "{{instance}}",
                ),
            ),
        ),
        DashboardPanel(
            "Open files",
            "short",
            ((_format_max("process_open_fds", "instance", '{job="florin"}'), "{{instance}}"),),
        ),
        DashboardPanel("Tasks", "short", (("sum(florin_tasks)", "tasks"),)),
        DashboardPanel(
            "Event loop lag",
            "s",
            (
                (_format_quantile(0.5, _LAG, ""), "half"),
                (_format_quantile(0.99, _LAG, ""), "99th percentile"),
            ),
        ),
        DashboardPanel(
            "Connections to PostgreSQL",
            "short",
            (
                ("sum by (pool) (florin_store_connections_in_use)", "{{pool}} in use"),
                ("sum by (pool) (florin_store_connections_max)", "{{pool}} maximum"),
                ("sum by (pool) (florin_store_connection_waiters)", "{{pool}} waiting"),
                ("sum(rate(florin_store_retries_total[$__rate_interval]))", "retries per s"),
            ),
        ),
        DashboardPanel(
            "Process restarts per hour",
            "short",
            (("sum(increase(florin_supervisor_restarts_total[1h]))", "restarts"),),
        ),
        DashboardPanel(
            "Free space of the state folder",
            "percentunit",
            (("min(florin_home_free_bytes / florin_home_size_bytes)", "least"),),
        ),
        DashboardPanel(
            "Certificate expires in",
            "s",
            (("min(florin_certificate_expiry_timestamp_seconds) - time()", "soonest"),),
        ),
        DashboardPanel(
            "Machine clock ahead of the database",
            "s",
            ((_format_max("florin_machine_clock_ahead_seconds"), "farthest ahead"),),
        ),
    ),
    "Chains": (
        DashboardPanel(
            "Newest block",
            "none",
            ((_format_max("florin_chain_head_block", "chain", _FILTER), "{{chain}}"),),
        ),
        DashboardPanel(
            "Block interval and time to finality",
            "s",
            (
                (_format_max("florin_chain_block_seconds", "chain", _FILTER), "{{chain}} block"),
                (_format_max("florin_chain_settle_seconds", "chain", _FILTER), "{{chain}} final"),
            ),
        ),
        DashboardPanel(
            "Nodes: blocks behind",
            "short",
            (
                (
                    _format_max("florin_node_lag_blocks", "chain, node, host", _FILTER),
                    "{{chain}} {{host}}",
                ),
            ),
        ),
        DashboardPanel(
            "Nodes: response time",
            "s",
            (
                (
                    _format_max("florin_node_latency_seconds", "chain, node, host", _FILTER),
                    "{{chain}} {{host}}",
                ),
            ),
        ),
        DashboardPanel(
            "Nodes: calls",
            "ops",
            (
                (
                    (
                        f"topk(10, "
                        f"{_format_rate('florin_node_calls_total', 'chain, method', _FILTER)})"
                    ),
                    "{{chain}} {{method}}",
                ),
            ),
        ),
        DashboardPanel(
            "Nodes: errors",
            "percentunit",
            (
                (
                    _format_max("florin_node_error_ratio", "chain, node, host", _FILTER),
                    "{{chain}} {{host}}",
                ),
            ),
        ),
        DashboardPanel(
            "Nodes in use",
            "none",
            (
                (_format_max("florin_node_ok", "chain, node, host", _FILTER), "{{chain}} {{host}}"),
                (
                    f"max by (chain, host) (delta(florin_node_head_block{_FILTER}[5m]))",
                    "{{host}} blocks in 5 min",
                ),
            ),
        ),
        DashboardPanel(
            "Settlers",
            "short",
            (
                (
                    _format_max("florin_chain_open_transactions", "chain", _FILTER),
                    "{{chain}} transactions",
                ),
                (_format_max("florin_chain_payments_open", "chain", _FILTER), "{{chain}} payments"),
                (
                    _format_max("florin_chain_events_remembered", "chain", _FILTER),
                    "{{chain}} events",
                ),
                (
                    f"max by (chain) (delta(florin_chain_settlement_turns{_FILTER}[5m]))",
                    "{{chain}} turns",
                ),
            ),
        ),
    ),
    "Money": (
        DashboardPanel(
            "Gas paid",
            "short",
            ((_format_rate("florin_gas_cost_minor_units_total", "account"), "{{account}}"),),
        ),
        DashboardPanel(
            "Wallets",
            "short",
            (
                (
                    _format_max("florin_wallet_balance_minor_units", "account, asset"),
                    "{{account}} {{asset}}",
                ),
            ),
        ),
        DashboardPanel(
            "Wallet balances less ledger balances",
            "short",
            (
                (
                    (
                        f"{_format_max('florin_wallet_balance_minor_units', 'account, asset')}"
                        f" - {_format_max('florin_wallet_booked_minor_units', 'account, asset')}"
                    ),
                    "{{account}} {{asset}}",
                ),
            ),
        ),
        DashboardPanel(
            "Payments that the coin pays for",
            "short",
            ((_format_max("florin_executor_runway_payments", "executor"), "{{executor}}"),),
        ),
        DashboardPanel(
            "Time that the coin lasts",
            "s",
            ((_format_max("florin_executor_runway_seconds", "executor"), "{{executor}}"),),
        ),
        DashboardPanel(
            "Final transactions",
            "short",
            (
                (
                    f"sum by (chain, outcome) (increase(florin_transactions_total{_FILTER}[1h]))",
                    "{{chain}} {{outcome}} per hour",
                ),
            ),
        ),
        DashboardPanel(
            "Gas counted by budgets this hour",
            "short",
            (
                (_format_max("florin_chain_hour_failed_gas", "chain", _FILTER), "{{chain}} failed"),
                (_format_max("florin_chain_hour_opened_gas", "chain", _FILTER), "{{chain}} opened"),
            ),
        ),
        DashboardPanel(
            "Processes with a lease",
            "none",
            (("sum by (lease) (florin_lease_held)", "{{lease}}"),),
        ),
        DashboardPanel(
            "Keys",
            "short",
            (
                (_format_max("florin_executor_open_transactions", "executor"), "{{executor}} open"),
                (f"{_format_max('florin_executor_paused', 'executor')} > 0", "{{executor}} paused"),
                (
                    f"time() - max by (chain) (florin_books_compared_timestamp_seconds{_FILTER})",
                    "{{chain}} s since the ledger was compared",
                ),
            ),
        ),
    ),
}
