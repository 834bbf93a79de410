"""Test that the library most wallets use hashes the rail's signing requests to the same value."""

from __future__ import annotations

import json

import pytest
from florin_server.domain.chains.evm.typed_data import (
    Eip712Domain,
    PermitTransferFrom,
    ReceiveWithAuthorization,
    build_permit2_domain,
    format_sign_request,
)

from tests.support import javascript

HASHES = """
import { TypedDataEncoder, Wallet } from 'ethers';
let text = '';
for await (const piece of process.stdin) text += piece;
const wallet = new Wallet('0x' + '01'.repeat(32));
const answers = [];
for (const params of JSON.parse(text)) {
  const { types, primaryType, domain, message } = JSON.parse(params[1]);
  const { EIP712Domain, ...rest } = types;
  answers.push({
    primaryType: TypedDataEncoder.getPrimaryType(rest),
    digest: TypedDataEncoder.hash(domain, rest, message),
    signature: await wallet.signTypedData(domain, rest, message),
  });
}
console.log(JSON.stringify(answers));
"""
SIGNER = "0x1a642f0e3c3af545e7acbd38b07251b3990914f1"
MESSAGES = [
    ReceiveWithAuthorization(
        domain=Eip712Domain("USD Coin", "2", 8453, "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"),
        payer="0x" + "11" * 20,
        payee="0x" + "22" * 20,
        value=0xF4240,
        valid_after=0,
        valid_before=0x6AAAF309,
        nonce=b"\xab" * 32,
    ),
    ReceiveWithAuthorization(
        domain=Eip712Domain("Prüf-Dollar €", "1.0", 2**53 - 1, "0x" + "fe" * 20),
        payer=SIGNER,
        payee="0x" + "00" * 20,
        value=2**256 - 1,
        valid_after=2**255,
        valid_before=0,
        nonce=bytes(32),
    ),
    PermitTransferFrom(
        domain=build_permit2_domain(1),
        token="0xdac17f958d2ee523a2206206994597c13d831ec7",
        amount=0x186A0,
        spender="0x" + "22" * 20,
        nonce=int.from_bytes(b"\xcd" * 32, "big"),
        deadline=0x6AAAF309,
    ),
]


@pytest.fixture(scope="module")
def answers():
    """Return the hashes that ethers computes for the requests."""
    return javascript.run_script(
        HASHES, [json.loads(format_sign_request(SIGNER, message)) for message in MESSAGES]
    )


@pytest.mark.parametrize("index", range(len(MESSAGES)))
def test_ethers_computes_the_same_digest(answers, index):
    assert answers[index]["digest"] == "0x" + MESSAGES[index].compute_digest().hex()


@pytest.mark.parametrize("index", range(len(MESSAGES)))
def test_a_signature_by_ethers_recovers_to_its_wallet(answers, index):
    from florin_server.domain.chains.evm.signatures import (
        canonicalize_signature,
        parse_hex,
        recover_address,
    )

    signature = canonicalize_signature(parse_hex(answers[index]["signature"], 65))
    assert recover_address(MESSAGES[index].compute_digest(), signature) == SIGNER


def test_ethers_finds_the_same_primary_types(answers):
    assert [answer["primaryType"] for answer in answers] == [
        "ReceiveWithAuthorization",
        "ReceiveWithAuthorization",
        "PermitTransferFrom",
    ]
