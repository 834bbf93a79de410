"""Signatures that do not pay are refused before anything is bound to them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest
from florin_server.chains.evm.signatures import ORDER
from florin_server.devnet.evm import DEVNET
from florin_server.domain.errors import Code, FlorinError
from florin_server.rails.types import RailUnavailable

from tests.support.evm_lab import (
    ACCEPTS_ALL,
    ACCEPTS_NONE,
    PRICE,
    accept,
    buyer,
    new_payment,
    open_lab,
    refuse,
    reply,
    signed,
)

pytestmark = pytest.mark.both_chains

WALLET = buyer(7)


@pytest.fixture
async def lab(evm):
    lab = await open_lab(evm=evm)
    await lab.fund(WALLET)
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def refusal(lab, option, *outputs):
    """The reason for which outputs are refused."""
    with pytest.raises(FlorinError) as caught:
        await lab.rail.verifier.verify(option, (), outputs)
    assert caught.value.code is Code.INVALID_PARAMS
    assert caught.value.http == 400
    return caught.value.details["reason"]


def altered(option, **message):
    """An option whose document asks for something else."""
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
    raw = bytes.fromhex(json.loads(signed(WALLET, option))[2:])
    r, s, parity = raw[:32], int.from_bytes(raw[32:64], "big"), raw[64] - 27
    spellings = [
        raw,
        raw[:64] + bytes([parity]),
        r + (ORDER - s).to_bytes(32, "big") + bytes([28 - parity]),
        r + (s | parity << 255).to_bytes(32, "big"),
    ]
    for number, spelling in enumerate(spellings):
        output = json.dumps("0x" + spelling.hex())
        await lab.rail.verifier.verify(option, (), [output])
        item = accept(new_payment(), option, output)
        assert await lab.rail.relay.simulate([item]) == [True], number


async def test_another_wallets_signature_is_refused(lab):
    option = lab.offer(WALLET)
    theirs = signed(buyer(8), option)
    assert await refusal(lab, option, theirs) == "signature_mismatch"


@pytest.mark.parametrize(
    "change",
    [
        {"value": hex(PRICE - 1)},
        {"chainId": "0x1"},
        {"nonce": "0x" + "00" * 32},
        {"to": buyer(8).address.lower()},
        {"validBefore": "0xffffffffff"},
        {"verifyingContract": DEVNET.settler},
        {"name": "Other Dollar"},
        {"version": "1"},
    ],
    ids=lambda change: next(iter(change)),
)
async def test_a_signature_over_anything_else_is_refused(lab, change):
    option = lab.offer(WALLET)
    output = signed(WALLET, altered(option, **change))
    assert await refusal(lab, option, output) == "signature_mismatch"


async def test_the_signature_of_another_payment_is_refused(lab):
    other = lab.offer(WALLET, new_payment(2))
    assert await refusal(lab, lab.offer(WALLET), signed(WALLET, other)) == "signature_mismatch"


async def test_a_used_authorization_is_refused(lab):
    item = await lab.sold(1)
    await lab.settle(item)
    outputs = item.confirmation.outputs
    assert await refusal(lab, item.option, *outputs) == "signature_mismatch"


async def test_a_lapsed_authorization_is_refused(lab):
    payment = new_payment(ttl_s=60)
    option = lab.offer(WALLET, payment)
    output = signed(WALLET, option)
    lab.clock.advance(359)
    await lab.mine()
    await lab.rail.verifier.verify(option, (), [output])
    lab.clock.advance(1)
    await lab.mine()
    assert await refusal(lab, option, output) == "authorization_expired"


async def test_an_empty_account_is_told_apart_from_a_wrong_signature(lab):
    poor = buyer(8)
    option = lab.offer(poor)
    assert await refusal(lab, option, signed(poor, option)) == "insufficient_funds"
    assert await refusal(lab, option, signed(WALLET, option)) == "signature_mismatch"


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
async def test_what_is_no_signature_is_unreadable(lab, output):
    before = lab.rail.rpc.requests
    assert await refusal(lab, lab.offer(WALLET), output) == "unreadable_output"
    assert lab.rail.rpc.requests == before


async def test_one_output_is_expected(lab):
    option = lab.offer(WALLET)
    output = signed(WALLET, option)
    assert await refusal(lab, option) == "unreadable_output"
    assert await refusal(lab, option, output, output) == "unreadable_output"


@pytest.mark.parametrize("end", [-2, -4])
async def test_a_truncated_signature_is_refused(lab, end):
    # the first half of them is good without its last byte: that is how EIP-2098 writes it
    options = (lab.offer(WALLET, new_payment(number)) for number in range(1, 20))
    option = next(one for one in options if signed(WALLET, one).endswith('1c"'))
    text = json.loads(signed(WALLET, option))[:end]
    reasons = {-2: "signature_mismatch", -4: "unreadable_output"}
    assert await refusal(lab, option, json.dumps(text)) == reasons[end]


@pytest.mark.parametrize("size", [64, 65, 66, 4096])
async def test_noise_of_any_length_is_refused(lab, size):
    output = json.dumps("0x" + "5a" * size)
    assert await refusal(lab, lab.offer(WALLET), output) == "signature_mismatch"


async def test_a_frozen_token_is_refused(lab):
    option = lab.offer(WALLET)
    await lab.send(to=DEVNET.token.address, data=bytes.fromhex("8456cb59"))  # pause()
    assert await refusal(lab, option, signed(WALLET, option)) == "token_refused"


async def test_verifying_takes_one_question(lab):
    # what gas costs is known from the confirms before
    await lab.sold(99)
    option = lab.offer(WALLET)
    output = signed(WALLET, option)
    before = lab.rail.rpc.requests
    await lab.rail.verifier.verify(option, (), [output])
    assert lab.rail.rpc.requests - before == 1


async def test_payments_of_one_moment_are_verified_together(lab):
    # what gas costs is known from the confirms before
    await lab.sold(99)
    wallets = [buyer(100 + n) for n in range(40)]
    await lab.fund(*wallets)
    options = [lab.offer(one, new_payment(n)) for n, one in enumerate(wallets)]
    outputs = [signed(one, option) for one, option in zip(wallets, options, strict=True)]
    outputs[3] = outputs[4]
    before = lab.rail.rpc.requests
    done = await asyncio.gather(
        *(
            lab.rail.verifier.verify(option, (), [output])
            for option, output in zip(options, outputs, strict=True)
        ),
        return_exceptions=True,
    )
    assert lab.rail.rpc.requests - before == 1
    assert [n for n, one in enumerate(done) if isinstance(one, Exception)] == [3]


@pytest.mark.parametrize(
    ("method", "change"),
    [
        ("eth_call", refuse(-32000, "header not found")),
        ("eth_call", refuse(-32005, "limit exceeded")),
        ("eth_call", reply(None)),
        ("eth_call", reply("yes")),
        ("eth_getCode", refuse(-32000, "header not found")),
        ("eth_getCode", reply(None)),
    ],
)
async def test_a_node_that_cannot_tell_is_no_answer(lab, method, change):
    option = lab.offer(WALLET)
    output = signed(WALLET, option)
    lab.node.changes[method] = change
    with pytest.raises(RailUnavailable):
        await lab.rail.verifier.verify(option, (), [output])


async def test_options_of_a_former_settlement_contract_must_be_fetched_again(lab):
    option = lab.offer(WALLET)
    former = replace(option, terms={**option.terms, "settler": "0x" + "12" * 20})
    with pytest.raises(FlorinError) as caught:
        await lab.rail.verifier.verify(former, (), [signed(WALLET, option)])
    assert caught.value.code is Code.QUOTE_EXPIRED


# accounts with code: each answers for itself whether it signed

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
    item = accept(new_payment(), option, output)
    assert await lab.rail.relay.simulate([item]) == [True]
    await lab.settle(item)
    (paid,) = await lab.rail.direct.paid([lab.rail.terms.reference(option)], 0)
    assert paid.payer == address


@pytest.mark.parametrize("runtime", [ACCEPTS_NONE, REVERTS, BURNS_GAS])
async def test_a_contract_account_that_does_not_sign_is_refused(lab, runtime):
    address = await wallet_contract(lab, runtime)
    output = json.dumps("0x" + "5a" * 65)
    assert await refusal(lab, lab.offer(address), output) == "signature_mismatch"


async def test_a_poor_contract_account_is_told_so(lab):
    address = await lab.deploy(ACCEPTS_ALL)
    output = json.dumps("0x" + "5a" * 65)
    assert await refusal(lab, lab.offer(address), output) == "insufficient_funds"


async def test_a_key_whose_account_has_code_must_convince_the_code(lab):
    option = lab.offer(WALLET)
    output = signed(WALLET, option)
    await lab.rail.verifier.verify(option, (), [output])
    await lab.delegate(WALLET, ACCEPTS_NONE)
    assert await refusal(lab, option, output) == "signature_mismatch"


async def test_a_key_whose_account_has_willing_code_pays(lab):
    option = lab.offer(WALLET)
    output = signed(WALLET, option)
    await lab.delegate(WALLET, ACCEPTS_ALL)
    await lab.rail.verifier.verify(option, (), [output])
    item = accept(new_payment(), option, output)
    assert await lab.rail.relay.simulate([item]) == [True]


async def test_an_account_that_burns_gas_harms_only_itself(lab):
    good = await lab.sold(1)
    bad_payment = new_payment(2)
    option = lab.offer(WALLET, bad_payment)
    bad = accept(bad_payment, option, signed(WALLET, option))
    await lab.delegate(WALLET, BURNS_GAS)
    assert await lab.rail.relay.simulate([bad, good]) == [False, True]
    assert await lab.rail.relay.simulate([bad]) == [False]
