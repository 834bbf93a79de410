"""Attacks on `florin pay` by a server or a node that take more than is shown."""

from __future__ import annotations

import time

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data

from tests.fuzz.lying_peers import EVIL, Case
from tests.fuzz.payer import ACCOUNTS, check, payer
from tests.support.options import (
    PRICE,
    TOKEN,
    make_forward_route,
    make_honest_option,
    make_pay_address,
)


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    with payer(tmp_path_factory.mktemp("liars")) as command:
        yield command


def honest(kind):
    return Case(kind, make_honest_option(kind, ACCOUNTS, int(time.time())))


def refused(command, case, **options):
    """Return why nothing was signed."""
    status, _ = command.attempt(case, **options)
    assert (case.outputs, case.raws) == ([], [])
    assert status in {1, 2}
    return command.error_output


def test_value_that_two_parsers_read_differently_is_not_sent(command):
    # 0.001 ETH to one, 1.15 ETH to the other
    case = honest("coin")
    case.option["value"] = "1000000000000000"
    case.option["steps"][0]["params"][0]["value"] = "1000000000000000"
    assert "is not a minimal hex number" in refused(command, case, maximum="1 ETH")


@pytest.mark.parametrize("times", [2, 3, 5])
def test_repeated_signature_steps_are_refused(command, times):
    for kind in ("eip3009", "permit2 allowed", "solana"):
        case = honest(kind)
        case.option["steps"] *= times
        assert "step" in refused(command, case)


def test_allowance_beside_a_signature_is_refused(command):
    case = honest("eip3009")
    approve = "0x095ea7b3" + EVIL[2:].rjust(64, "0") + f"{PRICE:064x}"
    call = {"from": ACCOUNTS["eip155:8453"], "to": TOKEN, "data": approve}
    step = {"chain_id": "eip155:8453", "method": "eth_sendTransaction", "params": [call]}
    case.option["steps"].insert(0, step)
    assert "allowance" in refused(command, case)


@pytest.mark.parametrize("decimals", [0, 3, 9, 18])
def test_decimals_of_the_server_are_not_believed(command, decimals):
    case = honest("eip3009")
    case.option["decimals"] = decimals
    assert "decimals" in refused(command, case)


def test_symbol_of_the_server_is_not_believed(command):
    case = honest("eip3009")
    case.option["symbol"] = "SHIB"
    status, shown = command.attempt(case)
    assert status == 0
    check(case, shown)
    (line,) = [item["what"] for item in shown if item["step"] == "sign"]
    assert "12.50 USDC" in line


def test_decimals_of_an_unknown_token_are_read_from_the_chain(command):
    def unknown():
        case = honest("eip3009")
        case.option["unit"] = f"caip19/eip155:8453/erc20:{EVIL}"
        case.option["steps"][0]["params"][1]["domain"]["verifyingContract"] = EVIL
        return case

    own = f"{PRICE} eip155:8453/erc20:{EVIL}"
    status, shown = command.attempt(unknown(), maximum=own)
    assert status == 0
    # a token's deployer chooses its name: so the address is shown as the name
    assert f"12.50 of eip155:8453/erc20:{EVIL} ({PRICE} minor units)" in str(shown)
    assert "--max is in USDC" in refused(command, unknown(), maximum="1000 USDC")
    for answer in ("0x", None, "0x" + "f" * 64, 6):
        case = unknown()
        case.node["eth_call"] = answer
        assert "decimals" in refused(command, case, maximum=own)
    case = unknown()
    case.node["eth_chainId"] = "0x1"
    assert "does not serve" in refused(command, case, maximum=own)


def test_yes_needs_a_maximum_for_real_money(command):
    assert "add --max AMOUNT" in refused(command, honest("eip3009"), maximum=None)


