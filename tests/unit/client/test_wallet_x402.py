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
    plan_x402,
    request_x402,
)
from florin_client.wallet.x402 import AddressAuthorization

from tests.support.options import (
    DEST,
    EVM,
    FEE,
    FEE_TO,
    HOME,
    PRICE,
    TOKEN,
    make_forward_route,
    make_pay_address,
)

NOW = 1_800_000_000
END = NOW + 900
OTHER = "0x" + "ee" * 20
WALLET = Wallet(evm_key=b"\x07" * 32)
ACCOUNTS = {EVM: WALLET.account(EVM)}
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
        {"extra": {"name": "USD Coin", "version": "2", "assetTransferMethod": "permit2"}},
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
