"""ECDSA signatures of wallets, converted to the single form that every token accepts."""

from __future__ import annotations

import re

from btclib_libsecp256k1 import keys, recovery
from eth_hash.auto import keccak

CURVE_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
_HALF = CURVE_ORDER // 2
_HEX = re.compile(r"0x(?:[0-9a-fA-F]{2})+", re.ASCII)
_RECOVERY = {0: 0, 1: 1, 27: 0, 28: 1}


def parse_hex(text: object, bytes_max: int) -> bytes:
    """Return the bytes of 0x-hex text; ValueError for other text, or above `bytes_max`."""
    if not isinstance(text, str) or len(text) > 2 + 2 * bytes_max or not _HEX.fullmatch(text):
        raise ValueError("not 0x-hex")
    return bytes.fromhex(text[2:])


def canonicalize_signature(data: bytes) -> bytes:
    """Return a signature's 65 bytes r, s, v, with s in the lower half and v 27 or 28.

    Accept 65 bytes with v 0, 1, 27 or 28, and the 64 bytes of EIP-2098; raise ValueError for all
    else.
    """
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
    if not (0 < r < CURVE_ORDER and 0 < s < CURVE_ORDER):
        raise ValueError("outside the curve's order")
    if s > _HALF:
        s, parity = CURVE_ORDER - s, parity ^ 1
    return data[:32] + s.to_bytes(32, "big") + bytes([27 + parity])


def recover_address(digest: bytes, signature: bytes) -> str | None:
    """Return the lower-case address of the signing key, from canonical bytes; None if invalid."""
    if len(digest) != 32 or len(signature) != 65 or signature[64] not in {27, 28}:
        return None
    try:
        key = recovery.recover(digest, signature[:64], signature[64] - 27, compressed=False)
    except ValueError:
        return None
    return _hash_key(key)


def derive_address(secret: bytes) -> str:
    """Return the lower-case address of a private key; ValueError if it is none."""
    return _hash_key(keys.pubkey_from_prvkey(secret, compressed=False))


def sign_digest(secret: bytes, digest: bytes) -> bytes:
    """Return the 65 bytes r, s, parity (0 or 1); equal arguments give equal bytes (RFC 6979)."""
    signature, parity = recovery.sign(digest, secret)
    return signature + bytes([parity])


def _hash_key(key: bytes) -> str:
    """Return the address of an uncompressed public key, without its first byte."""
    return "0x" + keccak(key[1:])[12:].hex()
