"""Test that signatures which do not pay are refused before the payment is bound to them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest
from florin_sandbox.devnet.evm import DEVNET
from florin_server.domain.chains.evm.signatures import CURVE_ORDER
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.rails.types import RailUnavailable

from tests.support.evm_harness import (
    ACCEPTS_ALL,
    ACCEPTS_NONE,
    PRICE,
    make_buyer,
    make_payment,
    make_refusal,
    make_reply,
    make_settlement_item,
    open_lab,
    sign_option,
)

pytestmark = pytest.mark.both_chains

WALLET = make_buyer(7)


@pytest.fixture
async def lab(evm):
    lab = await open_lab(evm=evm)
    await lab.fund(WALLET)
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def refusal(lab, option, *outputs):
    """Return the reason for which outputs are refused."""
    with pytest.raises(ApiError) as caught:
        await lab.rail.verifier.verify(option, (), outputs)
    assert caught.value.code is ErrorCode.INVALID_PARAMS
    assert caught.value.http_status == 400
    return caught.value.details["reason"]


def altered(option, **message):
    """Return an option whose document requests something else."""
    (action,) = option.actions
    signer, text = json.loads(action.params_json)
    document = json.loads(text)
    for name, value in message.items():
        part = "message" if name in document["message"] else "domain"
        document[part][name] = value
    changed = type(action)(
        action.chain_id, action.method, json.dumps([signer, json.dumps(document)])
    )
    return replace(option, actions=(changed,))


async def test_every_spelling_of_the_signature_is_accepted_and_settles(lab):
    option = lab.offer(WALLET)
    raw = bytes.fromhex(json.loads(sign_option(WALLET, option))[2:])
    r, s, parity = raw[:32], int.from_bytes(raw[32:64], "big"), raw[64] - 27
    spellings = [
        raw,
        raw[:64] + bytes([parity]),
        r + (CURVE_ORDER - s).to_bytes(32, "big") + bytes([28 - parity]),
        r + (s | parity << 255).to_bytes(32, "big"),
    ]
    for number, spelling in enumerate(spellings):
        output = json.dumps("0x" + spelling.hex())
        await lab.rail.verifier.verify(option, (), [output])
        item = make_settlement_item(make_payment(), option, output)
        assert await lab.rail.relay.simulate([item]) == [True], number


async def test_another_wallets_signature_is_refused(lab):
    option = lab.offer(WALLET)
    theirs = sign_option(make_buyer(8), option)
    assert await refusal(lab, option, theirs) == "signature_mismatch"


@pytest.mark.parametrize(
    "change",
    [
        {"value": hex(PRICE - 1)},
        {"chainId": "0x1"},
        {"nonce": "0x" + "00" * 32},
        {"to": make_buyer(8).address.lower()},
        {"validBefore": "0xffffffffff"},
        {"verifyingContract": DEVNET.settler},
        {"name": "Other Dollar"},
        {"version": "1"},
    ],
    ids=lambda change: next(iter(change)),
)
async def test_a_signature_over_anything_else_is_refused(lab, change):
    option = lab.offer(WALLET)
    output = sign_option(WALLET, altered(option, **change))
    assert await refusal(lab, option, output) == "signature_mismatch"


async def test_the_signature_of_another_payment_is_refused(lab):
    other = lab.offer(WALLET, make_payment(2))
    assert await refusal(lab, lab.offer(WALLET), sign_option(WALLET, other)) == "signature_mismatch"


async def test_a_used_authorization_is_refused(lab):
    item = await lab.create_verified_item(1)
    await lab.settle(item)
    outputs = item.confirmation.outputs
    assert await refusal(lab, item.option, *outputs) == "signature_mismatch"


async def test_a_lapsed_authorization_is_refused(lab):
    payment = make_payment(ttl_s=60)
    option = lab.offer(WALLET, payment)
    output = sign_option(WALLET, option)
    lab.clock.advance(359)
    await lab.mine()
    await lab.rail.verifier.verify(option, (), [output])
    lab.clock.advance(1)
    await lab.mine()
    assert await refusal(lab, option, output) == "authorization_expired"


async def test_empty_account_is_distinguished_from_a_wrong_signature(lab):
    poor = make_buyer(8)
    option = lab.offer(poor)
    assert await refusal(lab, option, sign_option(poor, option)) == "insufficient_funds"
    assert await refusal(lab, option, sign_option(WALLET, option)) == "signature_mismatch"


@pytest.mark.parametrize(
    "output",
    [
        "",
        "{",
        "null",
        "17",
        "{}",
        "[]",
        '["0x' + "11" * 65 + '"]',
        '"0x"',
        '"0x' + "11" * 32 + '"',
        '"0x' + "11" * 63 + '"',
        '"' + "11" * 65 + '"',
        '"0x' + "11" * 65 + "1" + '"',
        '"0x' + "zz" * 65 + '"',
        '"0x' + "11" * 5000 + '"',
        '"\\ud800"',
        "[" * 5000,
    ],
    ids=range(16),
)
async def test_malformed_signature_is_unreadable_output(lab, output):
    before = lab.rail.rpc.request_count
    assert await refusal(lab, lab.offer(WALLET), output) == "unreadable_output"
    assert lab.rail.rpc.request_count == before


async def test_wrong_number_of_outputs_is_refused(lab):
    option = lab.offer(WALLET)
    output = sign_option(WALLET, option)
    assert await refusal(lab, option) == "unreadable_output"
    assert await refusal(lab, option, output, output) == "unreadable_output"


@pytest.mark.parametrize("end", [-2, -4])
async def test_a_truncated_signature_is_refused(lab, end):
    # the first half stays valid without its last byte: EIP-2098 encodes it so
    options = (lab.offer(WALLET, make_payment(number)) for number in range(1, 20))
    option = next(
        each_option for each_option in options if sign_option(WALLET, each_option).endswith('1c"')
    )
    text = json.loads(sign_option(WALLET, option))[:end]
    reasons = {-2: "signature_mismatch", -4: "unreadable_output"}
    assert await refusal(lab, option, json.dumps(text)) == reasons[end]


@pytest.mark.parametrize("size", [64, 65, 66, 4096])
async def test_noise_of_any_length_is_refused(lab, size):
    output = json.dumps("0x" + "5a" * size)
    assert await refusal(lab, lab.offer(WALLET), output) == "signature_mismatch"


async def test_a_frozen_token_is_refused(lab):
    option = lab.offer(WALLET)
    await lab.send(to=DEVNET.token.address, data=bytes.fromhex("8456cb59"))  # pause()
    assert await refusal(lab, option, sign_option(WALLET, option)) == "token_refused"


async def test_verification_takes_a_single_request(lab):
    # the earlier confirms measured the gas
    await lab.create_verified_item(99)
    option = lab.offer(WALLET)
    output = sign_option(WALLET, option)
    before = lab.rail.rpc.request_count
    await lab.rail.verifier.verify(option, (), [output])
    assert lab.rail.rpc.request_count - before == 1


async def test_concurrent_payments_are_verified_in_a_single_request(lab):
    # the earlier confirms measured the gas
    await lab.create_verified_item(99)
    wallets = [make_buyer(100 + n) for n in range(40)]
    await lab.fund(*wallets)
    options = [lab.offer(local_account, make_payment(n)) for n, local_account in enumerate(wallets)]
    outputs = [
        sign_option(local_account, option)
        for local_account, option in zip(wallets, options, strict=True)
    ]
    outputs[3] = outputs[4]
    before = lab.rail.rpc.request_count
    done = await asyncio.gather(
        *(
            lab.rail.verifier.verify(option, (), [output])
            for option, output in zip(options, outputs, strict=True)
        ),
        return_exceptions=True,
    )
    assert lab.rail.rpc.request_count - before == 1
    assert [n for n, item in enumerate(done) if isinstance(item, Exception)] == [3]


@pytest.mark.parametrize(
    ("method", "change"),
    [
        ("eth_call", make_refusal(-32000, "header not found")),
        ("eth_call", make_refusal(-32005, "limit exceeded")),
        ("eth_call", make_reply(None)),
        ("eth_call", make_reply("yes")),
        ("eth_getCode", make_refusal(-32000, "header not found")),
        ("eth_getCode", make_reply(None)),
    ],
)
async def test_node_error_during_verification_raises_rail_unavailable(lab, method, change):
    option = lab.offer(WALLET)
    output = sign_option(WALLET, option)
    lab.node.changes[method] = change
    with pytest.raises(RailUnavailable):
        await lab.rail.verifier.verify(option, (), [output])


async def test_options_of_a_former_settlement_contract_must_be_fetched_again(lab):
    option = lab.offer(WALLET)
    former = replace(option, terms={**option.terms, "settler": "0x" + "12" * 20})
    with pytest.raises(ApiError) as caught:
        await lab.rail.verifier.verify(former, (), [sign_option(WALLET, option)])
    assert caught.value.code is ErrorCode.QUOTE_EXPIRED


# accounts with code: each verifies its own signatures

REVERTS = "60006000fd"
BURNS_GAS = "5b600056"


async def wallet_contract(lab, runtime):
    address = await lab.deploy(runtime)
    await lab.fund(address)
    return address


@pytest.mark.parametrize("size", [64, 65, 97, 2000])
async def test_a_contract_account_may_sign_in_its_own_way(lab, size):
    address = await wallet_contract(lab, ACCEPTS_ALL)
    option = lab.offer(address)
    output = json.dumps("0x" + "5a" * size)
    await lab.rail.verifier.verify(option, (), [output])
    item = make_settlement_item(make_payment(), option, output)
    assert await lab.rail.relay.simulate([item]) == [True]
    await lab.settle(item)
    (paid,) = await lab.rail.direct_settlement.list_settlement_events(
        [lab.rail.terms.get_reference(option)], 0
    )
    assert paid.payer == address


@pytest.mark.parametrize("runtime", [ACCEPTS_NONE, REVERTS, BURNS_GAS])
async def test_a_contract_account_that_does_not_sign_is_refused(lab, runtime):
    address = await wallet_contract(lab, runtime)
    output = json.dumps("0x" + "5a" * 65)
    assert await refusal(lab, lab.offer(address), output) == "signature_mismatch"


async def test_contract_account_without_funds_gets_insufficient_funds(lab):
    address = await lab.deploy(ACCEPTS_ALL)
    output = json.dumps("0x" + "5a" * 65)
    assert await refusal(lab, lab.offer(address), output) == "insufficient_funds"


async def test_a_key_whose_account_has_code_must_convince_the_code(lab):
    option = lab.offer(WALLET)
    output = sign_option(WALLET, option)
    await lab.rail.verifier.verify(option, (), [output])
    await lab.delegate(WALLET, ACCEPTS_NONE)
    assert await refusal(lab, option, output) == "signature_mismatch"


async def test_a_key_whose_account_has_willing_code_pays(lab):
    option = lab.offer(WALLET)
    output = sign_option(WALLET, option)
    await lab.delegate(WALLET, ACCEPTS_ALL)
    await lab.rail.verifier.verify(option, (), [output])
    item = make_settlement_item(make_payment(), option, output)
    assert await lab.rail.relay.simulate([item]) == [True]


async def test_account_that_burns_gas_fails_alone(lab):
    good = await lab.create_verified_item(1)
    bad_payment = make_payment(2)
    option = lab.offer(WALLET, bad_payment)
    bad = make_settlement_item(bad_payment, option, sign_option(WALLET, option))
    await lab.delegate(WALLET, BURNS_GAS)
    assert await lab.rail.relay.simulate([bad, good]) == [False, True]
    assert await lab.rail.relay.simulate([bad]) == [False]
