"""Facts become metrics that Prometheus takes, with labels that no caller chooses."""

from __future__ import annotations

import re

from florin_server.domain.conditions import Condition, ConditionName, State
from florin_server.flows.operator.executors import Executor
from florin_server.flows.operator.system import Chain, GasStatus
from florin_server.rails.types import NodeState
from florin_server.web.metrics import Facts, Known
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open
from prometheus_client.parser import text_string_to_metric_families as read

from tests.support.documents import text_of

BASE = "eip155:8453"
SENDER = f"{BASE}:0x{'ab' * 20}"


def node(host: str, problem: str = "") -> NodeState:
    return NodeState(host, head=90, lag=2, latency_ms=125.0, error_rate=0.25, problem=problem)


def chain(*nodes: NodeState, problem: str = "") -> Chain:
    gas = GasStatus(failed=7, opened=8, paused_payers=1, paused=2, given_up=3)
    funds = State.WARNING if problem else State.OK
    conditions = (
        Condition(ConditionName.RELAYER_FUNDS_LOW, funds, problem, 1),
        Condition(ConditionName.NODES_DISAGREE, State.OK, "", 1),
    )
    return Chain(BASE, 92, 4, SENDER, problem, conditions, nodes, gas, 9, 10, 11)


def facts(*chains: Chain, paused_at_us: int | None = None) -> Facts:
    executors = [Executor(SENDER, paused_at_us, 4)]
    lists = Condition(ConditionName.SCREENING_LISTS_STALE, State.CRITICAL, "too old", 1)
    return Facts(chains, executors, 5, 6, 70, 8, 12, [lists])


def told(known: Facts) -> dict[tuple[str, ...], float]:
    """Every value by its metric and labels, in the order of their names; each is there once."""
    registry = CollectorRegistry()
    registry.register(Known(known))
    text = generate_latest(registry).decode()
    samples = [s for family in read(text) for s in family.samples]
    opened = openmetrics.generate_latest(registry).decode()
    assert [s for family in read_open(opened) for s in family.samples] == samples
    found = {(s.name, *s.labels.values()): s.value for s in samples}
    assert len(found) == len(samples)
    return found


def test_every_fact_is_a_metric():
    values = told(facts(chain(node("a.example")), paused_at_us=1))
    assert values["florin_payments_processing",] == 5
    assert values["florin_payments_blocked",] == 6
    assert values["florin_payments_watched",] == 70
    assert values["florin_payouts_watched",] == 8
    assert values["florin_calls_keyed",] == 12
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


def test_what_is_wrong_is_zero_and_not_a_label():
    values = told(facts(chain(node("a.example", "x" * 100), problem='no "gas"\n')))
    assert values["florin_chain_ok", BASE] == 0
    assert values["florin_chain_condition", BASE, "relayer_funds_low"] == 2
    assert values["florin_chain_condition", BASE, "nodes_disagree"] == 0
    assert values["florin_node_ok", BASE, "a.example", "1"] == 0
    assert not any("gas" in part or "xxx" in part for key in values for part in key[1:])


def test_nodes_of_one_host_are_two():
    values = told(facts(chain(node("a.example"), node("a.example", "behind"))))
    assert values["florin_node_ok", BASE, "a.example", "1"] == 1
    assert values["florin_node_ok", BASE, "a.example", "2"] == 0


def test_the_document_tells_every_metric():
    section = text_of("docs/deployment.md").partition("## Metrics")[2]
    named = set(re.findall(r"`(florin_\w+)`", section))
    assert named == {name for name, *_ in told(facts(chain(node("a.example"))))}
