"""Payments of one moment are tried as one settlement, and none suffers from the others."""

from __future__ import annotations

import asyncio
import json

import pytest
from coincurve import PublicKey
from florin_server.chains.evm.signatures import ORDER
from florin_server.chains.evm.typed_data import PERMIT2
from florin_server.devnet.evm import DEVNET
from florin_server.domain.errors import FlorinError
from florin_server.domain.settlement.chain_txs import PayerKind
from florin_server.rails.evm import settler
from florin_server.rails.evm.paying.terms import Terms
from florin_server.rails.types import Payable, RailUnavailable, Split

from tests.support.evm_lab import (
    ACCEPTS_NONE,
    EURO,
    MERCHANT,
    PRICE,
    account_of,
    asset,
    buyer,
    euro,
    new_payment,
    open_lab,
    refuse,
    reply,
    signed,
)

pytestmark = pytest.mark.both_chains

BURNS_GAS = "5b600056"
MANY = 12


@pytest.fixture
async def lab(evm):
    lab = await open_lab(evm=evm, assets=(asset(), euro()))
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def sold(lab, *numbers):
    """Options of one buyer each, with what their wallets return."""
    wallets = [buyer(100 + n) for n in numbers]
    await lab.fund(*wallets)
    options = [lab.offer(one, new_payment(n)) for n, one in zip(numbers, wallets, strict=True)]
    return [(option, signed(one, option)) for one, option in zip(wallets, options, strict=True)]


async def verified(lab, given):
    """What comes of outputs that arrive at the same time: None, or what was raised."""
    asked = (lab.rail.verifier.verify(option, (), [output]) for option, output in given)
    done = await asyncio.gather(*asked, return_exceptions=True)
    return [None if isinstance(one, PayerKind) else one for one in done]


def reasons(done):
    return [one.details["reason"] if isinstance(one, FlorinError) else one for one in done]


def tried(lab):
    """Calls of the settlement contract from now on, by selector, as the node sees them."""
    calls = []

    def note(params, answer):
        if params[0].get("to") == DEVNET.settler:
            calls.append(bytes.fromhex(params[0]["data"][2:10]))
        return answer

    lab.node.changes["eth_call"] = note
    return calls


async def test_payments_of_one_moment_are_tried_in_one_call(lab):
    given = await sold(lab, *range(MANY))
    # what gas costs is known from the confirms before
    await lab.sold(99)
    calls = tried(lab)
    before = lab.rail.rpc.calls, lab.rail.rpc.requests
    assert await verified(lab, given) == [None] * MANY
    assert calls == [settler.SETTLE_3009]
    assert (lab.rail.rpc.calls - before[0], lab.rail.rpc.requests - before[1]) == (MANY + 1, 1)


async def test_many_payers_are_asked_for_code_in_one_call_where_a_node_is_read_so(evm):
    lab = await open_lab(evm=evm, reads="deployless")
    given = await sold(lab, *range(MANY))
    with_code = buyer(97)
    await lab.fund(with_code)
    option = lab.offer(with_code, new_payment(97))
    given.append((option, signed(with_code, option)))
    await lab.delegate(with_code, ACCEPTS_NONE)
    lab.node.asked.clear()
    done = reasons(await verified(lab, given))
    assert done == [None] * MANY + ["signature_mismatch"]
    # the trial and the codes, then what the one with code says, and its trial alone
    assert lab.node.asked.count("eth_call") == 4
    assert "eth_getCode" not in lab.node.asked
    await lab.rail.close()
    await lab.chain.close()


async def test_a_payment_that_comes_alone_is_tried_alone(lab):
    given = await sold(lab, 1)
    calls = tried(lab)
    assert await verified(lab, given) == [None]
    assert calls == [settler.SETTLE_3009]


async def test_one_output_that_arrives_twice_is_tried_once(lab):
    given = await sold(lab, 1)
    calls = tried(lab)
    assert await verified(lab, given * 2) == [None, None]
    assert calls == [settler.SETTLE_3009]


async def test_a_payment_that_fails_is_told_why_and_harms_no_other(lab):
    given = await sold(lab, *range(MANY))
    poor = buyer(99)
    option = lab.offer(poor, new_payment(99))
    given[3] = (option, signed(poor, option))
    done = reasons(await verified(lab, given))
    assert done == [None] * 3 + ["insufficient_funds"] + [None] * (MANY - 4)


async def test_two_payments_that_spend_the_same_money_do_not_both_pass(lab):
    wallet = buyer(98)
    await lab.send_tokens(wallet.address, 2 * PRICE - 1)
    options = [lab.offer(wallet, new_payment(n)) for n in (1, 2)]
    given = [(option, signed(wallet, option)) for option in options]
    done = reasons(await verified(lab, [*given, *await sold(lab, 5)]))
    assert done == [None, "insufficient_funds", None]
    await lab.send_tokens(wallet.address, 1)
    assert await verified(lab, given) == [None, None]


async def test_another_signature_of_the_same_payment_is_no_second_spending(lab):
    wallet = buyer(98)
    await lab.send_tokens(wallet.address, PRICE)
    option = lab.offer(wallet)
    first, second = signed(wallet, option), signed_anew(wallet, option)
    assert first != second
    calls = tried(lab)
    assert await verified(lab, [(option, first), (option, second)]) == [None, None]
    assert calls == [settler.SETTLE_3009, settler.ONE_3009]