@pytest.mark.parametrize(
    ("kind", "maximum", "fits"),
    [
        ("eip3009", "12.50 USD", True),
        ("eip3009", "12.5 usdc", True),
        ("eip3009", "12.499999 USD", False),
        ("eip3009", "1000 EUR", False),
        ("eip3009", "1000 ETH", False),
        ("eip3009", "12500000", False),
        ("eip3009", "12.50 of everything", False),
        ("eip3009", f"12500000 caip19/eip155:8453/erc20:{TOKEN}", True),
        ("eip3009", f"12499999 eip155:8453/erc20:{TOKEN}", False),
        ("eip3009", f"12500000 eip155:1/erc20:{TOKEN}", False),
        ("eip3009", f"1.5 eip155:8453/erc20:{TOKEN}", False),
        ("coin", "0.0000000000125 ETH", True),
        ("coin", "0.00000000001 ETH", False),
        ("coin", "1000 USD", False),
        ("solana", "12.50 USD", True),
        ("solana", "12.49 USD", False),
        ("solana coin", "0.0125 SOL", True),
        ("solana coin", "0.0124 SOL", False),
    ],
)
def test_payment_above_the_maximum_is_refused(command, kind, maximum, fits):
    case = honest(kind)
    if not fits:
        assert "--max" in refused(command, case, maximum=maximum)
        return
    status, shown = command.attempt(case, maximum=maximum)
    assert (status, bool(case.outputs)) == (0, True)
    check(case, shown)


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ({"eth_getBlockByNumber": {"baseFeePerGas": hex(10**13)}}, "a fee of up to"),
        ({"eth_getBlockByNumber": {}, "eth_gasPrice": hex(10**15)}, "a fee of up to"),
        ({"eth_estimateGas": hex(10**8)}, "gas"),
        ({"eth_chainId": "0x1"}, "is not on chain"),
    ],
    ids=str,
)
def test_lying_node_is_offered_no_huge_fee(command, answers, why):
    for kind in ("coin", "direct", "permit2"):
        case = honest(kind)
        case.node |= answers
        assert why in refused(command, case)


def test_fee_limit_can_be_chosen(command):
    assert "a fee of up to" in refused(command, honest("coin"), max_fee="0.00000001")
    assert "is not an amount for --max-fee" in refused(command, honest("coin"), max_fee="much")
    case = honest("coin")
    case.node["eth_getBlockByNumber"] = {"baseFeePerGas": hex(10**13)}
    status, shown = command.attempt(case, max_fee="5 ETH")
    assert (status, len(case.raws)) == (0, 1)
    assert {"step": "fee", "maxFee": str(5 * 10**18)} in shown


def sending(**changes):
    """Return a case whose payment has an address with a changed route."""
    case = honest("eip3009")
    case.address = make_pay_address(make_forward_route(int(time.time()), **changes))
    return case


def test_plain_transfer_goes_to_the_address_of_the_route(command):
    case = sending()
    status, shown = command.attempt(case, sends=True)
    assert (status, len(case.raws), case.outputs) == (0, 1, [])
    (raw,) = case.raws
    call = bytes.fromhex(case.address["address"][2:]).rjust(32, b"\0") + PRICE.to_bytes(32)
    assert b"\xa9\x05\x9c\xbb" + call in raw
    (line,) = [item["what"] for item in shown if item["step"] == "sign"]
    assert case.address["address"].lower() in line
    assert "12.50 USDC" in line


def test_address_that_does_not_follow_from_its_route_gets_nothing(command):
    case = sending()
    case.address["address"] = EVIL
    assert "the address is" in refused(command, case, sends=True)
    case = sending()
    case.address["route"]["dest"] = EVIL
    assert "the address is" in refused(command, case, sends=True)
    assert "the forwarder is" in refused(command, sending(forwarder=EVIL), sends=True)


def test_address_for_another_price_or_asset_gets_nothing(command):
    assert "--max is" in refused(command, sending(value=PRICE + 1), sends=True)
    assert "an address for" in refused(command, sending(token=EVIL), sends=True)
    assert "an address for" in refused(command, sending(chain_id=1), sends=True)
    case = sending()
    case.address["amount"]["display"]["decimals"] = 18
    assert "decimals" in refused(command, case, sends=True)
    assert "is over" in refused(command, sending(valid_before=int(time.time())), sends=True)


def test_transfer_that_fails_is_reported(command):
    case = sending()
    case.node["eth_getTransactionReceipt"] = {"status": "0x0"}
    status, _ = command.attempt(case, sends=True)
    assert (status, len(case.raws)) == (1, 1)
    assert "failed" in command.error_output


