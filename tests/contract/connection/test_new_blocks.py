"""For how long the endpoints of a chain have told no new block."""

from __future__ import annotations

from florin_server.rails.connection.family import PATIENCE_S
from florin_server.rails.connection.health import PROBE_S

from tests.support.endpoint_kit import Node, Stage, lost


async def test_it_is_known_for_how_long_no_block_was_told():
    (only,) = (Node(head=100),)
    stage = await Stage(only).ready()
    for _ in range(4):
        await stage.later(PROBE_S)
    assert stage.rpc.still_s == 4 * PROBE_S
    # time in which nobody looks is no proof of anything
    stage.time.now += 3600
    assert stage.rpc.still_s == 4 * PROBE_S
    only.head = 101
    await stage.later(PROBE_S)
    assert stage.rpc.still_s == 0


async def test_nodes_behind_one_address_that_differ_are_no_new_blocks():
    (only,) = (Node(head=100),)
    stage = await Stage(only).ready()
    for head in (98, 100, 95, 99, 100):
        only.head = head
        await stage.later(PROBE_S)
    assert stage.rpc.still_s == 5 * PROBE_S


async def test_a_head_that_was_never_there_is_forgotten():
    (only,) = (Node(head=100),)
    stage = await Stage(only).ready()
    only.head = 10**9
    await stage.later(PROBE_S)
    only.head = 101
    await stage.later(PATIENCE_S)
    assert stage.rpc.still_s == 0
    await stage.later(PROBE_S)
    assert stage.rpc.still_s == PROBE_S


async def test_blocks_come_if_as_many_tell_them_as_have_to_agree():
    nodes = [Node(head=100), Node(head=100), Node(head=100)]
    stage = await Stage(*nodes, agreement=2).ready()
    for seen in (1, 2, 3):
        # what it makes up is too little to leave the others behind
        nodes[0].head = 100 + seen
        await stage.later(PROBE_S)
    assert stage.rpc.still_s == 3 * PROBE_S
    nodes[1].head = 103
    await stage.later(PROBE_S)
    assert stage.rpc.still_s == PROBE_S
    nodes[0].head = nodes[1].head = 104
    await stage.later(PROBE_S)
    assert stage.rpc.still_s == 0


async def test_a_node_that_hangs_behind_does_not_stop_a_chain_that_goes_on():
    stuck, good = Node(head=100), Node(head=100)
    stage = await Stage(stuck, good).ready()
    for seen in range(1, 5):
        good.head = 100 + 10 * seen
        await stage.later(PROBE_S)
        assert stage.rpc.still_s == 0


async def test_nothing_is_said_of_blocks_while_no_node_answers():
    (only,) = (Node(head=100),)
    stage = await Stage(only).ready()
    await stage.later(PROBE_S)
    only.fault = lost()
    await stage.later(PROBE_S)
    assert stage.rpc.still_s == 0
