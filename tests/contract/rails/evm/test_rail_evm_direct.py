"""Test direct payments of accounts that cannot sign for a token, and their proof on the chain."""

from __future__ import annotations

import json
from typing import Any

import pytest
from florin_sandbox.devnet.evm import DEVNET
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import BuildAction, ResolvedBuild
from florin_server.domain.settlement.chain_txs import PayerKind
from florin_server.rails.evm.paying.signing import build_passkey_call
from florin_server.rails.evm.paying.terms import EvmOptionTerms
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.settings import EvmCoinSettings
from florin_server.rails.option_offer import OptionOffer
from florin_server.rails.types import PayableAsset, RailUnavailable, Split

from tests.support.contract_accounts import (
    BATCHES,
    BATCHES_WITHOUT_CARE,
    PASSKEY,
    PASSKEY_OWNED,
    encode_batch,
    make_multisig_code,
    make_passkey_check,
    sign_by_passkey,
)
from tests.support.evm_harness import (
    ACCEPTS_ALL,
    ACCEPTS_NONE,
    EURO,
    FEES,
    MERCHANT,
    PRICE,
    RELAYER,
    TOKEN,
    EvmChainHarness,
    make_asset,
    make_buyer,
    make_chain_settings,
    make_euro_asset,
    make_payment,
    make_reply,
    make_settlement_item,
    open_lab,
    to_account,
)

pytestmark = pytest.mark.both_chains

WALLET = make_buyer(7)
PAYER = to_account(WALLET)
COIN = EvmCoinSettings(name="Test Ether", symbol="tETH")
BURNS = "5b600056"
MUTE = "00"  # code that accepts every call and returns nothing
SILENT_REFUSAL = "60006000fd"
REFUSES_WITH_A_REASON = "60206000fd"
UNKNOWN = "0x" + "77" * 32


@pytest.fixture
async def lab(evm):
    lab = await open_lab(evm=evm, assets=(make_asset(), make_euro_asset()), coin=COIN)
    await lab.fund(WALLET)
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def way(lab: EvmChainHarness, asset_id: str = TOKEN) -> PayableAsset:
    (payable,) = await lab.payable([PAYER], {asset_id: PRICE})
    return payable


def offer(lab: EvmChainHarness, means: PayableAsset, number: int = 1, ttl_s: int = 900) -> Any:
    split = Split(to_account(MERCHANT), to_account(FEES), 15_000, settled=True)
    token, now_us = lab.rail.assets[means.asset], lab.clock.now_us()
    payment = make_payment(number, ttl_s)
    return lab.rail.offers.build_option(
        OptionOffer(payment, PAYER, means, token, PRICE, split, now_us)
    )


async def mute(lab: EvmChainHarness, asset_id: str = TOKEN, **how: Any) -> Any:
    """Offer a payment to an account whose code cannot sign; return the option and its issue."""
    await lab.delegate(WALLET, MUTE)
    option = offer(lab, await way(lab, asset_id), **how)
    issued = await lab.rail.offers.resolve_build(option, (), lab.clock.now_us())
    assert issued is not None
    return option, issued


async def refusal(lab: EvmChainHarness, option: Any, issued: Any, *outputs: str) -> str:
    with pytest.raises(ApiError) as caught:
        await lab.rail.verifier.verify(option, (issued,), outputs)
    assert caught.value.code is ErrorCode.INVALID_PARAMS
    return caught.value.details["reason"]


BY_SIGNATURE = PayableAsset(PAYER, TOKEN)
BY_CALLS = PayableAsset(PAYER, TOKEN, (PRICE,), "direct")


