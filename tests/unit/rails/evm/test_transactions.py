"""Test that transactions equal a general library's, and never exceed the fee limits."""

from __future__ import annotations

import pytest
import rlp
from eth_account import Account
from florin_server.rails.evm.sending.fees import TransactionFees, compute_fees, raise_fees
from florin_server.rails.evm.sending.transactions import (
    EvmSigner,
    compute_transaction_hash,
    parse_fees,
    rebuild_transaction,
)
from florin_server.rails.evm.settings import GWEI, EvmAssetSettings, EvmChainSettings
from florin_server.rails.types import RailUnavailable
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

SETTLER = "0x7296bceede3d2a3abfeaac694c53850da72d39c5"
CHAIN = EvmChainSettings(chain_id=31337, name="Test", settler=SETTLER, treasury="0x" + "fe" * 20)


@settings(max_examples=40, deadline=None)
@given(
    secret=st.integers(min_value=1, max_value=2**255).map(
        lambda number: number.to_bytes(32, "big")
    ),
    chain_id=st.integers(min_value=1, max_value=2**53),
    nonce=st.integers(min_value=0, max_value=2**40),
    max_fee=st.integers(min_value=0, max_value=2**64),
    gas=st.integers(min_value=21_000, max_value=2**24),
    data=st.binary(max_size=300),
)
def test_signing_gives_the_bytes_of_a_general_library(secret, chain_id, nonce, max_fee, gas, data):
    fees = TransactionFees(max_fee=max_fee, tip=max_fee // 3)
    signed = EvmSigner(secret).sign_call(
        chain_id=chain_id, nonce=nonce, fees=fees, gas=gas, to=SETTLER, data=data
    )
    expected = Account.sign_transaction(
        {
            "type": 2,
            "chainId": chain_id,
            "nonce": nonce,
            "maxPriorityFeePerGas": fees.tip,
            "maxFeePerGas": fees.max_fee,
            "gas": gas,
            "to": bytes.fromhex(SETTLER[2:]),
            "value": 0,
            "data": data,
        },
        secret,
    )
    assert signed.raw == bytes(expected.raw_transaction)
    assert signed.hash == "0x" + bytes(expected.hash).hex() == compute_transaction_hash(signed.raw)


def test_signer_shows_its_address_and_nothing_else():
    secret = bytes.fromhex("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80")
    signer = EvmSigner(secret)
    assert signer.address == "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
    assert repr(signer) == f"Signer({signer.address})"


@pytest.mark.parametrize("secret", [b"", b"\x01" * 31, b"\x01" * 33, bytes(32), b"\xff" * 32])
def test_invalid_private_key_is_refused(secret):
    with pytest.raises(ValueError, match=r".+"):
        EvmSigner(secret)


def test_fee_covers_twice_the_base_fee_and_the_tip():
    assert compute_fees(10 * GWEI, GWEI, CHAIN) == TransactionFees(max_fee=21 * GWEI, tip=GWEI)


def test_fee_and_tip_stay_below_their_limits_for_any_suggestion():
    chain = CHAIN.model_copy(update={"fee_max": 100 * GWEI, "tip_max": 2 * GWEI})
    assert compute_fees(90 * GWEI, 10**30, chain) == TransactionFees(
        max_fee=100 * GWEI, tip=2 * GWEI
    )


def test_nothing_is_signed_while_gas_costs_more_than_the_limit():
    chain = CHAIN.model_copy(update={"fee_max": 100 * GWEI, "tip_max": 2 * GWEI})
    with pytest.raises(RailUnavailable, match="more than the limit"):
        compute_fees(99 * GWEI, 2 * GWEI, chain)


@settings(max_examples=200, deadline=None)
@given(
    old=st.tuples(st.integers(1, 600 * GWEI), st.integers(1, 60 * GWEI)),
    requested=st.tuples(st.integers(1, 600 * GWEI), st.integers(1, 60 * GWEI)),
)
def test_raised_fees_are_higher_by_enough_and_never_above_the_limits(old, requested):
    old_fees, requested_fees = TransactionFees(*old), TransactionFees(*requested)
    try:
        new = raise_fees(old_fees, requested_fees, CHAIN)
    except RailUnavailable:
        # only the limits stand in the way
        assert (
            old_fees.max_fee * 115 > CHAIN.fee_max * 100
            or old_fees.tip * 115 > CHAIN.tip_max * 100
            or old_fees.tip * 115 > max(old_fees.max_fee * 115, requested_fees.max_fee * 100)
        )
        return
    assert new.max_fee * 100 >= old_fees.max_fee * 115
    assert new.tip * 100 >= old_fees.tip * 115
    assert new.tip <= new.max_fee <= CHAIN.fee_max
    assert new.tip <= CHAIN.tip_max
    assert new.max_fee >= min(requested_fees.max_fee, CHAIN.fee_max)


def test_a_transaction_that_is_raised_changes_its_fees_only():
    signer = EvmSigner(b"\x07" * 32)
    call = {"chain_id": 5, "nonce": 0, "gas": 50_000, "to": SETTLER, "data": b"\x00\x01"}
    first = signer.sign_call(fees=TransactionFees(max_fee=100, tip=3), **call)
    assert parse_fees(first.raw) == TransactionFees(max_fee=100, tip=3)
    again = TransactionFees(max_fee=200, tip=4)
    assert signer.sign_with_fees(first.raw, again) == signer.sign_call(fees=again, **call)
    with_value = Account.sign_transaction(
        {
            "type": 2,
            "chainId": 5,
            "nonce": 1,
            "maxPriorityFeePerGas": 1,
            "maxFeePerGas": 2,
            "gas": 21_000,
            "to": bytes.fromhex(SETTLER[2:]),
            "value": 77,
        },
        b"\x07" * 32,
    )
    raised_again = signer.sign_with_fees(bytes(with_value.raw_transaction), again)
    assert (parse_fees(raised_again.raw), raised_again.raw.count(b"\x4d\x80")) == (again, 1)


def test_settings_normalize_addresses():
    chain = EvmChainSettings(
        chain_id=8453,
        name="Base",
        settler=SETTLER.upper().replace("0X", "0x"),
        treasury="eip155:8453:0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
    )
    assert chain.settler == SETTLER
    assert chain.treasury_account == "eip155:8453:0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
    assert (
        EvmAssetSettings(address=SETTLER, name="Dollar", symbol="D", decimals=6).signing_name
        == "Dollar"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"chain_id": 0},
        {"settler": "0x12"},
        {"settler": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb9226A"},
        {"treasury": "eip155:1:0x" + "fe" * 20},
        {"confirmations": 0},
        {"live": True, "faucet": True},
        {"gas_price": 1},
        {"factories": (SETTLER,)},
        {
            "assets": (
                {"address": SETTLER, "name": "A", "symbol": "A", "decimals": 6},
                {"address": SETTLER, "name": "B", "symbol": "B", "decimals": 6},
            )
        },
    ],
)
def test_settings_that_cannot_be_meant_are_refused(wrong):
    good = {"chain_id": 31337, "name": "T", "settler": SETTLER, "treasury": "0x" + "fe" * 20}
    EvmChainSettings(**good)
    with pytest.raises(ValidationError):
        EvmChainSettings(**good | wrong)


