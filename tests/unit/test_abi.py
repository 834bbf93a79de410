"""Words of the contract ABI, by hand-written examples."""

from __future__ import annotations

import pytest
from florin_server.chains.evm import abi


def test_bytes_are_written_as_json_rpc_writes_them():
    assert abi.data_of(b"") == "0x"
    assert abi.data_of(bytes.fromhex("00ff0a")) == "0x00ff0a"


def test_calls_and_events_are_known_by_their_signatures():
    assert abi.selector("transfer(address,uint256)").hex() == "a9059cbb"
    topic = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
    assert abi.topic("Transfer(address,address,uint256)") == topic


def test_a_word_is_32_bytes_with_the_value_at_its_end():
    assert abi.number(258) == bytes(30) + b"\x01\x02"
    assert abi.number(2**256 - 1) == b"\xff" * 32
    assert abi.address("0x" + "Ab" * 20) == bytes(12) + b"\xab" * 20
    for wrong in (-1, 2**256):
        with pytest.raises(OverflowError):
            abi.number(wrong)


@pytest.mark.parametrize(("data", "words"), [(b"", 1), (b"a", 2), (b"a" * 32, 2), (b"a" * 33, 3)])
def test_bytes_stand_behind_their_length_in_whole_words(data, words):
    padded = abi.padded(data)
    assert padded == abi.number(len(data)) + data.ljust((words - 1) * 32, b"\0")
    assert b"".join(abi.words(padded)) == padded
    assert len(abi.words(padded)) == words


@pytest.mark.parametrize("size", [1, 31, 33])
def test_what_is_no_whole_word_is_refused(size):
    with pytest.raises(ValueError, match="^not whole words$"):
        abi.words(bytes(size))


def test_an_address_fills_the_end_of_its_word():
    assert abi.address_of(bytes(12) + b"\xab" * 20) == "0x" + "ab" * 20
    for wrong in (bytes(11) + b"\x01" + bytes(20), bytes(31), bytes(33), b"\x01" + bytes(31)):
        with pytest.raises(ValueError, match="^not an address$"):
            abi.address_of(wrong)


def test_a_string_is_read_up_to_the_end_of_the_answer():
    text = abi.number(32) + abi.padded(b"USD Coin")
    assert abi.text_of(text) == "USD Coin"
    # some contracts leave out what fills the last word
    assert abi.text_of(text[: 64 + 8]) == "USD Coin"
    assert abi.text_of(abi.number(32) + abi.number(0)) == ""
    assert abi.text_of(b"DAX".ljust(32, b"\0")) == "DAX"
    for wrong in (b"", bytes(31), text[:63], abi.number(64) + abi.padded(b"a")):
        with pytest.raises(ValueError, match="^not a string$"):
            abi.text_of(wrong)
    with pytest.raises(ValueError, match="^a string longer than its answer$"):
        abi.text_of(text[: 64 + 7])


def test_bytes_are_found_by_the_offset_in_their_head_word():
    data = abi.number(1) + abi.number(64) + abi.padded(b"abc") + abi.padded(b"d")
    assert abi.bytes_at(data, 1) == b"abc"
    # a value that ends with the data, and an empty one
    assert abi.bytes_at(abi.number(32) + abi.number(2) + b"ab", 0) == b"ab"
    assert abi.bytes_at(abi.number(32) + abi.number(0), 0) == b""
    with pytest.raises(ValueError, match="^an offset behind the end$"):
        abi.bytes_at(abi.number(33) + abi.number(0), 0)
    with pytest.raises(ValueError, match="^a value behind the end$"):
        abi.bytes_at(abi.number(32) + abi.number(3) + b"ab", 0)
