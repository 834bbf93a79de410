"""Parsers of JSON-RPC arguments in Solana's format; a malformed argument raises RpcFault."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, Final

from florin_server.domain.chains.solana import spl
from florin_server.domain.chains.solana.limits import PACKET_BYTES, V1_BYTES, V1_FIRST_BYTE
from solders.errors import BincodeError
from solders.hash import Hash, ParseHashError
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import SanitizeError, VersionedTransaction

from florin_sandbox.devnet.errors import RpcFault, invalid_params_fault
from florin_sandbox.devnet.solana.slots import CommitmentLevel

_BASE58: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def parse_fields(value: Any, allowed: Sequence[str]) -> Mapping[str, Any]:
    """Parse an object with only the allowed fields; null equals absent."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise invalid_params_fault("Invalid params: invalid type, expected a configuration object")
    unknown = sorted(name for name in value if name not in allowed)
    if unknown:
        raise invalid_params_fault(f"Invalid params: {', '.join(unknown)} not supported here")
    return {name: item for name, item in value.items() if item is not None}


def parse_commitment(options: Mapping[str, Any], name: str = "commitment") -> CommitmentLevel:
    """Parse the requested commitment; finalized if it is absent."""
    try:
        return CommitmentLevel(options.get(name, CommitmentLevel.FINALIZED))
    except ValueError as error:
        raise invalid_params_fault("Invalid params: unknown commitment") from error


def parse_number(value: Any, value_min: int, value_max: int) -> int:
    """Parse a number within bounds."""
    if not isinstance(value, int) or isinstance(value, bool) or not value_min <= value <= value_max:
        raise invalid_params_fault(
            f"Invalid params: not a number between {value_min} and {value_max}"
        )
    return value


def parse_flag(value: Any) -> bool:
    """Parse true or false."""
    if not isinstance(value, bool):
        raise invalid_params_fault("Invalid params: not true or false")
    return value


def parse_pubkey(value: Any) -> Pubkey:
    """Parse an address."""
    try:
        return spl.parse_pubkey(value)
    except (ValueError, TypeError) as error:
        raise invalid_params_fault("Invalid param: Invalid") from error


def parse_pubkeys(value: Any, count_max: int) -> list[Pubkey]:
    """Parse a list of addresses."""
    if not isinstance(value, list) or len(value) > count_max:
        raise invalid_params_fault(f"Too many inputs provided; max {count_max}")
    return [parse_pubkey(address) for address in value]


def parse_signature(value: Any) -> Signature:
    """Parse a transaction's first signature."""
    try:
        return Signature.from_string(value)
    except (ValueError, TypeError) as error:
        raise invalid_params_fault("Invalid param: Invalid") from error


def parse_blockhash(value: Any) -> Hash:
    """Parse a blockhash."""
    try:
        return Hash.from_string(value)
    except (ParseHashError, TypeError) as error:
        raise invalid_params_fault("Invalid param: Invalid") from error


def parse_transaction(value: Any, encoding: str) -> VersionedTransaction:
    """Parse a transaction of version 0, or a legacy transaction; signatures are not checked."""
    if not isinstance(value, str):
        raise invalid_params_fault("Invalid params: the transaction is not a text")
    # a byte needs 1.37 characters of base58; longer texts would take long to decode
    text_max = V1_BYTES * 4 // 3 + 4 if encoding == "base64" else V1_BYTES * 137 // 100 + 1
    if len(value) > text_max:
        text = f"{encoding} encoded transaction too large: {len(value)} bytes"
        raise invalid_params_fault(f"{text} (max: encoded/raw {text_max}/{V1_BYTES})")
    try:
        raw = (
            base64.b64decode(value, validate=True)
            if encoding == "base64"
            else _decode_base58(value)
        )
    except (binascii.Error, ValueError) as error:
        raise invalid_params_fault(f"invalid {encoding} encoding") from error
    if raw[:1] == V1_FIRST_BYTE:
        raise invalid_params_fault("Transaction version (1) is not supported")
    if len(raw) > PACKET_BYTES:
        text = f"decoded transaction too large: {len(raw)} bytes"
        raise invalid_params_fault(f"{text} (max: {PACKET_BYTES} bytes)")
    try:
        versioned_transaction = VersionedTransaction.from_bytes(raw)
        versioned_transaction.sanitize()
    except (BincodeError, SanitizeError, ValueError) as error:
        raise invalid_params_fault(f"failed to deserialize the transaction: {error}") from error
    if bytes(versioned_transaction) != raw:
        raise invalid_params_fault("failed to deserialize the transaction: trailing bytes")
    return versioned_transaction


def parse_encoding(options: Mapping[str, Any], allowed: Sequence[str], default: str) -> str:
    """Parse the encoding of bytes."""
    encoding = str(options.get("encoding", default))
    if encoding not in allowed:
        raise RpcFault(f"encoding is one of {', '.join(allowed)}", -32602)
    return encoding


def encode_base58(data: bytes) -> str:
    """Return bytes in base58."""
    rest, text = int.from_bytes(data, "big"), ""
    while rest:
        rest, digit = divmod(rest, 58)
        text = _BASE58[digit] + text
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + text


def _decode_base58(text: str) -> bytes:
    value = 0
    for letter in text:
        value = value * 58 + _BASE58.index(letter)
    zeros = len(text) - len(text.lstrip("1"))
    return bytes(zeros) + value.to_bytes((value.bit_length() + 7) // 8, "big")
