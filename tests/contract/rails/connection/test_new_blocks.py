"""Test how Florin measures the time since a chain's endpoints reported a new block."""

from __future__ import annotations

from florin_server.rails.connection.health import PROBE_S
from florin_server.rails.connection.node_dialect import DOUBT_S

from tests.support.endpoint_harness import EndpointHarness, StubNode, make_lost


async def test_time_without_a_new_block_is_measured():
    (only,) = (StubNode(head=100),)
    stage = await EndpointHarness(only).ready()
    for _ in range(4):
        await stage.later(PROBE_S)
    assert stage.rpc.stall_s == 4 * PROBE_S
    # time without a check proves nothing
    stage.time.now += 3600
    assert stage.rpc.stall_s == 4 * PROBE_S
    only.head = 101
    await stage.later(PROBE_S)
    assert stage.rpc.stall_s == 0


async def test_differing_nodes_behind_an_address_do_not_count_as_new_blocks():
    (only,) = (StubNode(head=100),)
    stage = await EndpointHarness(only).ready()
    for head in (98, 100, 95, 99, 100):
        only.head = head
        await stage.later(PROBE_S)
    assert stage.rpc.stall_s == 5 * PROBE_S


async def test_a_head_that_was_never_there_is_forgotten():
    (only,) = (StubNode(head=100),)
    stage = await EndpointHarness(only).ready()
    only.head = 10**9
    await stage.later(PROBE_S)
    only.head = 101
    await stage.later(DOUBT_S)
    assert stage.rpc.stall_s == 0
    await stage.later(PROBE_S)
    assert stage.rpc.stall_s == PROBE_S


async def test_new_block_counts_once_a_quorum_reports_it():
    nodes = [StubNode(head=100), StubNode(head=100), StubNode(head=100)]
    stage = await EndpointHarness(*nodes, agreement=2).ready()
    for seen in (1, 2, 3):
        # the invented blocks are too few to mark the other endpoints as behind
        nodes[0].head = 100 + seen
        await stage.later(PROBE_S)
    assert stage.rpc.stall_s == 3 * PROBE_S
    nodes[1].head = 103
    await stage.later(PROBE_S)
    assert stage.rpc.stall_s == PROBE_S
    nodes[0].head = nodes[1].head = 104
    await stage.later(PROBE_S)
    assert stage.rpc.stall_s == 0


async def test_lagging_node_does_not_make_an_active_chain_look_stalled():
    stuck, good = StubNode(head=100), StubNode(head=100)
    stage = await EndpointHarness(stuck, good).ready()
    for seen in range(1, 5):
        good.head = 100 + 10 * seen
        await stage.later(PROBE_S)
        assert stage.rpc.stall_s == 0


async def test_stall_time_is_zero_while_no_node_answers():
    (only,) = (StubNode(head=100),)
    stage = await EndpointHarness(only).ready()
    await stage.later(PROBE_S)
    only.fault = make_lost()
    await stage.later(PROBE_S)
    assert stage.rpc.stall_s == 0
