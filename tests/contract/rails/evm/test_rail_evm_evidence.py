"""Test what proves a payment: final blocks and settlement events, never an absence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_sandbox.devnet.evm import DEVNET
from florin_sandbox.devnet.genesis import load_artifact
from florin_server.rails.evm import settler
from florin_server.rails.evm.paying.terms import EvmOptionTerms
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.sending.transactions import parse_fees
from florin_server.rails.types import RailUnavailable

from tests.support.evm_harness import (
    PRICE,
    RELAYER,
    make_buyer,
    make_chain_settings,
    make_refusal,
    make_reply,
    open_lab,
)

pytestmark = pytest.mark.both_chains

CONFIRMATIONS = 3


@pytest.fixture
async def lab(evm):
    lab = await open_lab(evm=evm, confirmations=CONFIRMATIONS)
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def settled(lab, number=1):
    """Settle a payment; return it, its event and its reference."""
    item = await lab.create_verified_item(number)
    await lab.settle(item)
    reference = lab.rail.terms.get_reference(item.option)
    (paid,) = await lab.rail.direct_settlement.list_settlement_events([reference], 0)
    return item, paid, reference


async def test_the_head_is_the_newest_block(lab):
    before = await lab.rail.observer.get_head()
    await lab.mine(2)
    after = await lab.rail.observer.get_head()
    assert after.number == before.number + 2
    view = await lab.rail.blocks.find_block(after.number)
    assert (view.hash, view.time) == (after.hash, after.time)
    assert (await lab.rail.blocks.find_block(after.number - 1)).hash == view.parent_hash


async def test_a_block_to_come_is_none(lab):
    head = await lab.rail.observer.get_head()
    assert await lab.rail.blocks.find_block(head.number + 1) is None


async def test_accepted_payments_settle_through_the_contract_that_they_signed_for(lab):
    created = await lab.send(data=load_artifact("PaySettler").init, gas=3_000_000)
    new = created["contractAddress"].lower()
    before = [await lab.create_verified_item(1), await lab.create_verified_item(2)]
    changed = make_chain_settings(settler=new, former_settlers=(DEVNET.settler,))
    lab.rail = EvmRail(changed, RELAYER, lab.node)
    await lab.rail.start()
    after = await lab.create_verified_item(3)
    items = [*before, after]
    assert await lab.rail.relay.simulate(items) == [True, True, True]
    batches = lab.rail.relay.split_into_batches(items)
    assert [list(each_batch) for each_batch in batches] == [before, [after]]
    for batch in batches:
        await lab.settle(*batch)
    references = [lab.rail.terms.get_reference(item.option) for item in items]
    paid = await lab.rail.direct_settlement.list_settlement_events(references, 0)
    assert len(paid) == 3
    # the contract that is followed refuses payments of another contract
    unknown = EvmRail(make_chain_settings(settler=new), RELAYER, lab.node)
    await unknown.start()
    assert await unknown.relay.simulate([await lab.create_verified_item(4)]) == [True]
    assert await unknown.relay.simulate([before[0]]) == [False]


async def test_a_nonce_counts_as_used_once_it_is_final(lab):
    nonce = await lab.rail.account_nonces.get_next_nonce(RELAYER.address)
    await lab.settle(await lab.create_verified_item(1))
    assert await lab.rail.account_nonces.get_next_nonce(RELAYER.address) == nonce + 1
    for _ in range(CONFIRMATIONS - 1):
        assert not await lab.rail.account_nonces.is_nonce_used(RELAYER.address, nonce)
        await lab.mine()
    assert await lab.rail.account_nonces.is_nonce_used(RELAYER.address, nonce)
    assert not await lab.rail.account_nonces.is_nonce_used(RELAYER.address, nonce + 1)


async def test_an_authorization_is_spent_once_that_is_final(lab):
    item, _, _ = await settled(lab)
    for _ in range(CONFIRMATIONS - 1):
        assert await lab.rail.observer.evidence.find_unpayable_reason(item.option) is None
        await lab.mine()
    assert "used or cancelled" in await lab.rail.observer.evidence.find_unpayable_reason(
        item.option
    )


async def test_an_authorization_lapses_by_the_time_of_a_final_block(lab):
    item = await lab.create_verified_item(1)
    terms = EvmOptionTerms.from_option(item.option)
    await lab.mine(5)
    lab.clock.advance(terms.route.valid_before - lab.clock.now_us() // 1_000_000)
    await lab.mine(CONFIRMATIONS - 1)
    assert await lab.rail.observer.evidence.find_unpayable_reason(item.option) is None
    await lab.mine()
    assert "lapsed" in await lab.rail.observer.evidence.find_unpayable_reason(item.option)


async def test_an_authorization_that_its_owner_cancelled_is_dead(lab):
    from eth_hash.auto import keccak
    from florin_server.domain.chains.evm import abi
    from florin_server.domain.chains.evm.signatures import sign_digest

    item = await lab.create_verified_item(1)
    terms = EvmOptionTerms.from_option(item.option)
    wallet = make_buyer(1001)
    kind = keccak(b"CancelAuthorization(address authorizer,bytes32 nonce)")
    separator = terms.build_message(wallet.address.lower()).domain.compute_separator()
    struct = keccak(kind + abi.encode_address(wallet.address) + terms.nonce)
    digest = keccak(b"\x19\x01" + separator + struct)
    raw = sign_digest(bytes(wallet.key), digest)
    await lab.send(
        to=DEVNET.token.address,
        data=abi.encode_selector("cancelAuthorization(address,bytes32,bytes)")
        + abi.encode_address(wallet.address)
        + terms.nonce
        + abi.encode_uint256(96)
        + abi.encode_bytes(raw[:64] + bytes([raw[64] + 27])),
    )
    assert await lab.rail.relay.simulate([item]) == [False]
    await lab.mine(CONFIRMATIONS)
    assert (
        await lab.rail.direct_settlement.list_settlement_events(
            [lab.rail.terms.get_reference(item.option)], 0
        )
        == []
    )
    assert "used or cancelled" in await lab.rail.observer.evidence.find_unpayable_reason(
        item.option
    )


async def test_settlement_submitted_by_a_stranger_is_detected(lab):
    item = await lab.create_verified_item(1)
    terms = EvmOptionTerms.from_option(item.option)
    signature = bytes.fromhex(item.confirmation.outputs[0].strip('"')[2:])
    pay = terms.build_pay_arguments(make_buyer(1001).address.lower(), signature, gas=200_000)
    receipt = await lab.send(to=DEVNET.settler, data=settler.encode_settle([pay]))
    (paid,) = await lab.rail.direct_settlement.list_settlement_events(
        [lab.rail.terms.get_reference(item.option)], 0
    )
    assert paid.tx_hash == receipt["transactionHash"]
    view = await lab.rail.blocks.find_block(paid.block_number)
    assert view.events == (paid,)
    assert view.transactions == ()  # the transaction was not Florin's


async def test_a_replaced_block_takes_its_settlement_with_it(lab):
    item, paid, reference = await settled(lab)
    await lab.reorg(1, paid.tx_hash)
    assert await lab.rail.direct_settlement.list_settlement_events([reference], 0) == []
    assert await lab.rail.observer.find_mined([paid.tx_hash]) == {}
    view = await lab.rail.blocks.find_block(paid.block_number)
    assert view.hash != paid.block_hash
    assert view.events == view.transactions == ()
    # the authorization is unused again
    assert await lab.rail.relay.simulate([item]) == [True]
    await lab.mine(CONFIRMATIONS)
    assert await lab.rail.observer.evidence.find_unpayable_reason(item.option) is None


async def test_a_settlement_may_move_to_another_block(lab):
    _, paid, reference = await settled(lab)
    await lab.reorg(1)
    (again,) = await lab.rail.direct_settlement.list_settlement_events([reference], 0)
    assert again.tx_hash == paid.tx_hash
    assert again.block_hash != paid.block_hash


async def test_only_requested_references_are_returned(lab):
    _, first, reference = await settled(lab, 1)
    _, second, other = await settled(lab, 2)
    assert await lab.rail.direct_settlement.list_settlement_events([reference], 0) == [first]
    assert (
        await lab.rail.direct_settlement.list_settlement_events([reference], first.block_number + 1)
        == []
    )
    assert sorted(
        await lab.rail.direct_settlement.list_settlement_events([reference, other], 0),
        key=lambda item: item.ref,
    ) == sorted([first, second], key=lambda item: item.ref)
    assert await lab.rail.direct_settlement.list_settlement_events([], 0) == []


async def test_many_references_are_requested_in_parts(lab):
    _, paid, reference = await settled(lab)
    remaining = [f"0x{number:064x}" for number in range(250)]
    assert await lab.rail.direct_settlement.list_settlement_events([*remaining, reference], 0) == [
        paid
    ]


# nodes with limited abilities


def limited(blocks):
    """Return a node that serves logs for at most `blocks` blocks."""

    def change(params, answer):
        request = int(params[0]["toBlock"], 16) - int(params[0]["fromBlock"], 16) + 1
        if request <= blocks:
            return answer
        return {"id": answer["id"], "error": {"code": -32005, "message": "range too wide"}}

    return change


@pytest.mark.parametrize("blocks", [1, 3, 1000])
async def test_refused_block_range_is_requested_in_parts(lab, blocks):
    await lab.mine(10)
    _, paid, reference = await settled(lab)
    await lab.mine(10)
    lab.node.changes["eth_getLogs"] = limited(blocks)
    assert await lab.rail.direct_settlement.list_settlement_events([reference], 0) == [paid]


@pytest.mark.parametrize("blocks", [1, 10, 37, 1000])
async def test_log_range_limit_of_a_node_is_learned_and_reused(lab, blocks):
    await lab.mine(300)
    head = (await lab.rail.observer.get_head()).number
    lab.node.changes["eth_getLogs"] = limited(blocks)
    fewest = -(-(head + 1) // blocks)
    for searched in (10, 0):
        lab.node.methods.clear()
        assert await lab.rail.direct_settlement.list_settlement_events_between(0, head) == []
        assert lab.node.methods.count("eth_getLogs") <= fewest + 2 * searched


async def test_a_node_that_serves_no_logs_at_all_is_no_answer(lab):
    await lab.mine(10)
    lab.node.changes["eth_getLogs"] = make_refusal(-32005, "not for you")
    with pytest.raises(RailUnavailable, match="not for you"):
        await lab.rail.direct_settlement.list_settlement_events(["0x" + "11" * 32], 0)
    assert lab.node.methods.count("eth_getLogs") < 10


@pytest.mark.parametrize(
    "refusal", [make_refusal(-32601, "unknown method"), make_refusal(-32000, "busy")]
)
async def test_blocks_are_read_from_logs_where_there_are_no_block_receipts(lab, refusal):
    _, paid, _ = await settled(lab)
    expected = await lab.rail.blocks.find_block(paid.block_number)
    assert expected.events
    assert expected.transactions
    lab.node.changes["eth_getBlockReceipts"] = refusal
    assert await lab.rail.blocks.find_block(paid.block_number) == expected
    assert await lab.rail.blocks.find_block(paid.block_number + 100) is None


async def test_missing_method_is_called_once(lab):
    lab.node.changes["eth_getBlockReceipts"] = make_refusal(-32601, "unknown method")
    for _ in range(3):
        await lab.rail.blocks.find_block(0)
    assert lab.node.methods.count("eth_getBlockReceipts") == 1


# nodes that lie, lag or break


@pytest.mark.parametrize("missing", [make_reply(None), make_refusal(-32000, "busy")])
async def test_a_missing_receipt_is_no_negative_answer(lab, missing):
    _, paid, _ = await settled(lab)
    lab.node.changes["eth_getTransactionReceipt"] = missing
    if missing([], {"id": 1}).get("error"):
        with pytest.raises(RailUnavailable):
            await lab.rail.observer.find_mined([paid.tx_hash])
    else:
        assert await lab.rail.observer.find_mined([paid.tx_hash]) == {}


def without_the_last(_, answer):
    """Drop one receipt of each block."""
    return {**answer, "result": answer["result"][:-1]}


def of_another_branch(_, answer):
    receipts = [receipt | {"blockHash": "0x" + "99" * 32} for receipt in answer["result"]]
    return {**answer, "result": receipts}


def without_logs(_, answer):
    return {**answer, "result": [receipt | {"logs": None} for receipt in answer["result"]]}


@pytest.mark.parametrize(
    "receipts",
    [make_reply(None), make_reply([]), without_the_last, of_another_branch, without_logs],
    ids=["null", "none", "one too few", "of another branch", "without logs"],
)
async def test_block_with_unusable_receipts_is_read_from_its_logs(lab, receipts):
    _, paid, _ = await settled(lab)
    expected = await lab.rail.blocks.find_block(paid.block_number)
    assert expected.events == (paid,)
    assert expected.transactions
    lab.node.changes["eth_getBlockReceipts"] = receipts
    view = await lab.rail.blocks.find_block(paid.block_number)
    assert view == replace(expected, is_complete=False)
    lab.node.changes["eth_getTransactionReceipt"] = make_reply(None)
    unproven = await lab.rail.blocks.find_block(paid.block_number)
    assert (unproven.events, unproven.transactions) == (expected.events, ())
    lab.node.changes["eth_getLogs"] = make_refusal(-32000, "busy")
    with pytest.raises(RailUnavailable, match="busy"):
        await lab.rail.blocks.find_block(paid.block_number)


@pytest.mark.parametrize(
    "receipts", [make_reply(None), make_reply([]), make_refusal(-32601, "unknown method")]
)
async def test_block_without_transactions_is_empty_for_any_receipts(lab, receipts):
    await lab.mine()
    head = await lab.rail.observer.get_head()
    lab.node.changes["eth_getBlockReceipts"] = receipts
    lab.node.changes["eth_getLogs"] = make_reply(None)
    view = await lab.rail.blocks.find_block(head.number)
    assert (view.hash, view.events, view.transactions) == (head.hash, (), ())


MISSING = object()


@pytest.mark.parametrize("odd", [MISSING, None, "", "0x", 17, "5208", [], {}])
@pytest.mark.parametrize("name", ["effectiveGasPrice", "gasUsed", "l1Fee", "cumulativeGasUsed"])
async def test_receipt_fields_that_decide_nothing_may_be_missing_or_odd(lab, name, odd):
    _, paid, _ = await settled(lab)
    expected = await lab.rail.blocks.find_block(paid.block_number)

    def change(_, answer):
        receipts = answer["result"] if isinstance(answer["result"], list) else [answer["result"]]
        for receipt in receipts:
            receipt.pop(name, None)
            if odd is not MISSING:
                receipt[name] = odd
        return answer

    lab.node.changes["eth_getBlockReceipts"] = change
    lab.node.changes["eth_getTransactionReceipt"] = change
    view = await lab.rail.blocks.find_block(paid.block_number)
    assert view == expected
    request = await lab.rail.observer.find_mined([paid.tx_hash])
    assert list(request.values()) == list(view.transactions)
    existing = name in {"l1Fee", "cumulativeGasUsed"}
    assert all((item.gas_cost is None) is not existing for item in view.transactions)


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
    view = await lab.rail.blocks.find_block(paid.block_number)
    assert (view.events, view.transactions) == ((paid,), ())


@pytest.mark.parametrize("odd", [MISSING, None, "12", 7])
async def test_header_without_a_base_fee_is_signed_by_the_gas_price(lab, odd):
    item = await lab.create_verified_item(1)
    await lab.mine()
    await lab.rail.observer.get_head()  # fees are read again after a block
    price = int(await lab.control.call("eth_gasPrice"), 16)

    def change(_, answer):
        answer["result"].pop("baseFeePerGas")
        if odd is not MISSING:
            answer["result"]["baseFeePerGas"] = odd
        return answer

    lab.node.changes["eth_getBlockByNumber"] = change
    lab.node.changes["eth_maxPriorityFeePerGas"] = make_reply(None)
    signed = await lab.rail.relay.sign(RELAYER.address, 0, [item])
    fees = parse_fees(signed.raw)
    assert (fees.max_fee, fees.tip) == (2 * price + price // 10, price // 10)
    assert await lab.rail.relay.list_shortages() == ()


async def test_a_node_behind_its_own_head_proves_no_absence(lab):
    _, _, reference = await settled(lab)
    lab.node.changes["eth_getLogs"] = make_reply([])
    lab.node.changes["eth_getBlockByNumber"] = make_reply(None)
    with pytest.raises(RailUnavailable, match="lags"):
        await lab.rail.direct_settlement.list_settlement_events([reference], 0)


async def test_lagging_node_proves_no_absence(lab):
    head = await lab.rail.observer.get_head()
    assert (
        await lab.rail.direct_settlement.list_settlement_events(["0x" + "11" * 32], head.number + 1)
        == []
    )
    with pytest.raises(RailUnavailable, match="lags"):
        await lab.rail.direct_settlement.list_settlement_events(["0x" + "11" * 32], head.number + 2)


async def test_response_for_a_different_block_is_refused(lab):
    await lab.mine(3)
    genuine = await lab.control.call("eth_getBlockByNumber", "0x1", False)
    lab.node.changes["eth_getBlockByNumber"] = make_reply(genuine)
    with pytest.raises(RailUnavailable):
        await lab.rail.blocks.find_block(2)


WRONG = [None, True, 17, "", "0x", "yes", [], {}, [None], {"hash": "0x"}, "0x" + "f" * 65]


@pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
async def test_nonsense_is_no_answer_anywhere(lab, wrong):
    item, paid, reference = await settled(lab)
    await lab.mine(CONFIRMATIONS)
    await lab.rail.observer.get_head()  # the earlier gas price no longer applies
    for method in (
        "eth_blockNumber",
        "eth_getBlockByNumber",
        "eth_call",
        "eth_getTransactionCount",
    ):
        lab.node.changes[method] = make_reply(wrong)
    for asking in (
        lab.rail.observer.get_head,
        lambda: lab.rail.direct_settlement.list_settlement_events([reference], 0),
        lambda: lab.rail.observer.evidence.find_unpayable_reason(item.option),
        lambda: lab.rail.account_nonces.is_nonce_used(RELAYER.address, 0),
        lambda: lab.rail.account_nonces.get_next_nonce(RELAYER.address),
        lambda: lab.rail.relay.simulate([item]),
        lambda: lab.rail.relay.sign(RELAYER.address, 0, [item]),
    ):
        with pytest.raises(RailUnavailable):
            await asking()
    assert paid.value == PRICE


async def test_with_nothing_final_nothing_is_dead(lab):
    lab.node.changes["eth_blockNumber"] = make_reply("0x0")
    item = await lab.create_verified_item(1)
    assert await lab.rail.observer.evidence.find_unpayable_reason(item.option) is None
    assert not await lab.rail.account_nonces.is_nonce_used(RELAYER.address, 0)
