"""What makes a receipt one, and what keys it may be checked with."""

from __future__ import annotations

import json

import pytest
from florin_server.domain.receipts import keys, signature
from florin_server.domain.receipts.keys import ReceiptKey
from florin_server.domain.receipts.verdict import NotGenuine
from florin_server.domain.sealed import Sealed
from joserfc import jws
from pydantic import ValidationError

from tests.support.altered import Signer, b64, statement, unb64

ISSUER, OTHER = Signer(b"\x11" * 32), Signer(b"\x22" * 32)
KNOWN = {ISSUER.id: ISSUER.key}
NOBODY = Sealed("", b"", b"")


def key(n: int, made_s: int, *, revoked: bool = False, of: Signer = ISSUER) -> ReceiptKey:
    made_us = made_s * 1_000_000
    return ReceiptKey(n, f"key{n}", of.public, NOBODY, made_us, made_us if revoked else None)


def refusal(text: str) -> str:
    with pytest.raises(NotGenuine) as caught:
        signature.verified(text, KNOWN)
    return str(caught.value.check)


def published(*told) -> bytes:
    return json.dumps({"keys": told}).encode()


def test_what_is_signed_is_what_is_read():
    said = statement()
    text = ISSUER.receipt(said)
    assert signature.verified(text, KNOWN) == said
    assert signature.issuer_of(text) == said.iss
    # any other reader of the standard finds the same
    told = jws.deserialize_compact(text, ISSUER.key, algorithms=["Ed25519"])
    assert told.headers() == {"alg": "Ed25519", "kid": ISSUER.id, "typ": "florin-receipt+jwt"}
    assert json.loads(told.payload)["paid"]["value"] == "12500000"


def test_what_is_not_known_is_left_out():
    text = ISSUER.receipt(statement(reference=None, refund=None, fee_to=None))
    assert {"reference", "refund", "fee_to"}.isdisjoint(json.loads(unb64(text.split(".")[1])))
    assert signature.verified(text, KNOWN).refund is None


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"paid": None}, "content"),
        ({"live": 1}, "content"),
        ({"iat": "1800000000"}, "content"),
        ({"iat": 1.5}, "content"),
        ({"version": 2}, "content"),
        ({"more": 1}, "content"),
        # the parts of an option's id stand on lines
        ({"sub": "pay_1\neip155:1:0x"}, "content"),
        ({"payer": "eip155:1:0x\n"}, "content"),
        ({"asked": {"unit": "iso4217/USD", "value": "-1"}}, "content"),
        ({"asked": {"unit": "iso4217/USD", "value": "1\n"}}, "content"),
        ({"asked": {"unit": "iso4217/USD", "value": "01"}}, "content"),
    ],
)
def test_an_issuer_that_signs_something_else_is_refused(changes, check):
    header = {"alg": "Ed25519", "kid": ISSUER.id, "typ": signature.TYPE}
    told = json.loads(statement().encoded()) | changes
    assert refusal(ISSUER.raw(json.dumps(header).encode(), json.dumps(told).encode())) == check


@pytest.mark.parametrize(
    "payload", [b"[]", b"{", b"\xff", b'{"iss":"a","iss":"b"}', b'{"iat":NaN}']
)
def test_an_issuer_that_signs_what_can_be_read_in_two_ways_is_refused(payload):
    header = {"alg": "Ed25519", "kid": ISSUER.id, "typ": signature.TYPE}
    assert refusal(ISSUER.raw(json.dumps(header).encode(), payload)) == "form"


def test_a_statement_holds_nothing_that_it_should_not():
    with pytest.raises(ValidationError):
        statement().model_validate({**statement().model_dump(), "payer": 1})


def test_a_receipt_of_another_key_is_told_so():
    assert refusal(OTHER.receipt(statement())) == "key"


