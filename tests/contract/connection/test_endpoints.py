"""Several endpoints behave as one good one: who is asked, who is left out, and who comes back."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from florin_server.rails.connection.endpoints import Endpoints
from florin_server.rails.connection.family import PATIENCE_S
from florin_server.rails.connection.health import BACKOFF_MAX_S, PROBE_S, SHORT_S
from florin_server.rails.connection.jsonrpc import AnswerTooLarge, JsonRpc, RateLimited, RpcError
from florin_server.rails.evm.family import EvmFamily
from florin_server.rails.types import RailUnavailable

from tests.support.endpoint_kit import Node, Stage, Time, lost
from tests.support.until import until

QUESTION = ("eth_getBalance", ("0xabc", "latest"))


async def test_the_first_of_good_endpoints_is_asked():
    first, second = Node(balance="0x1"), Node(balance="0x2")
    stage = await Stage(first, second).ready()
    assert await stage.rpc.call(*QUESTION[:1], *QUESTION[1]) == "0x1"
    assert second.take() == []


async def test_the_next_answers_for_one_that_fails_within_the_same_call():
    first, second = Node(balance="0x1"), Node(balance="0x2")
    stage = await Stage(first, second).ready()
    first.fault = lost()
    assert await stage.rpc.batch([QUESTION]) == ["0x2"]
    assert stage.problems() == ["ClientConnectorError", ""]


async def test_one_that_failed_is_left_out_until_a_look_at_it_succeeds():
    first, second = Node(balance="0x1"), Node(balance="0x2")
    stage = await Stage(first, second).ready()
    first.fault = lost()
    await stage.rpc.batch([QUESTION])
    first.take()
    assert await stage.rpc.batch([QUESTION]) == ["0x2"]
    assert first.take() == []
    first.fault = None
    await stage.later(1.1)
    assert first.take() == ["eth_chainId", "eth_blockNumber"]
    assert await stage.rpc.batch([QUESTION]) == ["0x1"]


async def test_looks_at_a_dead_endpoint_become_rarer():
    first, second = Node(), Node()
    stage = await Stage(first, second).ready()
    first.fault = lost()
    await stage.rpc.batch([QUESTION])
    looks = await looks_in(stage, 300)
    gaps = [b - a for a, b in itertools.pairwise(looks)]
    assert gaps == sorted(gaps)
    assert max(gaps) == BACKOFF_MAX_S
    assert len(looks) < 12


async def looks_in(stage, seconds):
    """In which seconds the first endpoint was looked at."""
    looks = []
    for second in range(seconds):
        stage.nodes[0].take()
        await stage.later(1)
        if stage.nodes[0].take():
            looks.append(second)
    return looks


async def test_while_too_few_agree_dead_endpoints_are_looked_at_every_few_seconds():
    """Nothing ends meanwhile: what was away for two seconds must not be missed for a minute."""
    first, second = Node(), Node()
    stage = await Stage(first, second, agreement=2).ready()
    first.fault = lost()
    await stage.rpc.batch([QUESTION])
    looks = await looks_in(stage, 300)
    assert max(b - a for a, b in itertools.pairwise(looks)) == SHORT_S
    first.fault = None
    await stage.later(SHORT_S)
    assert stage.problems() == ["", ""]


async def test_who_asked_for_time_gets_it_even_while_too_few_agree():
    first, second = Node(), Node()
    stage = await Stage(first, second, agreement=2).ready()
    first.fault = RateLimited("node0.example: too many requests", 60)
    await stage.rpc.batch([QUESTION])
    first.take()
    await stage.later(59)
    assert first.take() == []
    await stage.later(1)
    assert first.take()


async def test_who_serves_another_chain_is_not_hurried():
    first, second = Node(chain=1), Node()
    stage = await Stage(first, second, agreement=2).ready()
    assert len(await looks_in(stage, 300)) < 12


async def test_a_slow_endpoint_leaves_time_for_the_next():
    first, second = Node(balance="0x1"), Node(balance="0x2")
    stage = await Stage(first, second, timeout_s=0.2).ready()
    first.holding = asyncio.Event()
    assert await stage.rpc.batch([QUESTION]) == ["0x2"]
    assert stage.problems() == ["does not answer in time", ""]
    first.holding.set()
    await stage.rpc.close()


async def test_who_kept_a_caller_waiting_is_asked_after_the_others():
    first, second = Node(balance="0x1"), Node(balance="0x2")
    stage = await Stage(first, second).ready()
    first.holding, first.arrived = asyncio.Event(), asyncio.Event()
    asks = asyncio.create_task(stage.rpc.batch([QUESTION]))
    await first.arrived.wait()
    stage.time.now += 3
    asks.cancel()
    await asyncio.wait([asks])
    first.holding = None
    assert await stage.rpc.batch([QUESTION]) == ["0x2"]
    # its answers to later looks bring it back
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
async def test_a_node_that_failed_itself_is_answered_for(refusal):
    first, second = Node(), Node(balance="0x2")
    stage = await Stage(first, second).ready()
    first.answers["eth_getBalance"] = refusal
    assert await stage.rpc.batch([QUESTION]) == ["0x2"]
    # if all of them fail, what they say is told
    second.answers["eth_getBalance"] = refusal
    (told,) = await stage.rpc.batch([QUESTION])
    assert told.message == refusal.message


@pytest.mark.parametrize(
    "refusal",
    [
        RpcError(3, "execution reverted: timeout"),
        RpcError(-32601, "method not found"),
        RpcError(-32602, "invalid params"),
    ],
    ids=lambda refusal: refusal.message,
)
async def test_what_any_node_would_say_is_asked_once(refusal):
    first, second = Node(), Node()
    stage = await Stage(first, second).ready()
    first.answers["eth_getBalance"] = refusal
    (told,) = await stage.rpc.batch([QUESTION])
    assert told.message == refusal.message
    assert second.take() == []


async def test_an_answer_that_is_too_large_is_no_fault_of_the_endpoint():
    first, second = Node(), Node()
    stage = await Stage(first, second).ready()
    first.fault = AnswerTooLarge("more than we read")
    with pytest.raises(AnswerTooLarge):
        await stage.rpc.batch([QUESTION])
    assert second.take() == []
    assert stage.problems() == ["", ""]


async def test_an_endpoint_that_asks_to_wait_is_not_asked_before():
    (only,) = (Node(),)
    stage = await Stage(only).ready()
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


async def test_an_endpoint_that_asks_to_wait_forever_is_asked_again():
    only = Node()
    stage = await Stage(only).ready()
    only.fault = RateLimited("node0.example answered HTTP 429", 999_999_999)
    with pytest.raises(RailUnavailable):
        await stage.rpc.batch([QUESTION])
    only.fault = None
    await stage.later(301)
    assert await stage.rpc.batch([QUESTION]) == ["0x1"]


# which chain it is


async def test_an_endpoint_of_another_chain_is_never_asked_and_told():
    first, second = Node(chain=1, balance="0x1"), Node(balance="0x2")
    stage = Stage(first, second)
    assert await stage.rpc.batch([QUESTION]) == ["0x2"]
    assert first.take() == ["eth_chainId", "eth_blockNumber"]
    assert stage.problems() == ["serves chain 1, not 31337", ""]
    await stage.rpc.call("eth_sendRawTransaction", "0x00")
    assert first.take() == []


async def test_a_chain_with_our_number_and_another_first_block_is_another_chain():
    node = Node()
    ours, theirs = "0x" + "11" * 32, "0x" + "22" * 32
    node.answers["eth_getBlockByNumber"] = {"hash": theirs}
    family = EvmFamily("Test", 31337, lag_max=5, genesis=ours)
    rpc = Endpoints({"node0.example": JsonRpc(node)}, family, now=Time())
    with pytest.raises(RailUnavailable, match="another chain with the id 31337"):
        await rpc.batch([QUESTION])
    assert "eth_getBalance" not in node.asked


async def test_an_endpoint_that_changes_its_chain_is_found_out():
    first, second = Node(balance="0x1"), Node(balance="0x2")
    stage = await Stage(first, second).ready()
    first.chain = 5
    await stage.later(PROBE_S)
    first.take()
    assert await stage.rpc.batch([QUESTION]) == ["0x2"]
    assert first.take() == []
    first.chain = 31337
    await stage.later(PROBE_S)
    assert await stage.rpc.batch([QUESTION]) == ["0x1"]


async def test_after_a_failure_the_chain_is_asked_for_before_anything_else():
    (only,) = (Node(),)
    stage = await Stage(only).ready()
    only.fault = lost()
    with pytest.raises(RailUnavailable):
        await stage.rpc.batch([QUESTION])
    only.fault, only.chain = None, 5
    only.take()
    with pytest.raises(RailUnavailable, match="serves chain 5"):
        await stage.rpc.batch([QUESTION])
    assert "eth_getBalance" not in only.take()


# how far it is


async def test_an_endpoint_that_is_far_behind_is_left_out_until_it_caught_up():
    first, second = Node(head=90, balance="0x1"), Node(head=100, balance="0x2")
    stage = await Stage(first, second).ready()
    await stage.later(PROBE_S)
    assert stage.problems() == ["is 10 blocks behind", ""]
    assert stage.rpc.states()[0].lag == 10
    assert await stage.rpc.batch([QUESTION]) == ["0x2"]
    first.head = 98
    await stage.later(BACKOFF_MAX_S)
    assert await stage.rpc.batch([QUESTION]) == ["0x2"]  # it may not go back to block 98
    first.head = 100
    assert await stage.rpc.batch([QUESTION]) == ["0x1"]


async def test_one_endpoint_alone_cannot_make_all_others_look_late():
    liar, honest, other = Node(head=10**9), Node(head=100), Node(head=100)
    stage = await Stage(liar, honest, other).ready()
    await stage.later(PROBE_S)
    assert stage.problems() == ["", "", ""]


async def test_a_state_older_than_the_head_that_was_seen_is_not_believed():
    first, second = Node(head=100, balance="0x1"), Node(head=101, balance="0x2")
    stage = await Stage(first, second).ready()
    second.head = first.head = 101
    assert await stage.rpc.call("eth_blockNumber") == hex(101)
    first.head = 100
    assert await stage.rpc.batch([QUESTION]) == ["0x2"]


async def test_a_load_balancer_is_asked_again_when_it_led_to_a_node_that_lags():
    class Balancer(Node):
        async def send(self, payload):
            self.head = next(self.heads)
            return await super().send(payload)

    balancer = Balancer()
    balancer.heads = iter([100, 100, 99, 99, 100])
    stage = await Stage(balancer).ready()
    assert await stage.rpc.batch([QUESTION]) == ["0x1"]
    assert balancer.take() == ["eth_blockNumber", "eth_getBalance"] * 3


async def test_a_head_that_jumps_back_is_refused():
    (only,) = (Node(head=100),)
    stage = await Stage(only).ready()
    only.head = 60
    with pytest.raises(RailUnavailable, match="40 blocks behind"):
        await stage.rpc.call("eth_blockNumber")


async def test_a_chain_that_went_back_for_good_is_believed_in_the_end():
    (only,) = (Node(head=100),)
    stage = await Stage(only).ready()
    only.head = 60
    with pytest.raises(RailUnavailable):
        await stage.rpc.call("eth_blockNumber")
    stage.time.now += PATIENCE_S
    assert await stage.rpc.call("eth_blockNumber") == hex(60)
    assert await stage.rpc.batch([QUESTION]) == ["0x1"]


# handing over transactions


async def test_a_transaction_is_handed_to_every_endpoint():
    nodes = [Node(), Node(), Node()]
    stage = await Stage(*nodes).ready()
    await stage.rpc.call("eth_sendRawTransaction", "0x00")
    # the first answer is enough; nobody waits for the others
    await until(lambda: [node.asked for node in nodes], [["eth_sendRawTransaction"]] * 3)


async def test_one_endpoint_that_takes_a_transaction_is_enough():
    first, second, third = Node(), Node(), Node()
    stage = await Stage(first, second, third).ready()
    first.fault = lost()
    second.answers["eth_sendRawTransaction"] = RpcError(-32000, "nonce too low")
    assert await stage.rpc.call("eth_sendRawTransaction", "0x00") == "0xhash"


async def test_a_transaction_that_nobody_took_was_refused_because_it_is_known():
    first, second, third = Node(), Node(), Node()
    stage = await Stage(first, second, third).ready()
    first.fault = lost()
    second.answers["eth_sendRawTransaction"] = RpcError(-32000, "nonce too low")
    third.answers["eth_sendRawTransaction"] = RpcError(-32000, "already known")
    with pytest.raises(RpcError, match="already known"):
        await stage.rpc.call("eth_sendRawTransaction", "0x00")


async def test_a_transaction_that_reached_nobody_is_unknown():
    first, second = Node(), Node()
    stage = await Stage(first, second).ready()
    first.fault = second.fault = lost()
    with pytest.raises(RailUnavailable):
        await stage.rpc.call("eth_sendRawTransaction", "0x00")


# all of them


async def test_endpoints_that_were_all_down_are_used_as_soon_as_they_are_back():
    first, second = Node(balance="0x1"), Node(balance="0x2")
    stage = await Stage(first, second, agreement=2).ready()
    first.fault = second.fault = lost()
    for _ in range(10):
        await stage.later(10)
        with pytest.raises(RailUnavailable):
            await stage.rpc.batch([QUESTION])
    first.fault = second.fault = None
    assert await stage.rpc.batch([QUESTION]) == ["0x1"]
    await stage.later(BACKOFF_MAX_S)
    assert await stage.rpc.several(lambda rpc: rpc.batch([QUESTION])) == [["0x1"], ["0x2"]]


async def test_agreement_needs_as_many_endpoints_as_it_says():
    first, second, third = Node(balance="0x1"), Node(balance="0x2"), Node(balance="0x3")
    stage = await Stage(first, second, third, agreement=2).ready()
    first.fault = lost()
    assert await stage.rpc.several(lambda rpc: rpc.batch([QUESTION])) == [["0x2"], ["0x3"]]
    second.fault = lost()
    with pytest.raises(RailUnavailable, match="1 endpoints answer, and 2 have to agree"):
        await stage.rpc.several(lambda rpc: rpc.batch([QUESTION]))


@pytest.mark.parametrize(("block_s", "lag"), [(None, 5), (0.2, 50), (0.05, 200), (12.0, 5)])
def test_allowed_lag_counts_seconds_once_the_pace_is_measured(block_s, lag):
    family = EvmFamily("Test", 31337, lag_max=5, block_s=lambda: block_s)
    assert family.allowed_lag() == lag


@pytest.mark.parametrize(("block_s", "problem"), [(0.2, ""), (2.0, "is 6 blocks behind")])
async def test_node_six_blocks_behind_is_left_out_only_if_that_is_long(block_s, problem):
    far, near, time = Node(head=100), Node(head=106), Time()
    family = EvmFamily("Test", 31337, lag_max=5, block_s=lambda: block_s)
    nodes = {"far.example": JsonRpc(far), "near.example": JsonRpc(near)}
    rpc = Endpoints(nodes, family, now=time)
    await rpc.look()
    time.now += PROBE_S
    await rpc.look()
    assert [state.problem for state in rpc.states()] == [problem, ""]
