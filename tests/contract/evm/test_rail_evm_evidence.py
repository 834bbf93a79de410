"""What counts as proof: final blocks, settlement events, and never an absence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_server.devnet.evm import DEVNET
from florin_server.devnet.evm.block_rules import FINAL_DEPTH
from florin_server.devnet.genesis import artifact
from florin_server.rails.evm import settler
from florin_server.rails.evm.paying.terms import Terms
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.sending.transactions import fees_of
from florin_server.rails.types import RailUnavailable

from tests.support.evm_lab import PRICE, RELAYER, buyer, open_lab, refuse, reply, settings

pytestmark = pytest.mark.both_chains

CONFIRMATIONS = 3


@pytest.fixture
async def lab(evm):
    lab = await open_lab(evm=evm, confirmations=CONFIRMATIONS)
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def settled(lab, number=1):
    """A settled payment, its event and its reference."""
    item = await lab.sold(number)
    await lab.settle(item)
    reference = lab.rail.terms.reference(item.option)
    (paid,) = await lab.rail.direct.paid([reference], 0)
    return item, paid, reference


async def test_the_head_is_the_newest_block(lab):
    before = await lab.rail.observer.head()
    await lab.mine(2)
    after = await lab.rail.observer.head()
    assert after.number == before.number + 2
    view = await lab.rail.blocks.block(after.number)
    assert (view.hash, view.time) == (after.hash, after.time)
    assert (await lab.rail.blocks.block(after.number - 1)).hash == view.parent_hash


async def test_a_block_to_come_is_none(lab):
    head = await lab.rail.observer.head()
    assert await lab.rail.blocks.block(head.number + 1) is None


async def test_accepted_payments_settle_through_the_contract_that_they_signed_for(lab):
    made = await lab.send(data=artifact("PaySettler").bytecode, gas=3_000_000)
    new = made["contractAddress"].lower()
    before = [await lab.sold(1), await lab.sold(2)]
    changed = settings(settler=new, former_settlers=(DEVNET.settler,))
    lab.rail = EvmRail(changed, RELAYER, lab.node)
    await lab.rail.start()
    after = await lab.sold(3)
    items = [*before, after]
    assert await lab.rail.relay.simulate(items) == [True, True, True]
    batches = lab.rail.relay.batches(items)
    assert [list(one) for one in batches] == [before, [after]]
    for batch in batches:
        await lab.settle(*batch)
    references = [lab.rail.terms.reference(one.option) for one in items]
    paid = await lab.rail.direct.paid(references, 0)
    assert len(paid) == 3
    # one that is not followed is refused by the contract that is
    unknown = EvmRail(settings(settler=new), RELAYER, lab.node)
    await unknown.start()
    assert await unknown.relay.simulate([await lab.sold(4)]) == [True]
    assert await unknown.relay.simulate([before[0]]) == [False]


async def test_a_nonce_counts_as_used_once_it_is_final(lab):
    nonce = await lab.rail.account_nonces.next_nonce(RELAYER.address)
    await lab.settle(await lab.sold(1))
    assert await lab.rail.account_nonces.next_nonce(RELAYER.address) == nonce + 1
    for _ in range(CONFIRMATIONS - 1):
        assert not await lab.rail.account_nonces.nonce_used(RELAYER.address, nonce)
        await lab.mine()
    assert await lab.rail.account_nonces.nonce_used(RELAYER.address, nonce)
    assert not await lab.rail.account_nonces.nonce_used(RELAYER.address, nonce + 1)


async def test_an_authorization_is_spent_once_that_is_final(lab):
    item, _, _ = await settled(lab)
    for _ in range(CONFIRMATIONS - 1):
        assert await lab.rail.observer.evidence.spent_or_lapsed(item.option) is None
        await lab.mine()
    assert "used or cancelled" in await lab.rail.observer.evidence.spent_or_lapsed(item.option)


async def test_an_authorization_lapses_by_the_time_of_a_final_block(lab):
    item = await lab.sold(1)
    terms = Terms.of(item.option)
    await lab.mine(5)
    lab.clock.advance(terms.route.valid_before - lab.clock.now_us() // 1_000_000)
    await lab.mine(CONFIRMATIONS - 1)
    assert await lab.rail.observer.evidence.spent_or_lapsed(item.option) is None
    await lab.mine()
    assert "lapsed" in await lab.rail.observer.evidence.spent_or_lapsed(item.option)


async def test_an_authorization_that_its_owner_cancelled_is_dead(lab):
    from coincurve import PrivateKey
    from eth_hash.auto import keccak
    from florin_server.chains.evm import abi

    item = await lab.sold(1)
    terms = Terms.of(item.option)
    wallet = buyer(1001)
    kind = keccak(b"CancelAuthorization(address authorizer,bytes32 nonce)")
    separator = terms.message(wallet.address.lower()).domain.separator()
    struct = keccak(kind + abi.address(wallet.address) + terms.nonce)
    digest = keccak(b"\x19\x01" + separator + struct)
    raw = PrivateKey(bytes(wallet.key)).sign_recoverable(digest, hasher=None)
    await lab.send(
        to=DEVNET.token.address,
        data=abi.selector("cancelAuthorization(address,bytes32,bytes)")
        + abi.address(wallet.address)
        + terms.nonce
        + abi.number(96)
        + abi.padded(raw[:64] + bytes([raw[64] + 27])),
    )
    assert await lab.rail.relay.simulate([item]) == [False]
    await lab.mine(CONFIRMATIONS)
    assert await lab.rail.direct.paid([lab.rail.terms.reference(item.option)], 0) == []
    assert "used or cancelled" in await lab.rail.observer.evidence.spent_or_lapsed(item.option)


async def test_a_settlement_submitted_by_a_stranger_is_found(lab):
    item = await lab.sold(1)
    terms = Terms.of(item.option)
    signature = bytes.fromhex(item.confirmation.outputs[0].strip('"')[2:])
    pay = terms.pay(buyer(1001).address.lower(), signature, gas=200_000)
    receipt = await lab.send(to=DEVNET.settler, data=settler.settle([pay]))
    (paid,) = await lab.rail.direct.paid([lab.rail.terms.reference(item.option)], 0)
    assert paid.tx_hash == receipt["transactionHash"]
    view = await lab.rail.blocks.block(paid.block_number)
    assert view.paid == (paid,)
    assert view.mined == ()  # it was not ours


async def test_a_replaced_block_takes_its_settlement_with_it(lab):
    item, paid, reference = await settled(lab)
    await lab.reorg(1, paid.tx_hash)
    assert await lab.rail.direct.paid([reference], 0) == []
    assert await lab.rail.observer.mined([paid.tx_hash]) == {}
    view = await lab.rail.blocks.block(paid.block_number)
    assert view.hash != paid.block_hash
    assert view.paid == view.mined == ()
    # the authorization is free again
    assert await lab.rail.relay.simulate([item]) == [True]
    await lab.mine(CONFIRMATIONS)
    assert await lab.rail.observer.evidence.spent_or_lapsed(item.option) is None


async def test_a_settlement_may_move_to_another_block(lab):
    _, paid, reference = await settled(lab)
    await lab.reorg(1)
    (again,) = await lab.rail.direct.paid([reference], 0)
    assert again.tx_hash == paid.tx_hash
    assert again.block_hash != paid.block_hash


async def test_only_the_references_asked_for_are_told(lab):
    _, first, reference = await settled(lab, 1)
    _, second, other = await settled(lab, 2)
    assert await lab.rail.direct.paid([reference], 0) == [first]
    assert await lab.rail.direct.paid([reference], first.block_number + 1) == []
    assert sorted(
        await lab.rail.direct.paid([reference, other], 0), key=lambda one: one.ref
    ) == sorted([first, second], key=lambda one: one.ref)
    assert await lab.rail.direct.paid([], 0) == []


async def test_many_references_are_asked_for_in_parts(lab):
    _, paid, reference = await settled(lab)
    others = [f"0x{number:064x}" for number in range(250)]
    assert await lab.rail.direct.paid([*others, reference], 0) == [paid]


# nodes with less than full powers


def limited(blocks):
    """A node that serves logs for so many blocks at most."""

    def change(params, answer):
        asked = int(params[0]["toBlock"], 16) - int(params[0]["fromBlock"], 16) + 1
        if asked <= blocks:
            return answer
        return {"id": answer["id"], "error": {"code": -32005, "message": "range too wide"}}

    return change


@pytest.mark.parametrize("blocks", [1, 3, 1000])
async def test_a_refused_range_is_asked_for_in_parts(lab, blocks):
    await lab.mine(10)
    _, paid, reference = await settled(lab)
    await lab.mine(10)
    lab.node.changes["eth_getLogs"] = limited(blocks)
    assert await lab.rail.direct.paid([reference], 0) == [paid]


@pytest.mark.parametrize("blocks", [1, 10, 37, 1000])
async def test_limit_of_a_node_for_logs_is_learned_and_kept(lab, blocks):
    await lab.mine(300)
    head = (await lab.rail.observer.head()).number
    lab.node.changes["eth_getLogs"] = limited(blocks)
    fewest = -(-(head + 1) // blocks)
    for searched in (10, 0):
        lab.node.asked.clear()
        assert await lab.rail.direct.paid_between(0, head) == []
        assert lab.node.asked.count("eth_getLogs") <= fewest + 2 * searched


async def test_a_node_that_serves_no_logs_at_all_is_no_answer(lab):
    await lab.mine(10)
    lab.node.changes["eth_getLogs"] = refuse(-32005, "not for you")
    with pytest.raises(RailUnavailable, match="not for you"):
        await lab.rail.direct.paid(["0x" + "11" * 32], 0)
    assert lab.node.asked.count("eth_getLogs") < 10


@pytest.mark.parametrize("refusal", [refuse(-32601, "unknown method"), refuse(-32000, "busy")])
async def test_blocks_are_read_from_logs_where_there_are_no_block_receipts(lab, refusal):
    _, paid, _ = await settled(lab)
    expected = await lab.rail.blocks.block(paid.block_number)
    assert expected.paid
    assert expected.mined
    lab.node.changes["eth_getBlockReceipts"] = refusal
    assert await lab.rail.blocks.block(paid.block_number) == expected
    assert await lab.rail.blocks.block(paid.block_number + 100) is None


async def test_a_method_that_does_not_exist_is_asked_for_once(lab):
    lab.node.changes["eth_getBlockReceipts"] = refuse(-32601, "unknown method")
    for _ in range(3):
        await lab.rail.blocks.block(0)
    assert lab.node.asked.count("eth_getBlockReceipts") == 1


# nodes that lie, lag or break


@pytest.mark.parametrize("missing", [reply(None), refuse(-32000, "busy")])
async def test_a_missing_receipt_is_no_negative_answer(lab, missing):
    _, paid, _ = await settled(lab)
    lab.node.changes["eth_getTransactionReceipt"] = missing
    if missing([], {"id": 1}).get("error"):
        with pytest.raises(RailUnavailable):
            await lab.rail.observer.mined([paid.tx_hash])
    else:
        assert await lab.rail.observer.mined([paid.tx_hash]) == {}


def without_the_last(_, answer):
    """A node that lacks a receipt of each block."""
    return {**answer, "result": answer["result"][:-1]}


def of_another_branch(_, answer):
    receipts = [receipt | {"blockHash": "0x" + "99" * 32} for receipt in answer["result"]]
    return {**answer, "result": receipts}


def without_logs(_, answer):
    return {**answer, "result": [receipt | {"logs": None} for receipt in answer["result"]]}


@pytest.mark.parametrize(
    "receipts",
    [reply(None), reply([]), without_the_last, of_another_branch, without_logs],
    ids=["null", "none", "one too few", "of another branch", "without logs"],
)
async def test_block_with_unusable_receipts_is_read_from_its_logs(lab, receipts):
    _, paid, _ = await settled(lab)
    expected = await lab.rail.blocks.block(paid.block_number)
    assert expected.paid == (paid,)
    assert expected.mined
    lab.node.changes["eth_getBlockReceipts"] = receipts
    view = await lab.rail.blocks.block(paid.block_number)
    assert view == replace(expected, complete=False)
    lab.node.changes["eth_getTransactionReceipt"] = reply(None)
    unproven = await lab.rail.blocks.block(paid.block_number)
    assert (unproven.paid, unproven.mined) == (expected.paid, ())
    lab.node.changes["eth_getLogs"] = refuse(-32000, "busy")
    with pytest.raises(RailUnavailable, match="busy"):
        await lab.rail.blocks.block(paid.block_number)


@pytest.mark.parametrize("receipts", [reply(None), reply([]), refuse(-32601, "unknown method")])
async def test_block_without_transactions_is_empty_whatever_its_receipts(lab, receipts):
    await lab.mine()
    head = await lab.rail.observer.head()
    lab.node.changes["eth_getBlockReceipts"] = receipts
    lab.node.changes["eth_getLogs"] = reply(None)
    view = await lab.rail.blocks.block(head.number)
    assert (view.hash, view.paid, view.mined) == (head.hash, (), ())


MISSING = object()


@pytest.mark.parametrize("odd", [MISSING, None, "", "0x", 17, "5208", [], {}])
@pytest.mark.parametrize("name", ["effectiveGasPrice", "gasUsed", "l1Fee", "cumulativeGasUsed"])
async def test_receipt_fields_that_decide_nothing_may_be_missing_or_odd(lab, name, odd):
    _, paid, _ = await settled(lab)
    expected = await lab.rail.blocks.block(paid.block_number)

    def change(_, answer):
        receipts = answer["result"] if isinstance(answer["result"], list) else [answer["result"]]
        for receipt in receipts:
            receipt.pop(name, None)
            if odd is not MISSING:
                receipt[name] = odd
        return answer

    lab.node.changes["eth_getBlockReceipts"] = change
    lab.node.changes["eth_getTransactionReceipt"] = change
    view = await lab.rail.blocks.block(paid.block_number)
    assert view == expected
    asked = await lab.rail.observer.mined([paid.tx_hash])
    assert list(asked.values()) == list(view.mined)
    known = name in {"l1Fee", "cumulativeGasUsed"}
    assert all((one.gas_cost is None) is not known for one in view.mined)


@pytest.mark.parametrize("odd", [MISSING, None, "1", 1])
async def test_receipt_without_a_status_leaves_only_its_transaction_open(lab, odd):
    _, paid, _ = await settled(lab)

    def change(_, answer):
        for receipt in answer["result"]:
            receipt.pop("status")
            if odd is not MISSING:
                receipt["status"] = odd
        return answer

    lab.node.changes["eth_getBlockReceipts"] = change
    view = await lab.rail.blocks.block(paid.block_number)
    assert (view.paid, view.mined) == ((paid,), ())


@pytest.mark.parametrize("odd", [MISSING, None, "12", 7])
async def test_header_without_a_base_fee_is_signed_by_the_gas_price(lab, odd):
    item = await lab.sold(1)
    await lab.mine()
    await lab.rail.observer.head()  # fees are asked for again after a block
    price = int(await lab.control.call("eth_gasPrice"), 16)

    def change(_, answer):
        answer["result"].pop("baseFeePerGas")
        if odd is not MISSING:
            answer["result"]["baseFeePerGas"] = odd
        return answer

    lab.node.changes["eth_getBlockByNumber"] = change
    lab.node.changes["eth_maxPriorityFeePerGas"] = reply(None)
    signed = await lab.rail.relay.sign(RELAYER.address, 0, [item])
    fees = fees_of(signed.raw)
    assert (fees.max_fee, fees.tip) == (2 * price + price // 10, price // 10)
    assert await lab.rail.relay.shortages() == ()


async def test_a_node_behind_its_own_head_proves_no_absence(lab):
    _, _, reference = await settled(lab)
    lab.node.changes["eth_getLogs"] = reply([])
    lab.node.changes["eth_getBlockByNumber"] = reply(None)
    with pytest.raises(RailUnavailable, match="lags"):
        await lab.rail.direct.paid([reference], 0)


async def test_a_node_behind_what_was_seen_proves_no_absence(lab):
    head = await lab.rail.observer.head()
    assert await lab.rail.direct.paid(["0x" + "11" * 32], head.number + 1) == []
    with pytest.raises(RailUnavailable, match="lags"):
        await lab.rail.direct.paid(["0x" + "11" * 32], head.number + 2)


async def test_another_block_than_asked_for_is_no_answer(lab):
    await lab.mine(3)
    genuine = await lab.control.call("eth_getBlockByNumber", "0x1", False)
    lab.node.changes["eth_getBlockByNumber"] = reply(genuine)
    with pytest.raises(RailUnavailable):
        await lab.rail.blocks.block(2)


WRONG = [None, True, 17, "", "0x", "yes", [], {}, [None], {"hash": "0x"}, "0x" + "f" * 65]


@pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
async def test_nonsense_is_no_answer_anywhere(lab, wrong):
    item, paid, reference = await settled(lab)
    await lab.mine(CONFIRMATIONS)
    await lab.rail.observer.head()  # what gas cost before is not what it costs now
    for method in (
        "eth_blockNumber",
        "eth_getBlockByNumber",
        "eth_call",
        "eth_getTransactionCount",
    ):
        lab.node.changes[method] = reply(wrong)
    for asking in (
        lab.rail.observer.head,
        lambda: lab.rail.direct.paid([reference], 0),
        lambda: lab.rail.observer.evidence.spent_or_lapsed(item.option),
        lambda: lab.rail.account_nonces.nonce_used(RELAYER.address, 0),
        lambda: lab.rail.account_nonces.next_nonce(RELAYER.address),
        lambda: lab.rail.relay.simulate([item]),
        lambda: lab.rail.relay.sign(RELAYER.address, 0, [item]),
    ):
        with pytest.raises(RailUnavailable):
            await asking()
    assert paid.value == PRICE


async def test_with_nothing_final_nothing_is_dead(lab):
    lab.node.changes["eth_blockNumber"] = reply("0x0")
    item = await lab.sold(1)
    assert await lab.rail.observer.evidence.spent_or_lapsed(item.option) is None
    assert not await lab.rail.account_nonces.nonce_used(RELAYER.address, 0)


async def test_a_nonce_counts_as_used_once_the_chain_calls_its_block_finalized():
    lab = await open_lab(confirmations=1, finality_tag="finalized")
    try:
        nonce = await lab.rail.account_nonces.next_nonce(RELAYER.address)
        await lab.settle(await lab.sold(1))
        for _ in range(FINAL_DEPTH):
            head = await lab.rail.observer.head()
            assert head.final is not None
            assert head.final < head.number
            assert not await lab.rail.account_nonces.nonce_used(RELAYER.address, nonce)
            await lab.mine()
        await lab.rail.observer.head()
        assert await lab.rail.account_nonces.nonce_used(RELAYER.address, nonce)
        # above its head, a node's word counts for nothing; what it said before stays
        lab.node.changes["eth_getBlockByNumber"] = lambda params, answer: (
            answer["result"].update(number="0xffffff") or answer
            if params[0] == "finalized"
            else answer
        )
        assert (await lab.rail.observer.head()).final == head.final + 1
        # a node that does not know the tag makes the chain wait, and does not stop it
        lab.node.changes["eth_getBlockByNumber"] = lambda params, answer: (
            {"id": answer["id"], "error": {"code": -32602, "message": "unknown tag"}}
            if params[0] == "finalized"
            else answer
        )
        await lab.mine(3)
        assert (await lab.rail.observer.head()).final == head.final + 1
    finally:
        await lab.rail.close()
        await lab.chain.close()


async def test_looks_follow_the_pace_while_a_transaction_of_ours_is_not_final():
    lab = await open_lab(confirmations=1)
    try:
        assert not lab.rail.finality.is_awaited
        await lab.settle(await lab.sold(1))
        assert lab.rail.finality.is_awaited
    finally:
        await lab.rail.close()
        await lab.chain.close()


async def test_facts_of_blocks_that_are_too_young_are_not_agreed():
    lab = await open_lab(confirmations=1, final_after_s=60)
    try:
        item = await lab.sold(1)
        await lab.settle(item)
        (paid,) = await lab.rail.direct.paid([lab.rail.terms.reference(item.option)], 0)
        lab.clock.advance(3600)
        await lab.mine(2)
        head = await lab.rail.observer.head()
        # its timestamps say an hour, and nobody saw it for so long
        assert head.final == -1
        told = await lab.rail.observer.evidence.testify(frozenset({paid}))
        assert not told.facts
        assert not told.far_enough
    finally:
        await lab.rail.close()
        await lab.chain.close()