NO_RECEIPT = "it is no receipt: three parts of base64url, of a certain length, make one"
MEMBERS = "its header has not just the members alg, kid and typ"
KIND = "its header is not that of a florin-receipt+jwt that is signed by Ed25519"
NAME = "its header does not name a key by its thumbprint"
ONE_WAY = "a part of it is no JSON that can be read in one way only"
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
        (unsigned("e31"), "form", "a part of it is not base64url as it is written"),
        (raw(b"{"), "form", ONE_WAY),
        (raw(b'{"alg":"Ed25519","alg":"Ed25519"}'), "form", ONE_WAY),
        (raw(b"[]"), "form", "a part of it is no JSON object"),
        (raw({}), "form", MEMBERS),
        (raw(HEADER | {"jku": "https://pay.example"}), "form", MEMBERS),
        (raw(HEADER | {"alg": "none"}), "form", KIND),
        (raw(HEADER | {"typ": "JWT"}), "form", KIND),
        (raw(HEADER | {"kid": 7}), "form", NAME),
        (raw(HEADER | {"kid": "mine"}), "form", NAME),
        (raw(HEADER | {"kid": OTHER.id}), "key", f"its key {OTHER.id} is none of the 1 that are"),
        (raw(payload=b"[]"), "form", "a part of it is no JSON object"),
        (raw(payload=b"{}"), "content", "what was signed is not what a receipt says: iss"),
        (
            unsigned(raw().split(".")[0]),
            "signature",
            "it was altered, or never signed by its key",
        ),
    ],
)
def test_a_refusal_says_what_is_wrong(text, check, why):
    with pytest.raises(NotGenuine) as caught:
        signature.verified(text, KNOWN)
    assert str(caught.value.check) == check
    assert str(caught.value).removesuffix(" known") == why


def test_a_member_within_another_is_named_by_both():
    told = json.loads(statement().encoded())
    del told["merchant"]["id"]
    with pytest.raises(NotGenuine, match=r"says: merchant\.id$"):
        signature.verified(raw(payload=json.dumps(told).encode()), KNOWN)


@pytest.mark.parametrize("payload", [b"{}", b'{"iss":7}'])
def test_who_names_no_issuer_is_of_nobody(payload):
    with pytest.raises(NotGenuine, match=r"^what was signed names no issuer$") as caught:
        signature.issuer_of(raw(payload=payload))
    assert str(caught.value.check) == "content"


def test_a_key_set_is_as_large_as_it_may_be():
    assert signature.key_set(published(*({"kty": "x"} for _ in range(1000)))) == {}


def test_a_key_is_written_in_the_alphabet_of_urls():
    """As one in four is by chance: this one has both letters that are others there."""
    seeds = (bytes([n]) * 32 for n in range(256))
    one = next(made for made in map(Signer, seeds) if {"-", "_"} <= set(b64(made.public)))
    told = {"kty": "OKP", "crv": "Ed25519", "x": b64(one.public)}
    assert list(signature.key_set(published(told))) == [one.id]


def test_a_key_set_is_read_by_thumbprints():
    one = ReceiptKey(0, ISSUER.id, ISSUER.public, NOBODY, 0).jwk
    assert one == {
        "kty": "OKP",
        "crv": "Ed25519",
        "x": b64(ISSUER.public),
        "kid": ISSUER.id,
        "use": "sig",
        "alg": "Ed25519",
    }
    nameless = {name: one[name] for name in ("kty", "crv", "x")}
    rsa = {"kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": ISSUER.id}
    for content in (published(one), published(nameless), published(rsa, one, {}, 7)):
        (found,) = signature.key_set(content)
        assert found == ISSUER.id
    text = ISSUER.receipt(statement())
    assert signature.verified(text, signature.key_set(published(one))).sub.startswith("pay_")


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"[]", b"{}", b"<html>", published()[:-1], b'{"keys":[],"keys":[]}'),
        # a stranger's key under the issuer's name
        published({"kty": "OKP", "crv": "Ed25519", "x": b64(OTHER.public), "kid": ISSUER.id}),
        published({"kty": "OKP", "crv": "Ed25519", "x": "AA"}),
        published({"kty": "OKP", "crv": "Ed25519", "x": b64(OTHER.public) + "="}),
        published({"kty": "OKP", "crv": "Ed25519"}),
        published(*({"kty": "x"} for _ in range(1001))),
    ],
)
def test_what_is_no_key_set_is_refused(content):
    with pytest.raises(ValueError, match=r"keys|another key"):
        signature.key_set(content)


def test_a_key_signs_once_everybody_must_know_it():
    made = [key(0, 0), key(1, 1000)]
    assert keys.signer(made, 1_000_000_000).n == 0
    assert keys.signer(made, 1_599_999_999).n == 0
    assert keys.signer(made, 1_600_000_000).n == 1
    # no key is older: what there is signs at once
    assert keys.signer([key(0, 1000)], 0).n == 0
    assert keys.signer([key(0, 0, revoked=True), key(1, 1000)], 1_000_000_000).n == 1
    assert keys.signer([key(0, 0, revoked=True)], 10**12) is None
    assert keys.signer([], 0) is None
