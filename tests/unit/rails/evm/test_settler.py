"""Test the settlement contract's calls and events against a general ABI encoder."""

from __future__ import annotations

import contextlib

import pytest
from eth_abi import encode
from eth_hash.auto import keccak
from florin_server.domain.chains.evm import abi
from florin_server.domain.chains.evm.route import RouteKind
from florin_server.rails.evm import settler
from florin_server.rails.types import RailUnavailable
from hypothesis import given, settings
from hypothesis import strategies as st

PAY = "(address,address,uint256,uint256,uint256,address,address,uint256,bytes32,uint256,bytes)"
EVENT_TYPES = ["address", "uint256", "address", "uint256", "bytes32"]
addresses = st.binary(min_size=20, max_size=20).map(lambda raw: "0x" + raw.hex())
numbers = st.integers(min_value=0, max_value=2**256 - 1)
pays = st.builds(
    settler.PayArguments,
    token=addresses,
    payer=addresses,
    value=numbers,
    valid_after=numbers,
    valid_before=numbers,
    dest=addresses,
    fee_to=addresses,
    fee=numbers,
    ref=st.binary(min_size=32, max_size=32),
    gas=numbers,
    signature=st.binary(max_size=200),
)


def values(pay):
    return (
        pay.token,
        pay.payer,
        pay.value,
        pay.valid_after,
        pay.valid_before,
        pay.dest,
        pay.fee_to,
        pay.fee,
        pay.ref,
        pay.gas,
        pay.signature,
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(pays, max_size=4))
def test_settlement_calldata_is_that_of_a_general_encoder(items):
    expected = keccak(f"settle3009({PAY}[])".encode())[:4]
    expected += encode([PAY + "[]"], [[values(pay) for pay in items]])
    assert settler.encode_settle(items) == expected


@settings(max_examples=40, deadline=None)
@given(pays)
def test_single_calldata_is_that_of_a_general_encoder(pay):
    arguments = encode([PAY], [values(pay)])
    assert settler.encode_settle_one(pay) == keccak(f"one3009({PAY})".encode())[:4] + arguments

    request = keccak(f"routeNonce(uint8,{PAY})".encode())[:4]
    request += encode(["uint8", PAY], [1, values(pay)])
    assert settler.encode_route_nonce(RouteKind.PERMIT2, pay) == request


@given(st.lists(pays, max_size=3), pays)
def test_item_size_is_its_share_of_the_calldata(payments, payment):
    assert (
        len(settler.encode_settle([*payments, payment])) - len(settler.encode_settle(payments))
        == payment.size
    )


def paid_log(**changes):
    return {
        "address": "0x" + "5e" * 20,
        "topics": [
            settler.PAID_TOPIC,
            "0x" + "AB" * 32,
            "0x" + "00" * 12 + "01" * 20,
            "0x" + "00" * 12 + "02" * 20,
        ],
        "data": "0x"
        + encode(EVENT_TYPES, ["0x" + "03" * 20, 500, "0x" + "04" * 20, 5, b"n" * 32]).hex(),
        "blockNumber": "0x10",
        "blockHash": "0x" + "0b" * 32,
        "transactionHash": "0x" + "0c" * 32,
        "removed": False,
    } | changes


def test_paid_event_is_read():
    paid = settler.parse_paid_event(paid_log())
    assert paid.ref == "0x" + "ab" * 32
    result = (paid.payer, paid.dest, paid.token, paid.fee_to)
    assert result == tuple(f"0x0{n}" + f"0{n}" * 19 for n in (1, 2, 3, 4))
    assert paid.nonce == "0x" + (b"n" * 32).hex()
    assert (paid.value, paid.fee, paid.block_number) == (500, 5, 16)


@pytest.mark.parametrize(
    "changes",
    [
        {"topics": []},
        {"topics": None},
        {"topics": ["0x" + "00" * 32] * 4},
        {"topics": [settler.PAID_TOPIC, "0x" + "ab" * 32, "0x" + "ff" * 32, "0x" + "00" * 32]},
        {"data": "0x"},
        {"data": "0x" + "ff" * 160},
        {"data": "0x" + "00" * 159},
        {"data": None},
        {"blockNumber": None},
        {"transactionHash": "0x12"},
    ],
)
def test_a_broken_event_proves_nothing(changes):
    with pytest.raises(RailUnavailable):
        settler.parse_paid_event(paid_log(**changes))


def test_only_events_of_the_settlement_contract_count():
    settlers = frozenset({"0x" + "5e" * 20})
    assert settler.is_event(paid_log(), settlers, settler.PAID_TOPIC)
    assert settler.is_event(paid_log(address="0x" + "5E" * 20), settlers, settler.PAID_TOPIC)
    assert not settler.is_event(paid_log(address="0x" + "5f" * 20), settlers, settler.PAID_TOPIC)
    assert not settler.is_event(paid_log(removed=True), settlers, settler.PAID_TOPIC)
    assert not settler.is_event(paid_log(topics=[]), settlers, settler.PAID_TOPIC)
    assert not settler.is_event(paid_log(), settlers, "0x" + "fa" * 32)


def test_returned_strings_are_read_in_both_forms():
    assert abi.decode_string(encode(["string"], ["USD Coin"])) == "USD Coin"
    assert abi.decode_string(b"Maker".ljust(32, b"\0")) == "Maker"


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_returned_noise_is_text_or_a_value_error(noise):
    with contextlib.suppress(ValueError):
        assert isinstance(abi.decode_string(noise), str)
