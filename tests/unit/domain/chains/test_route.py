import dataclasses

import pytest
from eth_abi import encode
from eth_utils import keccak
from florin_server.domain.chains.evm.route import RouteKind, SettlementRoute
from hypothesis import given, settings
from hypothesis import strategies as st

UINT256 = st.integers(0, 2**256 - 1)
ADDRESS = st.binary(min_size=20, max_size=20).map(lambda raw: "0x" + raw.hex())
ROUTES = st.builds(
    SettlementRoute,
    chain_id=UINT256,
    settler=ADDRESS,
    kind=st.sampled_from(RouteKind),
    token=ADDRESS,
    value=UINT256,
    valid_before=UINT256,
    dest=ADDRESS,
    fee_to=ADDRESS,
    fee=UINT256,
    ref=st.binary(min_size=32, max_size=32),
)
TYPES = (
    *("uint256", "address", "uint8", "address", "uint256", "uint256"),
    *("address", "address", "uint256", "bytes32"),
)
ROUTE = SettlementRoute(
    chain_id=8453,
    settler="0x" + "11" * 20,
    kind=RouteKind.EIP3009,
    token="0x" + "22" * 20,
    value=1_000_000,
    valid_before=1_800_000_000,
    dest="0x" + "33" * 20,
    fee_to="0x" + "44" * 20,
    fee=4_000,
    ref=bytes(range(32)),
)


@settings(max_examples=50)
@given(ROUTES)
def test_the_nonce_is_the_hash_that_the_contract_computes(route):
    encoded = encode(TYPES, dataclasses.astuple(route))
    assert route.compute_nonce() == keccak(encoded)


@pytest.mark.parametrize(
    "change",
    [
        {"chain_id": 1},
        {"settler": "0x" + "55" * 20},
        {"token": "0x" + "55" * 20},
        {"kind": RouteKind.PERMIT2},
        {"kind": RouteKind.DIRECT},
        {"value": 1_000_001},
        {"valid_before": 2**64},
        {"dest": "0x" + "55" * 20},
        {"fee_to": "0x" + "55" * 20},
        {"fee": 4_001},
        {"ref": bytes(32)},
    ],
)
def test_a_change_of_any_part_changes_the_nonce(change):
    assert dataclasses.replace(ROUTE, **change).compute_nonce() != ROUTE.compute_nonce()


def test_the_case_of_addresses_does_not_matter():
    mixed = dataclasses.replace(ROUTE, dest="0x" + "aB" * 20)
    assert (
        mixed.compute_nonce() == dataclasses.replace(ROUTE, dest="0x" + "ab" * 20).compute_nonce()
    )


@pytest.mark.parametrize(
    "change",
    [
        {"value": -1},
        {"fee": 2**256},
        {"dest": "0x" + "33" * 19},
        {"dest": "33" * 20},
        {"token": "0x" + " 2" * 20},
        {"ref": bytes(31)},
    ],
)
def test_a_part_that_does_not_fit_its_type_is_refused(change):
    with pytest.raises(ValueError, match=r"uint256|EVM address|bytes"):
        dataclasses.replace(ROUTE, **change).compute_nonce()


@pytest.mark.parametrize("name", ["value", "fee", "valid_before", "chain_id"])
def test_largest_uint256_fits_and_the_next_number_is_refused(name):
    assert len(dataclasses.replace(ROUTE, **{name: 2**256 - 1}).compute_nonce()) == 32
    for beyond in (2**256, -1):
        with pytest.raises(ValueError, match=str(beyond)):
            dataclasses.replace(ROUTE, **{name: beyond}).compute_nonce()
