"""The part of the contract ABI that the rail speaks, encoded and decoded by hand.

Everything here is made of 32-byte words; the general encoder costs five times as much.
"""

from __future__ import annotations

from eth_hash.auto import keccak

WORD = 32


def selector(signature: str) -> bytes:
    """The first four bytes of a call."""
    return bytes(keccak(signature.encode())[:4])


def topic(signature: str) -> str:
    """An event's first topic, 0x-hex."""
    return "0x" + keccak(signature.encode()).hex()


def number(value: int) -> bytes:
    """A uint256; OverflowError outside its range."""
    return value.to_bytes(WORD, "big")


def address(text: str) -> bytes:
    """An address word from 0x and 40 hex digits."""
    return bytes.fromhex(text[2:]).rjust(WORD, b"\0")


def padded(data: bytes) -> bytes:
    """A bytes value behind its length, filled up to whole words."""
    return number(len(data)) + data + b"\0" * (-len(data) % WORD)


def data_of(call: bytes) -> str:
    """Bytes as JSON-RPC writes them."""
    return "0x" + call.hex()


def words(data: bytes) -> list[bytes]:
    """Splits data into words; ValueError unless it is whole words."""
    if len(data) % WORD:
        raise ValueError("not whole words")
    return [data[i : i + WORD] for i in range(0, len(data), WORD)]


def address_of(word: bytes) -> str:
    """The lower-case address in a word; ValueError if the word holds more."""
    if len(word) != WORD or any(word[:12]):
        raise ValueError("not an address")
    return "0x" + word[12:].hex()


def text_of(data: bytes) -> str:
    """A returned string; the bytes32 form of old tokens is read too. ValueError otherwise."""
    if len(data) == WORD:
        return data.rstrip(b"\0").decode()
    offset = int.from_bytes(data[:WORD], "big")
    if offset != WORD or len(data) < 2 * WORD:
        raise ValueError("not a string")
    length = int.from_bytes(data[WORD : 2 * WORD], "big")
    if length > len(data) - 2 * WORD:
        raise ValueError("a string longer than its answer")
    return data[2 * WORD : 2 * WORD + length].decode()


def bytes_at(data: bytes, head_word: int) -> bytes:
    """The bytes value whose offset stands in a head word; ValueError when out of bounds."""
    start = int.from_bytes(data[head_word * WORD : (head_word + 1) * WORD], "big")
    if start + WORD > len(data):
        raise ValueError("an offset behind the end")
    length = int.from_bytes(data[start : start + WORD], "big")
    if start + WORD + length > len(data):
        raise ValueError("a value behind the end")
    return data[start + WORD : start + WORD + length]
