"""The part of the contract ABI that the rail uses, encoded and decoded by hand.

Everything here consists of 32-byte words; the general encoder costs five times as much.
"""

from __future__ import annotations

from eth_hash.auto import keccak

WORD = 32


def encode_selector(signature: str) -> bytes:
    """Return the first four bytes of a call."""
    return bytes(keccak(signature.encode())[:4])


def encode_topic(signature: str) -> str:
    """Return an event's first topic, 0x-hex."""
    return "0x" + keccak(signature.encode()).hex()


def encode_uint256(value: int) -> bytes:
    """Encode a uint256; raise OverflowError outside its range."""
    return value.to_bytes(WORD, "big")


def encode_address(text: str) -> bytes:
    """Encode an address word from 0x and 40 hex digits."""
    return bytes.fromhex(text[2:]).rjust(WORD, b"\0")


def encode_bytes(data: bytes) -> bytes:
    """Encode a bytes value after its length, padded to whole words."""
    return encode_uint256(len(data)) + data + b"\0" * (-len(data) % WORD)


def to_hex(call: bytes) -> str:
    """Return bytes in the format of JSON-RPC."""
    return "0x" + call.hex()


def split_words(data: bytes) -> list[bytes]:
    """Split data into words; raise ValueError unless it consists of whole words."""
    if len(data) % WORD:
        raise ValueError("not whole words")
    return [data[i : i + WORD] for i in range(0, len(data), WORD)]


def decode_address(word: bytes) -> str:
    """Return the lower-case address in a word; raise ValueError if the word contains more."""
    if len(word) != WORD or any(word[:12]):
        raise ValueError("not an address")
    return "0x" + word[12:].hex()


def decode_string(data: bytes) -> str:
    """Decode a returned string, also old tokens' bytes32 form; raise ValueError otherwise."""
    if len(data) == WORD:
        return data.rstrip(b"\0").decode()
    offset = int.from_bytes(data[:WORD], "big")
    if offset != WORD or len(data) < 2 * WORD:
        raise ValueError("not a string")
    length = int.from_bytes(data[WORD : 2 * WORD], "big")
    if length > len(data) - 2 * WORD:
        raise ValueError("a string is longer than its answer")
    return data[2 * WORD : 2 * WORD + length].decode()


def decode_bytes_at(data: bytes, head_word: int) -> bytes:
    """Return the bytes value at a head word's offset; raise ValueError if out of bounds."""
    start = int.from_bytes(data[head_word * WORD : (head_word + 1) * WORD], "big")
    if start + WORD > len(data):
        raise ValueError("an offset points beyond the end of the data")
    length = int.from_bytes(data[start : start + WORD], "big")
    if start + WORD + length > len(data):
        raise ValueError("a value extends beyond the end")
    return data[start + WORD : start + WORD + length]
