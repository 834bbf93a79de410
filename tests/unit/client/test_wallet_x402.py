"""Test that a wallet signs a payment by x402 only for an address of the payment's route."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data
from florin_client.wallet import (
    Wallet,
    WalletError,
    X402Way,
    encode_x402_header,
    list_x402_ways,
    plan_payment,
    plan_x402,
    plan_x402_transfer,
    request_x402,
)
from florin_client.wallet.actions import Step
from florin_client.wallet.evm_steps import PERMIT2
from florin_client.wallet.x402_steps import AddressAuthorization, AddressPermit, MerchantTransfer
from florin_server.domain.chains.evm.signatures import recover_address
from florin_server.domain.chains.evm.typed_data import (
    X402_PROXY,
    PermitTransferFrom,
    PermitWitnessTransferFrom,
    build_permit2_domain,
)
from solders.keypair import Keypair
from solders.message import to_bytes_versioned
from solders.transaction import VersionedTransaction

from tests.support.options import (
    DEST,
    EVM,
    FEE,
    FEE_RECEIVER,
    FEE_TO,
    HOME,
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

NOW = 1_800_000_000
END = NOW + 900
OTHER = "0x" + "ee" * 20
PAIR = Keypair.from_seed(b"\x08" * 32)
WALLET = Wallet(evm_key=b"\x07" * 32, solana_key=bytes(PAIR))
ACCOUNTS = {chain: WALLET.account(chain) for chain in (EVM, SOLANA)}
ROUTE = make_forward_route(NOW)
ADDRESS = make_pay_address(ROUTE) | {"expiresAt": str(END)}
WAY = {
    "scheme": "exact",
    "network": EVM,
    "asset": TOKEN,
    "amount": str(PRICE),
    "payTo": ROUTE.compute_address(),
    "maxTimeoutSeconds": 60,
    "extra": {"name": "USD Coin", "version": "2"},
}


def find_ways(**changes: Any) -> list[X402Way]:
    return list_x402_ways({"x402Version": 2, "accepts": [{**WAY, **changes}]}, ACCOUNTS)


def plan(**changes: Any) -> Any:
    (way,) = find_ways(**changes)
    return plan_x402(way, ADDRESS, now=NOW)


def test_signed_transfer_is_the_payer_s_and_of_the_whole_price():
    planned = plan()
    assert (planned.terms.amount, planned.deadline, planned.sends_transactions) == (
        PRICE,
        NOW + 60,
        False,
    )
    (sentence,) = planned.describe(lambda value: f"{value} units")
    assert sentence == (
        f"lets the server send {PRICE} units to {ROUTE.compute_address()}, which passes {PRICE} "
        f"units on to {DEST}, of which {FEE} units to {FEE_TO} until 2027-01-15 08:01:00 UTC; "
        f"other money goes to {HOME}"
    )
    (output,) = WALLET.execute_plan(planned)
    (step,) = planned.steps
    assert isinstance(step, AddressAuthorization)
    signable = encode_typed_data(full_message=step.to_document())
    assert Account.recover_message(signable, signature=output) == WALLET.evm.address
    (way,) = find_ways()
    message = json.loads(base64.b64decode(encode_x402_header(way, step, output)))
    assert (message["x402Version"], message["accepted"]) == (2, WAY)
    signed = message["payload"]["authorization"]
    assert (signed["value"], signed["validBefore"]) == (str(PRICE), str(NOW + 60))
    assert message["payload"]["signature"] == output


def test_each_plan_has_a_nonce_of_its_own():
    nonces = {plan().steps[0].authorization.nonce for _ in range(10)}
    assert len(nonces) == 10


def test_signature_ends_with_the_address():
    assert plan(maxTimeoutSeconds=2**31).deadline == END


@pytest.mark.parametrize(
    "changes", [{"payTo": OTHER}, {"amount": str(PRICE - 1)}, {"asset": OTHER}], ids=str
)
def test_way_that_is_not_for_the_address_is_refused(changes):
    with pytest.raises(WalletError, match="x402 requires"):
        plan(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"scheme": "upto"},
        {"network": "eip155:1"},
        {"network": None},
        {"asset": "0x"},
        {"amount": PRICE},
        {"amount": "0"},
        {"payTo": "0x"},
        {"maxTimeoutSeconds": 0},
        {"maxTimeoutSeconds": True},
        {"maxTimeoutSeconds": "60"},
        {"extra": None},
        {"extra": {"name": "USD Coin"}},
        {"extra": {"name": "", "version": "2"}},
        {"extra": {"name": "x" * 201, "version": "2"}},
        {"extra": {"name": "USD Coin", "version": "2", "assetTransferMethod": "upto"}},
        {"extra": {"name": "USD Coin", "version": "2", "assetTransferMethod": None}},
    ],
    ids=str,
)
def test_way_that_the_wallet_does_not_know_is_left_out(changes):
    assert find_ways(**changes) == []


@pytest.mark.parametrize("message", [{}, {"x402Version": 1, "accepts": []}, {"x402Version": 2}])
def test_message_of_another_version_is_refused(message):
    with pytest.raises(WalletError, match="by version 2"):
        list_x402_ways(message, ACCOUNTS)


def test_other_accounts_and_other_forwarders_are_refused():
    (way,) = find_ways()
    with pytest.raises(WalletError, match="the forwarder is"):
        plan_x402(way, ADDRESS, forwarder=OTHER, now=NOW)
    with pytest.raises(WalletError, match="is over"):
        plan_x402(way, ADDRESS, now=END)
    part = make_pay_address(ROUTE, PRICE - 1) | {"expiresAt": str(END)}
    with pytest.raises(WalletError, match="a part of the price"):
        plan_x402(way, part, now=NOW)
    with pytest.raises(WalletError, match="is not the wallet's account"):
        Wallet(evm_key=b"\x09" * 32).execute_plan(plan())


@pytest.mark.parametrize("url", ["", "file:///etc/passwd", "ftp://a/b", "javascript:1"])
def test_only_http_is_requested(url):
    with pytest.raises(WalletError, match="names no URL"):
        request_x402(url)


PERMIT2_EXTRA = {"extra": {"assetTransferMethod": "permit2"}}


def test_permit_of_permit2_is_that_of_the_server_s_check():
    (way,) = find_ways(**PERMIT2_EXTRA)
    planned = plan_x402(way, ADDRESS, now=NOW)
    assert (planned.deadline, planned.sends_transactions) == (NOW + 60, False)
    (sentence,) = planned.describe()
    assert f"send by Permit2 {PRICE} of {TOKEN} to {ROUTE.compute_address()}, which" in sentence
    (step,) = planned.steps
    assert isinstance(step, AddressPermit)
    (output,) = WALLET.execute_plan(planned)
    message = json.loads(base64.b64decode(encode_x402_header(way, step, output)))
    signed = message["payload"]["permit2Authorization"]
    assert signed["from"] == WALLET.evm.address.lower()
    assert signed["permitted"] == {"token": TOKEN, "amount": str(PRICE)}
    assert signed["witness"] == {"to": ROUTE.compute_address(), "validAfter": "0"}
    assert (signed["spender"], signed["deadline"]) == (X402_PROXY, str(NOW + 60))
    domain, nonce = build_permit2_domain(8453), int(signed["nonce"])
    permit = PermitTransferFrom(domain, TOKEN, PRICE, X402_PROXY, nonce, NOW + 60)
    digest = PermitWitnessTransferFrom(permit, ROUTE.compute_address(), 0).compute_digest()
    assert recover_address(digest, bytes.fromhex(output[2:])) == signed["from"]


@pytest.mark.parametrize(
    ("allowance", "amounts"),
    [(0, [PRICE]), (PRICE - 1, [0, PRICE]), (PRICE, []), (2**256 - 1, []), (None, [])],
)
def test_permit2_is_approved_for_exactly_the_price(allowance, amounts):
    (way,) = find_ways(**PERMIT2_EXTRA)
    *approvals, _ = plan_x402(way, ADDRESS, allowance=allowance, now=NOW).steps
    assert [(step.token, step.spender, step.amount) for step in approvals] == [
        (TOKEN, PERMIT2, amount) for amount in amounts
    ]


MEMO, BLOCKHASH, STRANGER = (
    str(Keypair.from_seed(bytes([item] * 32)).pubkey()) for item in (10, 11, 12)
)
TRANSFER = {
    "scheme": "exact",
    "network": SOLANA,
    "asset": MINT,
    "amount": str(PRICE),
    "payTo": str(RECEIVER.pubkey()),
    "maxTimeoutSeconds": 60,
    "extra": {"feePayer": str(RELAYER.pubkey()), "memo": MEMO},
}


def plan_transfer_of(**changes: Any) -> Any:
    """Plan a way on Solana with changes, beside the honest option of the payment."""
    message = {"x402Version": 2, "accepts": [{**TRANSFER, **changes}]}
    (way,) = list_x402_ways(message, ACCOUNTS)
    option = make_honest_option("solana", ACCOUNTS | {SOLANA: str(PAIR.pubkey())}, NOW)
    amount = {"unit": option["unit"], "value": option["value"]}
    actions = [Step(item["chain_id"], item["method"], item["params"]) for item in option["steps"]]
    option_plan = plan_payment({"account": option["account"], "amount": amount}, actions)
    return way, plan_x402_transfer(way, option_plan, BLOCKHASH)


def test_transfer_on_solana_pays_the_merchant_of_the_payment_s_option():
    way, planned = plan_transfer_of()
    (sentence,) = planned.describe()
    assert sentence.startswith(f"pays {PRICE} of {MINT} to {RECEIVER.pubkey()}, with the memo ")
    (step,) = planned.steps
    assert isinstance(step, MerchantTransfer)
    (output,) = WALLET.execute_plan(planned)
    message = json.loads(base64.b64decode(encode_x402_header(way, step, output)))
    assert (message["accepted"], message["payload"]) == (TRANSFER, {"transaction": output})
    transaction = VersionedTransaction.from_bytes(base64.b64decode(output))
    signed = transaction.message
    assert list(signed.account_keys[:2]) == [RELAYER.pubkey(), PAIR.pubkey()]
    assert str(signed.recent_blockhash) == BLOCKHASH
    assert [bytes(item.data) for item in signed.instructions][3:] == [MEMO.encode()]
    assert transaction.signatures[1].verify(PAIR.pubkey(), to_bytes_versioned(signed))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"payTo": STRANGER}, "option pays another account"),
        ({"payTo": str(FEE_RECEIVER.pubkey())}, "option pays another account"),
        ({"payTo": str(PAIR.pubkey())}, "itself receives, or pays the fee"),
        ({"payTo": "1" * 44}, "no address"),
        ({"amount": str(PRICE + 1)}, "option takes"),
        ({"amount": str(PRICE - 1)}, "option takes"),
        ({"asset": STRANGER}, "option takes"),
        ({"extra": {"feePayer": str(PAIR.pubkey()), "memo": MEMO}}, "pays the fee"),
        ({"extra": {"feePayer": str(RELAYER.pubkey()), "memo": MINT}}, "names no payment"),
        ({"extra": {"feePayer": str(RELAYER.pubkey()), "memo": "z" * 44}}, "no address"),
    ],
    ids=str,
)
def test_other_transfer_on_solana_is_refused(changes, why):
    with pytest.raises(WalletError, match=why):
        plan_transfer_of(**changes)


@pytest.mark.parametrize(
    "extra",
    [{}, {"feePayer": STRANGER}, {"feePayer": STRANGER, "memo": "a debt"}, {"memo": MEMO}],
    ids=str,
)
def test_way_on_solana_without_fee_payer_and_memo_is_left_out(extra):
    message = {"x402Version": 2, "accepts": [{**TRANSFER, "extra": extra}]}
    assert list_x402_ways(message, ACCOUNTS) == []
