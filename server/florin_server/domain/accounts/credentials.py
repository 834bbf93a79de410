"""API keys and app ids: their form, their check sum, and the hash that is stored of a key.

A key reads `fl_{live|test}_{pk|wk}_{id}_{secret}{check}`: 8, 43 (256 bits) and 6 base-62 digits.
The check sum is a CRC-32 of all that stands before it, so that a mistyped key costs no look-up.
"""

from __future__ import annotations

import hmac
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from florin_server.domain.ids import base62, random_base62, short_id

_ID_CHARS = 8
_SECRET_CHARS = 43
_CHECK_CHARS = 6
_KEY = re.compile(r"fl_(live|test)_(pk|wk)_([0-9A-Za-z]{8})_[0-9A-Za-z]{49}")


class KeyKind(StrEnum):
    """Who holds a key."""

    PARTNER = "partner"
    WALLET = "wallet"


_MARKS = {KeyKind.PARTNER: "pk", KeyKind.WALLET: "wk"}
_KINDS = {mark: kind for kind, mark in _MARKS.items()}

# app ids of the page behind payment links, by mode: public as all of them, and alike everywhere
CHECKOUT_APPS: Final = {True: "app_checkout_live", False: "app_checkout_test"}


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key just made. `secret` is the whole key, shown once; `last4` are its last characters."""

    secret: str = field(repr=False)
    key_id: str
    last4: str


@dataclass(frozen=True, slots=True)
class ParsedKey:
    """What a well-formed key tells by itself; whether it exists is another question."""

    live: bool
    kind: KeyKind
    key_id: str


def new_key(kind: KeyKind, live: bool, randbytes: Callable[[int], bytes]) -> NewKey:
    """Makes a key."""
    key_id = random_base62(_ID_CHARS, randbytes)
    mode = "live" if live else "test"
    secret = random_base62(_SECRET_CHARS, randbytes)
    body = f"fl_{mode}_{_MARKS[kind]}_{key_id}_{secret}"
    key = body + _check(body)
    return NewKey(key, key_id, key[-4:])


def parse_key(text: str) -> ParsedKey | None:
    """Reads a key; None if its form or its check sum is wrong."""
    found = _KEY.fullmatch(text)
    if found is None or text[-_CHECK_CHARS:] != _check(text[:-_CHECK_CHARS]):
        return None
    return ParsedKey(found[1] == "live", _KINDS[found[2]], found[3])


def hash_key(pepper: bytes, text: str) -> bytes:
    """The HMAC-SHA256 that is stored in place of a key; without the pepper it proves nothing."""
    return hmac.digest(pepper, text.encode(), "sha256")


def app_id(randbytes: Callable[[int], bytes]) -> str:
    """Makes the public id of a wallet app."""
    return short_id("app_", randbytes)


def _check(body: str) -> str:
    return base62(zlib.crc32(body.encode()), _CHECK_CHARS)
