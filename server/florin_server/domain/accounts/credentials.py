"""API keys and app ids: their form, their check sum, and the hash that is stored of a key.

A key reads `fl_{live|test}_{pk|wk}_{id}_{secret}{check}`: 8, 43 (256 bits) and 6 base-62 digits.
The check sum is a CRC-32 of all characters before it, so that a mistyped key costs no look-up.
"""

from __future__ import annotations

import hmac
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from florin_server.domain.ids import encode_base62, generate_base62, generate_short_id

_ID_CHARS = 8
_SECRET_CHARS = 43
_CHECK_CHARS = 6
_KEY = re.compile(r"fl_(live|test)_(pk|wk)_([0-9A-Za-z]{8})_[0-9A-Za-z]{49}")


class ApiKeyKind(StrEnum):
    """The kind of the owner of a key."""

    PARTNER = "partner"
    WALLET = "wallet"


_MARKS = {ApiKeyKind.PARTNER: "pk", ApiKeyKind.WALLET: "wk"}
_KINDS = {mark: kind for kind, mark in _MARKS.items()}

# app ids of the payment page, by mode: public like all app ids, and the same everywhere
CHECKOUT_APP_IDS: Final = {True: "app_checkout_live", False: "app_checkout_test"}


@dataclass(frozen=True, slots=True)
class NewApiKey:
    """A key just made. `secret` is the whole key, shown once; `last4` are its last characters."""

    secret: str = field(repr=False)
    key_id: str
    last4: str


@dataclass(frozen=True, slots=True)
class ParsedApiKey:
    """The parts of a well-formed key; whether the key exists is not checked."""

    live: bool
    kind: ApiKeyKind
    key_id: str


def generate_key(kind: ApiKeyKind, live: bool, randbytes: Callable[[int], bytes]) -> NewApiKey:
    """Create a key."""
    key_id = generate_base62(_ID_CHARS, randbytes)
    mode = "live" if live else "test"
    secret = generate_base62(_SECRET_CHARS, randbytes)
    body = f"fl_{mode}_{_MARKS[kind]}_{key_id}_{secret}"
    key = body + _compute_checksum(body)
    return NewApiKey(key, key_id, key[-4:])


def parse_key(text: str) -> ParsedApiKey | None:
    """Read a key; None if its form or its check sum is wrong."""
    match = _KEY.fullmatch(text)
    if match is None or text[-_CHECK_CHARS:] != _compute_checksum(text[:-_CHECK_CHARS]):
        return None
    return ParsedApiKey(match[1] == "live", _KINDS[match[2]], match[3])


def hash_key(pepper: bytes, text: str) -> bytes:
    """Return the HMAC-SHA256 that is stored instead of a key; it is useless without the pepper."""
    return hmac.digest(pepper, text.encode(), "sha256")


def generate_app_id(randbytes: Callable[[int], bytes]) -> str:
    """Create the public id of a wallet app."""
    return generate_short_id("app_", randbytes)


def _compute_checksum(body: str) -> str:
    return encode_base62(zlib.crc32(body.encode()), _CHECK_CHARS)
