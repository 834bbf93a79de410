import dataclasses

import pytest
import rlp
from eth_abi import encode
from eth_utils import keccak
from florin_server.domain.chains.evm.route import ForwardRoute, RouteKind, SettlementRoute
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
FORWARD_ROUTES = st.builds(
    ForwardRoute,
    chain_id=UINT256,
    forwarder=ADDRESS,
    token=ADDRESS,
    value=UINT256,
    valid_before=UINT256,
    dest=ADDRESS,
    fee_to=ADDRESS,
    fee=UINT256,
    ref=st.binary(min_size=32, max_size=32),
    home=ADDRESS,
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


# addresses of payments


@settings(max_examples=50)
@given(FORWARD_ROUTES)
def test_salt_is_the_hash_that_the_forwarder_computes(route):
    chain_id, forwarder, *rest = dataclasses.astuple(route)
    encoded = encode((*TYPES, "address"), (chain_id, forwarder, 3, *rest))
    assert route.compute_nonce() == keccak(encoded)


@settings(max_examples=50)
@given(FORWARD_ROUTES)
def test_address_is_that_of_a_minimal_proxy_of_the_first_created_contract(route):
    forwarder = bytes.fromhex(route.forwarder[2:])
    vault = keccak(rlp.encode([forwarder, 1]))[12:]
    proxy = (
        "3d602d80600a3d3981f3363d3d373d3d3d363d73" + vault.hex() + "5af43d82803e903d91602b57fd5bf3"
    )
    seed = b"\xff" + forwarder + route.compute_nonce() + keccak(hexstr=proxy)
    assert route.compute_address() == "0x" + keccak(seed)[12:].hex()


@settings(max_examples=50)
@given(FORWARD_ROUTES, FORWARD_ROUTES, st.sampled_from(dataclasses.fields(ForwardRoute)))
def test_address_differs_if_any_part_of_the_route_does(route, other, part):
    changed = dataclasses.replace(route, **{part.name: getattr(other, part.name)})
    assert (changed.compute_address() == route.compute_address()) == (changed == route)


@pytest.mark.parametrize(
    "change", [{"value": -1}, {"fee": 2**256}, {"home": "0x12"}, {"forwarder": "0x12"}]
)
def test_forward_route_with_a_part_of_another_type_has_no_address(change):
    route = ForwardRoute(
        1, *("0x" + "11" * 20,) * 2, 5, 6, *("0x" + "22" * 20,) * 2, 1, bytes(32), "0x" + "33" * 20
    )
    assert len(route.compute_address()) == 42
    with pytest.raises(ValueError, match="not a"):
        dataclasses.replace(route, **change).compute_address()