def report(raw):
    """Return a signed transaction as a node reports it."""
    names = ("chainId", "nonce", "maxPriorityFeePerGas", "maxFeePerGas", "gas", "to", "value")
    *fields, data, _, parity, r, s = rlp.decode(raw[1:])
    numbers = dict(zip(names, fields, strict=True)) | {"yParity": parity, "r": r, "s": s}
    quantities = {name: hex(int.from_bytes(value, "big")) for name, value in numbers.items()}
    texts = {"to": "0x" + numbers["to"].hex(), "input": "0x" + data.hex()}
    return quantities | texts | {"hash": compute_transaction_hash(raw)}


def test_transaction_is_rebuilt_from_a_report_only_if_its_sender_signed_it():
    signer = EvmSigner(b"\x01" * 32)
    fees = TransactionFees(max_fee=3 * GWEI, tip=GWEI)
    signed = signer.sign_call(chain_id=1, nonce=7, fees=fees, gas=50_000, to=SETTLER, data=b"\x05")
    reported = report(signed.raw)
    assert rebuild_transaction(reported, signer.address) == signed.raw
    order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
    for change in (
        {"r": "0x0"},
        {"s": hex(order)},
        # no point of the curve has this coordinate
        {"r": "0x5"},
        {"r": hex(2**256)},
        {"yParity": "0x2"},
        {"yParity": hex(2**64)},
        {"yParity": hex(1 - int(reported["yParity"], 16))},
        {"value": "0x1"},
        {"hash": "0x" + "00" * 32},
        {"input": None},
    ):
        assert rebuild_transaction(reported | change, signer.address) is None
    assert rebuild_transaction(reported, "0x" + "11" * 20) is None
