"""What is remembered of a chain's newest blocks, and forgotten when they are replaced."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from florin_server.rails.types import Head
from florin_server.workers.settlement.blocks import (
    Agreement,
    BlockFollower,
    Evidence,
    HeadFollower,
    follow,
)

from tests.support.block_chain import Chain, follower, mined, paid
from tests.support.settler_steps import looks


@pytest.fixture
def chain():
    made = Chain()
    made.grow(10)
    return made


async def remembered(chain: Any, blocks: BlockFollower) -> set[int]:
    """The blocks whose hashes are told without a look at the chain."""
    known = set()
    for number in range(blocks.head + 1):
        chain.read.clear()
        assert await blocks.hash_of(number) == chain.views[number].hash
        if not chain.read:
            known.add(number)
    return known


# evidence


def test_an_event_is_remembered_once_and_forgotten_with_what_it_proved():
    evidence = Evidence()
    late = paid(number=6)
    for event in (paid(), paid(), late, paid("b")):
        evidence.add_paid(event)
    assert evidence.paid == {"a": [paid(), late], "b": [paid("b")]}
    evidence.spend("a", lambda event: event == paid())
    assert evidence.paid["a"] == [late]
    evidence.spend("b", lambda _: True)
    evidence.spend("unknown", lambda _: True)
    assert evidence.paid == {"a": [late]}


def test_what_replaced_blocks_told_is_forgotten():
    evidence = Evidence(
        {"a": [paid(number=4), paid(number=5)], "b": [paid("b")]},
        {"0x1": mined("0x1", 4), "0x2": mined("0x2", 5)},
        [paid(number=4), paid(number=5)],
    )
    evidence.forget_from(5)
    assert evidence.paid == {"a": [paid(number=4)]}
    assert evidence.mined == {"0x1": mined("0x1", 4)}
    assert evidence.fresh == [paid(number=4)]


def test_what_is_old_is_forgotten_but_for_what_is_waited_for():
    evidence = Evidence(
        {"a": [paid(number=4), paid(number=5)], "b": [paid("b", 4)], "c": [paid("c", 4)]},
        {"0x1": mined("0x1", 4), "0x2": mined("0x2", 5)},
    )
    evidence.forget_below(5, {"c"})
    assert evidence.paid == {"a": [paid(number=5)], "c": [paid("c", 4)]}
    assert evidence.mined == {"0x2": mined("0x2", 5)}


def test_a_fact_that_is_not_so_is_forgotten_and_no_other():
    evidence = Evidence({"a": [paid(), paid(number=6)]}, {"0xours": mined()})
    evidence.forget(mined(number=6))
    evidence.forget(mined("0xtheirs"))
    evidence.forget(paid("b"))
    assert evidence.paid == {"a": [paid(), paid(number=6)]}
    assert evidence.mined == {"0xours": mined()}
    evidence.forget(mined())
    evidence.forget(paid())
    assert (evidence.paid, evidence.mined) == ({"a": [paid(number=6)]}, {})
    evidence.forget(paid(number=6))
    assert evidence.paid == {}


def test_a_block_proves_what_it_holds_by_number_and_hash():
    evidence = Evidence(
        {"a": [paid(), paid(number=6)], "b": [paid("b", block_hash="0xother")]},
        {"0xours": mined(), "0x2": mined("0x2", 6)},
    )
    assert evidence.of_block(5, "0x5") == {paid(), mined()}
    assert evidence.of_block(5, "0x6") == frozenset()


# what nodes agree on


async def test_one_node_is_believed_where_no_other_has_to_agree(chain):
    assert await Agreement(chain, Evidence(), lambda _: True).covers(paid())
    assert chain.asked == []


async def test_the_facts_of_a_block_are_asked_for_together_and_once_a_look():
    chain = Chain(agreement=2, true={paid(), mined()})
    evidence = Evidence({"a": [paid()], "b": [paid("b")]}, {"0xours": mined()})
    agreement = Agreement(chain, evidence, lambda _: True)  # type: ignore[arg-type]
    assert await agreement.covers(paid())
    assert chain.asked == [{paid(), paid("b"), mined()}]
    assert await agreement.covers(mined())
    # what nodes differ about is forgotten, and not asked for until the next look
    assert evidence.paid == {"a": [paid()]}
    assert not await agreement.covers(paid("b"))
    assert len(chain.asked) == 1
    agreement.ask_again()
    chain.true.add(paid("b"))
    assert await agreement.covers(paid("b"))
    assert chain.asked[1:] == [{paid("b")}]
    assert len(chain.asked) == 2
    # a fact that no block told is asked for as well
    assert not await agreement.covers(mined("0xunseen"))
    agreement.forget_below(5)
    assert await agreement.covers(paid())
    agreement.forget_below(6)
    agreement.ask_again()
    assert await agreement.covers(paid())
    assert len(chain.asked) == 4


# blocks that are read


async def test_it_begins_at_the_head_and_reads_what_comes(chain):
    blocks = await follower(chain)
    assert (blocks.head, blocks.time, blocks.rewinds) == (9, 1090, 0)
    assert not await blocks.look()
    assert chain.read == []
    chain.grow(1, 10, paid(), mined())
    chain.grow()
    assert await blocks.look()
    assert (blocks.head, blocks.time, chain.read) == (11, 1110, [10, 11])
    (event,) = blocks.evidence.fresh
    assert (event.ref, event.block_number) == ("a", 10)
    assert blocks.evidence.mined == {"0xours": chain.views[10].mined[0]}
    assert not await blocks.look()


@pytest.mark.parametrize(("number", "final"), [(9, False), (8, False), (7, True), (0, True)])
async def test_a_block_is_final_below_as_many_as_are_asked_for(chain, number, final):
    assert (await follower(chain)).is_final(number) is final


async def test_event_is_settled_when_its_block_is_final_for_its_amount(chain):
    blocks = await follower(chain)
    chain.grow(1, 10, paid(), mined())
    chain.grow(3)
    await blocks.look()
    (event,) = blocks.evidence.fresh
    chain.deep = False
    assert not await blocks.is_settled(event)
    # transactions of ours have no amount
    assert await blocks.is_settled(blocks.evidence.mined["0xours"])
    chain.deep = True
    assert await blocks.is_settled(event)


async def test_a_fact_is_settled_in_a_final_block_of_the_chain(chain):
    blocks = await follower(chain)
    fact = mined(number=7, block_hash=chain.views[7].hash)
    assert await blocks.is_settled(fact)
    assert not await blocks.is_settled(mined(number=8, block_hash=chain.views[8].hash))
    # one of a block that was replaced before it was read is forgotten
    gone = mined(number=7, block_hash="0xgone")
    blocks.evidence.mined["0xours"] = gone
    assert not await blocks.is_settled(gone)
    assert blocks.evidence.mined == {}
    # a node that has no such block proves nothing
    chain.shown = 6
    blocks.evidence.mined["0xours"] = fact
    assert not await blocks.is_settled(fact)
    assert blocks.evidence.mined == {"0xours": fact}
    chain.shown = None
    chain.agreement = 2
    assert not await blocks.is_settled(fact)
    chain.true.add(fact)
    for _ in range(2):
        chain.grow()
        await blocks.look()
        assert await blocks.is_settled(fact)
    # it is asked for once
    assert len(chain.asked) == 2


async def test_hashes_that_were_read_are_not_asked_for(chain):
    blocks = await follower(chain)
    assert await blocks.hash_of(9) == chain.views[9].hash
    assert chain.read == []
    assert await blocks.hash_of(3) == chain.views[3].hash
    assert await blocks.hash_of(10) is None
    assert chain.read == [3, 10]


@pytest.mark.parametrize("more", [0, 1, 3])
async def test_replaced_blocks_are_read_again_and_what_they_told_is_forgotten(chain, more):
    blocks = await follower(chain)
    chain.grow(1, 10, paid("kept"))
    chain.grow(1, 10, paid("gone"), mined())
    chain.grow()
    await blocks.look()
    for event in [*blocks.evidence.fresh]:
        blocks.evidence.add_paid(event)
    chain.cut(11)
    chain.grow(1, 10, paid("new"))
    chain.grow(1 + more)
    assert await blocks.look()
    assert (blocks.head, blocks.rewinds) == (12 + more, 1)
    assert await blocks.hash_of(11) == chain.views[11].hash
    assert [event.ref for event in blocks.evidence.fresh] == ["kept", "new"]
    assert list(blocks.evidence.paid) == ["kept"]
    assert blocks.evidence.mined == {}
    assert not await blocks.look()


@pytest.mark.parametrize("depth", [1, 2, 3])
async def test_what_stays_of_a_chain_stays_known(chain, depth):
    blocks = await follower(chain)
    chain.grow(1, 10, paid("kept"))
    chain.grow(depth)
    await blocks.look()
    blocks.evidence.add_paid(blocks.evidence.fresh[0])
    for times in (1, 2):
        chain.cut(11)
        chain.grow(depth)
        await blocks.look()
        assert (blocks.head, blocks.rewinds) == (10 + depth, times)
        assert list(blocks.evidence.paid) == ["kept"]
        chain.read.clear()
        assert await blocks.hash_of(10) == chain.views[10].hash
        assert chain.read == []


async def test_a_node_that_tells_another_head_and_the_same_blocks_replaces_nothing(chain):
    blocks = await follower(chain)
    kept = chain.views[9]
    chain.views[9] = replace(kept, hash="0xother")
    head = await chain.head()
    chain.views[9] = kept

    async def other() -> Head:
        return head

    chain.head = other
    assert await blocks.look()
    assert (blocks.head, blocks.rewinds) == (9, 0)


async def test_a_chain_that_became_shorter_is_followed_back(chain):
    blocks = await follower(chain)
    chain.grow(3)
    await blocks.look()
    chain.cut(11)
    assert await blocks.look()
    assert (blocks.head, blocks.rewinds) == (10, 1)
    chain.grow()
    await blocks.look()
    assert (blocks.head, blocks.rewinds) == (11, 1)


async def test_a_node_that_lags_behind_is_waited_for(chain):
    blocks = await follower(chain)
    chain.grow(3)
    chain.shown = 10
    assert await blocks.look()
    assert (blocks.head, blocks.rewinds) == (10, 0)
    chain.shown = None
    await blocks.look()
    assert blocks.head == 12


@pytest.mark.parametrize(
    ("count", "heads"), [(118, [127]), (119, [64, 128]), (200, [64, 128, 209])]
)
async def test_many_blocks_are_read_in_several_looks(chain, count, heads):
    blocks = await follower(chain)
    chain.grow(count)
    assert await looks(blocks) == heads


async def test_what_was_replaced_below_all_that_is_known_is_read_from_there(chain):
    blocks = await follower(chain)
    chain.cut(5)
    chain.grow(6)
    assert await blocks.look()
    assert (blocks.head, blocks.rewinds) == (10, 1)
    assert await blocks.hash_of(9) == chain.views[9].hash


async def test_what_lies_deep_is_let_go(chain):
    blocks = await follower(chain)
    for _ in range(4):
        chain.grow(30)
        await looks(blocks)
    oldest = blocks.head - 4 * 16
    assert await remembered(chain, blocks) == set(range(oldest, blocks.head + 1))
    for number in (oldest - 1, oldest):
        blocks.evidence.add_paid(paid(f"n{number}", number))
        blocks.evidence.add_paid(paid("pinned", number))
    blocks.forget_old({"pinned"})
    assert blocks.evidence.paid.keys() == {f"n{oldest}", "pinned"}
    assert len(blocks.evidence.paid["pinned"]) == 2


async def test_a_chain_that_needs_more_confirmations_is_remembered_for_longer(chain):
    chain.confirmations = 20
    blocks = await follower(chain)
    for _ in range(4):
        chain.grow(30)
        await looks(blocks)
    known = range(blocks.head - 4 * 20, blocks.head + 1)
    assert await remembered(chain, blocks) == set(known)


async def test_the_pace_of_a_chain_is_the_middle_of_its_newest_gaps(chain):
    blocks = await follower(chain)
    # nothing is known of it yet
    assert blocks.interval == 1
    for seconds, told in ((7, 7), (20, 20), (7, 7), (0, 7)):
        chain.grow(1, seconds)
        await blocks.look()
        assert blocks.interval == told
    # a test chain that rests is not waited for, and one that seals at once has a pace too
    chain.grow(20, 3600)
    await blocks.look()
    assert blocks.interval == 60
    chain.grow(20, 0)
    await blocks.look()
    assert blocks.interval == 1
    # only the newest count
    chain.grow(15, 9)
    await blocks.look()
    assert blocks.interval == 9


# blocks that are not read


async def test_a_chain_of_final_blocks_has_only_a_head(chain):
    chain.by_block = False
    blocks = follow(chain)
    assert isinstance(blocks, HeadFollower)
    assert blocks.head == 0
    await blocks.start()
    assert (blocks.head, blocks.time, blocks.interval, blocks.rewinds) == (9, 0, 0, 0)
    assert not await blocks.look()
    chain.grow()
    assert await blocks.look()
    assert blocks.head == 10
    # a node may lag behind
    chain.cut(9)
    assert not await blocks.look()
    assert blocks.head == 10
    assert [blocks.is_final(number) for number in (10, 11)] == [True, False]
    assert await blocks.hash_of(5) is None
    assert chain.read == []
    assert await blocks.is_settled(mined(number=10))
    assert not await blocks.is_settled(mined(number=11))
    chain.agreement = 2
    assert not await blocks.is_settled(mined(number=10))


async def test_what_nodes_agreed_on_is_not_asked_for_again_in_the_next_looks():
    fact = mined(number=9)
    chain = Chain(agreement=2, by_block=False, true={fact})
    chain.grow(10)
    blocks = follow(chain)  # type: ignore[arg-type]
    await blocks.start()
    assert await blocks.is_settled(fact)
    chain.true.clear()
    chain.grow(1000)
    for _ in range(2):
        await blocks.look()
        assert await blocks.is_settled(fact)
    chain.grow()
    for _ in range(2):
        await blocks.look()
    assert not await blocks.is_settled(fact)


async def test_evidence_of_final_blocks_is_kept_for_a_thousand_of_them():
    blocks = HeadFollower(SimpleNamespace())  # type: ignore[arg-type]  # it is not asked
    blocks.head = 1500
    for number in (499, 500):
        blocks.evidence.add_paid(paid(f"n{number}", number))
        blocks.evidence.add_paid(paid("pinned", number))
    blocks.forget_old({"pinned"})
    assert blocks.evidence.paid.keys() == {"n500", "pinned"}
