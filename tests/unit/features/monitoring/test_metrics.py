"""Metrics for Prometheus, with labels that no caller chooses."""

from __future__ import annotations

import re
import sys
from contextvars import copy_context
from dataclasses import replace

import pytest
from florin_server.app.servers.loop_lag import measure_loop_lag
from florin_server.base.meters import Meters
from florin_server.db.engine.store import PoolUse
from florin_server.domain.conditions import Condition, ConditionName, ConditionState
from florin_server.domain.settlement.runway import Runway
from florin_server.features.event_sink.store.queue import EventSinkStats
from florin_server.features.monitoring.service.figures import (
    Backlog,
    BacklogGroup,
    ChainReconciliation,
    DeliveryStats,
    InstallationSnapshot,
    LimitSyncStatus,
)
from florin_server.features.monitoring.service.process import (
    DiskSpace,
    ProcessFacts,
    ProcessSnapshot,
)
from florin_server.features.monitoring.service.system import ChainStatus, GasStatus
from florin_server.operations.service.executors import ExecutorStatus
from florin_server.rails.chain_state import WalletBalance
from florin_server.rails.connection.jsonrpc import JsonRpcClient
from florin_server.rails.types import NodeState, RailUnavailable
from florin_server.web.metric_labels import LABELS, STORE_METRICS
from florin_server.web.metrics import InstallationMetricsCollector, list_families
from florin_server.web.process_metrics import ProcessMetricsCollector
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open
from prometheus_client.parser import text_string_to_metric_families as read

from tests.support.documents import read_document

BASE = "eip155:8453"
SENDER = f"{BASE}:0x{'ab' * 20}"
COIN = f"{BASE}/slip44:60"
TREASURY = f"{BASE}:0x{'cd' * 20}"


def node(host: str, problem: str = "") -> NodeState:
    return NodeState(host, head=90, lag=2, latency_ms=125.0, error_rate=0.25, problem=problem)


def chain(*nodes: NodeState, problem: str = "") -> ChainStatus:
    gas = GasStatus(
        failed_gas=7,
        opening_gas=8,
        paused_payer_payments=1,
        paused_payments=2,
        abandoned_payments=3,
    )
    funds = ConditionState.WARNING if problem else ConditionState.OK
    conditions = (
        Condition(ConditionName.RELAYER_FUNDS_LOW, funds, problem, 1),
        Condition(ConditionName.NODES_DISAGREE, ConditionState.OK, "", 1),
    )
    times = (None, None) if problem else (0.2, 10.4)
    return ChainStatus(BASE, 92, 4, SENDER, problem, conditions, nodes, gas, 9, 10, 11, *times)


def figures(*chains: ChainStatus, paused_at_us: int | None = None) -> InstallationSnapshot:
    lists = Condition(ConditionName.SCREENING_LISTS_STALE, ConditionState.CRITICAL, "too old", 1)
    open_ones = (
        BacklogGroup(BASE, "waiting", 3, 40_000_000),
        BacklogGroup(BASE, "held", 2, 5_000_000),
    )
    return InstallationSnapshot(
        now_us=100_000_000,
        chains=chains,
        executors=[ExecutorStatus(SENDER, paused_at_us, 4)],
        backlog=Backlog(9, open_ones, (BacklogGroup(BASE, "waiting", 1, 90_000_000),)),
        blocked_accounts=6,
        watched_payments=70,
        watched_payouts=8,
        keyed_calls=12,
        queued_writes=13,
        tasks=14,
        is_listening=True,
        clock_offset_us=-2_500_000,
        open_streams={"merchant": 2, "page": 0},
        conditions=[lists],
        reconciliations=[
            ChainReconciliation(BASE, 95_000_000, [WalletBalance(SENDER, COIN, 5, 7)])
        ],
        limit_sync=[LimitSyncStatus(3, 14, 1_500_000)],
        webhooks=DeliveryStats(5, 93_000_000, 2),
        event_sink=EventSinkStats(6, 92_000_000),
        runways={
            SENDER: Runway(SENDER, COIN, 5, 3, 4, 1, items_left=6, seconds_left=7200),
            TREASURY: Runway(TREASURY, COIN, 5),
        },
    )


def samples(registry: CollectorRegistry) -> dict[tuple[str, ...], float]:
    """Return every value by its metric and labels, sorted; each occurs once."""
    text = generate_latest(registry).decode()
    samples = [s for family in read(text) for s in family.samples]
    opened = openmetrics.generate_latest(registry).decode()
    assert [s for family in read_open(opened) for s in family.samples] == samples
    results = {(s.name, *s.labels.values()): s.value for s in samples}
    assert len(results) == len(samples)
    return results


