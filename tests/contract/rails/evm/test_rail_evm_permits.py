"""Test approvals by signature (EIP-2612): a buyer without coin and without allowance pays."""

from __future__ import annotations

import json
from typing import Any

import pytest
from eth_account.signers.local import LocalAccount
from florin_client.wallet.evm_steps import Permit2Transfer, SignedApproval
from florin_client.wallet.plan import plan_payment
from florin_sandbox.devnet.evm import DEVNET
from florin_server.domain.chains.evm import abi
from florin_server.domain.chains.evm.typed_data import PERMIT2
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import PaymentOption
from florin_server.domain.settlement.chain_txs import PayerKind
from florin_server.rails.evm.paying.outputs import encode_permit_call
from florin_server.rails.evm.paying.terms import EvmOptionTerms
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.option_offer import OptionOffer
from florin_server.rails.pricing.prices import PriceQuote, PriceRate
from florin_server.rails.types import PayableAsset, Split
from pydantic import ValidationError

from tests.support.evm_harness import (
    ACCEPTS_ALL,
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
    make_settlement_item,
    open_lab,
    sign_option,
    to_account,
)

pytestmark = pytest.mark.both_chains

WALLET = make_buyer(7)
PAYER = to_account(WALLET)
BY_PERMIT = PayableAsset(PAYER, TOKEN, permit_nonce=0)
BY_APPROVAL = PayableAsset(PAYER, TOKEN, (PRICE,))
QUOTE = PriceQuote(PriceRate("2500", "settings", 5), 1_800_000_300)
FEE = 15_000
ALLOWANCE = abi.encode_selector("allowance(address,address)")


def make_permit_asset(**changes: Any) -> Any:
    """Return the test dollar as a token that knows signed approvals, and no signed transfers."""
    return make_asset(method="permit2", approve_by_signature=True, **changes)


@pytest.fixture
async def lab(evm):
    lab = await open_lab(evm=evm, assets=(make_permit_asset(),), opener=DEVNET.opener)
    # tokens alone: the buyer has no coin for gas
    await lab.send_tokens(WALLET.address, 10 * PRICE)
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def list_ways(lab: EvmChainHarness, price: int = PRICE) -> list[PayableAsset]:
    return await lab.rail.offers.list_payable([PAYER], {TOKEN: price})


def offer(lab: EvmChainHarness, number: int = 1, nonce: int = 0, value: int = PRICE) -> Any:
    payment = make_payment(number)
    way = PayableAsset(PAYER, TOKEN, permit_nonce=nonce)
    split = Split(to_account(MERCHANT), to_account(FEES), FEE, settled=True)
    token, now_us = lab.rail.assets[TOKEN], lab.clock.now_us()
    return payment, lab.rail.offers.build_option(
        OptionOffer(payment, PAYER, way, token, value, split, now_us)
    )


def sign_action(wallet: LocalAccount, option: PaymentOption, at: int, **changes: Any) -> str:
    """Sign one of the messages of an option, perhaps with other values."""
    _, text = json.loads(option.actions[at].params_json)
    document = json.loads(text)
    document["message"] |= changes
    signed = wallet.sign_typed_data(full_message=document)
    return json.dumps("0x" + bytes(signed.signature).hex())


def sign_both(option: PaymentOption, wallet: LocalAccount = WALLET) -> list[str]:
    return [sign_action(wallet, option, 0), sign_option(wallet, option)]


async def submit_permit(lab: EvmChainHarness, option: PaymentOption, output: str) -> None:
    """Submit the buyer's approval, as a stranger that saw it could."""
    permit = EvmOptionTerms.from_option(option).build_permit(WALLET.address.lower())
    assert permit is not None
    call = encode_permit_call(permit, bytes.fromhex(json.loads(output)[2:]))
    await lab.send(to=DEVNET.token.address, data=call)


async def read_allowance(lab: EvmChainHarness) -> int:
    words = abi.encode_address(WALLET.address.lower()) + abi.encode_address(PERMIT2)
    call = {"to": DEVNET.token.address, "data": abi.to_hex(ALLOWANCE + words)}
    return int(await lab.control.call("eth_call", call, "latest"), 16)


