"""Test ABI encoding with hand-written examples."""

from __future__ import annotations

import pytest
from florin_server.domain.chains.evm import abi


def test_bytes_are_written_as_json_rpc_writes_them():
    assert abi.to_hex(b"") == "0x"
    assert abi.to_hex(bytes.fromhex("00ff0a")) == "0x00ff0a"


def test_selectors_and_topics_match_their_signatures():
    assert abi.encode_selector("transfer(address,uint256)").hex() == "a9059cbb"
    topic = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
    assert abi.encode_topic("Transfer(address,address,uint256)") == topic


def test_a_word_is_32_bytes_with_the_value_at_its_end():
    assert abi.encode_uint256(258) == bytes(30) + b"\x01\x02"
    assert abi.encode_uint256(2**256 - 1) == b"\xff" * 32
    assert abi.encode_address("0x" + "Ab" * 20) == bytes(12) + b"\xab" * 20
    for wrong in (-1, 2**256):
        with pytest.raises(OverflowError):
            abi.encode_uint256(wrong)


@pytest.mark.parametrize(("data", "words"), [(b"", 1), (b"a", 2), (b"a" * 32, 2), (b"a" * 33, 3)])
def test_bytes_stand_behind_their_length_in_whole_words(data, words):
    padded = abi.encode_bytes(data)
    assert padded == abi.encode_uint256(len(data)) + data.ljust((words - 1) * 32, b"\0")
    assert b"".join(abi.split_words(padded)) == padded
    assert len(abi.split_words(padded)) == words


@pytest.mark.parametrize("size", [1, 31, 33])
def test_incomplete_words_are_refused(size):
    with pytest.raises(ValueError, match="^not whole words$"):
        abi.split_words(bytes(size))


def test_an_address_fills_the_end_of_its_word():
    assert abi.decode_address(bytes(12) + b"\xab" * 20) == "0x" + "ab" * 20
    for wrong in (bytes(11) + b"\x01" + bytes(20), bytes(31), bytes(33), b"\x01" + bytes(31)):
        with pytest.raises(ValueError, match="^not an address$"):
            abi.decode_address(wrong)


def test_a_string_is_read_up_to_the_end_of_the_answer():
    text = abi.encode_uint256(32) + abi.encode_bytes(b"USD Coin")
    assert abi.decode_string(text) == "USD Coin"
    # some contracts do not pad the last word
    assert abi.decode_string(text[: 64 + 8]) == "USD Coin"
    assert abi.decode_string(abi.encode_uint256(32) + abi.encode_uint256(0)) == ""
    assert abi.decode_string(b"DAX".ljust(32, b"\0")) == "DAX"
    for wrong in (b"", bytes(31), text[:63], abi.encode_uint256(64) + abi.encode_bytes(b"a")):
        with pytest.raises(ValueError, match="^not a string$"):
            abi.decode_string(wrong)
    with pytest.raises(ValueError, match="^a string is longer than its answer$"):
        abi.decode_string(text[: 64 + 7])


def test_bytes_are_decoded_at_their_head_offset():
    data = (
        abi.encode_uint256(1)
        + abi.encode_uint256(64)
        + abi.encode_bytes(b"abc")
        + abi.encode_bytes(b"d")
    )
    assert abi.decode_bytes_at(data, 1) == b"abc"
    # a value that ends with the data, and an empty value
    assert abi.decode_bytes_at(abi.encode_uint256(32) + abi.encode_uint256(2) + b"ab", 0) == b"ab"
    assert abi.decode_bytes_at(abi.encode_uint256(32) + abi.encode_uint256(0), 0) == b""
    with pytest.raises(ValueError, match="^an offset points beyond the end of the data$"):
        abi.decode_bytes_at(abi.encode_uint256(33) + abi.encode_uint256(0), 0)
    with pytest.raises(ValueError, match="^a value extends beyond the end$"):
        abi.decode_bytes_at(abi.encode_uint256(32) + abi.encode_uint256(3) + b"ab", 0)