@pytest.mark.parametrize("reads", ["batch", "deployless"])
@pytest.mark.parametrize(
    ("code", "ways"),
    [
        (MUTE, [BY_CALLS]),
        (SILENT_REFUSAL, [BY_SIGNATURE, BY_CALLS]),
        (BURNS, [BY_SIGNATURE, BY_CALLS]),
        (REFUSES_WITH_A_REASON, [BY_SIGNATURE]),
        (ACCEPTS_ALL, [BY_SIGNATURE]),
        (ACCEPTS_NONE, [BY_SIGNATURE]),
        (PASSKEY_OWNED, [BY_SIGNATURE]),
        (PASSKEY, [BY_SIGNATURE]),
        # many owners: their signatures may, or surely do, take more gas than the limit
        (make_multisig_code(1), [BY_SIGNATURE]),
        (make_multisig_code(14), [BY_SIGNATURE]),
        (make_multisig_code(15), [BY_SIGNATURE, BY_CALLS]),
        (make_multisig_code(26), [BY_SIGNATURE, BY_CALLS]),
        (make_multisig_code(27), [BY_CALLS]),
        (make_multisig_code(10_000), [BY_CALLS]),
    ],
)
async def test_account_that_cannot_sign_is_detected_by_a_signature_check(lab, code, ways, reads):
    lab.node.changes["eth_call"] = make_passkey_check(here=True)
    rail = EvmRail(
        make_chain_settings(assets=(make_asset(), make_euro_asset()), reads=reads),
        RELAYER,
        lab.node,
    )
    await rail.start()
    assert await rail.offers.list_payable([PAYER], {TOKEN: PRICE}) == [BY_SIGNATURE]
    await lab.delegate(WALLET, code)
    assert await rail.offers.list_payable([PAYER], {TOKEN: PRICE}) == ways
    without = [each_way for each_way in ways if each_way == BY_CALLS] or [BY_CALLS]
    assert await rail.offers.list_payable([PAYER], {TOKEN: PRICE}, [PAYER]) == without


async def test_passkeys_are_offered_only_where_the_chain_checks_them(lab):
    lab.node.changes["eth_call"] = make_passkey_check(here=False)
    await lab.rail.start()
    await lab.delegate(WALLET, PASSKEY_OWNED)
    assert await lab.payable([PAYER], {TOKEN: PRICE}) == [BY_CALLS]
    lab.node.changes["eth_call"] = make_passkey_check(here=True)
    await lab.rail.start()
    assert await lab.payable([PAYER], {TOKEN: PRICE}) == [BY_SIGNATURE]


async def test_passkey_support_is_read_from_the_chain(lab):
    question, _ = build_passkey_call()[1]
    there = await lab.control.call("eth_call", question, "latest") == "0x" + "1".rjust(64, "0")
    await lab.delegate(WALLET, PASSKEY_OWNED)
    result = await lab.payable([PAYER], {TOKEN: PRICE})
    assert result == [BY_SIGNATURE if there else BY_CALLS]
    wrong = question | {"data": question["data"][:-1] + "6"}
    assert await lab.control.call("eth_call", wrong, "latest") == "0x"


async def test_passkey_account_pays_with_a_single_signature(lab):
    """A differently encoded question made this account pay by two transactions of its own."""
    lab.node.changes["eth_call"] = make_passkey_check(here=True)
    await lab.rail.start()
    address = await lab.deploy(PASSKEY_OWNED)
    await lab.fund(address)
    (means,) = await lab.payable([to_account(address)], {TOKEN: PRICE})
    option = lab.offer(address)
    assert (means.method, means.approvals) == (None, ())
    output, wrong = (
        json.dumps(sign_by_passkey(json.loads(json.loads(item.actions[-1].params_json)[1])))
        for item in (option, lab.offer(address, make_payment(2)))
    )
    assert await lab.rail.verifier.verify(option, (), [output]) is PayerKind.CODE
    with pytest.raises(ApiError) as caught:
        await lab.rail.verifier.verify(option, (), [wrong])
    assert caught.value.details["reason"] == "signature_mismatch"
    await lab.settle(make_settlement_item(make_payment(), option, output))
    (paid,) = await lab.rail.direct_settlement.list_settlement_events(
        [lab.rail.terms.get_reference(option)], 0
    )
    assert paid.payer == address


async def test_account_of_unclear_kind_is_offered_both_methods(lab):
    await lab.delegate(WALLET, SILENT_REFUSAL)
    signature, calls = await lab.payable([PAYER], {EURO: PRICE})
    assert (signature.method, signature.approvals) == (None, (PRICE,))
    assert (calls.method, calls.approvals) == ("direct", (PRICE,))
    first, second = offer(lab, signature), offer(lab, calls)
    assert first.id != second.id
    assert first.reference != second.reference


async def test_asking_costs_a_second_question_and_only_then(lab):
    remaining = [to_account(make_buyer(n)) for n in range(11, 21)]
    await lab.fund(*map(make_buyer, range(11, 21)))
    before = lab.rail.rpc.request_count
    await lab.payable([PAYER, *remaining], {TOKEN: PRICE})
    assert lab.rail.rpc.request_count - before == 1
    await lab.delegate(WALLET, MUTE)
    before = lab.rail.rpc.request_count
    assert len(await lab.payable([PAYER, *remaining], {TOKEN: PRICE})) == 11
    assert lab.rail.rpc.request_count - before == 2


