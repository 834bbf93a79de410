"""Test that simultaneous payments are simulated as one settlement, and none harms the others."""

from __future__ import annotations

import asyncio
import json

import pytest
from btclib_libsecp256k1 import keys
from florin_sandbox.devnet.evm import DEVNET
from florin_server.domain.chains.evm.signatures import CURVE_ORDER
from florin_server.domain.chains.evm.typed_data import PERMIT2
from florin_server.domain.errors import ApiError
from florin_server.domain.settlement.chain_txs import PayerKind
from florin_server.rails.evm import settler
from florin_server.rails.evm.paying.terms import EvmOptionTerms
from florin_server.rails.option_offer import OptionOffer
from florin_server.rails.types import PayableAsset, RailUnavailable, Split

from tests.support.evm_harness import (
    ACCEPTS_NONE,
    EURO,
    MERCHANT,
    PRICE,
    make_asset,
    make_buyer,
    make_euro_asset,
    make_payment,
    make_refusal,
    make_reply,
    open_lab,
    sign_option,
    to_account,
)

pytestmark = pytest.mark.both_chains

BURNS_GAS = "5b600056"
MANY = 12


@pytest.fixture
async def lab(evm):
    lab = await open_lab(evm=evm, assets=(make_asset(), make_euro_asset()))
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def sold(lab, *numbers):
    """Create one buyer's option per number, with the outputs of its wallet."""
    wallets = [make_buyer(100 + n) for n in numbers]
    await lab.fund(*wallets)
    options = [
        lab.offer(local_account, make_payment(n))
        for n, local_account in zip(numbers, wallets, strict=True)
    ]
    return [
        (option, sign_option(local_account, option))
        for local_account, option in zip(wallets, options, strict=True)
    ]


async def verified(lab, value):
    """Verify outputs that arrive at the same time; return None or the error for each."""
    request = (lab.rail.verifier.verify(option, (), [output]) for option, output in value)
    done = await asyncio.gather(*request, return_exceptions=True)
    return [None if isinstance(item, PayerKind) else item for item in done]


def reasons(done):
    return [item.details["reason"] if isinstance(item, ApiError) else item for item in done]


def tried(lab):
    """Record calls of the settlement contract by selector, as the node sees them."""
    calls = []

    def note(params, answer):
        if params[0].get("to") == DEVNET.settler:
            calls.append(bytes.fromhex(params[0]["data"][2:10]))
        return answer

    lab.node.changes["eth_call"] = note
    return calls


async def test_concurrent_payments_are_dry_run_in_a_single_call(lab):
    value = await sold(lab, *range(MANY))
    # the earlier confirms measured the gas
    await lab.create_verified_item(99)
    calls = tried(lab)
    before = lab.rail.rpc.call_count, lab.rail.rpc.request_count
    assert await verified(lab, value) == [None] * MANY
    assert calls == [settler.SETTLE_3009]
    assert (lab.rail.rpc.call_count - before[0], lab.rail.rpc.request_count - before[1]) == (
        MANY + 1,
        1,
    )


async def test_payer_code_is_read_in_a_single_deployless_call(evm):
    lab = await open_lab(evm=evm, reads="deployless")
    value = await sold(lab, *range(MANY))
    with_code = make_buyer(97)
    await lab.fund(with_code)
    option = lab.offer(with_code, make_payment(97))
    value.append((option, sign_option(with_code, option)))
    await lab.delegate(with_code, ACCEPTS_NONE)
    lab.node.methods.clear()
    done = reasons(await verified(lab, value))
    assert done == [None] * MANY + ["signature_mismatch"]
    # the simulation and the codes, then the account with code, and its own simulation
    assert lab.node.methods.count("eth_call") == 4
    assert "eth_getCode" not in lab.node.methods
    await lab.rail.close()
    await lab.chain.close()


async def test_a_payment_that_comes_alone_is_tried_alone(lab):
    value = await sold(lab, 1)
    calls = tried(lab)
    assert await verified(lab, value) == [None]
    assert calls == [settler.SETTLE_3009]


async def test_duplicate_output_is_dry_run_once(lab):
    value = await sold(lab, 1)
    calls = tried(lab)
    assert await verified(lab, value * 2) == [None, None]
    assert calls == [settler.SETTLE_3009]


async def test_failed_payment_is_explained_and_does_not_affect_its_batch(lab):
    value = await sold(lab, *range(MANY))
    poor = make_buyer(99)
    option = lab.offer(poor, make_payment(99))
    value[3] = (option, sign_option(poor, option))
    done = reasons(await verified(lab, value))
    assert done == [None] * 3 + ["insufficient_funds"] + [None] * (MANY - 4)


async def test_two_payments_that_spend_the_same_money_do_not_both_pass(lab):
    wallet = make_buyer(98)
    await lab.send_tokens(wallet.address, 2 * PRICE - 1)
    options = [lab.offer(wallet, make_payment(n)) for n in (1, 2)]
    values = [(option, sign_option(wallet, option)) for option in options]
    done = reasons(await verified(lab, [*values, *await sold(lab, 5)]))
    assert done == [None, "insufficient_funds", None]
    await lab.send_tokens(wallet.address, 1)
    assert await verified(lab, values) == [None, None]


async def test_another_signature_of_the_same_payment_is_no_second_spending(lab):
    wallet = make_buyer(98)
    await lab.send_tokens(wallet.address, PRICE)
    option = lab.offer(wallet)
    first, second = sign_option(wallet, option), signed_anew(wallet, option)
    assert first != second
    calls = tried(lab)
    assert await verified(lab, [(option, first), (option, second)]) == [None, None]
    assert calls == [settler.SETTLE_3009, settler.ONE_3009]