def collect_metrics(snapshot: InstallationSnapshot) -> dict[tuple[str, ...], float]:
    registry = CollectorRegistry()
    registry.register(InstallationMetricsCollector(snapshot))
    return samples(registry)


def test_every_figure_is_a_metric():
    values = collect_metrics(figures(chain(node("a.example")), paused_at_us=1))
    of_all = {key[0].removeprefix("florin_"): v for key, v in values.items() if len(key) == 1}
    assert of_all == {
        "store_up": 1,
        "payments_processing": 5,
        "payments_blocked": 6,
        "payment_oldest_unfinished_seconds": 60,
        "payout_oldest_owed_seconds": 10,
        "payments_watched": 70,
        "payouts_watched": 8,
        "calls_keyed": 12,
        "store_queue_operations": 13,
        "tasks": 14,
        "webhooks_waiting": 5,
        "webhook_oldest_undelivered_seconds": 7,
        "webhook_endpoints_paused": 2,
        "event_sink_waiting": 6,
        "event_sink_oldest_unpublished_seconds": 8,
        "hints_listening": 1,
        "machine_clock_ahead_seconds": -2.5,
        "limit_processes": 3,
        "limit_budgets_shared": 14,
        "limit_exchange_age_seconds": 1.5,
    }
    assert values["florin_payments", "requires_action"] == 9
    assert values["florin_payments", "processing"] == 5
    assert values["florin_held_answers", "merchant"] == 2
    assert values["florin_payouts_owed", BASE, "waiting"] == 1
    assert values["florin_condition", "screening_lists_stale"] == 3
    assert values["florin_chain_condition", BASE, "relayer_funds_low"] == 0
    of_chain = {key[0]: value for key, value in values.items() if key[1:] == (BASE,)}
    assert of_chain == {
        "florin_chain_ok": 1,
        "florin_chain_head_block": 92,
        "florin_chain_open_transactions": 4,
        "florin_chain_payments_open": 9,
        "florin_chain_events_remembered": 10,
        "florin_chain_settlement_turns": 11,
        "florin_chain_hour_failed_gas": 7,
        "florin_chain_hour_opened_gas": 8,
        "florin_chain_payers_paused": 1,
        "florin_chain_payments_paused": 2,
        "florin_chain_payments_given_up": 3,
        "florin_chain_block_seconds": 0.2,
        "florin_chain_settle_seconds": 10.4,
        "florin_books_compared_timestamp_seconds": 95,
    }
    of_node = {key[0]: value for key, value in values.items() if "a.example" in key}
    assert of_node == {
        "florin_node_ok": 1,
        "florin_node_head_block": 90,
        "florin_node_lag_blocks": 2,
        "florin_node_latency_seconds": 0.125,
        "florin_node_error_ratio": 0.25,
    }
    assert values["florin_executor_open_transactions", SENDER] == 4
    assert values["florin_executor_paused", SENDER] == 1
    assert values["florin_executor_runway_payments", SENDER] == 6
    assert values["florin_executor_runway_seconds", SENDER] == 7200
    assert not [key for key in values if TREASURY in key and "runway" in key[0]]
    assert values["florin_wallet_balance_minor_units", SENDER, COIN] == 5
    assert values["florin_wallet_booked_minor_units", SENDER, COIN] == 7


def test_metrics_from_the_store_are_omitted_while_it_is_down():
    snapshot = figures(chain(node("a.example")))
    names = {key[0] for key in collect_metrics(snapshot)}
    values = collect_metrics(replace(snapshot, is_store_up=False))
    left = {key[0] for key in values}
    assert values["florin_store_up",] == 0
    assert values["florin_tasks",] == 14
    assert values["florin_chain_head_block", BASE] == 92
    assert names - left == {f"florin_{text}" for text in STORE_METRICS}


def process(**changes) -> ProcessSnapshot:
    snapshot = ProcessSnapshot(
        facts=ProcessFacts(restarts=3, certificate_until_s=1_800_000_000.0),
        pools={"read": PoolUse(2, 4, 5), "write": PoolUse(0, 1, 0)},
        leases={SENDER: True, COIN: False},
        node_calls={(BASE, "eth_call"): 7, (BASE, "other"): 1},
        disk=DiskSpace(100, 1000),
    )
    return replace(snapshot, **changes)


def collect_process_metrics(snapshot: ProcessSnapshot) -> dict[tuple[str, ...], float]:
    registry = CollectorRegistry()
    registry.register(ProcessMetricsCollector(snapshot))
    return samples(registry)


