"""Test the validity of receipts, and the keys that can verify them."""

from __future__ import annotations

import json

import pytest
from florin_server.domain.cipher import Ciphertext
from florin_server.domain.receipts import keys, signature
from florin_server.domain.receipts.keys import ReceiptKey
from florin_server.domain.receipts.verdict import ReceiptNotGenuine
from joserfc import jws
from pydantic import ValidationError

from tests.support.forged_receipts import (
    ReceiptSigner,
    decode_base64url,
    encode_base64url,
    make_receipt,
)

ISSUER, OTHER = ReceiptSigner(b"\x11" * 32), ReceiptSigner(b"\x22" * 32)
KNOWN = {ISSUER.id: ISSUER.key}
NO_SECRET = Ciphertext("", b"", b"")


def key(n: int, made_s: int, *, revoked: bool = False, of: ReceiptSigner = ISSUER) -> ReceiptKey:
    made_us = made_s * 1_000_000
    return ReceiptKey(n, f"key{n}", of.public, NO_SECRET, made_us, made_us if revoked else None)


def refusal(text: str) -> str:
    with pytest.raises(ReceiptNotGenuine) as caught:
        signature.verify_receipt(text, KNOWN)
    return str(caught.value.check)


def published(*jwks) -> bytes:
    return json.dumps({"keys": jwks}).encode()


def test_signed_receipt_is_read_unchanged():
    receipt = make_receipt()
    text = ISSUER.receipt(receipt)
    assert signature.verify_receipt(text, KNOWN) == receipt
    assert signature.parse_issuer(text) == receipt.iss
    # another implementation of the standard reads the same
    compact_signature = jws.deserialize_compact(text, ISSUER.key, algorithms=["Ed25519"])
    assert compact_signature.headers() == {
        "alg": "Ed25519",
        "kid": ISSUER.id,
        "typ": "florin-receipt+jwt",
    }
    assert json.loads(compact_signature.payload)["paid"]["value"] == "12500000"


def test_missing_optional_claims_are_omitted():
    text = ISSUER.receipt(make_receipt(reference=None, refund=None, fee_to=None))
    assert {"reference", "refund", "fee_to"}.isdisjoint(
        json.loads(decode_base64url(text.split(".")[1]))
    )
    assert signature.verify_receipt(text, KNOWN).refund is None


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"paid": None}, "content"),
        ({"live": 1}, "content"),
        ({"iat": "1800000000"}, "content"),
        ({"iat": 1.5}, "content"),
        ({"version": 2}, "content"),
        ({"more": 1}, "content"),
        # each part of an option's ID is on a separate line
        ({"sub": "pay_1\neip155:1:0x"}, "content"),
        ({"payer": "eip155:1:0x\n"}, "content"),
        ({"asked": {"unit": "iso4217/USD", "value": "-1"}}, "content"),
        ({"asked": {"unit": "iso4217/USD", "value": "1\n"}}, "content"),
        ({"asked": {"unit": "iso4217/USD", "value": "01"}}, "content"),
    ],
)
def test_an_issuer_that_signs_something_else_is_refused(changes, check):
    header = {"alg": "Ed25519", "kid": ISSUER.id, "typ": signature.TYPE}
    result = json.loads(make_receipt().encode()) | changes
    assert refusal(ISSUER.raw(json.dumps(header).encode(), json.dumps(result).encode())) == check


@pytest.mark.parametrize(
    "payload", [b"[]", b"{", b"\xff", b'{"iss":"a","iss":"b"}', b'{"iat":NaN}']
)
def test_ambiguously_readable_receipt_is_refused(payload):
    header = {"alg": "Ed25519", "kid": ISSUER.id, "typ": signature.TYPE}
    assert refusal(ISSUER.raw(json.dumps(header).encode(), payload)) == "form"


def test_a_statement_holds_nothing_that_it_should_not():
    with pytest.raises(ValidationError):
        make_receipt().model_validate({**make_receipt().model_dump(), "payer": 1})


def test_receipt_of_another_key_is_refused():
    assert refusal(OTHER.receipt(make_receipt())) == "key"


NO_RECEIPT = "it is not a receipt, which has three parts of base64url of a limited length"
MEMBERS = "its header must have exactly the members alg, kid and typ"
KIND = "its header is not that of a florin-receipt+jwt that is signed by Ed25519"
NAME = "its header does not contain the thumbprint of a key"
ONE_WAY = "a part of it is not unambiguous JSON"
HEADER = {"alg": "Ed25519", "kid": ISSUER.id, "typ": signature.TYPE}
MAX = signature.RECEIPT_BYTES_MAX


def raw(header=HEADER, payload=b"{}"):
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return ISSUER.raw(header, payload)


def unsigned(header, payload="e30"):
    return f"{header}.{payload}.{'A' * 86}"


