"""The labels of metrics, and which gauges need the store."""

from __future__ import annotations

from collections.abc import Mapping

# gauges that are read from the store, and left out while it is not available
STORE_METRICS = frozenset(
    {
        "payments",
        "payments_blocked",
        "payments_processing",
        "payment_oldest_unfinished_seconds",
        "payout_oldest_owed_seconds",
        "payouts_owed",
        "executor_open_transactions",
        "executor_paused",
        "executor_runway_payments",
        "executor_runway_seconds",
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

# the meaning of each label, and the bound of its values
LABELS: Mapping[str, str] = {
    "version": "of Florin",
    "protocol": "`rest` or `grpc`",
    "method": "RPC as `Service.Method`, or path template of a page; empty for unknown paths",
    "code": "HTTP status of REST (499: the client disconnected first), status name of gRPC",
    "status": "status of a payment or a payout, as in [states](states.md)",
    "chain": "CAIP-2 id of a chain of the settings",
    "node": "position among the nodes of a chain, from 1",
    "host": "host of a node, without the rest of its address",
    "account": "CAIP-10 account of the installation",
    "executor": "CAIP-10 account that sends",
    "asset": "CAIP-19 id of an asset in the ledger",
    "condition": "one of the [conditions](conditions.md)",
    "limit": "limit that refused a call, by the beginning of its name in `[limits]` of the "
    "[settings](settings.md#limits), or the reason of a gas budget",
    "outcome": "of a transaction: `succeeded`, `reverted`, `replaced`; of a payout's: `done`, "
    "`again` (it is sent once more), `unproven` (the operator must resolve it); of an exchange of "
    "limits: `done`, `failed`; of a delivery attempt: `delivered`, `failed`",
    "hint": "`sent`, `heard`, `dropped` (the store was not available, or too many waited), "
    "`ignored` (another version, or malformed)",
    "lease": "`relayer:` and the sending account",
    "pool": "use of the connections: `read`, `survey` (many rows) or `write`",
    "holder": "holder of a stream or poll: `merchant`, `key`, `app`, `page`, `nobody` (health)",
}