async def refusal(lab: EvmChainHarness, option: PaymentOption, *outputs: str) -> str:
    with pytest.raises(ApiError) as caught:
        await lab.rail.verifier.verify(option, (), outputs)
    assert caught.value.code is ErrorCode.INVALID_PARAMS
    return str(caught.value.details["reason"])


@pytest.mark.parametrize(
    "payable",
    [
        PayableAsset(PAYER, TOKEN),
        BY_PERMIT,
        BY_APPROVAL,
        PayableAsset(PAYER, TOKEN, (0, PRICE), permit_nonce=3),
        PayableAsset(PAYER, TOKEN, method="direct"),
    ],
)
@pytest.mark.parametrize("quote", [None, QUOTE])
async def test_outline_has_the_id_and_duration_of_the_built_option(lab, payable, quote):
    split = Split(to_account(MERCHANT), to_account(FEES), FEE, settled=True)
    token = lab.rail.assets[TOKEN]
    offered = OptionOffer(make_payment(), PAYER, payable, token, PRICE, split, 0, quote)
    option = lab.rail.offers.build_option(offered)
    assert lab.rail.offers.outline_option(offered) == (option.id, option.eta_s)


async def test_buyer_without_coin_and_allowance_pays_with_two_signatures(lab):
    assert await lab.control.call("eth_getBalance", WALLET.address, "latest") == "0x0"
    assert await list_ways(lab) == [BY_PERMIT, BY_APPROVAL]
    payment, option = offer(lab)
    assert [action.method for action in option.actions] == ["eth_signTypedData_v4"] * 2
    outputs = sign_both(option)
    assert lab.rail.verifier.is_plausible(option, (), outputs) is True
    assert await lab.rail.verifier.verify(option, (), outputs) is PayerKind.KEY
    item = make_settlement_item(payment, option, *outputs)
    assert await lab.rail.relay.simulate([item]) == [True]
    (refreshed,) = await lab.rail.relay.refresh_payers([item])
    assert refreshed.payer_kind is PayerKind.KEY
    transaction = await lab.settle(refreshed)
    receipt = await lab.control.call("eth_getTransactionReceipt", transaction.hash)
    assert receipt["to"].lower() == DEVNET.opener
    (paid,) = await lab.rail.direct_settlement.list_settlement_events(
        [lab.rail.terms.get_reference(option)], 0
    )
    assert lab.rail.terms.is_proven(option, paid)
    assert await lab.balance(MERCHANT) == PRICE - FEE
    assert await lab.balance(FEES) == FEE
    # the approval was exact, and its nonce is used
    assert await read_allowance(lab) == 0
    assert await list_ways(lab) == [PayableAsset(PAYER, TOKEN, permit_nonce=1), BY_APPROVAL]


async def test_approval_that_a_stranger_submitted_before_is_ignored_if_the_allowance_is_there(lab):
    payment, option = offer(lab)
    outputs = sign_both(option)
    await submit_permit(lab, option, outputs[0])
    assert await read_allowance(lab) == PRICE
    assert await lab.rail.verifier.verify(option, (), outputs) is PayerKind.KEY
    await lab.settle(make_settlement_item(payment, option, *outputs))
    assert await lab.balance(MERCHANT) == PRICE - FEE


async def test_approval_that_is_submitted_between_confirm_and_settlement_changes_nothing(lab):
    payment, option = offer(lab)
    outputs = sign_both(option)
    await lab.rail.verifier.verify(option, (), outputs)
    await submit_permit(lab, option, outputs[0])
    await lab.settle(make_settlement_item(payment, option, *outputs))
    assert await lab.balance(MERCHANT) == PRICE - FEE


async def test_used_nonce_without_allowance_is_refused(lab):
    payment, first = offer(lab)
    await lab.settle(make_settlement_item(payment, first, *sign_both(first)))
    _, option = offer(lab, 2, nonce=0)
    assert await refusal(lab, option, *sign_both(option)) == "insufficient_funds"
    _, option = offer(lab, 2, nonce=1)
    assert await lab.rail.verifier.verify(option, (), sign_both(option)) is PayerKind.KEY


