"""Test which calls ask nodes for proof, and how each part of their answers is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import ANY

import pytest
from florin_sandbox.devnet.evm import DEVNET
from florin_server.rails.connection.jsonrpc import AnswerTooLarge
from florin_server.rails.evm.reading.evidence import EvmEvidenceReader
from florin_server.rails.types import ChainHead, HeadUpdate

from tests.support.evm_lab import EvmChainHarness, make_refusal, make_reply, open_lab

CONFIRMATIONS = 3


@pytest.fixture
async def lab(evm):
    lab = await open_lab(evm=evm, confirmations=CONFIRMATIONS)
    yield lab
    await lab.rail.close()
    await lab.chain.close()


@pytest.fixture
def evidence(lab) -> EvmEvidenceReader:
    return lab.rail.observer.evidence


async def settled(lab: EvmChainHarness, *numbers: int) -> list[Any]:
    """Settle payments in one block each, one after the other; return their events."""
    items = [await lab.create_verified_item(number) for number in numbers]
    for item in items:
        await lab.settle(item)
    references = [lab.rail.terms.get_reference(item.option) for item in items]
    events = {
        event.ref: event
        for event in await lab.rail.direct_settlement.list_settlement_events(references, 0)
    }
    return [events[reference] for reference in references]


def noted(requests: list[Any]) -> Callable[[list[Any], dict[str, Any]], Any]:
    """Return a change that alters nothing and records the request."""

    def change(params: list[Any], answer: dict[str, Any]) -> Any:
        requests.append(params)
        return answer

    return change


def too_large(blocks: int) -> Callable[[list[Any], dict[str, Any]], Any]:
    """Return a node whose answer is too large for more than `blocks` blocks."""

    def change(params: list[Any], answer: dict[str, Any]) -> Any:
        first, last = (int(params[0][name], 16) for name in ("fromBlock", "toBlock"))
        if last - first + 1 > blocks:
            raise AnswerTooLarge("more than we read")
        return answer

    return change


async def test_blocks_are_requested_without_transactions_unless_needed(lab, evidence):
    (paid,) = await settled(lab, 1)
    await lab.mine(CONFIRMATIONS)
    item = await lab.create_verified_item(2)
    requests: list[Any] = []
    lab.node.changes["eth_getBlockByNumber"] = noted(requests)
    await evidence.get_head()
    await evidence.find_block(paid.block_number)
    await evidence.list_settlement_events([paid.ref], 0)
    await evidence.find_block_hash(paid.block_number)
    await evidence.attest(frozenset([paid]))
    await evidence.find_unpayable_reason(item.option)
    assert len(requests) == 6
    assert all(len(each_item) == 2 and each_item[1] is False for each_item in requests)


async def test_logs_are_requested_by_reference(lab):
    (paid,) = await settled(lab, 1)
    requests: list[Any] = []
    lab.node.changes["eth_getLogs"] = noted(requests)
    assert await lab.rail.direct_settlement.list_settlement_events([paid.ref], 0) == [paid]
    (expected,) = requests[0]
    assert expected["topics"][1:] == [[paid.ref]]


async def test_extra_logs_from_a_node_are_ignored(lab):
    first, second = await settled(lab, 1, 2)
    everything = await lab.control.call(
        "eth_getLogs", {"fromBlock": "0x0", "toBlock": "latest", "address": DEVNET.settler}
    )
    lab.node.changes["eth_getLogs"] = make_reply(everything)
    assert await lab.rail.direct_settlement.list_settlement_events([second.ref], 0) == [second]
    assert await lab.rail.direct_settlement.list_settlement_events_between(
        0, second.block_number
    ) == [first, second]


async def test_a_range_is_read_to_its_last_block_however_it_is_divided(lab):
    events = await settled(lab, 1, 2, 3, 4, 5)
    first, last = events[0].block_number, events[-1].block_number
    assert [event.block_number for event in events] == list(range(first, last + 1))
    refused = make_refusal(-32005, "range too wide")

    def only_one(params: list[Any], answer: dict[str, Any]) -> Any:
        alone = params[0]["fromBlock"] == params[0]["toBlock"]
        return answer if alone else refused(params, answer)

    for change in (only_one, too_large(1), too_large(2)):
        lab.node.changes["eth_getLogs"] = change
        assert (
            await lab.rail.direct_settlement.list_settlement_events_between(first, last) == events
        )
        expected = [events[1], events[4]]
        assert (
            await lab.rail.direct_settlement.list_settlement_events(
                [item.ref for item in expected], first
            )
            == expected
        )
    assert await lab.rail.direct_settlement.list_settlement_events_between(last, first) == []


async def test_references_of_every_part_are_returned(lab):
    first, second = await settled(lab, 1, 2)
    between = [f"0x{number:064x}" for number in range(150)]
    assert await lab.rail.direct_settlement.list_settlement_events(
        [first.ref, *between, second.ref], 0
    ) == [first, second]


async def test_a_block_whose_receipts_are_too_long_is_read_from_its_logs(lab, evidence):
    (paid,) = await settled(lab, 1)
    total = await evidence.find_block(paid.block_number)

    def too_long(_params: list[Any], _answer: dict[str, Any]) -> Any:
        raise AnswerTooLarge("more than we read")

    lab.node.changes["eth_getBlockReceipts"] = too_long
    assert await evidence.find_block(paid.block_number) == total
    assert total.events == (paid,)


async def test_busy_node_is_called_for_receipts_again(lab, evidence):
    lab.node.changes["eth_getBlockReceipts"] = make_refusal(-32000, "busy")
    for _ in range(2):
        await evidence.find_block(0)
    assert lab.node.methods.count("eth_getBlockReceipts") == 2


@pytest.mark.parametrize("posted", [None, "0x0", "0x7b"])
async def test_rollup_posting_fee_is_part_of_the_gas_cost(lab, posted):
    (paid,) = await settled(lab, 1)
    true = await lab.control.call("eth_getTransactionReceipt", paid.tx_hash)
    used, price = (int(true[name], 16) for name in ("gasUsed", "effectiveGasPrice"))
    lab.node.changes["eth_getTransactionReceipt"] = make_reply({**true, "l1Fee": posted})
    (mined,) = (await lab.rail.observer.find_mined([paid.tx_hash])).values()
    assert mined.gas_cost == used * price + int(posted or "0x0", 16)
    assert (mined.gas_used, mined.success) == (used, True)
    assert (mined.block_number, mined.block_hash) == (paid.block_number, paid.block_hash)


async def test_the_hash_of_a_block_that_is_not_there_is_none(lab, evidence):
    head = await lab.rail.observer.get_head()
    assert isinstance(head, ChainHead)
    assert await evidence.find_block_hash(head.number) == head.hash
    assert await evidence.find_block_hash(head.number + 100) is None


async def test_dead_authorization_is_explained_in_a_sentence(lab):
    item = await lab.create_verified_item(1)
    await lab.settle(item)
    await lab.mine(CONFIRMATIONS)
    result = await lab.rail.observer.evidence.find_unpayable_reason(item.option)
    assert result == "The authorization was used or cancelled elsewhere"


async def test_signed_payment_is_not_proven_by_the_is_paid_call(lab, evidence):
    item = await lab.create_verified_item(1)
    await lab.settle(item)
    await lab.mine(CONFIRMATIONS)
    assert await evidence.is_paid(item.option) is False


async def test_attestation_covers_only_final_blocks(lab, evidence):
    (paid,) = await settled(lab, 1)
    expected = frozenset([paid])
    for _ in range(CONFIRMATIONS - 1):
        result = await evidence.attest(expected)
        assert (result.facts, result.is_caught_up) == (frozenset(), False)
        await lab.mine()
    result = await evidence.attest(expected)
    assert (result.facts, result.is_caught_up) == (expected, True)


async def test_a_witness_without_a_receipt_may_only_be_late_for_some_blocks(lab, evidence):
    (paid,) = await settled(lab, 1)
    lab.node.changes["eth_getTransactionReceipt"] = make_reply(None)
    await lab.mine(CONFIRMATIONS - 1)
    for _ in range(3):
        result = await evidence.attest(frozenset([paid]))
        assert (result.facts, result.is_caught_up) == (frozenset(), False)
        await lab.mine()
    result = await evidence.attest(frozenset([paid]))
    assert (result.facts, result.is_caught_up) == (frozenset(), True)


async def test_a_glance_asks_for_the_head_and_the_logs_since_a_block(lab, evidence):
    before = await lab.rail.observer.get_head()
    lab.node.methods.clear()
    assert await evidence.poll_head(before.number) == HeadUpdate(before, ANY, is_quiet=True)
    assert lab.node.methods == ["eth_getBlockByNumber", "eth_getLogs"]
    (paid,) = await settled(lab, 1)
    glance = await evidence.poll_head(before.number)
    assert (glance.head.number, glance.is_quiet) == (paid.block_number, False)
    assert glance.parent_hash == await evidence.find_block_hash(paid.block_number - 1)
    assert (await evidence.poll_head(paid.block_number)).is_quiet
    for change in (make_refusal(-32005, "too many"), make_reply(None), make_reply([{}, 7])):
        lab.node.changes["eth_getLogs"] = change
        assert (await evidence.poll_head(paid.block_number)).is_quiet is False


async def test_every_second_glance_reads_the_finality_tag_and_no_logs():
    lab = await open_lab(confirmations=1, finality_tag="finalized")
    try:
        evidence = lab.rail.observer.evidence
        requests: list[Any] = []
        lab.node.changes["eth_getBlockByNumber"] = noted(requests)
        lab.node.methods.clear()
        head_updates = [await evidence.poll_head(0) for _ in range(4)]
        assert [head_update.is_quiet for head_update in head_updates] == [None, True] * 2
        assert len({head_update.head.final for head_update in head_updates}) == 1
        assert [item[0] for item in requests] == ["latest", "finalized", "latest"] * 2
        assert lab.node.methods.count("eth_getLogs") == 2
    finally:
        await lab.rail.close()
        await lab.chain.close()
