"""Attacks on `florin pay` by a server or a node that take more than is shown."""

from __future__ import annotations

import time

import pytest

from tests.fuzz.liars import EVIL, Case
from tests.fuzz.payer import ACCOUNTS, check, payer
from tests.support.options import PRICE, TOKEN, make_honest_option


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