def test_every_figure_of_a_process_is_a_metric():
    assert collect_process_metrics(process()) == {
        ("florin_store_connections_in_use", "read"): 2,
        ("florin_store_connections_in_use", "write"): 0,
        ("florin_store_connections_max", "read"): 4,
        ("florin_store_connections_max", "write"): 1,
        ("florin_store_connection_waiters", "read"): 5,
        ("florin_store_connection_waiters", "write"): 0,
        ("florin_lease_held", f"relayer:{SENDER}"): 1,
        ("florin_lease_held", f"relayer:{COIN}"): 0,
        ("florin_node_calls_total", BASE, "eth_call"): 7,
        ("florin_node_calls_total", BASE, "other"): 1,
        ("florin_supervisor_restarts_total",): 3,
        ("florin_certificate_expiry_timestamp_seconds",): 1_800_000_000,
        ("florin_home_free_bytes",): 100,
        ("florin_home_size_bytes",): 1000,
    }


def test_process_without_supervisor_certificate_pools_and_disk_omits_them():
    results = collect_process_metrics(process(facts=ProcessFacts(), pools={}, disk=None))
    assert {name for name, *_ in results} == {"florin_lease_held", "florin_node_calls_total"}


async def test_event_loop_lag_is_the_excess_time_of_a_sleep():
    meters, now = Meters(), [0.0]
    late = iter([0.0, 0.3, 2.0])

    async def sleep(seconds: float) -> None:
        now[0] += seconds + next(late)

    with pytest.raises(RuntimeError):
        # the end of `late` ends the loop
        await measure_loop_lag(meters, sleep, lambda: now[0])
    values = samples(meters.registry)
    assert values["florin_event_loop_lag_seconds_count",] == 3
    assert values["florin_event_loop_lag_seconds_sum",] == pytest.approx(2.3)


class DeadTransport:
    async def send(self, payload: bytes) -> bytes:
        raise RailUnavailable("no node answers")

    async def close(self) -> None:
        pass


async def test_methods_of_nodes_are_counted_in_bounds_whether_they_are_answered_or_not():
    rpc = JsonRpcClient(DeadTransport())
    with pytest.raises(RailUnavailable):
        await rpc.batch([("eth_call", ()), ("eth_call", ())])
    with pytest.raises(RailUnavailable):
        await rpc.call("eth_chainId")
    assert rpc.calls_by_method == {"eth_call": 2, "eth_chainId": 1}
    with pytest.raises(RailUnavailable):
        await rpc.batch([(f"method_{n}", ()) for n in range(1000)])
    assert len(rpc.calls_by_method) == 65
    assert rpc.calls_by_method["other"] == 1000 - 62
    assert rpc.call_count == 1003


def test_problem_is_a_zero_gauge_and_not_a_label():
    values = collect_metrics(figures(chain(node("a.example", "x" * 100), problem='no "gas"\n')))
    assert values["florin_chain_ok", BASE] == 0
    # an unmeasured figure is absent
    assert ("florin_chain_block_seconds", BASE) not in values
    assert ("florin_chain_settle_seconds", BASE) not in values
    assert values["florin_chain_condition", BASE, "relayer_funds_low"] == 2
    assert values["florin_chain_condition", BASE, "nodes_disagree"] == 0
    assert values["florin_node_ok", BASE, "a.example", "1"] == 0
    assert not any('"gas"' in part or "xxx" in part for key in values for part in key[1:])


def test_nodes_on_the_same_host_are_separate_series():
    values = collect_metrics(figures(chain(node("a.example"), node("a.example", "behind"))))
    assert values["florin_node_ok", BASE, "a.example", "1"] == 1
    assert values["florin_node_ok", BASE, "a.example", "2"] == 0


