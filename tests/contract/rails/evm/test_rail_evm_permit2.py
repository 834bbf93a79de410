"""Test tokens without signed transfers: allowances, permits, and what the chain reports of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from florin_sandbox.devnet.evm import DEVNET
from florin_server.domain.chains.evm.typed_data import PERMIT2
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.rails.evm.paying.terms import EvmOptionTerms
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.reading.dry_run import DryRunner
from florin_server.rails.option_offer import OptionOffer
from florin_server.rails.types import PayableAsset, RailUnavailable, Split

from tests.support.evm_harness import (
    ACCEPTS_ALL,
    ACCEPTS_NONE,
    EURO,
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
    sign_option,
    to_account,
)

pytestmark = pytest.mark.both_chains

WALLET = make_buyer(7)
PAYER = to_account(WALLET)
HASH = json.dumps("0x" + "11" * 32)


@pytest.fixture
async def lab(evm):
    lab = await open_lab(evm=evm, assets=(make_asset(), make_euro_asset()))
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def means(lab: EvmChainHarness, price: int = PRICE) -> PayableAsset:
    (payable,) = await lab.payable([PAYER], {EURO: price})
    return payable


async def approve(lab: EvmChainHarness, amount: int) -> None:
    data = "095ea7b3" + PERMIT2[2:].rjust(64, "0") + f"{amount:064x}"
    await lab.send(key=bytes(WALLET.key), to=DEVNET.euro.address, data=bytes.fromhex(data))


def offer(lab: EvmChainHarness, way: PayableAsset, number: int = 1, ttl_s: int = 900) -> Any:
    payment = make_payment(number, ttl_s)
    split = Split(to_account(MERCHANT), None, 0, settled=True)
    now_us = lab.clock.now_us()
    token = lab.rail.assets[EURO]
    return payment, lab.rail.offers.build_option(
        OptionOffer(payment, way.payer, way, token, PRICE, split, now_us)
    )


async def ready(lab: EvmChainHarness, number: int = 1, ttl_s: int = 900) -> Any:
    """Return a payment of a wallet that has its allowance."""
    await means(lab)
    await approve(lab, 0)
    await approve(lab, PRICE * 10)
    return offer(lab, await means(lab), number, ttl_s)


async def refusal(lab: EvmChainHarness, option: Any, *outputs: str) -> str:
    with pytest.raises(ApiError) as caught:
        await lab.rail.verifier.verify(option, (), outputs)
    assert caught.value.code is ErrorCode.INVALID_PARAMS
    return caught.value.details["reason"]


async def test_required_approvals_are_read_with_the_balance(lab):
    assert await means(lab) == PayableAsset(PAYER, EURO, (PRICE,))
    await approve(lab, PRICE - 1)
    assert await means(lab) == PayableAsset(PAYER, EURO, (0, PRICE))
    await approve(lab, 0)
    await approve(lab, PRICE)
    before = lab.rail.rpc.request_count
    assert await means(lab) == PayableAsset(PAYER, EURO)
    assert await means(lab, PRICE + 1) == PayableAsset(PAYER, EURO, (0, PRICE + 1))
    assert lab.rail.rpc.request_count - before == 2


async def test_a_usual_token_needs_no_way_through_zero(lab):
    usual = EvmRail(
        make_chain_settings(assets=(make_euro_asset(approve_from_zero=False),)), RELAYER, lab.node
    )
    await usual.start()
    await means(lab)
    await approve(lab, PRICE - 1)
    (payable,) = await usual.offers.list_payable([PAYER], {EURO: PRICE})
    assert payable == PayableAsset(PAYER, EURO, (PRICE,))


@pytest.mark.parametrize(
    ("confirmations", "approvals", "seconds"),
    [(1, 0, 5), (1, 1, 10), (1, 2, 15), (4, 0, 5), (4, 1, 7), (4, 2, 8), (12, 1, 6)],
)
async def test_each_approval_takes_a_block_of_the_time_that_is_promised(
    lab, confirmations, approvals, seconds
):
    chain = make_chain_settings(confirmations=confirmations, eta_s=5, assets=(make_euro_asset(),))
    rail = EvmRail(chain, RELAYER, lab.node)
    await rail.start()
    split = Split(to_account(MERCHANT), None, 0, settled=True)
    way = PayableAsset(PAYER, EURO, (0, PRICE)[2 - approvals :])
    token, now_us = rail.assets[EURO], lab.clock.now_us()
    option = rail.offers.build_option(
        OptionOffer(make_payment(1), PAYER, way, token, PRICE, split, now_us)
    )
    assert option.eta_s == seconds


async def test_the_actions_are_exact_approvals_and_the_permit(lab):
    payment, option = offer(lab, PayableAsset(PAYER, EURO, (0, PRICE)))
    assert option.method == "permit2"
    *approvals, permit = option.actions
    for action, amount in zip(approvals, (0, PRICE), strict=True):
        assert action.method == "eth_sendTransaction"
        data = "0x095ea7b3" + PERMIT2[2:].rjust(64, "0") + f"{amount:064x}"
        call = {"from": PAYER.rpartition(":")[2], "to": DEVNET.euro.address, "data": data}
        assert json.loads(action.params_json) == [call]
    signer, text = json.loads(permit.params_json)
    document = json.loads(text)
    terms = EvmOptionTerms.from_option(option)
    assert (permit.method, signer) == ("eth_signTypedData_v4", PAYER.rpartition(":")[2])
    assert list(document["types"]) == ["EIP712Domain", "PermitTransferFrom", "TokenPermissions"]
    assert document["primaryType"] == "PermitTransferFrom"
    assert document["domain"] == {
        "name": "Permit2",
        "chainId": hex(DEVNET.chain_id),
        "verifyingContract": PERMIT2,
    }
    assert document["message"] == {
        "permitted": {"token": DEVNET.euro.address, "amount": hex(PRICE)},
        "spender": DEVNET.settler,
        "nonce": hex(int.from_bytes(terms.nonce, "big")),
        "deadline": hex(payment.expires_at + 300),
    }


async def test_other_approvals_are_another_option(lab):
    ids = {
        offer(lab, PayableAsset(PAYER, EURO, approvals))[1].id
        for approvals in ((), (PRICE,), (0, PRICE), (PRICE,))
    }
    assert len(ids) == 3


async def test_a_permit_with_its_allowance_settles(lab):
    payment, option = await ready(lab)
    output = sign_option(WALLET, option)
    await lab.rail.verifier.verify(option, (), [output])
    item = make_settlement_item(payment, option, output)
    assert await lab.rail.relay.simulate([item]) == [True]
    await lab.settle(item)
    (paid,) = await lab.rail.direct_settlement.list_settlement_events(
        [lab.rail.terms.get_reference(option)], 0
    )
    assert lab.rail.terms.is_proven(option, paid)
    assert await lab.balance(MERCHANT, DEVNET.euro.address) == PRICE
    assert await refusal(lab, option, output) == "signature_mismatch"


async def test_an_allowance_on_its_way_is_waited_for(lab):
    await means(lab)
    payment, option = offer(lab, PayableAsset(PAYER, EURO, (PRICE,)))
    outputs = (HASH, sign_option(WALLET, option))
    await lab.rail.verifier.verify(option, (), outputs)
    item = make_settlement_item(payment, option, *outputs)
    assert await lab.rail.relay.simulate([item]) == [False]
    await approve(lab, PRICE)
    await lab.rail.verifier.verify(option, (), outputs)
    assert await lab.rail.relay.simulate([item]) == [True]


@pytest.mark.parametrize("code", ["", ACCEPTS_ALL], ids=["key", "code"])
async def test_allowance_that_arrives_between_two_dry_runs_is_no_lack_of_gas(
    lab, monkeypatch, code
):
    await means(lab)
    if code:
        await lab.delegate(WALLET, code)
    _, option = offer(lab, PayableAsset(PAYER, EURO, (PRICE,)))
    lacks_gas, compared = DryRunner.lacks_gas, []

    async def approve_before(*args: Any) -> bool:
        await approve(lab, PRICE)
        compared.append(await lacks_gas(*args))
        return compared[-1]

    monkeypatch.setattr(DryRunner, "lacks_gas", approve_before)
    await lab.rail.verifier.verify(option, (), (HASH, sign_option(WALLET, option)))
    assert compared == [False]


async def test_missing_allowance_is_refused(lab):
    await means(lab)
    _, option = offer(lab, PayableAsset(PAYER, EURO))
    assert await refusal(lab, option, sign_option(WALLET, option)) == "insufficient_funds"


async def test_empty_account_gets_insufficient_funds_despite_its_approval(lab):
    poor = make_buyer(8)
    _, option = offer(lab, PayableAsset(to_account(poor), EURO, (PRICE,)))
    assert await refusal(lab, option, HASH, sign_option(poor, option)) == "insufficient_funds"


async def test_another_signature_is_refused_with_and_without_an_allowance(lab):
    _, option = await ready(lab)
    _, other = offer(lab, PayableAsset(PAYER, EURO), 2)
    for wrong in (sign_option(make_buyer(8), option), sign_option(WALLET, other)):
        assert await refusal(lab, option, wrong) == "signature_mismatch"
    _, waiting = offer(lab, PayableAsset(PAYER, EURO, (PRICE * 100,)), 3)
    assert await refusal(lab, waiting, HASH, sign_option(WALLET, option)) == "signature_mismatch"


async def test_wrong_number_of_outputs_is_refused(lab):
    _, option = offer(lab, PayableAsset(PAYER, EURO, (0, PRICE)))
    output = sign_option(WALLET, option)
    for outputs in ([output], [HASH, output], [HASH, HASH, HASH, output]):
        assert await refusal(lab, option, *outputs) == "unreadable_output"
    assert await refusal(lab, option, HASH, output, HASH) == "unreadable_output"


async def test_account_with_code_must_verify_its_own_signature(lab):
    payment, option = await ready(lab)
    output = sign_option(WALLET, option)
    await lab.delegate(WALLET, ACCEPTS_NONE)
    assert await refusal(lab, option, output) == "signature_mismatch"
    await lab.delegate(WALLET, ACCEPTS_ALL)
    await lab.rail.verifier.verify(option, (), [output])
    await lab.settle(make_settlement_item(payment, option, output))
    assert await lab.balance(MERCHANT, DEVNET.euro.address) == PRICE


async def test_both_signature_methods_settle_in_a_single_transaction(lab):
    await lab.fund(make_buyer(1001), make_buyer(1002))
    items = [await lab.create_verified_item(1)]
    for number in (3, 4):
        payment, option = await ready(lab, number)
        items.append(make_settlement_item(payment, option, sign_option(WALLET, option)))
    bad_payment, bad_option = await ready(lab, 5)
    items.insert(
        1, make_settlement_item(bad_payment, bad_option, sign_option(make_buyer(8), bad_option))
    )
    items.append(await lab.create_verified_item(2))
    assert await lab.rail.relay.simulate(items) == [True, False, True, True, True]
    transaction = await lab.settle(*items)
    paid = await lab.rail.direct_settlement.list_settlement_events(
        [lab.rail.terms.get_reference(item.option) for item in items], 0
    )
    assert {item.tx_hash for item in paid} == {transaction.hash}
    assert await lab.balance(MERCHANT) == 2 * PRICE
    assert await lab.balance(MERCHANT, DEVNET.euro.address) == 2 * PRICE


async def test_a_permit_lapses_after_its_deadline_and_not_before(lab):
    _, option = await ready(lab, ttl_s=60)
    lab.clock.advance(360)
    await lab.mine(3)
    assert await lab.rail.observer.evidence.find_unpayable_reason(option) is None
    output = sign_option(WALLET, option)
    await lab.rail.verifier.verify(option, (), [output])
    lab.clock.advance(1)
    await lab.mine(2)
    assert await lab.rail.observer.evidence.find_unpayable_reason(option) is None
    await lab.mine()
    reason = await lab.rail.observer.evidence.find_unpayable_reason(option)
    assert reason is not None
    assert "lapsed" in reason
    assert await refusal(lab, option, output) == "authorization_expired"


async def test_a_nonce_that_is_used_elsewhere_is_dead_and_its_neighbours_are_not(lab):
    _, option = await ready(lab)
    nonce = int.from_bytes(EvmOptionTerms.from_option(option).nonce, "big")
    word = f"{nonce >> 8:064x}"

    async def give_up(bits: int) -> str | None:
        data = bytes.fromhex("3ff9dcb1" + word + f"{bits:064x}")
        await lab.send(key=bytes(WALLET.key), to=PERMIT2, data=data)
        await lab.mine(3)
        return await lab.rail.observer.evidence.find_unpayable_reason(option)

    mine = 1 << (nonce & 255)
    assert await give_up(2**256 - 1 - mine) is None
    assert "used or cancelled" in (await give_up(mine) or "")


async def test_a_nonce_counts_as_used_once_that_is_final(evm):
    lab = await open_lab(evm=evm, assets=(make_asset(), make_euro_asset()), confirmations=3)
    _, option = await ready(lab)
    nonce = int.from_bytes(EvmOptionTerms.from_option(option).nonce, "big")
    used = f"{nonce >> 8:064x}" + f"{1 << (nonce & 255):064x}"
    await lab.send(key=bytes(WALLET.key), to=PERMIT2, data=bytes.fromhex("3ff9dcb1" + used))
    for _ in range(2):
        assert await lab.rail.observer.evidence.find_unpayable_reason(option) is None
        await lab.mine()
    assert "used or cancelled" in (
        await lab.rail.observer.evidence.find_unpayable_reason(option) or ""
    )
    await lab.rail.close()
    await lab.chain.close()


# a chain that does not support it yet


async def checked(lab: EvmChainHarness, **changes: Any) -> Any:
    rail = EvmRail(
        make_chain_settings(assets=(make_asset(), make_euro_asset(**changes))), RELAYER, lab.node
    )
    await rail.start()
    return list(rail.assets), await rail.list_problems()


async def test_a_token_without_signatures_is_offered_as_it_is(lab):
    assert await lab.rail.list_problems() == ()
    offered = lab.rail.assets[EURO]
    assert (offered.method, offered.symbol, offered.peg) == ("permit2", "tEUR", "EUR")
    assert offered.approve_from_zero
    # no signature contains the token's name
    assert await checked(lab, name="Old Euro") == ([TOKEN, EURO], ())


async def test_another_number_of_decimals_disables_it(lab):
    offered, (problem,) = await checked(lab, decimals=2)
    assert offered == [TOKEN]
    assert problem == f"{DEVNET.name}: tEUR at {DEVNET.euro.address} has 6 decimals, not 2"


@pytest.mark.parametrize("separator", ["0x", "0x" + "77" * 32])
async def test_without_the_true_permit2_only_its_tokens_are_disabled(lab, separator):
    def other(params, answer):
        if params[0].get("to") == PERMIT2:
            return answer | {"result": separator}
        return answer

    lab.node.changes["eth_call"] = other
    offered, (problem,) = await checked(lab)
    assert offered == [TOKEN]
    assert "needs Permit2, which is not at 0x000000000022d473" in problem


async def test_a_settlement_contract_that_knows_no_permit2_disables_it_too(lab):
    def older(params, answer):
        if params[0].get("to") == DEVNET.settler and len(params[0]["data"]) == 2 + 8 + 128:
            return {"id": answer["id"], "error": {"code": 3, "message": "execution reverted"}}
        return answer

    lab.node.changes["eth_call"] = older
    offered, (problem,) = await checked(lab)
    assert offered == [TOKEN]
    assert "the settlement contract at" in problem


async def test_a_node_that_says_nothing_of_an_allowance_offers_nothing(lab):
    lab.node.changes["eth_call"] = make_reply("0x")
    with pytest.raises(RailUnavailable, match="something other than a number"):
        await means(lab)
