"""Test how a console shows the health of chains, nodes and the coin of keys."""

from __future__ import annotations

import pytest
from florin.v1 import condition_pb2, system_pb2
from florin_server.domain.conditions import ConditionName
from florin_server.domain.node_hours import HOUR_US, HOURS_KEPT
from florin_server.web.console.operator.health import (
    build_gauges,
    build_nodes_path,
    build_strip,
    find_chain_pill,
)
from florin_server.web.language import get_translations

CHAIN, RELAYER, TREASURY = "eip155:8453", f"0x{'ab' * 20}", f"0x{'cd' * 20}"
NOW_US = 1_800_000_000_000_000
TEXTS = get_translations("en", "console")


def make_hour(hours_ago: int, checks: int, healthy: int) -> system_pb2.NodeHour:
    hour = system_pb2.NodeHour(checks=checks, healthy_checks=healthy)
    hour.start.FromMicroseconds((NOW_US // HOUR_US - hours_ago) * HOUR_US)
    return hour


def make_chain(*names: ConditionName, nodes=(), healthy: bool = True) -> system_pb2.ChainStatus:
    conditions = [
        condition_pb2.Condition(name=name, state=condition_pb2.CONDITION_STATE_WARNING)
        for name in names
    ]
    return system_pb2.ChainStatus(
        chain_id=CHAIN, relayer=RELAYER, conditions=conditions, nodes=nodes, healthy=healthy
    )


def make_executor(address: str, *, paused: bool = False, **runway: int) -> system_pb2.Executor:
    executor = system_pb2.Executor(id=f"{CHAIN}:{address}", paused=paused)
    if runway:
        executor.runway.CopyFrom(system_pb2.ExecutorRunway(**runway))
    return executor


def test_strip_shows_every_hour_once_with_the_current_one_last():
    node = system_pb2.NodeHistory(
        name="rpc.example",
        hours=[
            make_hour(60, 100, 0),
            make_hour(47, 100, 100),
            make_hour(2, 100, 95),
            make_hour(1, 100, 10),
            make_hour(0, 100, 99),
        ],
    )
    strip = build_strip(TEXTS, node, NOW_US)
    looks = [cell.look for cell in strip.cells]
    assert looks == ["", *["n"] * 44, "s", "x", ""]
    assert len(looks) == HOURS_KEPT
    assert strip.label == "rpc.example: 2 of 4 hours without trouble"
    # not only by color
    assert len({cell.height for cell in strip.cells}) == 4


def test_strip_of_a_node_that_was_never_observed_claims_nothing():
    strip = build_strip(TEXTS, system_pb2.NodeHistory(name="rpc.example"), NOW_US)
    assert strip.label == "rpc.example: not observed yet"
    assert {cell.look for cell in strip.cells} == {"n"}


@pytest.mark.parametrize(
    ("chain", "paused", "word"),
    [
        (make_chain(), False, "Healthy"),
        (make_chain(healthy=False), False, "Check it"),
        (make_chain(ConditionName.BLOCKS_UNREAD), False, "Behind"),
        (make_chain(nodes=[system_pb2.NodeStatus(lag=3)]), False, "Behind"),
        (make_chain(ConditionName.RELAYER_FUNDS_LOW), False, "Low coin"),
        (make_chain(ConditionName.RELAYER_EMPTY, ConditionName.BLOCKS_UNREAD), False, "Low coin"),
        (make_chain(ConditionName.RELAYER_FUNDS_LOW), True, "Paused"),
        (make_chain(ConditionName.CHAIN_STALLED), True, "Down"),
        (make_chain(nodes=[system_pb2.NodeStatus(problem="HTTP 500")]), False, "Down"),
    ],
)
def test_pill_is_the_worst_that_applies(chain, paused, word):
    executors = [make_executor(RELAYER, paused=paused), make_executor(TREASURY)]
    assert find_chain_pill(TEXTS, chain, executors).word == word


@pytest.mark.parametrize(
    ("seconds", "look"),
    [(86_399, "bad"), (86_400, "warn"), (3 * 86_400, "good"), (30 * 86_400, "good")],
)
def test_gauge_warns_before_the_coin_ends(seconds, look):
    system = system_pb2.GetSystemStatusResponse(chains=[make_chain()])
    executor = make_executor(RELAYER, transactions=5, items_left=1_249, seconds_left=seconds)
    gauge = build_gauges(TEXTS, system, [executor])[executor.id]
    assert gauge.look == look
    assert gauge.seconds is not None
    assert gauge.seconds <= gauge.full_s
    assert gauge.text.startswith("about 1,240 payments · ")


def test_gauge_without_transactions_says_so():
    system = system_pb2.GetSystemStatusResponse(chains=[make_chain()])
    fresh, paying = make_executor(RELAYER), make_executor(TREASURY, transactions=1, items_left=7)
    fresh.runway.balance = "100"
    gauges = build_gauges(TEXTS, system, [fresh, paying])
    assert (gauges[fresh.id].text, gauges[fresh.id].seconds) == ("no transactions yet", None)
    assert gauges[paying.id].text == "about 7 payouts"


def test_path_of_nodes_contains_no_part_of_a_hostile_id():
    assert build_nodes_path("a/../b?c") == "/console/nodes/a%2F..%2Fb%3Fc"