def test_requests_and_payments_are_counted():
    meters = Meters()
    meters.initialize_chain(BASE, [SENDER])
    meters.begin_request("rest")
    meters.begin_request("rest")
    meters.begin_request("grpc")
    meters.record_request("rest", "MerchantService.CreatePayment", "201", 0.004)
    meters.record_loop_lag(0.2)
    meters.record_payment_change("processing")
    meters.record_settlement(BASE, "succeeded", 12.0)
    meters.record_transaction(BASE, "reverted")
    meters.record_gas_cost(SENDER, 21_000)
    meters.record_payout(BASE, "done")
    meters.create_refusal_counter("key")()
    values = samples(meters.registry)
    called = ("201", "MerchantService.CreatePayment", "rest")
    request = "florin_request_duration_seconds"
    assert values[f"{request}_count", *called] == 1
    slower = ("201", "0.0025", "MerchantService.CreatePayment", "rest")
    assert values[f"{request}_bucket", *slower] == 0
    faster = ("201", "0.005", "MerchantService.CreatePayment", "rest")
    assert values[f"{request}_bucket", *faster] == 1
    assert values["florin_requests_in_flight", "rest"] == 1
    assert values["florin_requests_in_flight", "grpc"] == 1
    assert values["florin_event_loop_lag_seconds_bucket", "0.1"] == 0
    assert values["florin_event_loop_lag_seconds_bucket", "0.25"] == 1
    assert values["florin_payment_changes_total", "processing"] == 1
    assert values["florin_payment_changes_total", "failed"] == 0
    assert values["florin_settlement_duration_seconds_count", BASE, "succeeded"] == 1
    assert values["florin_settlement_duration_seconds_count", BASE, "failed"] == 0
    assert values["florin_transactions_total", BASE, "reverted"] == 1
    assert values["florin_transactions_total", BASE, "succeeded"] == 0
    assert values["florin_gas_cost_minor_units_total", SENDER] == 21_000
    assert values["florin_payout_attempts_total", BASE, "done"] == 1
    assert values["florin_limit_refusals_total", "key"] == 1
    assert not any(name.endswith("_created") for name, *_ in values)


def test_steps_of_the_store_are_counted_and_handed_on():
    meters, seen = Meters(), []
    step = meters.create_store_step_counter(seen.append)
    for name in ("op", "op", "commit", "committed"):
        step(name)
    values = samples(meters.registry)
    assert seen == ["op", "op", "commit", "committed"]
    assert values["florin_store_operations_total",] == 2
    assert values["florin_store_commit_duration_seconds_count",] == 1


def test_commits_that_overlap_are_timed_apart(monkeypatch):
    now = [10.0]
    monkeypatch.setattr("florin_server.base.meters.time.perf_counter", lambda: now[0])
    meters = Meters()
    step = meters.create_store_step_counter()
    context, other = copy_context(), copy_context()
    context.run(step, "commit")
    now[0] = 10.5
    other.run(step, "commit")
    context.run(step, "committed")
    other.run(step, "committed")
    values = samples(meters.registry)
    assert values["florin_store_commit_duration_seconds_sum",] == 0.5
    assert values["florin_store_commit_duration_seconds_count",] == 2


def test_a_step_that_fails_is_no_commit():
    def fault(name: str) -> None:
        if name == "committed":
            raise OSError("the disk is full")

    meters = Meters()
    step = meters.create_store_step_counter(fault)
    step("commit")
    with pytest.raises(OSError, match="full"):
        step("committed")
    assert samples(meters.registry)["florin_store_commit_duration_seconds_count",] == 0


def test_counting_a_request_takes_few_calls():
    """The cost is in function calls of some 100 ns, which no load of the machine changes."""
    meters = Meters()
    meters.record_request("grpc", "GatewayService.GetPayment", "OK", 0.001)
    calls: list[str] = []
    sys.setprofile(lambda _frame, event, _arg: calls.append(event) if event == "call" else None)
    try:
        for _ in range(100):
            meters.record_request("grpc", "GatewayService.GetPayment", "OK", 0.001)
    finally:
        sys.setprofile(None)
    # the series is not looked up by its labels again
    assert len(calls) <= 100 * 8


def test_services_count_apart():
    meters, other = Meters(), Meters()
    meters.record_payment_change("expired")
    assert samples(meters.registry)["florin_payment_changes_total", "expired"] == 1
    assert samples(other.registry)["florin_payment_changes_total", "expired"] == 0


def test_names_are_those_that_prometheus_asks_for():
    for family in list_families():
        assert re.fullmatch(r"florin_[a-z][a-z_]*", family.name)
        assert (family.kind == "counter") is family.name.endswith("_total"), family.name
        timed = ("_duration_seconds", "_lag_seconds")
        assert (family.kind == "histogram") is family.name.endswith(timed), family.name
        assert not re.search(r"milli|micro|_ms\b|_us\b", family.name), family.name
        assert family.description
        assert not family.labels or set(family.labels) <= LABELS.keys()


def test_metrics_reference_lists_every_metric():
    named = set(
        re.findall(r"^\| `(florin_\w+)`", read_document("docs/reference/metrics.md"), re.MULTILINE)
    )
    meters = Meters()
    collected = [
        *InstallationMetricsCollector(figures(chain(node("a.example")))).collect(),
        *ProcessMetricsCollector(process()).collect(),
        *meters.registry.collect(),
    ]
    suffix = {"counter": "_total"}
    assert named == {f"{metric.name}{suffix.get(metric.type, '')}" for metric in collected}
    assert named == {family.name for family in list_families()}
