"""Test that signatures are accepted in every form that wallets write, and in no other."""

from __future__ import annotations

import pytest
from eth_hash.auto import keccak
from florin_server.domain.chains.evm.signatures import (
    CURVE_ORDER,
    canonicalize_signature,
    derive_address,
    parse_hex,
    recover_address,
    sign_digest,
)
from hypothesis import given, settings
from hypothesis import strategies as st

SECRET = b"\x01" * 32
ADDRESS = derive_address(SECRET)
digests = st.binary(min_size=32, max_size=32)


def signed(digest, secret=SECRET):
    """Return r, low s and the recovery ID."""
    raw = sign_digest(secret, digest)
    return int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:64], "big"), raw[64]


def parse_signature(text):
    return canonicalize_signature(parse_hex(text, 65))


def written(r, s, v):
    return "0x" + (r.to_bytes(32, "big") + s.to_bytes(32, "big") + bytes([v])).hex()


def compact(r, s, parity):
    return "0x" + (r.to_bytes(32, "big") + (s | parity << 255).to_bytes(32, "big")).hex()


@settings(max_examples=50, deadline=None)
@given(digests)
def test_every_spelling_of_a_signature_becomes_the_same_bytes(digest):
    r, s, parity = signed(digest)
    spellings = [
        written(r, s, 27 + parity),
        written(r, s, parity),
        written(r, CURVE_ORDER - s, 28 - parity),
        written(r, CURVE_ORDER - s, 1 - parity),
        compact(r, s, parity),
        written(r, s, 27 + parity).upper().replace("0X", "0x"),
    ]
    assert {parse_signature(text) for text in spellings} == {
        bytes.fromhex(written(r, s, 27 + parity)[2:])
    }


@pytest.mark.parametrize("s", [1, CURVE_ORDER // 2])
def test_the_least_and_the_greatest_that_tokens_accept_stay_as_they_are(s):
    assert parse_signature(written(1, s, 27)).hex() == written(1, s, 27)[2:]
    assert parse_signature(written(1, CURVE_ORDER - s, 27)).hex() == written(1, s, 28)[2:]


@settings(max_examples=50, deadline=None)
@given(
    digests,
    st.binary(min_size=32, max_size=32).filter(
        lambda raw: 0 < int.from_bytes(raw, "big") < CURVE_ORDER
    ),
)
def test_the_signer_is_recovered(digest, secret):
    r, s, parity = signed(digest, secret)
    signature = parse_signature(written(r, s, 27 + parity))
    assert recover_address(digest, signature) == derive_address(secret)


def test_another_digest_gives_another_signer():
    r, s, parity = signed(keccak(b"pay 1"))
    signature = parse_signature(written(r, s, parity))
    assert recover_address(keccak(b"pay 1"), signature) == ADDRESS
    assert recover_address(keccak(b"pay 2"), signature) != ADDRESS


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0x",
        "0x0",
        "11" * 65,
        "0X" + "11" * 65,
        "0x" + "11" * 63,
        "0x" + "11" * 66,
        "0x" + "11" * 100_000,
        "0x" + "zz" * 65,
        "0x" + "11" * 64 + "1",
        " 0x" + "11" * 65,
        "0x" + "11" * 65 + "\n",
        "0x" + "１" * 130,
        written(1, 1, 2),
        written(1, 1, 29),
        written(1, 1, 255),
        written(0, 1, 27),
        written(1, 0, 27),
        written(CURVE_ORDER, 1, 27),
        written(1, CURVE_ORDER, 27),
        written(2**256 - 1, 1, 27),
        compact(1, 0, 1),
        None,
        65,
        ["0x"],
        {"signature": "0x"},
    ],
)
def test_invalid_signature_is_refused(text):
    with pytest.raises(ValueError, match=r".+"):
        parse_signature(text)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(), st.binary(max_size=70).map(lambda raw: "0x" + raw.hex())))
def test_noise_is_a_signature_or_a_value_error(text):
    try:
        signature = parse_signature(text)
    except ValueError:
        return
    assert len(signature) == 65
    assert signature[64] in {27, 28}
    assert 0 < int.from_bytes(signature[32:64], "big") <= CURVE_ORDER // 2


@settings(max_examples=200, deadline=None)
@given(digests, st.binary(min_size=63, max_size=66))
def test_recovering_from_noise_gives_an_address_or_nothing(digest, noise):
    result = recover_address(digest, noise)
    assert result is None or (len(result) == 42 and result.startswith("0x"))


@pytest.mark.parametrize("r", [0, CURVE_ORDER, 5, 2**256 - 1])
def test_point_off_the_curve_recovers_no_address(r):
    # no point of the curve has x = 5
    signature = r.to_bytes(32, "big") + (1).to_bytes(32, "big") + b"\x1b"
    assert recover_address(keccak(b""), signature) is None


def test_digest_of_wrong_length_recovers_no_address():
    r, s, parity = signed(keccak(b""))
    assert recover_address(b"short", parse_signature(written(r, s, parity))) is None


def test_hex_is_read_up_to_a_limit():
    assert parse_hex("0xAbcd", 2) == b"\xab\xcd"
    with pytest.raises(ValueError, match="0x-hex"):
        parse_hex("0xabcdef", 2)
