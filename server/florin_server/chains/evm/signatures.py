"""ECDSA signatures as wallets write them, brought to the one form that every token accepts."""

from __future__ import annotations

import re

from coincurve import PublicKey
from eth_hash.auto import keccak

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
_HALF = ORDER // 2
_HEX = re.compile(r"0x(?:[0-9a-fA-F]{2})+", re.ASCII)
_RECOVERY = {0: 0, 1: 1, 27: 0, 28: 1}


def read_hex(text: object, bytes_max: int) -> bytes:
    """The bytes of 0x-hex text; ValueError for anything else, also for more than `bytes_max`."""
    if not isinstance(text, str) or len(text) > 2 + 2 * bytes_max or not _HEX.fullmatch(text):
        raise ValueError("not 0x-hex")
    return bytes.fromhex(text[2:])


def canonical_signature(text: str) -> bytes:
    """The 65 bytes r, s, v of a signature, s in the lower half and v 27 or 28.

    Reads 65 bytes with v 0, 1, 27 or 28 and the 64 bytes of EIP-2098; ValueError for all else.
    """
    return canonical(read_hex(text, 65))


def canonical(data: bytes) -> bytes:
    """The same for bytes."""
    if len(data) == 65:
        if data[64] not in _RECOVERY:
            raise ValueError("no such recovery id")
        parity = _RECOVERY[data[64]]
        s = int.from_bytes(data[32:64], "big")
    elif len(data) == 64:
        parity = data[32] >> 7
        s = int.from_bytes(data[32:], "big") & ((1 << 255) - 1)
    else:
        raise ValueError("neither 64 nor 65 bytes")
    r = int.from_bytes(data[:32], "big")
    if not (0 < r < ORDER and 0 < s < ORDER):
        raise ValueError("outside the curve's order")
    if s > _HALF:
        s, parity = ORDER - s, parity ^ 1
    return data[:32] + s.to_bytes(32, "big") + bytes([27 + parity])


def recover(digest: bytes, signature: bytes) -> str | None:
    """The lower-case address whose key signed; None if no key can have. Takes canonical bytes."""
    if len(digest) != 32 or len(signature) != 65 or signature[64] not in {27, 28}:
        return None
    recoverable = signature[:64] + bytes([signature[64] - 27])
    try:
        key = PublicKey.from_signature_and_message(recoverable, digest, hasher=None)
    except Exception:  # noqa: BLE001  (the library raises bare exceptions)
        return None
    return address_of_key(key)


def address_of_key(key: PublicKey) -> str:
    """The lower-case address of a public key."""
    return "0x" + keccak(key.format(compressed=False)[1:])[12:].hex()
