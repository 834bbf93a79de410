"""Test what is remembered of a chain's newest blocks, and forgotten when they are replaced."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from florin_server.money.settlement.worker.blocks import (
    BlockFollower,
    ChainEvidence,
    FactAgreement,
    HeadFollower,
    create_follower,
)
from florin_server.rails.types import ChainHead

from tests.support.block_chain import InMemoryChain, follower, make_mined, make_paid
from tests.support.settlement_actions import look_until_current


@pytest.fixture
def chain():
    created_chain = InMemoryChain()
    created_chain.grow(10)
    return created_chain


async def remembered(chain: Any, blocks: BlockFollower) -> set[int]:
    """Return the blocks whose hashes are known without a call to the chain."""
    existing = set()
    for number in range(blocks.head + 1):
        chain.read.clear()
        assert await blocks.find_block_hash(number) == chain.views[number].hash
        if not chain.read:
            existing.add(number)
    return existing


# evidence


def test_event_is_stored_once_and_removed_once_used():
    evidence = ChainEvidence()
    late = make_paid(number=6)
    for event in (make_paid(), make_paid(), late, make_paid("b")):
        evidence.add_event(event)
    assert evidence.settlement_events == {"a": [make_paid(), late], "b": [make_paid("b")]}
    evidence.consume("a", lambda event: event == make_paid())
    assert evidence.settlement_events["a"] == [late]
    evidence.consume("b", lambda _: True)
    evidence.consume("unknown", lambda _: True)
    assert evidence.settlement_events == {"a": [late]}


def test_evidence_of_replaced_blocks_is_removed():
    evidence = ChainEvidence(
        {"a": [make_paid(number=4), make_paid(number=5)], "b": [make_paid("b")]},
        {"0x1": make_mined("0x1", 4), "0x2": make_mined("0x2", 5)},
        [make_paid(number=4), make_paid(number=5)],
    )
    evidence.drop_from(5)
    assert evidence.settlement_events == {"a": [make_paid(number=4)]}
    assert evidence.mined_transactions == {"0x1": make_mined("0x1", 4)}
    assert evidence.new_events == [make_paid(number=4)]


def test_old_evidence_is_removed_except_for_awaited_references():
    evidence = ChainEvidence(
        {
            "a": [make_paid(number=4), make_paid(number=5)],
            "b": [make_paid("b", 4)],
            "c": [make_paid("c", 4)],
        },
        {"0x1": make_mined("0x1", 4), "0x2": make_mined("0x2", 5)},
    )
    evidence.drop_below(5, {"c"})
    assert evidence.settlement_events == {"a": [make_paid(number=5)], "c": [make_paid("c", 4)]}
    assert evidence.mined_transactions == {"0x2": make_mined("0x2", 5)}


def test_a_fact_that_is_not_so_is_forgotten_and_no_other():
    evidence = ChainEvidence({"a": [make_paid(), make_paid(number=6)]}, {"0xours": make_mined()})
    evidence.drop(make_mined(number=6))
    evidence.drop(make_mined("0xtheirs"))
    evidence.drop(make_paid("b"))
    assert evidence.settlement_events == {"a": [make_paid(), make_paid(number=6)]}
    assert evidence.mined_transactions == {"0xours": make_mined()}
    evidence.drop(make_mined())
    evidence.drop(make_paid())
    assert (evidence.settlement_events, evidence.mined_transactions) == (
        {"a": [make_paid(number=6)]},
        {},
    )
    evidence.drop(make_paid(number=6))
    assert evidence.settlement_events == {}


def test_block_facts_match_by_number_and_hash():
    evidence = ChainEvidence(
        {"a": [make_paid(), make_paid(number=6)], "b": [make_paid("b", block_hash="0xother")]},
        {"0xours": make_mined(), "0x2": make_mined("0x2", 6)},
    )
    assert evidence.list_facts(5, "0x5") == {make_paid(), make_mined()}
    assert evidence.list_facts(5, "0x6") == frozenset()


# agreement between nodes


async def test_single_node_without_agreement_is_trusted(chain):
    assert await FactAgreement(chain, ChainEvidence(), lambda _: True).is_agreed(make_paid())
    assert chain.fact_queries == []


async def test_facts_of_a_block_are_requested_together_and_once_per_look():
    chain = InMemoryChain(agreement=2, attested_facts={make_paid(), make_mined()})
    evidence = ChainEvidence({"a": [make_paid()], "b": [make_paid("b")]}, {"0xours": make_mined()})
    agreement = FactAgreement(chain, evidence, lambda _: True)  # type: ignore[arg-type]
    assert await agreement.is_agreed(make_paid())
    assert chain.fact_queries == [{make_paid(), make_paid("b"), make_mined()}]
    assert await agreement.is_agreed(make_mined())
    # facts on which nodes disagree are forgotten, and not requested again until the next look
    assert evidence.settlement_events == {"a": [make_paid()]}
    assert not await agreement.is_agreed(make_paid("b"))
    assert len(chain.fact_queries) == 1
    agreement.reset()
    chain.attested_facts.add(make_paid("b"))
    assert await agreement.is_agreed(make_paid("b"))
    assert chain.fact_queries[1:] == [{make_paid("b")}]
    assert len(chain.fact_queries) == 2
    # a fact that no block showed is also requested
    assert not await agreement.is_agreed(make_mined("0xunseen"))
    agreement.drop_below(5)
    assert await agreement.is_agreed(make_paid())
    agreement.drop_below(6)
    agreement.reset()
    assert await agreement.is_agreed(make_paid())
    assert len(chain.fact_queries) == 4


# blocks that are read


async def test_follower_starts_at_the_head_and_reads_new_blocks(chain):
    blocks = await follower(chain)
    assert (blocks.head, blocks.time, blocks.rewind_count) == (9, 1090, 0)
    assert not await blocks.poll()
    assert chain.read == []
    chain.grow(1, 10, make_paid(), make_mined())
    chain.grow()
    assert await blocks.poll()
    assert (blocks.head, blocks.time, chain.read) == (11, 1110, [10, 11])
    (event,) = blocks.evidence.new_events
    assert (event.ref, event.block_number) == ("a", 10)
    assert blocks.evidence.mined_transactions == {"0xours": chain.views[10].transactions[0]}
    assert not await blocks.poll()


@pytest.mark.parametrize(("number", "final"), [(9, False), (8, False), (7, True), (0, True)])
async def test_block_is_final_at_the_configured_depth(chain, number, final):
    assert (await follower(chain)).is_final(number) is final


async def test_event_is_settled_when_its_block_is_final_for_its_amount(chain):
    blocks = await follower(chain)
    chain.grow(1, 10, make_paid(), make_mined())
    chain.grow(3)
    await blocks.poll()
    (event,) = blocks.evidence.new_events
    chain.deep = False
    assert not await blocks.is_settled(event)
    # Florin's own transactions have no amount
    assert await blocks.is_settled(blocks.evidence.mined_transactions["0xours"])
    chain.deep = True
    assert await blocks.is_settled(event)


async def test_a_fact_is_settled_in_a_final_block_of_the_chain(chain):
    blocks = await follower(chain)
    fact = make_mined(number=7, block_hash=chain.views[7].hash)
    assert await blocks.is_settled(fact)
    assert not await blocks.is_settled(make_mined(number=8, block_hash=chain.views[8].hash))
    # the facts of a block that was replaced before it was read are forgotten
    gone = make_mined(number=7, block_hash="0xgone")
    blocks.evidence.mined_transactions["0xours"] = gone
    assert not await blocks.is_settled(gone)
    assert blocks.evidence.mined_transactions == {}
    # a node without the block proves nothing
    chain.visible_head = 6
    blocks.evidence.mined_transactions["0xours"] = fact
    assert not await blocks.is_settled(fact)
    assert blocks.evidence.mined_transactions == {"0xours": fact}
    chain.visible_head = None
    chain.agreement = 2
    assert not await blocks.is_settled(fact)
    chain.attested_facts.add(fact)
    for _ in range(2):
        chain.grow()
        await blocks.poll()
        assert await blocks.is_settled(fact)
    # one call per block
    assert len(chain.fact_queries) == 2


async def test_read_block_hash_is_not_requested_again(chain):
    blocks = await follower(chain)
    assert await blocks.find_block_hash(9) == chain.views[9].hash
    assert chain.read == []
    assert await blocks.find_block_hash(3) == chain.views[3].hash
    assert await blocks.find_block_hash(10) is None
    assert chain.read == [3, 10]


@pytest.mark.parametrize("more", [0, 1, 3])
async def test_replaced_blocks_are_reread_and_their_evidence_is_removed(chain, more):
    blocks = await follower(chain)
    chain.grow(1, 10, make_paid("kept"))
    chain.grow(1, 10, make_paid("gone"), make_mined())
    chain.grow()
    await blocks.poll()
    for event in [*blocks.evidence.new_events]:
        blocks.evidence.add_event(event)
    chain.cut(11)
    chain.grow(1, 10, make_paid("new"))
    chain.grow(1 + more)
    assert await blocks.poll()
    assert (blocks.head, blocks.rewind_count) == (12 + more, 1)
    assert await blocks.find_block_hash(11) == chain.views[11].hash
    assert [event.ref for event in blocks.evidence.new_events] == ["kept", "new"]
    assert list(blocks.evidence.settlement_events) == ["kept"]
    assert blocks.evidence.mined_transactions == {}
    assert not await blocks.poll()


@pytest.mark.parametrize("depth", [1, 2, 3])
async def test_evidence_below_a_reorg_is_retained(chain, depth):
    blocks = await follower(chain)
    chain.grow(1, 10, make_paid("kept"))
    chain.grow(depth)
    await blocks.poll()
    blocks.evidence.add_event(blocks.evidence.new_events[0])
    for times in (1, 2):
        chain.cut(11)
        chain.grow(depth)
        await blocks.poll()
        assert (blocks.head, blocks.rewind_count) == (10 + depth, times)
        assert list(blocks.evidence.settlement_events) == ["kept"]
        chain.read.clear()
        assert await blocks.find_block_hash(10) == chain.views[10].hash
        assert chain.read == []


async def test_different_head_with_the_same_blocks_replaces_nothing(chain):
    blocks = await follower(chain)
    view = chain.views[9]
    chain.views[9] = replace(view, hash="0xother")
    head = await chain.get_head()
    chain.views[9] = view

    async def other() -> ChainHead:
        return head

    chain.get_head = other
    assert await blocks.poll()
    assert (blocks.head, blocks.rewind_count) == (9, 0)


async def test_a_chain_that_became_shorter_is_followed_back(chain):
    blocks = await follower(chain)
    chain.grow(3)
    await blocks.poll()
    chain.cut(11)
    assert await blocks.poll()
    assert (blocks.head, blocks.rewind_count) == (10, 1)
    chain.grow()
    await blocks.poll()
    assert (blocks.head, blocks.rewind_count) == (11, 1)


async def test_a_node_that_lags_behind_is_waited_for(chain):
    blocks = await follower(chain)
    chain.grow(3)
    chain.visible_head = 10
    assert await blocks.poll()
    assert (blocks.head, blocks.rewind_count) == (10, 0)
    chain.visible_head = None
    await blocks.poll()
    assert blocks.head == 12


@pytest.mark.parametrize(
    ("count", "heads"), [(118, [127]), (119, [64, 128]), (200, [64, 128, 209])]
)
async def test_many_blocks_are_read_in_several_looks(chain, count, heads):
    blocks = await follower(chain)
    chain.grow(count)
    assert await look_until_current(blocks) == heads


async def test_reorg_below_the_oldest_stored_block_is_reread_from_there(chain):
    blocks = await follower(chain)
    chain.cut(5)
    chain.grow(6)
    assert await blocks.poll()
    assert (blocks.head, blocks.rewind_count) == (10, 1)
    assert await blocks.find_block_hash(9) == chain.views[9].hash


async def test_deep_blocks_are_dropped(chain):
    blocks = await follower(chain)
    for _ in range(4):
        chain.grow(30)
        await look_until_current(blocks)
    oldest = blocks.head - 4 * 16
    assert await remembered(chain, blocks) == set(range(oldest, blocks.head + 1))
    for number in (oldest - 1, oldest):
        blocks.evidence.add_event(make_paid(f"n{number}", number))
        blocks.evidence.add_event(make_paid("pinned", number))
    blocks.drop_old({"pinned"})
    assert blocks.evidence.settlement_events.keys() == {f"n{oldest}", "pinned"}
    assert len(blocks.evidence.settlement_events["pinned"]) == 2


async def test_a_chain_that_needs_more_confirmations_is_remembered_for_longer(chain):
    chain.confirmations = 20
    blocks = await follower(chain)
    for _ in range(4):
        chain.grow(30)
        await look_until_current(blocks)
    existing = range(blocks.head - 4 * 20, blocks.head + 1)
    assert await remembered(chain, blocks) == set(existing)


async def test_the_pace_of_a_chain_is_the_middle_of_its_newest_gaps(chain):
    blocks = await follower(chain)
    # the pace is not known yet
    assert blocks.interval == 1
    for seconds, result in ((7, 7), (20, 20), (7, 7), (0, 7)):
        chain.grow(1, seconds)
        await blocks.poll()
        assert blocks.interval == result
    # a resting test chain is not waited for; a chain that seals at once also has a pace
    chain.grow(20, 3600)
    await blocks.poll()
    assert blocks.interval == 60
    chain.grow(20, 0)
    await blocks.poll()
    assert blocks.interval == 1
    # only the newest blocks count
    chain.grow(15, 9)
    await blocks.poll()
    assert blocks.interval == 9


# blocks that are not read


async def test_a_chain_of_final_blocks_has_only_a_head(chain):
    chain.by_block = False
    blocks = create_follower(chain)
    assert isinstance(blocks, HeadFollower)
    assert blocks.head == 0
    await blocks.start()
    assert (blocks.head, blocks.time, blocks.interval, blocks.rewind_count) == (9, 0, 0, 0)
    assert not await blocks.poll()
    chain.grow()
    assert await blocks.poll()
    assert blocks.head == 10
    # a node can lag
    chain.cut(9)
    assert not await blocks.poll()
    assert blocks.head == 10
    assert [blocks.is_final(number) for number in (10, 11)] == [True, False]
    assert await blocks.find_block_hash(5) is None
    assert chain.read == []
    assert await blocks.is_settled(make_mined(number=10))
    assert not await blocks.is_settled(make_mined(number=11))
    chain.agreement = 2
    assert not await blocks.is_settled(make_mined(number=10))


async def test_agreed_fact_is_not_requested_again_in_the_next_looks():
    fact = make_mined(number=9)
    chain = InMemoryChain(agreement=2, by_block=False, attested_facts={fact})
    chain.grow(10)
    blocks = create_follower(chain)  # type: ignore[arg-type]
    await blocks.start()
    assert await blocks.is_settled(fact)
    chain.attested_facts.clear()
    chain.grow(1000)
    for _ in range(2):
        await blocks.poll()
        assert await blocks.is_settled(fact)
    chain.grow()
    for _ in range(2):
        await blocks.poll()
    assert not await blocks.is_settled(fact)


async def test_evidence_of_final_blocks_is_retained_for_a_thousand_blocks():
    blocks = HeadFollower(SimpleNamespace())  # type: ignore[arg-type]  # it is not called
    blocks.head = 1500
    for number in (499, 500):
        blocks.evidence.add_event(make_paid(f"n{number}", number))
        blocks.evidence.add_event(make_paid("pinned", number))
    blocks.drop_old({"pinned"})
    assert blocks.evidence.settlement_events.keys() == {"n500", "pinned"}
