"""Reads JSON-RPC arguments in Solana's spelling; anything malformed is an invalid argument."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, Final

from solders.errors import BincodeError
from solders.hash import Hash, ParseHashError
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import SanitizeError, VersionedTransaction

from florin_server.chains.solana import spl
from florin_server.chains.solana.limits import PACKET_BYTES, V1_BYTES, V1_FIRST_BYTE
from florin_server.devnet.errors import RpcFault, bad_params
from florin_server.devnet.solana.slots import Commitment

_BASE58: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def fields(value: Any, allowed: Sequence[str]) -> Mapping[str, Any]:
    """An object with none but the allowed fields; null is the same as absent."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise bad_params("Invalid params: invalid type, expected a configuration object")
    unknown = sorted(name for name in value if name not in allowed)
    if unknown:
        raise bad_params(f"Invalid params: {', '.join(unknown)} not supported here")
    return {name: one for name, one in value.items() if one is not None}


def commitment(given: Mapping[str, Any], name: str = "commitment") -> Commitment:
    """Read the commitment that a caller wants; finalized unless named."""
    try:
        return Commitment(given.get(name, Commitment.FINALIZED))
    except ValueError as error:
        raise bad_params("Invalid params: unknown commitment") from error


def number(value: Any, least: int, most: int) -> int:
    """A number within bounds."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise bad_params(f"Invalid params: not a number between {least} and {most}")
    return value


def flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise bad_params("Invalid params: not true or false")
    return value


def pubkey(value: Any) -> Pubkey:
    """An address."""
    try:
        return spl.pubkey(value)
    except (ValueError, TypeError) as error:
        raise bad_params("Invalid param: Invalid") from error


def pubkeys(value: Any, most: int) -> list[Pubkey]:
    """A list of addresses."""
    if not isinstance(value, list) or len(value) > most:
        raise bad_params(f"Too many inputs provided; max {most}")
    return [pubkey(one) for one in value]


def signature(value: Any) -> Signature:
    """A transaction's first signature."""
    try:
        return Signature.from_string(value)
    except (ValueError, TypeError) as error:
        raise bad_params("Invalid param: Invalid") from error


def blockhash(value: Any) -> Hash:
    """A blockhash."""
    try:
        return Hash.from_string(value)
    except (ParseHashError, TypeError) as error:
        raise bad_params("Invalid param: Invalid") from error


def transaction(value: Any, encoding: str) -> VersionedTransaction:
    """Parse a transaction of version 0, or a legacy one; its signatures are not looked at."""
    if not isinstance(value, str):
        raise bad_params("Invalid params: the transaction is no text")
    # a byte takes 1.37 characters of base58; longer texts would take long to decode
    text_max = V1_BYTES * 4 // 3 + 4 if encoding == "base64" else V1_BYTES * 137 // 100 + 1
    if len(value) > text_max:
        text = f"{encoding} encoded transaction too large: {len(value)} bytes"
        raise bad_params(f"{text} (max: encoded/raw {text_max}/{V1_BYTES})")
    try:
        raw = base64.b64decode(value, validate=True) if encoding == "base64" else _base58(value)
    except (binascii.Error, ValueError) as error:
        raise bad_params(f"invalid {encoding} encoding") from error
    if raw[:1] == V1_FIRST_BYTE:
        raise bad_params("Transaction version (1) is not supported")
    if len(raw) > PACKET_BYTES:
        text = f"decoded transaction too large: {len(raw)} bytes"
        raise bad_params(f"{text} (max: {PACKET_BYTES} bytes)")
    try:
        found = VersionedTransaction.from_bytes(raw)
        found.sanitize()
    except (BincodeError, SanitizeError, ValueError) as error:
        raise bad_params(f"failed to deserialize the transaction: {error}") from error
    if bytes(found) != raw:
        raise bad_params("failed to deserialize the transaction: trailing bytes")
    return found


def encoding_of(given: Mapping[str, Any], allowed: Sequence[str], otherwise: str) -> str:
    """How bytes are written."""
    found = str(given.get("encoding", otherwise))
    if found not in allowed:
        raise RpcFault(f"encoding is one of {', '.join(allowed)}", -32602)
    return found


def base58(data: bytes) -> str:
    """Bytes in base58."""
    rest, text = int.from_bytes(data, "big"), ""
    while rest:
        rest, digit = divmod(rest, 58)
        text = _BASE58[digit] + text
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + text


def _base58(text: str) -> bytes:
    value = 0
    for letter in text:
        value = value * 58 + _BASE58.index(letter)
    zeros = len(text) - len(text.lstrip("1"))
    return bytes(zeros) + value.to_bytes((value.bit_length() + 7) // 8, "big")
