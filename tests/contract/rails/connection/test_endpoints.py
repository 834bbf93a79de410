"""Test that several endpoints act as one: which are called, left out, and used again."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from florin_server.rails.connection.endpoints import FailoverRpc
from florin_server.rails.connection.health import BACKOFF_MAX_S, PROBE_S, SHORT_S
from florin_server.rails.connection.jsonrpc import (
    AnswerTooLarge,
    JsonRpcClient,
    RateLimited,
    RpcError,
)
from florin_server.rails.connection.node_dialect import DOUBT_S
from florin_server.rails.evm.dialect import EvmNodeDialect
from florin_server.rails.types import RailUnavailable

from tests.support.endpoint_harness import EndpointHarness, StubClock, StubNode, make_lost
from tests.support.until import wait_until

QUESTION = ("eth_getBalance", ("0xabc", "latest"))


async def test_first_of_several_healthy_endpoints_is_called():
    first, second = StubNode(balance="0x1"), StubNode(balance="0x2")
    stage = await EndpointHarness(first, second).ready()
    assert await stage.rpc.call(*QUESTION[:1], *QUESTION[1]) == "0x1"
    assert second.take() == []


async def test_next_endpoint_answers_for_a_failed_endpoint_in_the_same_call():
    first, second = StubNode(balance="0x1"), StubNode(balance="0x2")
    stage = await EndpointHarness(first, second).ready()
    first.fault = make_lost()
    assert await stage.rpc.batch([QUESTION]) == ["0x2"]
    assert stage.problems() == ["ClientConnectorError", ""]


async def test_failed_endpoint_is_skipped_until_a_probe_succeeds():
    first, second = StubNode(balance="0x1"), StubNode(balance="0x2")
    stage = await EndpointHarness(first, second).ready()
    first.fault = make_lost()
    await stage.rpc.batch([QUESTION])
    first.take()
    assert await stage.rpc.batch([QUESTION]) == ["0x2"]
    assert first.take() == []
    first.fault = None
    await stage.later(1.1)
    assert first.take() == ["eth_chainId", "eth_blockNumber"]
    assert await stage.rpc.batch([QUESTION]) == ["0x1"]


async def test_looks_at_a_dead_endpoint_become_rarer():
    first, second = StubNode(), StubNode()
    stage = await EndpointHarness(first, second).ready()
    first.fault = make_lost()
    await stage.rpc.batch([QUESTION])
    looks = await looks_in(stage, 300)
    gaps = [b - a for a, b in itertools.pairwise(looks)]
    assert gaps == sorted(gaps)
    assert max(gaps) == BACKOFF_MAX_S
    assert len(looks) < 12


async def looks_in(stage, seconds):
    """Return the seconds in which the first endpoint was checked."""
    looks = []
    for second in range(seconds):
        stage.nodes[0].take()
        await stage.later(1)
        if stage.nodes[0].take():
            looks.append(second)
    return looks


async def test_while_too_few_agree_dead_endpoints_are_looked_at_every_few_seconds():
    """No payment can end meanwhile, so a two-second outage must not last a minute."""
    first, second = StubNode(), StubNode()
    stage = await EndpointHarness(first, second, agreement=2).ready()
    first.fault = make_lost()
    await stage.rpc.batch([QUESTION])
    looks = await looks_in(stage, 300)
    assert max(b - a for a, b in itertools.pairwise(looks)) == SHORT_S
    first.fault = None
    await stage.later(SHORT_S)
    assert stage.problems() == ["", ""]


async def test_rate_limit_delay_is_respected_even_without_quorum():
    first, second = StubNode(), StubNode()
    stage = await EndpointHarness(first, second, agreement=2).ready()
    first.fault = RateLimited("node0.example: too many requests", 60)
    await stage.rpc.batch([QUESTION])
    first.take()
    await stage.later(59)
    assert first.take() == []
    await stage.later(1)
    assert first.take()


async def test_endpoint_of_another_chain_is_not_probed_more_often():
    first, second = StubNode(chain=1), StubNode()
    stage = await EndpointHarness(first, second, agreement=2).ready()
    assert len(await looks_in(stage, 300)) < 12


async def test_a_slow_endpoint_leaves_time_for_the_next():
    first, second = StubNode(balance="0x1"), StubNode(balance="0x2")
    stage = await EndpointHarness(first, second, timeout_s=0.2).ready()
    first.holding = asyncio.Event()
    assert await stage.rpc.batch([QUESTION]) == ["0x2"]
    assert stage.problems() == ["does not answer in time", ""]
    first.holding.set()
    await stage.rpc.close()


async def test_slow_endpoint_is_called_after_the_other_endpoints():
    first, second = StubNode(balance="0x1"), StubNode(balance="0x2")
    stage = await EndpointHarness(first, second).ready()
    first.holding, first.arrived = asyncio.Event(), asyncio.Event()
    asks = asyncio.create_task(stage.rpc.batch([QUESTION]))
    await first.arrived.wait()
    stage.time.now += 3
    asks.cancel()
    await asyncio.wait([asks])
    first.holding = None
    assert await stage.rpc.batch([QUESTION]) == ["0x2"]
    # successful later checks restore the endpoint
    for _ in range(20):
        await stage.later(PROBE_S)
    assert await stage.rpc.batch([QUESTION]) == ["0x1"]


@pytest.mark.parametrize(
    "refusal",
    [
        RpcError(-32000, "header not found"),
        RpcError(-32000, "missing trie node 0abc (path ) state 0x12 is not available"),
        RpcError(-32005, "daily request count exceeded"),
        RpcError(-32603, "internal error"),
        RpcError(-32000, "Too Many Requests"),
    ],
    ids=lambda refusal: refusal.message[:20],
)
async def test_next_endpoint_answers_for_a_node_with_an_internal_error(refusal):
    first, second = StubNode(), StubNode(balance="0x2")
    stage = await EndpointHarness(first, second).ready()
    first.answers["eth_getBalance"] = refusal
    assert await stage.rpc.batch([QUESTION]) == ["0x2"]
    # if all endpoints fail, the error reports what they returned
    second.answers["eth_getBalance"] = refusal
    (result,) = await stage.rpc.batch([QUESTION])
    assert result.message == refusal.message


@pytest.mark.parametrize(
    "refusal",
    [
        RpcError(3, "execution reverted: timeout"),
        RpcError(-32601, "method not found"),
        RpcError(-32602, "invalid params"),
    ],
    ids=lambda refusal: refusal.message,
)
async def test_error_that_any_node_would_return_is_not_retried(refusal):
    first, second = StubNode(), StubNode()
    stage = await EndpointHarness(first, second).ready()
    first.answers["eth_getBalance"] = refusal
    (result,) = await stage.rpc.batch([QUESTION])
    assert result.message == refusal.message
    assert second.take() == []


async def test_an_answer_that_is_too_large_is_no_fault_of_the_endpoint():
    first, second = StubNode(), StubNode()
    stage = await EndpointHarness(first, second).ready()
    first.fault = AnswerTooLarge("more than we read")
    with pytest.raises(AnswerTooLarge):
        await stage.rpc.batch([QUESTION])
    assert second.take() == []
    assert stage.problems() == ["", ""]


async def test_rate_limited_endpoint_is_not_called_before_the_requested_delay():
    (only,) = (StubNode(),)
    stage = await EndpointHarness(only).ready()
    only.fault = RateLimited("node0.example answered HTTP 429", 30)
    with pytest.raises(RailUnavailable, match="429"):
        await stage.rpc.batch([QUESTION])
    only.fault = None
    only.take()
    await stage.later(29)
    with pytest.raises(RailUnavailable, match="429"):
        await stage.rpc.batch([QUESTION])
    assert only.take() == []
    await stage.later(1)
    assert await stage.rpc.batch([QUESTION]) == ["0x1"]


async def test_endless_rate_limit_delay_is_capped():
    only = StubNode()
    stage = await EndpointHarness(only).ready()
    only.fault = RateLimited("node0.example answered HTTP 429", 999_999_999)
    with pytest.raises(RailUnavailable):
        await stage.rpc.batch([QUESTION])
    only.fault = None
    await stage.later(301)
    assert await stage.rpc.batch([QUESTION]) == ["0x1"]


# chain ID


async def test_endpoint_of_another_chain_is_reported_and_never_called():
    first, second = StubNode(chain=1, balance="0x1"), StubNode(balance="0x2")
    stage = EndpointHarness(first, second)
    assert await stage.rpc.batch([QUESTION]) == ["0x2"]
    assert first.take() == ["eth_chainId", "eth_blockNumber"]
    assert stage.problems() == ["serves chain 1, not 31337", ""]
    await stage.rpc.call("eth_sendRawTransaction", "0x00")
    assert first.take() == []


async def test_a_chain_with_our_number_and_another_first_block_is_another_chain():
    node = StubNode()
    ours, theirs = "0x" + "11" * 32, "0x" + "22" * 32
    node.answers["eth_getBlockByNumber"] = {"hash": theirs}
    family = EvmNodeDialect("Test", 31337, lag_max=5, genesis=ours)
    rpc = FailoverRpc({"node0.example": JsonRpcClient(node)}, family, now=StubClock())
    with pytest.raises(RailUnavailable, match="another chain with the id 31337"):
        await rpc.batch([QUESTION])
    assert "eth_getBalance" not in node.methods


async def test_endpoint_that_changes_its_chain_is_detected():
    first, second = StubNode(balance="0x1"), StubNode(balance="0x2")
    stage = await EndpointHarness(first, second).ready()
    first.chain = 5
    await stage.later(PROBE_S)
    first.take()
    assert await stage.rpc.batch([QUESTION]) == ["0x2"]
    assert first.take() == []
    first.chain = 31337
    await stage.later(PROBE_S)
    assert await stage.rpc.batch([QUESTION]) == ["0x1"]


async def test_chain_id_is_checked_first_after_a_failure():
    (only,) = (StubNode(),)
    stage = await EndpointHarness(only).ready()
    only.fault = make_lost()
    with pytest.raises(RailUnavailable):
        await stage.rpc.batch([QUESTION])
    only.fault, only.chain = None, 5
    only.take()
    with pytest.raises(RailUnavailable, match="serves chain 5"):
        await stage.rpc.batch([QUESTION])
    assert "eth_getBalance" not in only.take()


# head


async def test_an_endpoint_that_is_far_behind_is_left_out_until_it_caught_up():
    first, second = StubNode(head=90, balance="0x1"), StubNode(head=100, balance="0x2")
    stage = await EndpointHarness(first, second).ready()
    await stage.later(PROBE_S)
    assert stage.problems() == ["is 10 blocks behind", ""]
    assert stage.rpc.list_states()[0].lag == 10
    assert await stage.rpc.batch([QUESTION]) == ["0x2"]
    first.head = 98
    await stage.later(BACKOFF_MAX_S)
    assert await stage.rpc.batch([QUESTION]) == ["0x2"]  # not block 98 after block 100
    first.head = 100
    assert await stage.rpc.batch([QUESTION]) == ["0x1"]


async def test_single_endpoint_with_a_false_head_does_not_make_other_endpoints_late():
    liar, honest, other = StubNode(head=10**9), StubNode(head=100), StubNode(head=100)
    stage = await EndpointHarness(liar, honest, other).ready()
    await stage.later(PROBE_S)
    assert stage.problems() == ["", "", ""]


async def test_a_state_older_than_the_head_that_was_seen_is_not_believed():
    first, second = StubNode(head=100, balance="0x1"), StubNode(head=101, balance="0x2")
    stage = await EndpointHarness(first, second).ready()
    second.head = first.head = 101
    assert await stage.rpc.call("eth_blockNumber") == hex(101)
    first.head = 100
    assert await stage.rpc.batch([QUESTION]) == ["0x2"]


async def test_load_balancer_that_leads_to_a_lagging_node_is_called_again():
    class Balancer(StubNode):
        async def send(self, payload):
            self.head = next(self.heads)
            return await super().send(payload)

    balancer = Balancer()
    balancer.heads = iter([100, 100, 99, 99, 100])
    stage = await EndpointHarness(balancer).ready()
    assert await stage.rpc.batch([QUESTION]) == ["0x1"]
    assert balancer.take() == ["eth_blockNumber", "eth_getBalance"] * 3


async def test_a_head_that_jumps_back_is_refused():
    (only,) = (StubNode(head=100),)
    stage = await EndpointHarness(only).ready()
    only.head = 60
    with pytest.raises(RailUnavailable, match="40 blocks behind"):
        await stage.rpc.call("eth_blockNumber")


async def test_a_chain_that_went_back_for_good_is_believed_in_the_end():
    (only,) = (StubNode(head=100),)
    stage = await EndpointHarness(only).ready()
    only.head = 60
    with pytest.raises(RailUnavailable):
        await stage.rpc.call("eth_blockNumber")
    stage.time.now += DOUBT_S
    assert await stage.rpc.call("eth_blockNumber") == hex(60)
    assert await stage.rpc.batch([QUESTION]) == ["0x1"]


# broadcasting transactions


async def test_a_transaction_is_handed_to_every_endpoint():
    nodes = [StubNode(), StubNode(), StubNode()]
    stage = await EndpointHarness(*nodes).ready()
    await stage.rpc.call("eth_sendRawTransaction", "0x00")
    # the first success is enough; the call does not wait for the others
    await wait_until(lambda: [node.methods for node in nodes], [["eth_sendRawTransaction"]] * 3)


async def test_single_endpoint_that_accepts_a_transaction_is_enough():
    first, second, third = StubNode(), StubNode(), StubNode()
    stage = await EndpointHarness(first, second, third).ready()
    first.fault = make_lost()
    second.answers["eth_sendRawTransaction"] = RpcError(-32000, "nonce too low")
    assert await stage.rpc.call("eth_sendRawTransaction", "0x00") == "0xhash"


async def test_transaction_refused_by_every_endpoint_reports_a_duplicate():
    first, second, third = StubNode(), StubNode(), StubNode()
    stage = await EndpointHarness(first, second, third).ready()
    first.fault = make_lost()
    second.answers["eth_sendRawTransaction"] = RpcError(-32000, "nonce too low")
    third.answers["eth_sendRawTransaction"] = RpcError(-32000, "already known")
    with pytest.raises(RpcError, match="already known"):
        await stage.rpc.call("eth_sendRawTransaction", "0x00")


async def test_transaction_that_reached_no_endpoint_raises_rail_unavailable():
    first, second = StubNode(), StubNode()
    stage = await EndpointHarness(first, second).ready()
    first.fault = second.fault = make_lost()
    with pytest.raises(RailUnavailable):
        await stage.rpc.call("eth_sendRawTransaction", "0x00")


# all endpoints down


async def test_endpoints_that_were_all_down_are_used_as_soon_as_they_are_back():
    first, second = StubNode(balance="0x1"), StubNode(balance="0x2")
    stage = await EndpointHarness(first, second, agreement=2).ready()
    first.fault = second.fault = make_lost()
    for _ in range(10):
        await stage.later(10)
        with pytest.raises(RailUnavailable):
            await stage.rpc.batch([QUESTION])
    first.fault = second.fault = None
    assert await stage.rpc.batch([QUESTION]) == ["0x1"]
    await stage.later(BACKOFF_MAX_S)
    assert await stage.rpc.ask_quorum(lambda rpc: rpc.batch([QUESTION])) == [["0x1"], ["0x2"]]


async def test_agreement_needs_as_many_endpoints_as_it_says():
    first, second, third = StubNode(balance="0x1"), StubNode(balance="0x2"), StubNode(balance="0x3")
    stage = await EndpointHarness(first, second, third, agreement=2).ready()
    first.fault = make_lost()
    assert await stage.rpc.ask_quorum(lambda rpc: rpc.batch([QUESTION])) == [["0x2"], ["0x3"]]
    second.fault = make_lost()
    with pytest.raises(RailUnavailable, match="1 endpoints answer, but 2 must agree"):
        await stage.rpc.ask_quorum(lambda rpc: rpc.batch([QUESTION]))


@pytest.mark.parametrize(("block_s", "lag"), [(None, 5), (0.2, 50), (0.05, 200), (12.0, 5)])
def test_allowed_lag_counts_seconds_once_the_pace_is_measured(block_s, lag):
    family = EvmNodeDialect("Test", 31337, lag_max=5, get_block_s=lambda: block_s)
    assert family.get_allowed_lag() == lag


@pytest.mark.parametrize(("block_s", "problem"), [(0.2, ""), (2.0, "is 6 blocks behind")])
async def test_node_six_blocks_behind_is_left_out_only_if_that_is_long(block_s, problem):
    far, near, time = StubNode(head=100), StubNode(head=106), StubClock()
    family = EvmNodeDialect("Test", 31337, lag_max=5, get_block_s=lambda: block_s)
    nodes = {"far.example": JsonRpcClient(far), "near.example": JsonRpcClient(near)}
    rpc = FailoverRpc(nodes, family, now=time)
    await rpc.probe_due()
    time.now += PROBE_S
    await rpc.probe_due()
    assert [state.problem for state in rpc.list_states()] == [problem, ""]
