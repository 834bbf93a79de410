"""What a wallet gives back for its actions, compared with what was asked for.

Outputs are JSON texts. This looks at their number and form only; whether a signature signs the
right thing is the rail's to judge.
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


class Kind(StrEnum):
    """What an action's output must be."""

    SIGNATURE = "signature"
    TX_HASH = "tx_hash"
    SOLANA_TX = "solana_tx"
    ANY = "any"


class Verdict(StrEnum):
    """How outputs compare with the actions they answer."""

    OK = "ok"
    MISMATCH = "mismatch"  # a good output of the wrong kind, or a wrong number of them
    UNREADABLE = "unreadable"  # of no known form: says nothing about the buyer's will


@dataclass(frozen=True, slots=True)
class Match:
    """The verdict, and which output (from 0) led to it; None if it was their number or all fit."""

    verdict: Verdict
    index: int | None = None


class _Form(Enum):
    """What one output looks like."""

    HASH = 1
    LONG_HEX = 2
    TRANSACTION = 3  # base64
    OBJECT = 4
    OTHER = 5  # JSON of no known form
    BROKEN = 6  # not even JSON


_FITTING: Mapping[Kind, frozenset[_Form]] = {
    Kind.SIGNATURE: frozenset({_Form.LONG_HEX}),
    Kind.TX_HASH: frozenset({_Form.HASH}),
    Kind.SOLANA_TX: frozenset({_Form.TRANSACTION, _Form.OBJECT}),
    Kind.ANY: frozenset(_Form) - {_Form.BROKEN},
}
_KNOWN = frozenset(_Form) - {_Form.OTHER, _Form.BROKEN}

_KINDS = {
    "eth_signTypedData_v4": Kind.SIGNATURE,
    "personal_sign": Kind.SIGNATURE,
    "eth_sendTransaction": Kind.TX_HASH,
    "solana_signTransaction": Kind.SOLANA_TX,
}


def expected_kind(method: str) -> Kind:
    """The kind of output that a wallet method gives; ANY for methods that came later."""
    return _KINDS.get(method, Kind.ANY)


def flatten(results: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Joins the outputs of all results: one result per action or one for all read alike."""
    return tuple(chain.from_iterable(results))


def match(expected: Sequence[Kind], outputs: Sequence[str]) -> Match:
    """Compares outputs with the kinds expected, position by position.

    A mismatch anywhere outranks an unreadable output: it ends the payment, the other does not.
    """
    if len(expected) != len(outputs):
        return Match(Verdict.MISMATCH)
    unreadable = None
    for index, (kind, output) in enumerate(zip(expected, outputs, strict=True)):
        form = _form(output)
        if form in _FITTING[kind]:
            continue
        if form in _KNOWN:
            return Match(Verdict.MISMATCH, index)
        if unreadable is None:
            unreadable = index
    return Match(Verdict.OK) if unreadable is None else Match(Verdict.UNREADABLE, unreadable)


def digest(option_id: str, outputs: Sequence[str]) -> bytes:
    """The SHA-256 that tells submissions apart; JSON that means the same counts as the same."""
    content = hashlib.sha256()
    for part in (option_id.encode(), *map(_canonical, outputs)):
        content.update(len(part).to_bytes(8))
        content.update(part)
    return content.digest()


def _form(output: str) -> _Form:
    try:
        value = _read(output)
    except ValueError:
        return _Form.BROKEN
    if isinstance(value, str):
        return _text_form(value)
    return _Form.OBJECT if isinstance(value, dict) else _Form.OTHER


def _text_form(text: str) -> _Form:
    # first, because hex with its prefix can be good base64 too
    if text.startswith(("0x", "0X")):
        if _HEX.fullmatch(text) is None:
            return _Form.OTHER
        size = len(text) // 2 - 1
        if size == _HASH_BYTES:
            return _Form.HASH
        return _Form.LONG_HEX if size >= _SIGNATURE_BYTES_MIN else _Form.OTHER
    try:
        size = len(base64.b64decode(text, validate=True))
    except ValueError:
        return _Form.OTHER
    return _Form.TRANSACTION if size >= _SOLANA_BYTES_MIN else _Form.OTHER


def _canonical(output: str) -> bytes:
    try:
        text = json.dumps(_read(output), sort_keys=True, separators=(",", ":"))
    except ValueError:
        text = output
    return text.encode()


def _read(output: str) -> object:
    """The value of a JSON text. ValueError if it is none, or nested beyond measure.

    orjson bounds the nesting itself; the standard library's parser recurses as deep as the
    interpreter's limit, which other libraries raise until the stack overflows.
    """
    value: object = orjson.loads(output)
    return value