async def test_a_node_that_does_not_answer_is_no_verdict(lab):
    await lab.delegate(WALLET, MUTE)
    lab.node.changes["eth_getCode"] = make_reply(None)
    with pytest.raises(RailUnavailable):
        await way(lab)


async def test_direct_payment_hashes_need_a_chain_check(lab):
    option, issued = await mute(lab)
    hashes = [json.dumps(UNKNOWN)] * len(issued.actions)
    assert lab.rail.verifier.is_plausible(option, (issued,), hashes) is None
    assert lab.rail.verifier.is_plausible(option, (issued,), hashes[1:]) is False
    assert lab.rail.verifier.is_plausible(option, (), hashes) is False


async def test_direct_option_is_a_single_build_that_resolves_once(lab):
    option, issued = await mute(lab)
    (build,) = option.actions
    assert isinstance(build, BuildAction)
    assert len(build.data) == 32
    assert int(build.data, 16)
    assert option.method == "direct"
    assert lab.rail.direct_settlement.is_direct(option)
    assert not lab.rail.direct_settlement.is_direct(offer(lab, PayableAsset(PAYER, TOKEN)))
    assert (issued.n, issued.expires_at) == (0, None)
    assert issued.head == (await lab.rail.observer.get_head()).number
    assert await lab.rail.offers.resolve_build(option, (issued,), lab.clock.now_us()) is None
    again = offer(lab, await way(lab))
    assert (again.id, again.actions) == (option.id, option.actions)


@pytest.mark.parametrize(("asset_id", "token"), [(TOKEN, DEVNET.token), (EURO, DEVNET.euro)])
async def test_direct_payment_moves_the_money_and_is_proof(lab, asset_id, token):
    await lab.payable([PAYER], {asset_id: PRICE})
    option, issued = await mute(lab, asset_id)
    assert [action.method for action in issued.actions] == ["eth_sendTransaction"] * 2
    assert await lab.rail.observer.evidence.find_unpayable_reason(option) is None
    outputs = [await lab.perform(WALLET, action) for action in issued.actions]
    await lab.rail.verifier.verify(option, (issued,), outputs)
    (paid,) = await lab.rail.direct_settlement.list_settlement_events(
        [lab.rail.terms.get_reference(option)], issued.head
    )
    assert lab.rail.terms.is_proven(option, paid)
    assert paid.tx_hash == json.loads(outputs[-1])
    assert await lab.balance(MERCHANT, token.address) == PRICE - 15_000
    assert await lab.balance(FEES, token.address) == 15_000
    assert not await lab.rail.direct_settlement.is_paid(option)
    await lab.mine(3)
    assert await lab.rail.direct_settlement.is_paid(option)
    lab.clock.advance(900 + 300)
    await lab.mine(3)
    assert await lab.rail.observer.evidence.find_unpayable_reason(option) is None


async def test_a_short_allowance_goes_through_zero_where_the_token_wants_it(lab):
    await lab.payable([PAYER], {EURO: PRICE})
    option, issued = await mute(lab, EURO)
    await lab.perform(WALLET, issued.actions[0])
    dear = await lab.payable([PAYER], {EURO: PRICE + 1})
    assert dear == [PayableAsset(PAYER, EURO, (0, PRICE + 1), "direct")]
    assert await way(lab, EURO) == PayableAsset(PAYER, EURO, (), "direct")
    assert option.id != offer(lab, await way(lab, EURO)).id


async def test_unmined_transaction_hash_is_accepted(lab):
    option, issued = await mute(lab)
    await lab.rail.verifier.verify(option, (issued,), [json.dumps(UNKNOWN)] * 2)


async def test_another_transaction_to_the_contract_is_refused(lab):
    option, issued = await mute(lab)
    other = offer(lab, await way(lab), 2)
    second = await lab.rail.offers.resolve_build(other, (), 0)
    assert second is not None
    await lab.perform(WALLET, second.actions[0])
    wrong = await lab.perform(WALLET, second.actions[1])
    assert await refusal(lab, option, issued, wrong, wrong) == "transaction_mismatch"
    await lab.rail.verifier.verify(other, (second,), [wrong, wrong])


async def test_a_transaction_that_failed_is_refused(lab):
    option, issued = await mute(lab)
    (call,) = json.loads(issued.actions[1].params_json)
    nonce = await lab.control.call("eth_getTransactionCount", WALLET.address, "latest")
    raw = WALLET.sign_transaction(
        {
            "chainId": DEVNET.chain_id,
            "nonce": int(nonce, 16),
            "gas": 400_000,
            "maxFeePerGas": 10**11,
            "maxPriorityFeePerGas": 10**9,
            "value": 0,
            "to": bytes.fromhex(call["to"][2:]),
            "data": bytes.fromhex(call["data"][2:]),
        }
    ).raw_transaction
    sent = await lab.control.call("eth_sendRawTransaction", "0x" + bytes(raw).hex())
    # without an approval
    assert await refusal(lab, option, issued, json.dumps(UNKNOWN), json.dumps(sent)) == (
        "transaction_mismatch"
    )


