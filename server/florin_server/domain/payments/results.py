"""The outputs of a wallet for its actions, compared with the expected ones.

Outputs are JSON texts. This module checks their number and form only; the rail checks what a
signature signs.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from itertools import chain

import orjson

_HEX = re.compile(r"0x(?:[0-9a-fA-F]{2})*")
_HASH_BYTES = 32
_SIGNATURE_BYTES_MIN = 64
_SOLANA_BYTES_MIN = 65


class OutputKind(StrEnum):
    """The expected kind of an action's output."""

    SIGNATURE = "signature"
    TX_HASH = "tx_hash"
    SOLANA_TX = "solana_tx"
    ANY = "any"


class OutputVerdict(StrEnum):
    """The result of comparing outputs with their actions."""

    OK = "ok"
    MISMATCH = "mismatch"  # a valid output of the wrong kind, or a wrong number of them
    UNREADABLE = "unreadable"  # of an unknown form: it says nothing about the buyer's will


@dataclass(frozen=True, slots=True)
class OutputMatch:
    """The verdict, and which output (from 0) led to it; None if it was their number or all fit."""

    verdict: OutputVerdict
    index: int | None = None


class _OutputForm(Enum):
    """The form of one output."""

    HASH = 1
    LONG_HEX = 2
    TRANSACTION = 3  # base64
    OBJECT = 4
    OTHER = 5  # JSON of an unknown form
    BROKEN = 6  # not even JSON


_MATCHING_FORMS: Mapping[OutputKind, frozenset[_OutputForm]] = {
    OutputKind.SIGNATURE: frozenset({_OutputForm.LONG_HEX}),
    OutputKind.TX_HASH: frozenset({_OutputForm.HASH}),
    OutputKind.SOLANA_TX: frozenset({_OutputForm.TRANSACTION, _OutputForm.OBJECT}),
    OutputKind.ANY: frozenset(_OutputForm) - {_OutputForm.BROKEN},
}
_KNOWN_FORMS = frozenset(_OutputForm) - {_OutputForm.OTHER, _OutputForm.BROKEN}

_KINDS = {
    "eth_signTypedData_v4": OutputKind.SIGNATURE,
    "personal_sign": OutputKind.SIGNATURE,
    "eth_sendTransaction": OutputKind.TX_HASH,
    "solana_signTransaction": OutputKind.SOLANA_TX,
}


def get_output_kind(method: str) -> OutputKind:
    """Return the kind of output that a wallet method gives; ANY for methods that came later."""
    return _KINDS.get(method, OutputKind.ANY)


def flatten_results(results: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Join the outputs of all results: one result per action or one for all read alike."""
    return tuple(chain.from_iterable(results))


def match_outputs(expected: Sequence[OutputKind], outputs: Sequence[str]) -> OutputMatch:
    """Compare outputs with the kinds expected, position by position.

    A mismatch anywhere outranks an unreadable output: it ends the payment, the other does not.
    """
    if len(expected) != len(outputs):
        return OutputMatch(OutputVerdict.MISMATCH)
    unreadable = None
    for index, (kind, output) in enumerate(zip(expected, outputs, strict=True)):
        form = _classify_output(output)
        if form in _MATCHING_FORMS[kind]:
            continue
        if form in _KNOWN_FORMS:
            return OutputMatch(OutputVerdict.MISMATCH, index)
        if unreadable is None:
            unreadable = index
    return (
        OutputMatch(OutputVerdict.OK)
        if unreadable is None
        else OutputMatch(OutputVerdict.UNREADABLE, unreadable)
    )


def compute_digest(option_id: str, outputs: Sequence[str]) -> bytes:
    """Return the SHA-256 that identifies a confirmation; equivalent JSON has the same digest."""
    hasher = hashlib.sha256()
    for part in (option_id.encode(), *map(_canonicalize, outputs)):
        hasher.update(len(part).to_bytes(8))
        hasher.update(part)
    return hasher.digest()


def _classify_output(output: str) -> _OutputForm:
    try:
        value = _parse_json(output)
    except ValueError:
        return _OutputForm.BROKEN
    if isinstance(value, str):
        return _classify_text(value)
    return _OutputForm.OBJECT if isinstance(value, dict) else _OutputForm.OTHER


def _classify_text(text: str) -> _OutputForm:
    # first, because hex with its prefix can be valid base64 too
    if text.startswith(("0x", "0X")):
        if _HEX.fullmatch(text) is None:
            return _OutputForm.OTHER
        size = len(text) // 2 - 1
        if size == _HASH_BYTES:
            return _OutputForm.HASH
        return _OutputForm.LONG_HEX if size >= _SIGNATURE_BYTES_MIN else _OutputForm.OTHER
    try:
        size = len(base64.b64decode(text, validate=True))
    except ValueError:
        return _OutputForm.OTHER
    return _OutputForm.TRANSACTION if size >= _SOLANA_BYTES_MIN else _OutputForm.OTHER


def _canonicalize(output: str) -> bytes:
    try:
        text = json.dumps(_parse_json(output), sort_keys=True, separators=(",", ":"))
    except ValueError:
        text = output
    return text.encode()


def _parse_json(output: str) -> object:
    """Return the value of a JSON text. ValueError if it is none, or nested beyond measure.

    orjson bounds the nesting itself; the standard library's parser recurses as deep as the
    interpreter's limit, which other libraries raise until the stack overflows.
    """
    value: object = orjson.loads(output)
    return value
