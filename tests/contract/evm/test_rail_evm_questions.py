"""What nodes are asked for as proof, and what becomes of each part of their answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import ANY

import pytest
from florin_server.devnet.evm import DEVNET
from florin_server.rails.connection.jsonrpc import AnswerTooLarge
from florin_server.rails.evm.reading.evidence import Evidence
from florin_server.rails.types import Glance, Head

from tests.support.evm_lab import Lab, open_lab, refuse, reply

CONFIRMATIONS = 3


@pytest.fixture
async def lab(evm):
    lab = await open_lab(evm=evm, confirmations=CONFIRMATIONS)
    yield lab
    await lab.rail.close()
    await lab.chain.close()


@pytest.fixture
def evidence(lab) -> Evidence:
    return lab.rail.observer.evidence


async def settled(lab: Lab, *numbers: int) -> list[Any]:
    """Events of payments that were settled in a block each, one after the other."""
    items = [await lab.sold(number) for number in numbers]
    for item in items:
        await lab.settle(item)
    references = [lab.rail.terms.reference(item.option) for item in items]
    found = {one.ref: one for one in await lab.rail.direct.paid(references, 0)}
    return [found[one] for one in references]


def noted(asked: list[Any]) -> Callable[[list[Any], dict[str, Any]], Any]:
    """A change that changes nothing and notes what was asked."""

    def change(params: list[Any], answer: dict[str, Any]) -> Any:
        asked.append(params)
        return answer

    return change


def too_large(blocks: int) -> Callable[[list[Any], dict[str, Any]], Any]:
    """A node whose answer is too long for more than so many blocks."""

    def change(params: list[Any], answer: dict[str, Any]) -> Any:
        first, last = (int(params[0][name], 16) for name in ("fromBlock", "toBlock"))
        if last - first + 1 > blocks:
            raise AnswerTooLarge("more than we read")
        return answer

    return change


async def test_blocks_are_asked_for_without_their_transactions_unless_those_are_read(lab, evidence):
    (paid,) = await settled(lab, 1)
    await lab.mine(CONFIRMATIONS)
    item = await lab.sold(2)
    asked: list[Any] = []
    lab.node.changes["eth_getBlockByNumber"] = noted(asked)
    await evidence.head()
    await evidence.block(paid.block_number)
    await evidence.paid([paid.ref], 0)
    await evidence.hash_of(paid.block_number)
    await evidence.testify(frozenset([paid]))
    await evidence.spent_or_lapsed(item.option)
    assert len(asked) == 6
    assert all(len(one) == 2 and one[1] is False for one in asked)


async def test_logs_are_asked_for_by_their_references(lab):
    (paid,) = await settled(lab, 1)
    asked: list[Any] = []
    lab.node.changes["eth_getLogs"] = noted(asked)
    assert await lab.rail.direct.paid([paid.ref], 0) == [paid]
    (wanted,) = asked[0]
    assert wanted["topics"][1:] == [[paid.ref]]


async def test_a_node_that_tells_more_than_it_was_asked_for_pays_nothing_else(lab):
    first, second = await settled(lab, 1, 2)
    everything = await lab.control.call(
        "eth_getLogs", {"fromBlock": "0x0", "toBlock": "latest", "address": DEVNET.settler}
    )
    lab.node.changes["eth_getLogs"] = reply(everything)
    assert await lab.rail.direct.paid([second.ref], 0) == [second]
    assert await lab.rail.direct.paid_between(0, second.block_number) == [first, second]


async def test_a_range_is_read_to_its_last_block_however_it_is_divided(lab):
    events = await settled(lab, 1, 2, 3, 4, 5)
    first, last = events[0].block_number, events[-1].block_number
    assert [one.block_number for one in events] == list(range(first, last + 1))
    refused = refuse(-32005, "range too wide")

    def only_one(params: list[Any], answer: dict[str, Any]) -> Any:
        alone = params[0]["fromBlock"] == params[0]["toBlock"]
        return answer if alone else refused(params, answer)

    for change in (only_one, too_large(1), too_large(2)):
        lab.node.changes["eth_getLogs"] = change
        assert await lab.rail.direct.paid_between(first, last) == events
        wanted = [events[1], events[4]]
        assert await lab.rail.direct.paid([one.ref for one in wanted], first) == wanted
    assert await lab.rail.direct.paid_between(last, first) == []


async def test_references_of_every_part_are_told(lab):
    first, second = await settled(lab, 1, 2)
    between = [f"0x{number:064x}" for number in range(150)]
    assert await lab.rail.direct.paid([first.ref, *between, second.ref], 0) == [first, second]


async def test_a_block_whose_receipts_are_too_long_is_read_from_its_logs(lab, evidence):
    (paid,) = await settled(lab, 1)
    whole = await evidence.block(paid.block_number)

    def too_long(_params: list[Any], _answer: dict[str, Any]) -> Any:
        raise AnswerTooLarge("more than we read")

    lab.node.changes["eth_getBlockReceipts"] = too_long
    assert await evidence.block(paid.block_number) == whole
    assert whole.paid == (paid,)


async def test_a_node_that_was_busy_is_asked_for_receipts_again(lab, evidence):
    lab.node.changes["eth_getBlockReceipts"] = refuse(-32000, "busy")
    for _ in range(2):
        await evidence.block(0)
    assert lab.node.asked.count("eth_getBlockReceipts") == 2


@pytest.mark.parametrize("posted", [None, "0x0", "0x7b"])
async def test_what_a_rollup_takes_for_posting_is_part_of_the_cost(lab, posted):
    (paid,) = await settled(lab, 1)
    true = await lab.control.call("eth_getTransactionReceipt", paid.tx_hash)
    used, price = (int(true[name], 16) for name in ("gasUsed", "effectiveGasPrice"))
    lab.node.changes["eth_getTransactionReceipt"] = reply({**true, "l1Fee": posted})
    (mined,) = (await lab.rail.observer.mined([paid.tx_hash])).values()
    assert mined.gas_cost == used * price + int(posted or "0x0", 16)
    assert (mined.gas_used, mined.success) == (used, True)
    assert (mined.block_number, mined.block_hash) == (paid.block_number, paid.block_hash)


async def test_the_hash_of_a_block_that_is_not_there_is_none(lab, evidence):
    head = await lab.rail.observer.head()
    assert isinstance(head, Head)
    assert await evidence.hash_of(head.number) == head.hash
    assert await evidence.hash_of(head.number + 100) is None


async def test_why_an_authorization_is_dead_is_told_in_a_sentence(lab):
    item = await lab.sold(1)
    await lab.settle(item)
    await lab.mine(CONFIRMATIONS)
    told = await lab.rail.observer.evidence.spent_or_lapsed(item.option)
    assert told == "The authorization was used or cancelled elsewhere"


async def test_only_what_a_payer_sends_itself_is_paid_by_the_contracts_word(lab, evidence):
    item = await lab.sold(1)
    await lab.settle(item)
    await lab.mine(CONFIRMATIONS)
    assert await evidence.is_paid(item.option) is False


async def test_a_witness_tells_what_is_final_and_not_a_block_earlier(lab, evidence):
    (paid,) = await settled(lab, 1)
    wanted = frozenset([paid])
    for _ in range(CONFIRMATIONS - 1):
        told = await evidence.testify(wanted)
        assert (told.facts, told.far_enough) == (frozenset(), False)
        await lab.mine()
    told = await evidence.testify(wanted)
    assert (told.facts, told.far_enough) == (wanted, True)


async def test_a_witness_without_a_receipt_may_only_be_late_for_some_blocks(lab, evidence):
    (paid,) = await settled(lab, 1)
    lab.node.changes["eth_getTransactionReceipt"] = reply(None)
    await lab.mine(CONFIRMATIONS - 1)
    for _ in range(3):
        told = await evidence.testify(frozenset([paid]))
        assert (told.facts, told.far_enough) == (frozenset(), False)
        await lab.mine()
    told = await evidence.testify(frozenset([paid]))
    assert (told.facts, told.far_enough) == (frozenset(), True)


async def test_a_glance_asks_for_the_head_and_the_logs_since_a_block(lab, evidence):
    before = await lab.rail.observer.head()
    lab.node.asked.clear()
    assert await evidence.glance(before.number) == Glance(before, ANY, quiet=True)
    assert lab.node.asked == ["eth_getBlockByNumber", "eth_getLogs"]
    (paid,) = await settled(lab, 1)
    glance = await evidence.glance(before.number)
    assert (glance.head.number, glance.quiet) == (paid.block_number, False)
    assert glance.parent_hash == await evidence.hash_of(paid.block_number - 1)
    assert (await evidence.glance(paid.block_number)).quiet
    for change in (refuse(-32005, "too many"), reply(None), reply([{}, 7])):
        lab.node.changes["eth_getLogs"] = change
        assert (await evidence.glance(paid.block_number)).quiet is False


async def test_a_glance_asks_for_the_tag_each_other_time_and_then_tells_of_no_logs():
    lab = await open_lab(confirmations=1, finality_tag="finalized")
    try:
        evidence = lab.rail.observer.evidence
        asked: list[Any] = []
        lab.node.changes["eth_getBlockByNumber"] = noted(asked)
        lab.node.asked.clear()
        told = [await evidence.glance(0) for _ in range(4)]
        assert [one.quiet for one in told] == [None, True] * 2
        assert len({one.head.final for one in told}) == 1
        assert [one[0] for one in asked] == ["latest", "finalized", "latest"] * 2
        assert lab.node.asked.count("eth_getLogs") == 2
    finally:
        await lab.rail.close()
        await lab.chain.close()