@pytest.mark.parametrize(
    ("text", "check", "why"),
    [
        ("", "form", NO_RECEIPT),
        ("a.b.c", "form", NO_RECEIPT),
        (unsigned("A" * (MAX - 92), "AAAA"), "form", ONE_WAY),
        (unsigned("A" * (MAX - 92), "AAAAA"), "form", NO_RECEIPT),
        (unsigned("AAAAA"), "form", "a part of it is not base64url"),
        (unsigned("e31"), "form", "a part of it is not canonical base64url"),
        (raw(b"{"), "form", ONE_WAY),
        (raw(b'{"alg":"Ed25519","alg":"Ed25519"}'), "form", ONE_WAY),
        (raw(b"[]"), "form", "a part of it is not a JSON object"),
        (raw({}), "form", MEMBERS),
        (raw(HEADER | {"jku": "https://pay.example"}), "form", MEMBERS),
        (raw(HEADER | {"alg": "none"}), "form", KIND),
        (raw(HEADER | {"typ": "JWT"}), "form", KIND),
        (raw(HEADER | {"kid": 7}), "form", NAME),
        (raw(HEADER | {"kid": "mine"}), "form", NAME),
        (raw(HEADER | {"kid": OTHER.id}), "key", f"its key {OTHER.id} is none of the 1 that are"),
        (raw(payload=b"[]"), "form", "a part of it is not a JSON object"),
        (raw(payload=b"{}"), "content", "its signed content is not that of a receipt: iss"),
        (
            unsigned(raw().split(".")[0]),
            "signature",
            "its signature is wrong: it was altered, or signed by another key",
        ),
    ],
)
def test_refusal_states_the_failed_check_and_its_reason(text, check, why):
    with pytest.raises(ReceiptNotGenuine) as caught:
        signature.verify_receipt(text, KNOWN)
    assert str(caught.value.check) == check
    assert str(caught.value).removesuffix(" known") == why


def test_a_member_within_another_is_named_by_both():
    result = json.loads(make_receipt().encode())
    del result["merchant"]["id"]
    with pytest.raises(ReceiptNotGenuine, match=r"receipt: merchant\.id$"):
        signature.verify_receipt(raw(payload=json.dumps(result).encode()), KNOWN)


@pytest.mark.parametrize("payload", [b"{}", b'{"iss":7}'])
def test_receipt_without_an_issuer_is_refused(payload):
    with pytest.raises(ReceiptNotGenuine, match=r"^its signed content has no issuer$") as caught:
        signature.parse_issuer(raw(payload=payload))
    assert str(caught.value.check) == "content"


def test_a_key_set_is_as_large_as_it_may_be():
    assert signature.parse_key_set(published(*({"kty": "x"} for _ in range(1000)))) == {}


def test_a_key_is_written_in_the_alphabet_of_urls():
    """One key in four contains both letters in which the alphabets differ; this key does."""
    seeds = (bytes([n]) * 32 for n in range(256))
    signer = next(
        created_signer
        for created_signer in map(ReceiptSigner, seeds)
        if {"-", "_"} <= set(encode_base64url(created_signer.public))
    )
    result = {"kty": "OKP", "crv": "Ed25519", "x": encode_base64url(signer.public)}
    assert list(signature.parse_key_set(published(result))) == [signer.id]


def test_a_key_set_is_read_by_thumbprints():
    jwk = ReceiptKey(0, ISSUER.id, ISSUER.public, NO_SECRET, 0).jwk
    assert jwk == {
        "kty": "OKP",
        "crv": "Ed25519",
        "x": encode_base64url(ISSUER.public),
        "kid": ISSUER.id,
        "use": "sig",
        "alg": "Ed25519",
    }
    nameless = {name: jwk[name] for name in ("kty", "crv", "x")}
    rsa = {"kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": ISSUER.id}
    for content in (published(jwk), published(nameless), published(rsa, jwk, {}, 7)):
        (result,) = signature.parse_key_set(content)
        assert result == ISSUER.id
    text = ISSUER.receipt(make_receipt())
    assert signature.verify_receipt(text, signature.parse_key_set(published(jwk))).sub.startswith(
        "pay_"
    )


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"[]", b"{}", b"<html>", published()[:-1], b'{"keys":[],"keys":[]}'),
        # a stranger's key under the issuer's name
        published(
            {"kty": "OKP", "crv": "Ed25519", "x": encode_base64url(OTHER.public), "kid": ISSUER.id}
        ),
        published({"kty": "OKP", "crv": "Ed25519", "x": "AA"}),
        published({"kty": "OKP", "crv": "Ed25519", "x": encode_base64url(OTHER.public) + "="}),
        published({"kty": "OKP", "crv": "Ed25519"}),
        published(*({"kty": "x"} for _ in range(1001))),
    ],
)
def test_invalid_key_set_is_refused(content):
    with pytest.raises(ValueError, match=r"keys|another key"):
        signature.parse_key_set(content)


def test_a_key_signs_once_everybody_must_know_it():
    created_keys = [key(0, 0), key(1, 1000)]
    assert keys.find_signing_key(created_keys, 1_000_000_000).n == 0
    assert keys.find_signing_key(created_keys, 1_599_999_999).n == 0
    assert keys.find_signing_key(created_keys, 1_600_000_000).n == 1
    # no key is older: the existing key signs at once
    assert keys.find_signing_key([key(0, 1000)], 0).n == 0
    assert keys.find_signing_key([key(0, 0, revoked=True), key(1, 1000)], 1_000_000_000).n == 1
    assert keys.find_signing_key([key(0, 0, revoked=True)], 10**12) is None
    assert keys.find_signing_key([], 0) is None