async def test_two_payments_with_one_nonce_do_not_both_settle(lab):
    (payment, option), (other_payment, other) = offer(lab, 1), offer(lab, 2)
    items = [
        make_settlement_item(payment, option, *sign_both(option)),
        make_settlement_item(other_payment, other, *sign_both(other)),
    ]
    assert await lab.rail.relay.simulate(items) == [True, False]
    await lab.settle(*items)
    assert await lab.balance(MERCHANT) == PRICE - FEE


ALTERED = {
    "a stranger's approval": (lambda option: sign_action(make_buyer(8), option, 0), 0),
    "another amount": (lambda option: sign_action(WALLET, option, 0, value=hex(PRICE - 1)), 0),
    "another nonce": (lambda option: sign_action(WALLET, option, 0, nonce="0x1"), 0),
    "another spender": (lambda option: sign_action(WALLET, option, 0, spender=MERCHANT), 0),
    "another end": (lambda option: sign_action(WALLET, option, 0, deadline=hex(2**40)), 0),
    "the payment's signature twice": (lambda option: sign_option(WALLET, option), 0),
    "a stranger's payment": (lambda option: sign_option(make_buyer(8), option), 1),
    "a payment of another amount": (
        lambda option: sign_action(WALLET, option, 1, deadline="0x1"),
        1,
    ),
}


@pytest.mark.parametrize(("alter", "at"), ALTERED.values(), ids=ALTERED)
async def test_altered_signature_is_refused(lab, alter, at):
    _, option = offer(lab)
    outputs = sign_both(option)
    outputs[at] = alter(option)
    assert await refusal(lab, option, *outputs) == "signature_mismatch"
    assert lab.rail.verifier.is_plausible(option, (), outputs) is not True


async def test_unreadable_approval_is_refused(lab):
    _, option = offer(lab)
    _, signature = sign_both(option)
    assert await refusal(lab, option, '"noise"', signature) == "unreadable_output"
    assert await refusal(lab, option, signature) == "unreadable_output"


async def test_account_that_cannot_pay_is_refused(lab):
    _, option = offer(lab, value=11 * PRICE)
    assert await refusal(lab, option, *sign_both(option)) == "insufficient_funds"


async def test_account_with_code_sends_its_approval(lab):
    _, option = offer(lab)
    await lab.delegate(WALLET, ACCEPTS_ALL)
    assert await list_ways(lab) == [BY_APPROVAL]
    with pytest.raises(ApiError) as caught:
        await lab.rail.verifier.verify(option, (), sign_both(option))
    assert caught.value.code is ErrorCode.QUOTE_EXPIRED


async def test_account_that_gets_code_after_its_confirm_still_pays(lab):
    payment, option = offer(lab)
    outputs = sign_both(option)
    await lab.rail.verifier.verify(option, (), outputs)
    await lab.delegate(WALLET, ACCEPTS_ALL)
    (item,) = await lab.rail.relay.refresh_payers([make_settlement_item(payment, option, *outputs)])
    assert item.payer_kind is PayerKind.CODE
    assert await lab.rail.relay.simulate([item]) == [True]


async def test_account_with_an_allowance_signs_once(lab):
    _, option = offer(lab)
    await submit_permit(lab, option, sign_both(option)[0])
    assert await list_ways(lab) == [PayableAsset(PAYER, TOKEN)]
    short = [PayableAsset(PAYER, TOKEN, permit_nonce=1), PayableAsset(PAYER, TOKEN, (PRICE + 1,))]
    assert await list_ways(lab, PRICE + 1) == short