def change_amount(call: dict[str, str]) -> dict[str, str]:
    """Return the call that pays one unit less, as a wallet could send it."""
    value, less = f"{PRICE:064x}", f"{PRICE - 1:064x}"
    assert call["data"].count(value) == 1
    return call | {"data": call["data"].replace(value, less)}


async def bundle(lab: EvmChainHarness, *calls: dict[str, str], code: str = BATCHES) -> str:
    """Make calls of the account in one transaction (EIP-7702); return a wallet's output."""
    await lab.delegate(WALLET, code)
    receipt = await lab.send(key=bytes(WALLET.key), to=WALLET.address, data=encode_batch(calls))
    return json.dumps(receipt["transactionHash"])


def list_calls(issued: ResolvedBuild) -> list[dict[str, str]]:
    return [json.loads(action.params_json)[0] for action in issued.actions]


@pytest.mark.parametrize(("asset_id", "token"), [(TOKEN, DEVNET.token), (EURO, DEVNET.euro)])
async def test_bundle_of_the_issued_calls_pays(lab, asset_id, token):
    await lab.payable([PAYER], {asset_id: PRICE})
    option, issued = await mute(lab, asset_id)
    sent = await bundle(lab, *list_calls(issued))
    await lab.rail.verifier.verify(option, (issued,), [sent, sent])
    (paid,) = await lab.rail.direct_settlement.list_settlement_events(
        [lab.rail.terms.get_reference(option)], issued.head
    )
    assert lab.rail.terms.is_proven(option, paid)
    assert paid.tx_hash == json.loads(sent)
    assert await lab.balance(MERCHANT, token.address) == PRICE - 15_000


async def test_bundle_of_another_account_is_refused(lab):
    """Its own payment is real, and pays nothing else."""
    option, issued = await mute(lab)
    other = make_buyer(8)
    await lab.fund(other)
    await lab.delegate(other, BATCHES)
    means = PayableAsset(to_account(other), TOKEN, (PRICE,), "direct")
    split = Split(to_account(MERCHANT), to_account(FEES), 15_000, settled=True)
    theirs = lab.rail.offers.build_option(
        OptionOffer(
            make_payment(1),
            to_account(other),
            means,
            lab.rail.assets[TOKEN],
            PRICE,
            split,
            lab.clock.now_us(),
        )
    )
    second = await lab.rail.offers.resolve_build(theirs, (), 0)
    receipt = await lab.send(
        key=bytes(other.key), to=other.address, data=encode_batch(list_calls(second))
    )
    sent = json.dumps(receipt["transactionHash"])
    await lab.rail.verifier.verify(theirs, (second,), [sent, sent])
    assert await refusal(lab, option, issued, sent, sent) == "transaction_mismatch"


async def test_one_bundle_stands_for_each_payment_that_it_makes_and_for_no_other(lab):
    option, issued = await mute(lab)
    second_option = offer(lab, await way(lab), 2)
    third_option = offer(lab, await way(lab), 3)
    second, third = [
        await lab.rail.offers.resolve_build(each_option, (), 0)
        for each_option in (second_option, third_option)
    ]
    sent = await bundle(lab, *list_calls(issued), *list_calls(second))
    await lab.rail.verifier.verify(option, (issued,), [sent, sent])
    await lab.rail.verifier.verify(second_option, (second,), [sent, sent])
    assert await refusal(lab, third_option, third, sent, sent) == "transaction_mismatch"


async def test_bundle_that_pays_less_is_refused(lab):
    option, issued = await mute(lab)
    approval, payment = list_calls(issued)
    sent = await bundle(lab, approval, change_amount(payment))
    (paid,) = await lab.rail.direct_settlement.list_settlement_events(
        [lab.rail.terms.get_reference(option)], issued.head
    )
    # the money has moved, for the same reference, but is not what was offered
    assert paid.value == PRICE - 1
    assert not lab.rail.terms.is_proven(option, paid)
    assert await refusal(lab, option, issued, sent, sent) == "transaction_mismatch"


