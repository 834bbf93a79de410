"""Test the forwarder's calls and events against a general ABI encoder."""

from __future__ import annotations

import pytest
from eth_abi import encode
from eth_hash.auto import keccak
from florin_server.domain.chains.evm.route import ForwardRoute
from florin_server.rails.evm import forwarder
from florin_server.rails.types import RailUnavailable
from hypothesis import given, settings
from hypothesis import strategies as st

ROUTE = "(uint256,address,uint256,uint256,address,address,uint256,bytes32,address)"
FORWARDING = f"({ROUTE},address,bytes,uint256)"
SWEEP = f"({ROUTE},address[],uint256)"
ADDRESS = "0x" + "f0" * 20
addresses = st.binary(min_size=20, max_size=20).map(lambda raw: "0x" + raw.hex())
numbers = st.integers(min_value=0, max_value=2**256 - 1)
routes = st.builds(
    ForwardRoute,
    chain_id=numbers,
    forwarder=addresses,
    token=addresses,
    value=numbers,
    valid_before=numbers,
    dest=addresses,
    fee_to=addresses,
    fee=numbers,
    ref=st.binary(min_size=32, max_size=32),
    home=addresses,
)
forwardings = st.builds(
    forwarder.Forwarding, routes, numbers, target=addresses, data=st.binary(max_size=100)
)
sweeps = st.builds(forwarder.Sweep, routes, st.lists(addresses, max_size=4).map(tuple), numbers)


def list_values(route):
    return (
        route.chain_id,
        route.token,
        route.value,
        route.valid_before,
        route.dest,
        route.fee_to,
        route.fee,
        route.ref,
        route.home,
    )


def encode_call(signature, types, values):
    return keccak(signature.encode())[:4] + encode(types, values)


@settings(max_examples=40, deadline=None)
@given(st.lists(forwardings, max_size=4))
def test_forward_calldata_is_that_of_a_general_encoder(items):
    values = [(list_values(item.route), item.target, item.data, item.gas) for item in items]
    expected = encode_call(f"forward({FORWARDING}[])", [f"{FORWARDING}[]"], [values])
    assert forwarder.encode_forward(items) == expected


@settings(max_examples=40, deadline=None)
@given(forwardings)
def test_calldata_of_one_forwarding_is_that_of_a_general_encoder(item):
    values = (list_values(item.route), item.target, item.data, item.gas)
    expected = encode_call(f"forwardOne({FORWARDING})", [FORWARDING], [values])
    assert forwarder.encode_forward_one(item) == expected


@settings(max_examples=40, deadline=None)
@given(st.lists(sweeps, max_size=4))
def test_sweep_calldata_is_that_of_a_general_encoder(items):
    values = [(list_values(item.route), item.tokens, item.gas) for item in items]
    expected = encode_call(f"sweep({SWEEP}[])", [f"{SWEEP}[]"], [values])
    assert forwarder.encode_sweep(items) == expected


@settings(max_examples=40, deadline=None)
@given(sweeps)
def test_calldata_of_one_sweep_is_that_of_a_general_encoder(item):
    expected = encode_call(
        f"sweepOne({ROUTE},address[])",
        [ROUTE, "address[]"],
        [list_values(item.route), item.tokens],
    )
    assert forwarder.encode_sweep_one(item) == expected


def make_log(topic, topics, types, values):
    return {
        "address": ADDRESS,
        "topics": [topic, *topics],
        "data": "0x" + encode(types, values).hex(),
        "transactionHash": "0x" + "AB" * 32,
        "blockNumber": "0x10",
        "blockHash": "0x" + "cd" * 32,
        "logIndex": "0x3",
    }


def make_home_log():
    words = ["0x" + "0" * 24 + letters * 20 for letters in ("a1", "70")]
    return make_log(
        forwarder.SENT_HOME_TOPIC,
        ["0x" + "11" * 32, *words],
        ["uint256", "address"],
        [7, "0x" + "c0" * 20],
    )


def test_event_of_money_sent_home_is_parsed():
    transfer = forwarder.parse_home_transfer(make_home_log())
    assert transfer.ref == "0x" + "11" * 32
    assert transfer.address == "0x" + "a1" * 20
    assert transfer.token == "0x" + "70" * 20
    assert (transfer.value, transfer.home) == (7, "0x" + "c0" * 20)
    assert (transfer.tx_hash, transfer.block_number) == ("0x" + "ab" * 32, 16)
    assert (transfer.block_hash, transfer.position) == ("0x" + "cd" * 32, 3)


@pytest.mark.parametrize(
    "change",
    [
        {"topics": [forwarder.SENT_HOME_TOPIC]},
        {"topics": [forwarder.FAILED_TOPIC, *make_home_log()["topics"][1:]]},
        {"topics": [*make_home_log()["topics"][:3], "0x" + "ff" * 32]},
        {"data": "0x" + "00" * 31},
        {"data": "0x" + "00" * 96},
        {"data": "0x" + "ff" * 64},
        {"transactionHash": None},
        {"blockNumber": "16"},
    ],
)
def test_malformed_event_of_money_sent_home_is_refused(change):
    with pytest.raises(RailUnavailable):
        forwarder.parse_home_transfer(make_home_log() | change)


def test_failures_of_the_forwarder_are_parsed_and_other_logs_ignored():
    failed = make_log(forwarder.FAILED_TOPIC, ["0x" + "22" * 32], ["bytes"], [b"\x01\x02"])
    logs = [make_home_log(), failed, failed | {"address": "0x" + "99" * 20}, {"topics": []}]
    (failure,) = forwarder.parse_failures(logs, ADDRESS)
    assert (failure.ref, failure.reason) == ("0x" + "22" * 32, b"\x01\x02")
    with pytest.raises(RailUnavailable):
        forwarder.parse_failures([failed | {"data": "0x" + "20".rjust(64, "0")}], ADDRESS)
