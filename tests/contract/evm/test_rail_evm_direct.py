"""Accounts that cannot sign for a token send their payment themselves; the chain proves it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from florin_server.devnet.evm import DEVNET
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.payments.payment import Build
from florin_server.domain.settlement.chain_txs import PayerKind
from florin_server.pricing.prices import Quote, Rate
from florin_server.rails.evm.paying.signing import ask_passkeys
from florin_server.rails.evm.paying.terms import Terms
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.settings import EvmCoin
from florin_server.rails.evm.settler import IS_PAID
from florin_server.rails.types import Payable, RailUnavailable, Split

from tests.support.evm_lab import (
    ACCEPTS_ALL,
    ACCEPTS_NONE,
    CHAIN,
    EURO,
    FEES,
    MERCHANT,
    PRICE,
    RELAYER,
    TOKEN,
    Lab,
    accept,
    account_of,
    asset,
    buyer,
    euro,
    new_payment,
    open_lab,
    reply,
    settings,
)
from tests.support.smart import PASSKEY, PASSKEY_OWNED, by_passkey, of_many

pytestmark = pytest.mark.both_chains

WALLET = buyer(7)
PAYER = account_of(WALLET)
COIN = EvmCoin(name="Test Ether", symbol="tETH")
ETHER = f"{CHAIN}/slip44:60"
BURNS = "5b600056"
MUTE = "00"  # takes every call, and says nothing
SILENT_REFUSAL = "60006000fd"
REFUSES_WITH_A_REASON = "60206000fd"
UNKNOWN = "0x" + "77" * 32


@pytest.fixture
async def lab(evm):
    lab = await open_lab(evm=evm, assets=(asset(), euro()), coin=COIN)
    await lab.fund(WALLET)
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def way(lab: Lab, asset_id: str = TOKEN) -> Payable:
    (found,) = await lab.payable([PAYER], {asset_id: PRICE})
    return found


def offer(lab: Lab, means: Payable, number: int = 1, ttl_s: int = 900) -> Any:
    split = Split(account_of(MERCHANT), account_of(FEES), 15_000, settled=True)
    token, now_us = lab.rail.assets[means.asset], lab.clock.now_us()
    payment = new_payment(number, ttl_s)
    return lab.rail.offers.offer(payment, PAYER, means, token, PRICE, split, now_us)


async def mute(lab: Lab, asset_id: str = TOKEN, **how: Any) -> Any:
    """The option of a wallet whose account has code that does not sign, and its issue."""
    await lab.delegate(WALLET, MUTE)
    option = offer(lab, await way(lab, asset_id), **how)
    issued = await lab.rail.offers.build(option, (), lab.clock.now_us())
    assert issued is not None
    return option, issued


async def refusal(lab: Lab, option: Any, issued: Any, *outputs: str) -> str:
    with pytest.raises(FlorinError) as caught:
        await lab.rail.verifier.verify(option, (issued,), outputs)
    assert caught.value.code is Code.INVALID_PARAMS
    return caught.value.details["reason"]


def checks_passkeys(*, here: bool) -> Any:
    """A chain that checks passkeys by itself, or one that does not."""
    (question, _) = ask_passkeys()[1]

    def change(params: list[Any], answer: dict[str, Any]) -> Any:
        if params[0].get("to") == question["to"]:
            return {"id": answer["id"], "result": f"0x{1:064x}" if here else "0x"}
        return answer

    return change


BY_SIGNATURE = Payable(PAYER, TOKEN)
BY_CALLS = Payable(PAYER, TOKEN, (PRICE,), "direct")


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
        # many owners: what they sign may take more gas than there is, or surely does
        (of_many(1), [BY_SIGNATURE]),
        (of_many(14), [BY_SIGNATURE]),
        (of_many(15), [BY_SIGNATURE, BY_CALLS]),
        (of_many(26), [BY_SIGNATURE, BY_CALLS]),
        (of_many(27), [BY_CALLS]),
        (of_many(10_000), [BY_CALLS]),
    ],
)
async def test_who_cannot_sign_is_found_by_asking_for_a_signature(lab, code, ways, reads):
    lab.node.changes["eth_call"] = checks_passkeys(here=True)
    rail = EvmRail(settings(assets=(asset(), euro()), reads=reads), RELAYER, lab.node)
    await rail.start()
    assert await rail.offers.payable([PAYER], {TOKEN: PRICE}) == [BY_SIGNATURE]
    await lab.delegate(WALLET, code)
    assert await rail.offers.payable([PAYER], {TOKEN: PRICE}) == ways
    without = [one for one in ways if one == BY_CALLS] or [BY_CALLS]
    assert await rail.offers.payable([PAYER], {TOKEN: PRICE}, [PAYER]) == without


async def test_passkeys_are_not_asked_for_where_code_would_have_to_check_them(lab):
    lab.node.changes["eth_call"] = checks_passkeys(here=False)
    await lab.rail.start()
    await lab.delegate(WALLET, PASSKEY_OWNED)
    assert await lab.payable([PAYER], {TOKEN: PRICE}) == [BY_CALLS]
    lab.node.changes["eth_call"] = checks_passkeys(here=True)
    await lab.rail.start()
    assert await lab.payable([PAYER], {TOKEN: PRICE}) == [BY_SIGNATURE]


async def test_the_chain_itself_tells_whether_it_checks_passkeys(lab):
    question, _ = ask_passkeys()[1]
    there = await lab.control.call("eth_call", question, "latest") == "0x" + "1".rjust(64, "0")
    await lab.delegate(WALLET, PASSKEY_OWNED)
    found = await lab.payable([PAYER], {TOKEN: PRICE})
    assert found == [BY_SIGNATURE if there else BY_CALLS]
    wrong = question | {"data": question["data"][:-1] + "6"}
    assert await lab.control.call("eth_call", wrong, "latest") == "0x"


async def test_an_account_that_a_passkey_signs_for_pays_by_one_signature(lab):
    """Its former verdict, two transactions of its own, came of a question in another form."""
    lab.node.changes["eth_call"] = checks_passkeys(here=True)
    await lab.rail.start()
    address = await lab.deploy(PASSKEY_OWNED)
    await lab.fund(address)
    (means,) = await lab.payable([account_of(address)], {TOKEN: PRICE})
    option = lab.offer(address)
    assert (means.method, means.approvals) == (None, ())
    output, wrong = (
        json.dumps(by_passkey(json.loads(json.loads(one.actions[-1].params_json)[1])))
        for one in (option, lab.offer(address, new_payment(2)))
    )
    assert await lab.rail.verifier.verify(option, (), [output]) is PayerKind.CODE
    with pytest.raises(FlorinError) as caught:
        await lab.rail.verifier.verify(option, (), [wrong])
    assert caught.value.details["reason"] == "signature_mismatch"
    await lab.settle(accept(new_payment(), option, output))
    (paid,) = await lab.rail.direct.paid([lab.rail.terms.reference(option)], 0)
    assert paid.payer == address


async def test_an_account_that_is_asked_both_ways_can_go_either(lab):
    await lab.delegate(WALLET, SILENT_REFUSAL)
    signature, calls = await lab.payable([PAYER], {EURO: PRICE})
    assert (signature.method, signature.approvals) == (None, (PRICE,))
    assert (calls.method, calls.approvals) == ("direct", (PRICE,))
    first, second = offer(lab, signature), offer(lab, calls)
    assert first.id != second.id
    assert first.reference != second.reference


async def test_asking_costs_a_second_question_and_only_then(lab):
    others = [account_of(buyer(n)) for n in range(11, 21)]
    await lab.fund(*map(buyer, range(11, 21)))
    before = lab.rail.rpc.requests
    await lab.payable([PAYER, *others], {TOKEN: PRICE})
    assert lab.rail.rpc.requests - before == 1
    await lab.delegate(WALLET, MUTE)
    before = lab.rail.rpc.requests
    assert len(await lab.payable([PAYER, *others], {TOKEN: PRICE})) == 11
    assert lab.rail.rpc.requests - before == 2


async def test_a_node_that_does_not_answer_is_no_verdict(lab):
    await lab.delegate(WALLET, MUTE)
    lab.node.changes["eth_getCode"] = reply(None)
    with pytest.raises(RailUnavailable):
        await way(lab)


async def test_what_it_says_of_its_transaction_only_the_chain_can_judge(lab):
    option, issued = await mute(lab)
    hashes = [json.dumps(UNKNOWN)] * len(issued.actions)
    assert lab.rail.verifier.plausible(option, (issued,), hashes) is None
    assert lab.rail.verifier.plausible(option, (issued,), hashes[1:]) is False
    assert lab.rail.verifier.plausible(option, (), hashes) is False


async def test_the_option_is_one_build_that_is_resolved_once(lab):
    option, issued = await mute(lab)
    (build,) = option.actions
    assert isinstance(build, Build)
    assert len(build.data) == 32
    assert int(build.data, 16)
    assert option.method == "direct"
    assert lab.rail.direct.is_direct(option)
    assert not lab.rail.direct.is_direct(offer(lab, Payable(PAYER, TOKEN)))
    assert (issued.n, issued.expires_at) == (0, None)
    assert issued.head == (await lab.rail.observer.head()).number
    assert await lab.rail.offers.build(option, (issued,), lab.clock.now_us()) is None
    again = offer(lab, await way(lab))
    assert (again.id, again.actions) == (option.id, option.actions)


@pytest.mark.parametrize(("asset_id", "token"), [(TOKEN, DEVNET.token), (EURO, DEVNET.euro)])
async def test_what_it_sends_moves_the_money_and_is_proof(lab, asset_id, token):
    await lab.payable([PAYER], {asset_id: PRICE})
    option, issued = await mute(lab, asset_id)
    assert [action.method for action in issued.actions] == ["eth_sendTransaction"] * 2
    assert await lab.rail.observer.evidence.spent_or_lapsed(option) is None
    outputs = [await lab.perform(WALLET, action) for action in issued.actions]
    await lab.rail.verifier.verify(option, (issued,), outputs)
    (paid,) = await lab.rail.direct.paid([lab.rail.terms.reference(option)], issued.head)
    assert lab.rail.terms.proves(option, paid)
    assert paid.tx_hash == json.loads(outputs[-1])
    assert await lab.balance(MERCHANT, token.address) == PRICE - 15_000
    assert await lab.balance(FEES, token.address) == 15_000
    assert not await lab.rail.direct.is_paid(option)
    await lab.mine(3)
    assert await lab.rail.direct.is_paid(option)
    lab.clock.advance(900 + 300)
    await lab.mine(3)
    assert await lab.rail.observer.evidence.spent_or_lapsed(option) is None


async def test_a_short_allowance_goes_through_zero_where_the_token_wants_it(lab):
    await lab.payable([PAYER], {EURO: PRICE})
    option, issued = await mute(lab, EURO)
    await lab.perform(WALLET, issued.actions[0])
    dear = await lab.payable([PAYER], {EURO: PRICE + 1})
    assert dear == [Payable(PAYER, EURO, (0, PRICE + 1), "direct")]
    assert await way(lab, EURO) == Payable(PAYER, EURO, (), "direct")
    assert option.id != offer(lab, await way(lab, EURO)).id


async def test_a_hash_that_nobody_knows_may_be_on_its_way(lab):
    option, issued = await mute(lab)
    await lab.rail.verifier.verify(option, (issued,), [json.dumps(UNKNOWN)] * 2)


async def test_another_transaction_to_the_contract_is_refused(lab):
    option, issued = await mute(lab)
    other = offer(lab, await way(lab), 2)
    second = await lab.rail.offers.build(other, (), 0)
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
    # nothing was approved
    assert await refusal(lab, option, issued, json.dumps(UNKNOWN), json.dumps(sent)) == (
        "transaction_mismatch"
    )


async def test_what_a_wallet_wraps_its_call_into_is_not_judged(lab):
    option, issued = await mute(lab)
    receipt = await lab.send(key=bytes(WALLET.key), to=WALLET.address, data=b"a batch")
    sent = json.dumps(receipt["transactionHash"])
    await lab.rail.verifier.verify(option, (issued,), [sent, sent])


async def carried(lab: Lab, key: bytes, suffix: bytes = b"") -> Any:
    """An option of an account without code, its issue, and a transaction that holds its call."""
    option = offer(lab, BY_CALLS)
    issued = await lab.rail.offers.build(option, (), lab.clock.now_us())
    assert issued is not None
    (call,) = json.loads(issued.actions[-1].params_json)
    held = b"an operation" + bytes.fromhex(call["data"][2:]) + suffix
    receipt = await lab.send(key=key, to=buyer(50).address, data=held)
    return option, issued, json.dumps(receipt["transactionHash"])


async def test_operation_that_creates_its_account_is_not_refused_before_it_is_mined(lab):
    option, issued, sent = await carried(lab, DEVNET.faucet_key, suffix=b"its signature")
    await lab.rail.verifier.verify(option, (issued,), [sent] * len(issued.actions))


async def test_call_that_a_key_has_another_contract_make_is_refused(lab):
    # the settlement contract pays out only what the buyer itself brings
    await lab.send(to=WALLET.address, value=10**18)
    option, issued, sent = await carried(lab, bytes(WALLET.key))
    told = await refusal(lab, option, issued, *[sent] * len(issued.actions))
    assert told == "transaction_mismatch"


async def test_wrong_hash_of_a_payment_that_the_contract_knows_as_paid_is_accepted(lab):
    await lab.send(to=WALLET.address, value=10**18)
    option, issued, sent = await carried(lab, bytes(WALLET.key))
    for action in issued.actions:
        await lab.perform(WALLET, action)
    await lab.rail.verifier.verify(option, (issued,), [sent] * len(issued.actions))
    (paid,) = await lab.rail.direct.paid([lab.rail.terms.reference(option)], issued.head)
    assert paid.payer == WALLET.address.lower()


async def test_one_output_for_each_action(lab):
    option, issued = await mute(lab)
    assert await refusal(lab, option, issued, json.dumps(UNKNOWN)) == "unreadable_output"


async def test_it_lapses_at_its_time_and_not_before(lab):
    option, _ = await mute(lab, ttl_s=60)
    assert Terms.of(option).last_second == 1_800_000_000 + 359
    lab.clock.advance(359)
    await lab.mine(3)
    assert await lab.rail.observer.evidence.spent_or_lapsed(option) is None
    lab.clock.advance(1)
    await lab.mine(3)
    assert "lapsed" in (await lab.rail.observer.evidence.spent_or_lapsed(option) or "")


# the chain's own coin

QUOTE = Quote(Rate("2500", "settings", 5), 1_800_000_300)


def coin_offer(lab: Lab, means: Payable, quote: Quote = QUOTE, number: int = 1) -> Any:
    split = Split(account_of(MERCHANT), account_of(FEES), 15_000, settled=True)
    coin, now_us = lab.rail.assets[ETHER], lab.clock.now_us()
    payment = new_payment(number)
    return lab.rail.offers.offer(payment, PAYER, means, coin, PRICE, split, now_us, quote)


async def coin_held(lab: Lab, address: str) -> int:
    return int(await lab.control.call("eth_getBalance", address, "latest"), 16)


async def test_the_coin_is_an_asset_of_its_chain(lab):
    assert await lab.rail.problems() == ()
    coin = lab.rail.assets[ETHER]
    assert (coin.symbol, coin.decimals, coin.peg, coin.method) == ("tETH", 18, None, "direct")
    assert lab.rail.native_asset == ETHER
    plain = EvmRail(settings(), RELAYER, lab.node)
    await plain.start()
    assert ETHER not in plain.assets


async def test_a_settlement_contract_that_takes_no_coin_is_told_of(lab):
    def older(params, answer):
        if params[0]["data"].startswith("0x" + IS_PAID.hex()):
            return {"id": answer["id"], "error": {"code": 3, "message": "execution reverted"}}
        return answer

    lab.node.changes["eth_call"] = older
    (problem,) = await lab.rail.problems()
    assert problem.endswith("does not take tETH")
    assert set(lab.rail.assets) == {TOKEN, EURO}


async def test_whoever_has_more_than_the_price_can_pay(lab):
    held = await coin_held(lab, WALLET.address)
    lab.node.lost = frozenset({"florin_faucet"})
    assert await lab.payable([PAYER], {ETHER: held - 1}) == [Payable(PAYER, ETHER)]
    assert await lab.payable([PAYER], {ETHER: held}) == []
    await lab.delegate(WALLET, MUTE)
    assert await lab.payable([PAYER], {ETHER: PRICE}) == [Payable(PAYER, ETHER)]


async def test_the_faucet_gives_coin_up_to_the_price(lab):
    dear = {ETHER: 30 * 10**18, TOKEN: 10**14}
    found = await lab.payable([PAYER], dear)
    assert {means.asset for means in found} == {TOKEN, ETHER}


async def test_the_one_call_is_told_with_the_option_for_those_who_read_it(lab):
    option = coin_offer(lab, Payable(PAYER, ETHER))
    (build,) = option.actions
    issued = await lab.rail.offers.build(option, (), lab.clock.now_us())
    assert issued is not None
    (action,) = issued.actions
    told = json.loads(bytes.fromhex(build.data))
    assert told == {
        "chain_id": CHAIN,
        "method": "eth_sendTransaction",
        "params": json.loads(action.params_json),
    }
    (call,) = told["params"]
    assert set(call) == {"from", "to", "value", "data"}
    assert (call["to"], call["value"]) == (DEVNET.settler, hex(PRICE))
    terms = Terms.of(option)
    assert terms.route.ref.hex() in call["data"]
    assert f"{terms.route.valid_before:064x}" in call["data"]


async def test_a_quote_is_part_of_its_option(lab):
    option = coin_offer(lab, Payable(PAYER, ETHER))
    assert option.expires_at == QUOTE.expires_at
    assert option.terms["quote"] == {"price": "2500", "source": "settings", "at_us": 5}
    # the contract itself refuses what is sent later
    assert Terms.of(option).route.valid_before == QUOTE.expires_at
    same = coin_offer(lab, Payable(PAYER, ETHER), Quote(QUOTE.rate, QUOTE.expires_at))
    later = coin_offer(lab, Payable(PAYER, ETHER), Quote(QUOTE.rate, QUOTE.expires_at + 1))
    assert (same.id, later.id == option.id) == (option.id, False)


async def test_coin_that_is_sent_moves_and_is_proof(lab):
    option = coin_offer(lab, Payable(PAYER, ETHER))
    issued = await lab.rail.offers.build(option, (), lab.clock.now_us())
    assert issued is not None
    before = await coin_held(lab, FEES)
    output = await lab.perform(WALLET, issued.actions[0])
    await lab.rail.verifier.verify(option, (issued,), [output])
    (paid,) = await lab.rail.direct.paid([lab.rail.terms.reference(option)], issued.head)
    assert lab.rail.terms.proves(option, paid)
    assert await coin_held(lab, MERCHANT) == PRICE - 15_000
    assert await coin_held(lab, FEES) == before + 15_000


@pytest.mark.parametrize("suffix", ["00", "62617365617070070080218021802180218021802180218021"])
async def test_call_with_the_suffix_of_an_app_pays_and_is_confirmed(lab, suffix):
    option = coin_offer(lab, Payable(PAYER, ETHER))
    issued = await lab.rail.offers.build(option, (), lab.clock.now_us())
    assert issued is not None
    (action,) = issued.actions
    (call,) = json.loads(action.params_json)
    call["data"] += suffix
    output = await lab.perform(WALLET, replace(action, params_json=json.dumps([call])))
    await lab.rail.verifier.verify(option, (issued,), [output])
    (paid,) = await lab.rail.direct.paid([lab.rail.terms.reference(option)], issued.head)
    assert lab.rail.terms.proves(option, paid)


@pytest.mark.parametrize("field", ["value", "to", "data", "from"])
async def test_another_transaction_is_refused(lab, field):
    option = coin_offer(lab, Payable(PAYER, ETHER))
    issued = await lab.rail.offers.build(option, (), lab.clock.now_us())
    assert issued is not None
    output = await lab.perform(WALLET, issued.actions[0])

    def other(params, answer):
        sent = dict(answer["result"])
        name = "input" if field == "data" else field
        sent[name] = {"value": "0x1", "data": "0x12"}.get(field, MERCHANT)
        return answer | {"result": sent}

    await lab.rail.verifier.verify(option, (issued,), [output])
    lab.node.changes["eth_getTransactionByHash"] = other
    # what the contract knows as paid is not refused
    await lab.rail.verifier.verify(option, (issued,), [output])
    lab.node.changes["eth_call"] = reply("0x" + "00" * 32)
    assert await refusal(lab, option, issued, output) == "transaction_mismatch"