async def test_bundle_whose_payment_failed_inside_is_refused(lab):
    option, issued = await mute(lab)
    _, payment = list_calls(issued)
    # without an approval; the transaction itself succeeds
    sent = await bundle(lab, payment, code=BATCHES_WITHOUT_CARE)
    assert await lab.balance(MERCHANT) == 0
    assert await refusal(lab, option, issued, sent, sent) == "transaction_mismatch"
    # the payment can still be paid
    sent = await bundle(lab, *list_calls(issued))
    await lab.rail.verifier.verify(option, (issued,), [sent, sent])


async def test_event_of_a_contract_of_somebody_else_proves_no_bundle(lab):
    option, issued = await mute(lab)
    paid = await bundle(lab, *list_calls(issued))
    receipt = await lab.control.call("eth_getTransactionReceipt", json.loads(paid))
    for log in receipt["logs"]:
        log["address"] = "0x" + "66" * 20
    lab.node.changes["eth_getTransactionReceipt"] = make_reply(receipt)
    not_paid = make_reply("0x" + "0" * 64)
    lab.node.changes["eth_call"] = not_paid
    assert await refusal(lab, option, issued, paid, paid) == "transaction_mismatch"


async def test_transaction_wrapped_by_a_wallet_is_not_refused_before_it_is_mined(lab):
    option, issued = await mute(lab)
    receipt = await lab.send(key=bytes(WALLET.key), to=WALLET.address, data=b"a batch")
    sent = json.dumps(receipt["transactionHash"])
    lab.node.changes["eth_getTransactionReceipt"] = make_reply(None)
    await lab.rail.verifier.verify(option, (issued,), [sent, sent])
    lab.node.changes.clear()
    assert await refusal(lab, option, issued, sent, sent) == "transaction_mismatch"


async def carried(lab: EvmChainHarness, key: bytes, suffix: bytes = b"") -> Any:
    """Return an option of an account without code, its issue, and a transaction with its call.

    The node has not seen the transaction in a block.
    """
    option = offer(lab, BY_CALLS)
    issued = await lab.rail.offers.resolve_build(option, (), lab.clock.now_us())
    assert issued is not None
    (call,) = json.loads(issued.actions[-1].params_json)
    held = b"an operation" + bytes.fromhex(call["data"][2:]) + suffix
    receipt = await lab.send(key=key, to=make_buyer(50).address, data=held)
    lab.node.changes["eth_getTransactionReceipt"] = make_reply(None)
    return option, issued, json.dumps(receipt["transactionHash"])


async def test_operation_that_creates_its_account_is_not_refused_before_it_is_mined(lab):
    option, issued, sent = await carried(lab, DEVNET.faucet_key, suffix=b"its signature")
    await lab.rail.verifier.verify(option, (issued,), [sent] * len(issued.actions))
    # once it is in a block, only an event proves that the operation paid
    lab.node.changes.clear()
    output = await refusal(lab, option, issued, *[sent] * len(issued.actions))
    assert output == "transaction_mismatch"


async def test_call_that_a_key_has_another_contract_make_is_refused(lab):
    # the settlement contract pays out only what this buyer brings
    await lab.send(to=WALLET.address, value=10**18)
    option, issued, sent = await carried(lab, bytes(WALLET.key))
    output = await refusal(lab, option, issued, *[sent] * len(issued.actions))
    assert output == "transaction_mismatch"


async def test_wrong_hash_of_a_payment_that_the_contract_knows_as_paid_is_accepted(lab):
    await lab.send(to=WALLET.address, value=10**18)
    option, issued, sent = await carried(lab, bytes(WALLET.key))
    for action in issued.actions:
        await lab.perform(WALLET, action)
    await lab.rail.verifier.verify(option, (issued,), [sent] * len(issued.actions))
    (paid,) = await lab.rail.direct_settlement.list_settlement_events(
        [lab.rail.terms.get_reference(option)], issued.head
    )
    assert paid.payer == WALLET.address.lower()


async def test_wrong_number_of_outputs_is_refused(lab):
    option, issued = await mute(lab)
    assert await refusal(lab, option, issued, json.dumps(UNKNOWN)) == "unreadable_output"


async def test_it_lapses_at_its_time_and_not_before(lab):
    option, _ = await mute(lab, ttl_s=60)
    assert EvmOptionTerms.from_option(option).last_second == 1_800_000_000 + 359
    lab.clock.advance(359)
    await lab.mine(3)
    assert await lab.rail.observer.evidence.find_unpayable_reason(option) is None
    lab.clock.advance(1)
    await lab.mine(3)
    assert "lapsed" in (await lab.rail.observer.evidence.find_unpayable_reason(option) or "")