async def test_options_with_a_sent_and_a_signed_approval_have_different_ids(lab):
    _, signed = offer(lab)
    _, later = offer(lab, nonce=1)
    split = Split(to_account(MERCHANT), to_account(FEES), FEE, settled=True)
    token, now_us = lab.rail.assets[TOKEN], lab.clock.now_us()
    sent = lab.rail.offers.build_option(
        OptionOffer(make_payment(1), PAYER, BY_APPROVAL, token, PRICE, split, now_us)
    )
    assert len({signed.id, later.id, sent.id}) == 3
    assert EvmOptionTerms.from_option(signed).to_json() == {
        name: value for name, value in signed.terms.items() if name != "quote"
    }
    assert lab.rail.terms.get_commitment(signed).steps == ("permit 0",)
    assert signed.eta_s < sent.eta_s


async def test_wallet_of_the_client_accepts_the_steps(lab):
    _, option = offer(lab)
    actions = [
        {
            "type": "walletRpc",
            "data": {"chain_id": each.chain_id, "method": each.method, "params": each.params_json},
        }
        for each in option.actions
    ]
    rest_option = {
        "id": option.id,
        "account": option.account,
        "amount": {
            "unit": f"caip19/{TOKEN}",
            "value": str(PRICE),
            "display": {"assetSymbol": "tUSD", "assetName": "Test Dollar", "decimals": 6},
        },
        "actions": actions,
    }
    plan = plan_payment(rest_option, actions, now=lab.clock.now_us() / 10**6)
    approval, payment = plan.steps
    assert isinstance(approval, SignedApproval)
    assert isinstance(payment, Permit2Transfer)
    assert (approval.spender, approval.amount) == (PERMIT2, PRICE)
    assert "once this is submitted" in plan.describe()[0]


@pytest.mark.parametrize(
    ("token", "problem"),
    [
        (make_permit_asset(domain_version="1"), "has version '2', not '1'"),
        (make_permit_asset(domain_name="Dollar"), "is named 'Test Dollar', not 'Dollar'"),
        (make_euro_asset(approve_by_signature=True), "signs for another domain"),
    ],
    ids=["version", "name", "no signatures"],
)
async def test_token_that_does_not_match_its_settings_is_left_out(lab, token, problem):
    rail = EvmRail(make_chain_settings(assets=(token,), opener=DEVNET.opener), RELAYER, lab.node)
    await rail.start()
    assert rail.assets == {}
    (reported,) = await rail.list_problems()
    assert problem in reported


async def test_token_without_nonces_is_left_out(lab):
    real = lab.node.changes

    def hide_nonces(params: list[Any], answer: dict[str, Any]) -> Any:
        if str(params[0].get("data", "")).startswith("0x7ecebe00"):
            return {"id": answer["id"], "result": "0x"}
        return answer

    real["eth_call"] = hide_nonces
    settings = make_chain_settings(assets=(make_permit_asset(),), opener=DEVNET.opener)
    rail = EvmRail(settings, RELAYER, lab.node)
    await rail.start()
    assert rail.assets == {}


def test_settings_that_cannot_submit_approvals_are_refused():
    with pytest.raises(ValidationError, match="set `opener` too"):
        make_chain_settings(assets=(make_permit_asset(),), opener=None)
    with pytest.raises(ValidationError, match="permit2"):
        make_asset(approve_by_signature=True)


async def test_gas_of_a_signed_approval_is_near_that_of_a_sent_one(lab):
    """Count the relayer's gas, with receivers that the token knows."""
    gas = []
    for number, is_submitted in ((1, False), (2, False), (3, True)):
        payment, option = offer(lab, number, nonce=number - 1)
        outputs = sign_both(option)
        if is_submitted:
            await submit_permit(lab, option, outputs[0])
            split = Split(to_account(MERCHANT), to_account(FEES), FEE, settled=True)
            way, token = PayableAsset(PAYER, TOKEN), lab.rail.assets[TOKEN]
            option = lab.rail.offers.build_option(
                OptionOffer(payment, PAYER, way, token, PRICE, split, lab.clock.now_us())
            )
            outputs = [sign_option(WALLET, option)]
        transaction = await lab.settle(make_settlement_item(payment, option, *outputs))
        receipt = await lab.control.call("eth_getTransactionReceipt", transaction.hash)
        gas.append(int(receipt["gasUsed"], 16))
    _, by_signature, by_allowance = gas
    assert by_signature < 150_000
    assert by_signature - by_allowance < 50_000
