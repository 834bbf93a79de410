"""`florin pay` signs nothing beyond what it showed, whatever a server and a node claim."""

from __future__ import annotations

import copy
from random import Random

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data
from florin_client.wallet import WalletError, plan_payment, plan_transfer
from florin_client.wallet.solana import SolanaKey
from solders.keypair import Keypair

from tests.fuzz.lying_peers import Case, change_somewhere
from tests.fuzz.payer import ACCOUNTS, Violation, campaign, check
from tests.support.options import (
    EVM,
    KINDS,
    PRICE,
    SOLANA,
    TOKEN,
    make_forward_route,
    make_honest_option,
    make_pay_address,
    to_wire_steps,
)

pytestmark = pytest.mark.long

KEY, PAIR = Account.from_key(b"\x07" * 32), Keypair.from_seed(b"\x08" * 32)
NOW = 1_800_000_000


def test_lying_server_and_node_get_nothing_beyond_the_shown_terms(tmp_path):
    findings = campaign(tmp_path, 400, seed=1)
    assert findings.violations == []
    assert findings.cases == 400 + len(KINDS)
    # signatures of every kind were made, and most lies are refused
    assert all(findings.signed.values())
    assert sum(findings.signed.values()) < findings.cases / 2


def test_lying_server_gets_no_transfer_to_another_address():
    """Only the receipt and texts that the wallet does not use can differ from the honest answer."""
    rng, route, planned = Random(1), make_forward_route(NOW), 0
    address = route.compute_address()[2:].rjust(64, "0")
    for _ in range(5000):
        answer = make_pay_address(route)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            change_somewhere(answer, rng)
        try:
            plan = plan_transfer(answer, f"{EVM}:{KEY.address}", now=NOW)
        except WalletError:
            continue
        planned += 1
        to, value, data = plan.steps[0].call
        assert (to, value) == (TOKEN, 0), answer
        assert data[:36].hex() == f"a9059cbb{address}", answer
        assert 0 < int.from_bytes(data[36:]) <= PRICE, answer
    assert 0 < planned < 2500


def honest(kind):
    """Return a case that was executed correctly, and the command's display of it."""
    case = Case(kind, make_honest_option(kind, ACCOUNTS, NOW))
    option = {"account": case.option["account"], "amount": case.option}
    actions = [
        {"type": "walletRpc", "data": wire_step}
        for wire_step in to_wire_steps(case.option["steps"])
    ]
    plan = plan_payment(option, actions, now=NOW)
    shown = [{"step": "sign", "what": what} for what in plan.describe()]
    for step in plan.steps:
        if step.method == "eth_signTypedData_v4":
            case.outputs.append(signature(step.to_document()))
        elif step.method == "solana_signTransaction":
            case.outputs.append(SolanaKey(bytes(PAIR)).sign(step))
        else:
            send(case, *step.call)
    return case, [*shown, {"step": "fee", "maxFee": str(2 * 10**15)}]


def signature(document):
    signed = KEY.sign_message(encode_typed_data(full_message=document))
    return "0x" + bytes(signed.signature).hex()


def send(case, to, value, data, **changes):
    fields = {"gas": 100_000, "maxFeePerGas": 10**9, "maxPriorityFeePerGas": 10**9, "nonce": 1}
    fields |= {"chainId": 8453, "to": bytes.fromhex(to[2:]), "value": value, "data": data}
    signed = KEY.sign_transaction(fields | changes)
    case.raws.append(bytes(signed.raw_transaction))
    case.outputs.append("0x" + bytes(signed.hash).hex())


@pytest.mark.parametrize("kind", ["eip3009", "permit2", "direct", "coin", "solana", "solana coin"])
def test_judge_accepts_honest_signatures_and_detects_a_duplicate(kind):
    case, shown = honest(kind)
    check(case, shown)
    again = case.outputs[-1:]
    case.outputs += again
    case.raws += case.raws[-1:]
    with pytest.raises(Violation):
        check(case, [*shown, *shown])


def planted():
    """Yield cases in which a blind wallet would have signed what a server requested."""
    case, shown = honest("coin")
    to, value, data = plan_call(case)
    case.raws.clear()
    send(case, to, int(str(value), 16), data)
    yield "the value of another parser", case, shown
    case, shown = honest("coin")
    case.raws.clear()
    send(case, to, value, data, gas=1_000_000, maxFeePerGas=10**11)
    yield "a huge fee", case, shown
    case, shown = honest("coin")
    case.raws.clear()
    send(case, to, value, data, chainId=1)
    yield "another chain", case, shown
    case, shown = honest("eip3009")
    approve = bytes.fromhex("095ea7b3" + "ee".rjust(64, "0") + f"{PRICE:064x}")
    send(case, case.option["unit"].rpartition(":")[2], 0, approve)
    yield "an approval beside a signature", case, shown
    for kind, name in (("eip3009", "value"), ("permit2 allowed", "deadline")):
        case, shown = honest(kind)
        document = copy.deepcopy(case.option["steps"][-1]["params"][1])
        document["message"][name] = hex(2 * int(document["message"][name], 16))
        case.outputs[-1] = signature(document)
        yield f"another {name}", case, shown
    case, shown = honest("solana")
    case.option["value"] = str(PRICE - 1)
    yield "less was shown", case, shown


def plan_call(case):
    (call,) = case.option["steps"][0]["params"]
    return call["to"], int(call["value"], 16), bytes.fromhex(call["data"][2:])


@pytest.mark.parametrize(("case", "shown"), [pytest.param(b, c, id=a) for a, b, c in planted()])
def test_judge_detects_violations_of_a_blind_wallet(case, shown):
    with pytest.raises(Violation):
        check(case, shown)
    assert {EVM, SOLANA} == set(ACCOUNTS)
