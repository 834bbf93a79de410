"""Test signed messages against the published digests and a general encoder."""

from __future__ import annotations

import json

import pytest
from eth_account.messages import encode_typed_data
from eth_hash.auto import keccak
from florin_server.domain.chains.evm.typed_data import (
    PERMIT2,
    Eip712Domain,
    PermitTransferFrom,
    ReceiveWithAuthorization,
    build_permit2_domain,
    format_sign_request,
)
from hypothesis import given, settings
from hypothesis import strategies as st

USDC = Eip712Domain("USD Coin", "2", 8453, "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913")
AUTHORIZATION = ReceiveWithAuthorization(
    domain=USDC,
    payer="0x" + "11" * 20,
    payee="0x" + "22" * 20,
    value=0xF4240,
    valid_after=0,
    valid_before=0x6AAAF309,
    nonce=b"\xab" * 32,
)
PERMIT = PermitTransferFrom(
    domain=build_permit2_domain(1),
    token="0xdac17f958d2ee523a2206206994597c13d831ec7",
    amount=0x186A0,
    spender="0x" + "22" * 20,
    nonce=int.from_bytes(b"\xcd" * 32, "big"),
    deadline=0x6AAAF309,
)

addresses = st.binary(min_size=20, max_size=20).map(lambda raw: "0x" + raw.hex())
numbers = st.integers(min_value=0, max_value=2**256 - 1)
domains = st.builds(
    Eip712Domain,
    name=st.text(max_size=40),
    version=st.text(max_size=5),
    chain_id=st.integers(min_value=1, max_value=2**53),
    contract=addresses,
)


def general_digest(document):
    message = encode_typed_data(full_message=document)
    return keccak(b"\x19" + message.version + message.header + message.body)


def test_authorization_has_the_published_digest():
    expected = "e7e671c640f3a8b07904dbc698bb5ed9706ca05753f2b18e7b66677fbb6fe3d6"
    assert AUTHORIZATION.compute_digest().hex() == expected


def test_permit_has_the_published_digest():
    expected = "e5b152d3bc3fec93407ec0f92be1bc606cb42ecefb5c014ec5f4eb3362d23271"
    assert PERMIT.compute_digest().hex() == expected


@settings(max_examples=60, deadline=None)
@given(
    st.builds(
        ReceiveWithAuthorization,
        domain=domains,
        payer=addresses,
        payee=addresses,
        value=numbers,
        valid_after=numbers,
        valid_before=numbers,
        nonce=st.binary(min_size=32, max_size=32),
    )
)
def test_every_authorization_hashes_like_its_document(message):
    assert message.compute_digest() == general_digest(message.to_document())


@settings(max_examples=60, deadline=None)
@given(
    st.builds(
        PermitTransferFrom,
        domain=st.integers(min_value=1, max_value=2**53).map(build_permit2_domain),
        token=addresses,
        amount=numbers,
        spender=addresses,
        nonce=numbers,
        deadline=numbers,
    )
)
def test_every_permit_hashes_like_its_document(message):
    assert message.compute_digest() == general_digest(message.to_document())


def test_authorization_document_is_written_as_published():
    document = AUTHORIZATION.to_document()
    assert list(document) == ["types", "primaryType", "domain", "message"]
    assert list(document["types"]) == ["EIP712Domain", "ReceiveWithAuthorization"]
    assert document["types"]["EIP712Domain"] == [
        {"name": "name", "type": "string"},
        {"name": "version", "type": "string"},
        {"name": "chainId", "type": "uint256"},
        {"name": "verifyingContract", "type": "address"},
    ]
    assert [tuple(item.values()) for item in document["types"]["ReceiveWithAuthorization"]] == [
        ("from", "address"),
        ("to", "address"),
        ("value", "uint256"),
        ("validAfter", "uint256"),
        ("validBefore", "uint256"),
        ("nonce", "bytes32"),
    ]
    assert document["domain"] == {
        "name": "USD Coin",
        "version": "2",
        "chainId": "0x2105",
        "verifyingContract": USDC.contract,
    }
    assert document["message"] == {
        "from": "0x" + "11" * 20,
        "to": "0x" + "22" * 20,
        "value": "0xf4240",
        "validAfter": "0x0",
        "validBefore": "0x6aaaf309",
        "nonce": "0x" + "ab" * 32,
    }


def test_permit_document_is_written_as_published():
    document = PERMIT.to_document()
    assert list(document["types"]) == ["EIP712Domain", "PermitTransferFrom", "TokenPermissions"]
    assert [item["name"] for item in document["types"]["EIP712Domain"]] == [
        "name",
        "chainId",
        "verifyingContract",
    ]
    assert document["domain"] == {
        "name": "Permit2",
        "chainId": "0x1",
        "verifyingContract": PERMIT2,
    }
    assert list(document["message"]) == ["permitted", "spender", "nonce", "deadline"]
    assert document["message"]["permitted"] == {"token": PERMIT.token, "amount": "0x186a0"}


def test_request_is_the_signer_and_the_document_as_text():
    signer, text = json.loads(format_sign_request(AUTHORIZATION.payer, AUTHORIZATION))
    assert signer == AUTHORIZATION.payer
    assert json.loads(text) == AUTHORIZATION.to_document()


@pytest.mark.parametrize("member", ["name", "version", "chain_id", "contract"])
def test_domain_members_all_count(member):
    other = {
        "name": "USD Coin.",
        "version": "1",
        "chain_id": 1,
        "contract": "0x" + "33" * 20,
    }
    values = {name: getattr(USDC, name) for name in other} | {member: other[member]}
    assert Eip712Domain(**values).compute_separator() != USDC.compute_separator()


def test_permit2s_domain_is_that_of_the_contract():
    """The value that its DOMAIN_SEPARATOR returns on Ethereum mainnet."""
    output = "866a5aba21966af95d6c7ab78eb2b2fc913915c28be3b9aa07cc04ff903e3f28"
    assert build_permit2_domain(1).compute_separator().hex() == output