def requiring(way=None, **changes):
    """Return a case whose payment has an address, and a way by x402 with changes."""
    case = sending(**changes)
    honest_way = {
        "scheme": "exact",
        "network": "eip155:8453",
        "asset": TOKEN,
        "amount": case.address["amount"]["value"],
        "payTo": case.address["address"],
        "maxTimeoutSeconds": 60,
        "extra": {"name": "USD Coin", "version": "2"},
    }
    case.ways = [honest_way | (way or {})]
    return case


def refused_x402(command, case, **options):
    """Return why nothing was signed by x402."""
    assert case.handed_in == []
    error = refused(command, case, x402=True, **options)
    assert case.handed_in == []
    return error


def test_payment_by_x402_is_signed_for_the_address_of_the_route(command):
    case = requiring()
    now = int(time.time())
    status, shown = command.attempt(case, x402=True)
    assert (status, case.raws, case.outputs) == (0, [], []), command.error_output
    (sent,) = case.handed_in
    assert sent["accepted"] == case.ways[0]
    signed = sent["payload"]["authorization"]
    assert signed["to"] == case.address["address"].lower()
    assert (signed["value"], signed["validAfter"]) == (str(PRICE), "0")
    assert now < int(signed["validBefore"]) <= now + 62
    numbers = {name: int(signed[name]) for name in ("value", "validAfter", "validBefore")}
    kinds = {"from": "address", "to": "address", "value": "uint256", "validAfter": "uint256"}
    kinds |= {"validBefore": "uint256", "nonce": "bytes32"}
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    domain = {"name": "USD Coin", "version": "2", "chainId": 8453, "verifyingContract": TOKEN}
    message = {**signed, **numbers, "nonce": bytes.fromhex(signed["nonce"][2:])}
    signable = encode_typed_data(domain, {"TransferWithAuthorization": fields}, message)
    payer = Account.recover_message(signable, signature=sent["payload"]["signature"])
    assert payer == ACCOUNTS["eip155:8453"].rpartition(":")[2]
    (line,) = [item["what"] for item in shown if item["step"] == "sign"]
    assert "lets the server send 12.50 USDC" in line
    assert case.address["address"].lower() in line


@pytest.mark.parametrize(
    "way",
    [
        {"payTo": EVIL},
        {"amount": str(PRICE + 1)},
        {"amount": str(PRICE - 1)},
        {"asset": EVIL},
        {"network": "eip155:1"},
        {"scheme": "upto"},
        {"extra": {}},
        {"extra": {"name": "USD Coin", "version": "2", "assetTransferMethod": "permit2"}},
        {"extra": {"name": "x" * 201, "version": "2"}},
        {"maxTimeoutSeconds": "60"},
        {"maxTimeoutSeconds": True},
    ],
    ids=str,
)
def test_other_requirements_of_x402_get_no_signature(command, way):
    assert refused_x402(command, requiring(way))


def test_address_that_does_not_follow_from_its_route_gets_no_signature(command):
    case = requiring({"payTo": EVIL})
    case.address["address"] = EVIL
    assert "the address is" in refused_x402(command, case)
    assert "the forwarder is" in refused_x402(command, requiring(forwarder=EVIL))
    assert "--max is" in refused_x402(command, requiring(value=PRICE + 1))
    case = requiring()
    case.address["received"], case.address["missing"] = "1", str(PRICE - 1)
    assert "a part of the price has arrived" in refused_x402(command, case)


def test_signature_of_x402_expires_with_its_address(command):
    end = int(time.time()) + 30
    case = requiring({"maxTimeoutSeconds": 2**31}, valid_before=end)
    assert command.attempt(case, x402=True)[0] == 0, command.error_output
    assert case.handed_in[0]["payload"]["authorization"]["validBefore"] == str(end)


@pytest.mark.parametrize("status", [302, 402, 500])
def test_refused_payment_by_x402_is_handed_in_once_and_nowhere_else(command, status):
    case = requiring()
    case.handed_in_status = status
    assert command.attempt(case, x402=True)[0] == 1
    assert f"the server answers {status}" in command.error_output
    assert len(case.handed_in) == 1
    assert "add --max AMOUNT" in refused_x402(command, requiring(), maximum=None)