def signed_anew(wallet, option):
    """A signature of a wallet that draws its secret number by lot."""
    digest = Terms.of(option).message(wallet.address.lower()).digest()
    number = 0x5EC4E7
    point = PublicKey.from_secret(number.to_bytes(32, "big")).format(compressed=False)
    x, odd = int.from_bytes(point[1:33], "big"), point[64] & 1
    secret = int.from_bytes(bytes(wallet.key), "big")
    s = pow(number, -1, ORDER) * (int.from_bytes(digest, "big") + x * secret) % ORDER
    if s > ORDER // 2:
        s, odd = ORDER - s, 1 - odd
    signature = x.to_bytes(32, "big") + s.to_bytes(32, "big") + bytes([27 + odd])
    return json.dumps("0x" + signature.hex())


def only_first(params, answer):
    """Of a settlement only the first payment moves."""
    data = params[0].get("data", "")
    if data[2:10] == settler.SETTLE_3009.hex():
        return {"id": answer["id"], "result": "0x" + f"{1:064x}"}
    return answer


async def test_what_fails_among_others_only_is_taken(lab):
    given = await sold(lab, 1, 2, 3)
    lab.node.changes["eth_call"] = only_first
    assert await verified(lab, given) == [None] * 3


async def test_accounts_that_burn_gas_harm_only_themselves(lab):
    given = await sold(lab, *range(MANY))
    burner = buyer(97)
    await lab.fund(burner)
    options = [lab.offer(burner, new_payment(200 + n)) for n in range(MANY)]
    burnt = [(option, signed(burner, option)) for option in options]
    await lab.delegate(burner, BURNS_GAS)
    done = reasons(await verified(lab, [*burnt, *given]))
    assert done == ["signature_mismatch"] * MANY + [None] * MANY


async def test_accounts_whose_answers_are_too_long_harm_only_themselves(lab):
    given = await sold(lab, *range(MANY))
    bombs = [buyer(300 + n) for n in range(MANY)]
    await lab.fund(*bombs)
    options = [lab.offer(one, new_payment(300 + n)) for n, one in enumerate(bombs)]
    bombed = [(option, signed(one, option)) for one, option in zip(bombs, options, strict=True)]
    for one in bombs:
        # reverts with 300 kB
        await lab.delegate(one, "62049000" + "6000fd")
    lab.node.answer_bytes_max = 500_000
    done = reasons(await verified(lab, [*bombed, *given]))
    assert done == ["signature_mismatch"] * MANY + [None] * MANY


@pytest.mark.parametrize(
    "change",
    [
        refuse(-32000, "execution reverted"),
        refuse(-32000, "gas limit is too high"),
        reply("0x"),
        reply("yes"),
        reply("0x" + "ff" * 32),
    ],
    ids=["reverted", "refused", "empty", "nonsense", "more than was asked"],
)
async def test_a_node_that_cannot_try_many_tries_each(lab, change):
    given = await sold(lab, *range(3))
    poor = buyer(99)
    option = lab.offer(poor, new_payment(99))

    def not_many(params, answer):
        many = params[0].get("data", "")[2:10] == settler.SETTLE_3009.hex()
        return change(params, answer) if many else answer

    lab.node.changes["eth_call"] = not_many
    done = reasons(await verified(lab, [*given, (option, signed(poor, option))]))
    assert done == [None] * 3 + ["insufficient_funds"]


async def test_a_node_that_cannot_try_at_all_is_no_answer(lab):
    given = await sold(lab, 1, 2)
    lab.node.changes["eth_call"] = refuse(-32000, "header not found")
    assert [type(one) for one in await verified(lab, given)] == [RailUnavailable] * 2


async def test_payments_of_both_kinds_are_tried_together(lab):
    wallet = buyer(96)
    await lab.payable([account_of(wallet)], {EURO: PRICE})
    data = "095ea7b3" + PERMIT2[2:].rjust(64, "0") + f"{2 * PRICE - 1:064x}"
    await lab.send(key=bytes(wallet.key), to=DEVNET.euro.address, data=bytes.fromhex(data))
    payer, split = account_of(wallet), Split(account_of(MERCHANT), None, 0, settled=True)
    token = lab.rail.assets[EURO]
    permits = [
        lab.rail.offers.offer(new_payment(n), payer, Payable(payer, EURO), token, PRICE, split, 0)
        for n in (1, 2)
    ]
    first, second = [(option, signed(wallet, option)) for option in permits]
    others = await sold(lab, 3, 4)
    calls = tried(lab)
    # the permits come after the others in a settlement, whenever they arrived
    done = reasons(await verified(lab, [first, second, *others]))
    assert done == [None, "insufficient_funds", None, None]
    assert calls[0] == settler.SETTLE


async def test_a_settlement_that_no_transaction_could_bring_is_tried_in_parts(evm):
    lab = await open_lab(evm=evm, gas_max=1_000_000)
    given = await sold(lab, *range(MANY))
    calls = tried(lab)
    assert await verified(lab, given) == [None] * MANY
    assert calls == [settler.SETTLE_3009] * 3
    await lab.rail.close()
    await lab.chain.close()


async def test_an_operator_may_have_each_payment_tried_alone(evm):
    lab = await open_lab(evm=evm, trials="alone")
    given = await sold(lab, 1, 2, 3)
    calls = tried(lab)
    assert await verified(lab, given) == [None] * 3
    assert calls == [settler.SETTLE_3009] * 3
    await lab.rail.close()
    await lab.chain.close()
