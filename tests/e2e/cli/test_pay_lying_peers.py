"""Attacks on `florin pay` by a server or a node that take more than is shown."""

from __future__ import annotations

import base64
import json
import time

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data
from florin_server.domain.chains.evm.typed_data import PERMIT2, X402_PROXY
from florin_server.domain.chains.solana import spl
from solders.keypair import Keypair
from solders.message import to_bytes_versioned
from solders.transaction import VersionedTransaction

from tests.fuzz.lying_peers import EVIL, Case
from tests.fuzz.payer import ACCOUNTS, check, payer
from tests.support.options import (
    EVM,
    FEE_RECEIVER,
    MINT,
    PRICE,
    RECEIVER,
    RELAYER,
    SOLANA,
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
        {"extra": {"name": "USD Coin", "version": "2", "assetTransferMethod": "upto"}},
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


def requiring_permit2(allowance, way=None, **node):
    """Return a case whose payment is paid by Permit2, with what the node says about it."""
    case = requiring({"extra": {"assetTransferMethod": "permit2"}} | (way or {}))
    case.node |= {"eth_call": f"0x{allowance:064x}", **node}
    return case


def test_permit2_is_signed_for_the_address_of_the_route(command):
    case = requiring_permit2(PRICE)
    status, shown = command.attempt(case, x402=True)
    assert (status, case.raws) == (0, []), command.error_output
    (sent,) = case.handed_in
    signed = sent["payload"]["permit2Authorization"]
    assert signed["witness"] == {"to": case.address["address"].lower(), "validAfter": "0"}
    assert (signed["permitted"]["amount"], signed["spender"]) == (str(PRICE), X402_PROXY)
    (line,) = [item["what"] for item in shown if item["step"] == "sign"]
    assert "lets the server send by Permit2 12.50 USDC" in line


@pytest.mark.parametrize(("allowance", "count"), [(0, 1), (PRICE - 1, 2)])
def test_permit2_that_is_not_approved_is_approved_for_the_price(command, allowance, count):
    case = requiring_permit2(allowance)
    status, shown = command.attempt(case, x402=True)
    assert (status, len(case.raws), len(case.handed_in)) == (0, count, 1), command.error_output
    lines = [item["what"] for item in shown if item["step"] == "sign"]
    assert f"lets {PERMIT2} take 12.50 USDC, from now on" in lines
    approve = bytes.fromhex("095ea7b3" + PERMIT2[2:].rjust(64, "0") + f"{PRICE:064x}")
    assert approve in case.raws[-1]


@pytest.mark.parametrize(
    ("node", "options", "why"),
    [
        ({"eth_getBalance": "0x0"}, {}, "it has no coin for that transaction"),
        ({}, {"max_fee": "0.00000001"}, "a fee of up to"),
        ({}, {"rpc_urls": (), "chains": (EVM,)}, "name a node with --rpc-url"),
    ],
)
def test_missing_approval_of_permit2_is_refused_in_one_sentence(command, node, options, why):
    error = refused_x402(command, requiring_permit2(0, **node), **options)
    text = json.loads(error)["error"]["message"]
    payer = ACCOUNTS[EVM].lower()
    assert f"Not paid: {payer} must approve Permit2 ({PERMIT2}) for 12.50 USDC first: " in text
    assert why in text
    assert "\n" not in text


@pytest.mark.parametrize(
    "way", [{"payTo": EVIL}, {"amount": str(PRICE + 1)}, {"amount": str(PRICE - 1)}], ids=str
)
def test_other_requirements_by_permit2_get_no_signature(command, way):
    assert refused_x402(command, requiring_permit2(0, way))


def test_node_that_returns_no_allowance_gets_no_signature(command):
    for answer in (None, "0x", "0x1", 7):
        case = requiring_permit2(0, eth_call=answer)
        assert "returns no allowance" in refused_x402(command, case)


SOLANA_EURO = "HzwqbKZw8HxMN6bF2yFZNrht3c2iXXzpKcFu7uBEDKtr"
MEMO, STRANGER = (str(Keypair.from_seed(bytes([item] * 32)).pubkey()) for item in (10, 11))


def requiring_transfer(**changes):
    """Return a case whose payment is paid on Solana, and a way by x402 with changes."""
    case = honest("solana")
    honest_way = {
        "scheme": "exact",
        "network": SOLANA,
        "asset": MINT,
        "amount": str(PRICE),
        "payTo": str(RECEIVER.pubkey()),
        "maxTimeoutSeconds": 60,
        "extra": {"feePayer": str(RELAYER.pubkey()), "memo": MEMO},
    }
    case.ways = [honest_way | changes]
    return case


def test_payment_by_x402_on_solana_is_signed_for_the_merchant_of_the_option(command):
    case = requiring_transfer()
    status, shown = command.attempt(case, x402=True)
    assert (status, case.raws, case.outputs) == (0, [], []), command.error_output
    (sent,) = case.handed_in
    assert sent["accepted"] == case.ways[0]
    transaction = VersionedTransaction.from_bytes(base64.b64decode(sent["payload"]["transaction"]))
    message = transaction.message
    own = spl.parse_pubkey(ACCOUNTS[SOLANA])
    assert list(message.account_keys[:2]) == [RELAYER.pubkey(), own]
    moved = [item for item in message.instructions if bytes(item.data)[:1] == b"\x0c"]
    (keys,) = [[message.account_keys[index] for index in item.accounts] for item in moved]
    assert bytes(moved[0].data)[1:9] == PRICE.to_bytes(8, "little")
    assert keys[2] == spl.derive_associated_address(
        RECEIVER.pubkey(), spl.parse_pubkey(MINT), spl.TOKEN
    )
    assert transaction.signatures[1].verify(own, to_bytes_versioned(message))
    (line,) = [item["what"] for item in shown if item["step"] == "sign"]
    assert line.startswith(f"pays 12.50 USDC to {RECEIVER.pubkey()}, with the memo {MEMO}")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"payTo": ACCOUNTS[SOLANA]}, "itself receives, or pays the fee"),
        ({"payTo": str(FEE_RECEIVER.pubkey())}, "option pays another account"),
        ({"payTo": STRANGER}, "option pays another account"),
        ({"payTo": EVIL}, "accepts no asset"),
        ({"amount": str(PRICE + 1)}, "option takes"),
        ({"amount": str(PRICE - 1)}, "option takes"),
        ({"asset": MEMO}, "no valid decimals"),
        ({"asset": SOLANA_EURO}, "has no option in"),
        ({"extra": {"feePayer": ACCOUNTS[SOLANA], "memo": MEMO}}, "pays the fee"),
        ({"extra": {"feePayer": str(RELAYER.pubkey()), "memo": "a debt"}}, "accepts no asset"),
        ({"extra": {"feePayer": str(RELAYER.pubkey()), "memo": MINT}}, "names no payment"),
        ({"extra": {"feePayer": str(RELAYER.pubkey())}}, "accepts no asset"),
        ({"extra": {"memo": MEMO}}, "accepts no asset"),
    ],
    ids=str,
)
def test_other_requirements_of_x402_on_solana_get_no_signature(command, changes, why):
    case = requiring_transfer(**changes)
    _, shown = command.attempt(case, x402=True)
    assert case.handed_in == []
    assert "sign" not in {item["step"] for item in shown}
    assert why in command.error_output


def test_solana_option_of_another_merchant_price_or_token_gets_no_signature(command):
    case = requiring_transfer()
    case.option["value"] = str(PRICE + 1)
    assert "takes" in refused_x402(command, case)
    case = requiring_transfer()
    case.option["decimals"] = 18
    assert "decimals" in refused_x402(command, case)
    assert "--max is" in refused_x402(command, requiring_transfer(), maximum="12.49 USD")
    case = requiring_transfer()
    case.node["getLatestBlockhash"] = {"value": {"blockhash": "0x"}}
    assert "returns no blockhash" in refused_x402(command, case)