def signed_anew(wallet, option):
    """Sign as a wallet that draws its nonce at random."""
    digest = (
        EvmOptionTerms.from_option(option).build_message(wallet.address.lower()).compute_digest()
    )
    number = 0x5EC4E7
    point = keys.pubkey_from_prvkey(number, compressed=False)
    x, odd = int.from_bytes(point[1:33], "big"), point[64] & 1
    secret = int.from_bytes(bytes(wallet.key), "big")
    s = pow(number, -1, CURVE_ORDER) * (int.from_bytes(digest, "big") + x * secret) % CURVE_ORDER
    if s > CURVE_ORDER // 2:
        s, odd = CURVE_ORDER - s, 1 - odd
    signature = x.to_bytes(32, "big") + s.to_bytes(32, "big") + bytes([27 + odd])
    return json.dumps("0x" + signature.hex())


def only_first(params, answer):
    """Simulate a settlement in which only the first payment moves."""
    data = params[0].get("data", "")
    if data[2:10] == settler.SETTLE_3009.hex():
        return {"id": answer["id"], "result": "0x" + f"{1:064x}"}
    return answer


async def test_payment_that_fails_only_in_a_batch_is_accepted(lab):
    value = await sold(lab, 1, 2, 3)
    lab.node.changes["eth_call"] = only_first
    assert await verified(lab, value) == [None] * 3


async def test_accounts_that_burn_gas_harm_only_themselves(lab):
    value = await sold(lab, *range(MANY))
    burner = make_buyer(97)
    await lab.fund(burner)
    options = [lab.offer(burner, make_payment(200 + n)) for n in range(MANY)]
    burnt = [(option, sign_option(burner, option)) for option in options]
    await lab.delegate(burner, BURNS_GAS)
    done = reasons(await verified(lab, [*burnt, *value]))
    assert done == ["signature_mismatch"] * MANY + [None] * MANY


async def test_accounts_whose_answers_are_too_long_harm_only_themselves(lab):
    value = await sold(lab, *range(MANY))
    bombs = [make_buyer(300 + n) for n in range(MANY)]
    await lab.fund(*bombs)
    options = [lab.offer(bomb, make_payment(300 + n)) for n, bomb in enumerate(bombs)]
    bombed = [
        (option, sign_option(bomb, option)) for bomb, option in zip(bombs, options, strict=True)
    ]
    for local_account in bombs:
        # reverts with 300 kB
        await lab.delegate(local_account, "62049000" + "6000fd")
    lab.node.answer_bytes_max = 500_000
    done = reasons(await verified(lab, [*bombed, *value]))
    assert done == ["signature_mismatch"] * MANY + [None] * MANY


@pytest.mark.parametrize(
    "change",
    [
        make_refusal(-32000, "execution reverted"),
        make_refusal(-32000, "gas limit is too high"),
        make_reply("0x"),
        make_reply("yes"),
        make_reply("0x" + "ff" * 32),
    ],
    ids=["reverted", "refused", "empty", "nonsense", "too many results"],
)
async def test_a_node_that_cannot_try_many_tries_each(lab, change):
    value = await sold(lab, *range(3))
    poor = make_buyer(99)
    option = lab.offer(poor, make_payment(99))

    def not_many(params, answer):
        many = params[0].get("data", "")[2:10] == settler.SETTLE_3009.hex()
        return change(params, answer) if many else answer

    lab.node.changes["eth_call"] = not_many
    done = reasons(await verified(lab, [*value, (option, sign_option(poor, option))]))
    assert done == [None] * 3 + ["insufficient_funds"]


async def test_a_node_that_cannot_try_at_all_is_no_answer(lab):
    value = await sold(lab, 1, 2)
    lab.node.changes["eth_call"] = make_refusal(-32000, "header not found")
    assert [type(item) for item in await verified(lab, value)] == [RailUnavailable] * 2


async def test_payments_of_both_kinds_are_tried_together(lab):
    wallet = make_buyer(96)
    await lab.payable([to_account(wallet)], {EURO: PRICE})
    data = "095ea7b3" + PERMIT2[2:].rjust(64, "0") + f"{2 * PRICE - 1:064x}"
    await lab.send(key=bytes(wallet.key), to=DEVNET.euro.address, data=bytes.fromhex(data))
    payer, split = to_account(wallet), Split(to_account(MERCHANT), None, 0, settled=True)
    token = lab.rail.assets[EURO]
    permits = [
        lab.rail.offers.build_option(
            OptionOffer(make_payment(n), payer, PayableAsset(payer, EURO), token, PRICE, split, 0)
        )
        for n in (1, 2)
    ]
    first, second = [(option, sign_option(wallet, option)) for option in permits]
    remaining = await sold(lab, 3, 4)
    calls = tried(lab)
    # permits come last in a settlement, whenever they arrived
    done = reasons(await verified(lab, [first, second, *remaining]))
    assert done == [None, "insufficient_funds", None, None]
    assert calls[0] == settler.SETTLE


async def test_a_settlement_that_no_transaction_could_bring_is_tried_in_parts(evm):
    lab = await open_lab(evm=evm, gas_max=1_000_000)
    value = await sold(lab, *range(MANY))
    calls = tried(lab)
    assert await verified(lab, value) == [None] * MANY
    assert calls == [settler.SETTLE_3009] * 4
    await lab.rail.close()
    await lab.chain.close()


async def test_an_operator_may_have_each_payment_tried_alone(evm):
    lab = await open_lab(evm=evm, trials="alone")
    value = await sold(lab, 1, 2, 3)
    calls = tried(lab)
    assert await verified(lab, value) == [None] * 3
    assert calls == [settler.SETTLE_3009] * 3
    await lab.rail.close()
    await lab.chain.close()
